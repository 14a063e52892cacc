"""Asks other instances over HTTP for what only they know, with the caller's key."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import httpx
from fastapi import Request

from dragoman.auth import presented_key
from dragoman.errors import DependencyDown, NotFound
from dragoman.ids import InstanceId
from dragoman.observability import get_logger

ASKED_HEADER = "Dragoman-Instance"
"""Names the instance that is asked, which answers only for itself and asks no other."""

ANSWER_SECONDS = 2.0

_log = get_logger(__name__)


class PeerRoster(Protocol):
    """The other instances."""

    async def refresh(self) -> None:
        """Ask anew; DependencyDown leaves what was known."""
        ...

    def addresses(self) -> Mapping[InstanceId, str]:
        """Where the other instances answer."""
        ...


class Peers:
    """The way to the other instances of a cluster; one that is alone has none to ask."""

    def __init__(self, instance_id: InstanceId, roster: PeerRoster | None) -> None:
        self._instance_id = instance_id
        self._roster = roster
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        if self._roster is None:
            return
        # The client's line for each request would tell what callers look at.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        # What the environment says about proxies and passwords is not meant for peers.
        self._client = httpx.AsyncClient(
            timeout=ANSWER_SECONDS, trust_env=False, verify=ssl.create_default_context()
        )

    async def drain(self) -> None:
        """Questions are short; there is nothing to wait for."""

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def answers_alone(self, request: Request) -> bool:
        """Whether the answer is about this instance only: a peer asks, or there are no peers."""
        asked = request.headers.get(ASKED_HEADER)
        if asked is not None and asked != self._instance_id:
            raise NotFound(
                f"Instance {asked} was asked, but {self._instance_id} answers; instances must "
                "reach each other by server.host or, where that is every address, by the names of "
                "their machines."
            )
        return asked is not None or self._roster is None

    def asks_one(self, request: Request) -> bool:
        """Whether a peer asks, for what this instance alone knows."""
        return self.answers_alone(request) and ASKED_HEADER in request.headers

    async def ask(self, instance_id: InstanceId, request: Request) -> bytes | None:
        """An instance's answer to the same request; None when it is away or has none."""
        if instance_id not in self._present():
            await self._look_again()
        url = self._present().get(instance_id)
        if url is None or self._client is None:
            return None
        key = presented_key(request.scope)
        credentials = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
        query = {name: value for name, value in request.query_params.items() if name != "token"}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._client.request(
                    request.method,
                    url + request.url.path,
                    params=query,
                    headers={ASKED_HEADER: instance_id, **credentials},
                )
        except (TimeoutError, httpx.HTTPError) as error:
            _log.warning_limited(
                "peer_does_not_answer",
                key=instance_id,
                every_seconds=10,
                instance_id=instance_id,
                error=str(error) or type(error).__name__,
            )
            return None
        return answer.content if answer.status_code == httpx.codes.OK else None

    async def ask_all(self, request: Request) -> dict[InstanceId, bytes | None]:
        """Every other instance's answer to the same request."""
        # An instance that has just joined is asked too, so that its part is not missing.
        await self._look_again()
        names = list(self._present())
        answers = await asyncio.gather(*(self.ask(name, request) for name in names))
        return dict(zip(names, answers, strict=True))

    def is_present(self, instance_id: InstanceId) -> bool:
        return instance_id in self._present()

    def _present(self) -> Mapping[InstanceId, str]:
        return {} if self._roster is None else self._roster.addresses()

    async def _look_again(self) -> None:
        if self._roster is None:
            return
        with suppress(DependencyDown):
            await self._roster.refresh()
