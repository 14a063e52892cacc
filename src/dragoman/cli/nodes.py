"""``dragoman nodes``: list, show, drain, resume and shut down nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.listed import Listed, View, Way
from dragoman.cli.server_client import DataDirOption, TokenOption, UrlOption
from dragoman.cli.showing import JsonOption

app = typer.Typer(
    name="nodes", help="List, show, drain, resume and shut down nodes.", no_args_is_help=True
)

_POOLS_SHOWN = 20

NodeArgument = Annotated[str, typer.Argument(metavar="ID", help="The node's id.")]
ReasonOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Why, for the node and the log.")
]


@app.command("list")
def list_command(
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """List every node: its status, its slots, and how many language pairs it serves."""
    NODES.show_all((url, data_dir, token), as_json)


@app.command("show")
def show_command(
    node_id: NodeArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Show everything about a node."""
    NODES.show_one((url, data_dir, token), as_json, node_id)


@app.command("drain")
def drain_command(
    node_id: NodeArgument,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Give a node no more jobs, even after it reconnects. Its running jobs go on."""
    _act("drain", node_id, reason, as_json, (url, data_dir, token))


@app.command("resume")
def resume_command(
    node_id: NodeArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Undo a drain."""
    _act("resume", node_id, None, as_json, (url, data_dir, token))


@app.command("shutdown")
def shutdown_command(
    node_id: NodeArgument,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    token: TokenOption = None,
) -> None:
    """Tell a node to finish its jobs and end its process."""
    _act("shutdown", node_id, reason, as_json, (url, data_dir, token))


def _act(action: str, node_id: str, reason: str | None, as_json: bool, way: Way) -> None:
    body = {} if reason is None else {"json": {"reason": reason}}
    NODES.show_one(way, as_json, node_id, "POST", action=f"/{action}", **body)


def _facts(node: View) -> list[tuple[str, object]]:
    slots = node["slots"]
    languages = {
        stage.removesuffix("_langs"): " ".join(tags)
        for stage, tags in node["languages"].items()
        if tags
    }
    services = (f"{_version(one)} ({one['type']}, {one['status']})" for one in node["services"])
    marks = (
        f"{_version(mark)} until {mark['expires_at']}: {mark['reason']}" for mark in node["marks"]
    )
    return [
        ("node", node["node_id"]),
        ("status", node["status"]),
        ("reason", node.get("reason")),
        ("slots", f"{slots['used']} of {slots['total']} used"),
        *((f"{stage} languages", tags) for stage, tags in languages.items()),
        ("pools", _pools(node)),
        ("services", ", ".join(services)),
        ("features", " ".join(node["features"])),
        ("resources", _resources(node.get("resources"))),
        ("left alone", "; ".join(marks)),
        ("cell", node["cell"]),
        ("last seen", node["last_seen"]),
        ("instance", node["instance_id"]),
    ]


def _version(service: View) -> str:
    """A service, as a job may ask for it."""
    version = service.get("version")
    return f"{service['service_id']}@{version}" if version else str(service["service_id"])


def _pools(node: View) -> str:
    """The first language pairs, and how many more there are."""
    pools = node["pools"]
    shown = [pool["pair"] if isinstance(pool, dict) else str(pool) for pool in pools[:_POOLS_SHOWN]]
    more = len(pools) - len(shown)
    return " ".join([*shown, f"and {more} more"] if more > 0 else shown)


def _resources(resources: View | None) -> str:
    """How busy each resource is, and which of them keep the node from getting jobs."""
    return ", ".join(
        f"{name} {found['mean_percent']:g} %"
        + (f" (over {found['threshold_percent']:g} %)" if found["over"] else "")
        for name, found in (resources or {}).items()
    )


NODES = Listed(
    path="/nodes",
    columns={
        "node": lambda node: node["node_id"],
        "status": lambda node: node["status"],
        "used": lambda node: node["slots"]["used"],
        "slots": lambda node: node["slots"]["total"],
        "pools": lambda node: node.get("pools_total", len(node["pools"])),
        "cell": lambda node: node["cell"],
        "last seen": lambda node: node["last_seen"],
        "instance": lambda node: node["instance_id"],
        "reason": lambda node: node.get("reason"),
    },
    facts=_facts,
    empty="No node has registered; `dragoman node --url ...` starts one.",
)
