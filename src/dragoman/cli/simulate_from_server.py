"""Asking a running server for what a scenario of its fleet is made of."""

from __future__ import annotations

from dragoman.cli.server_client import ServerClient, with_server
from dragoman.live.protocol import JobView, NodeView, SessionView
from dragoman.simulation import observed_scenario

_MOST_JOBS = 20_000


def scenario_from_server(url: str, token: str | None) -> str:
    """The scenario of the fleet behind a server, as TOML."""

    async def ask(client: ServerClient) -> str:
        nodes = [node async for node in client.pages(NodeView, "/nodes")]
        jobs = [job async for job in client.pages(JobView, "/jobs", most=_MOST_JOBS)]
        sessions = [session async for session in client.pages(SessionView, "/sessions")]
        return observed_scenario(nodes, jobs, sessions, url)

    return with_server(ask, url, None, token)
