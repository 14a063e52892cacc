"""One run: everybody starts, things break and are mended, everybody closes, and all is counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
from tests.integration.cluster_chaos.faults import Kind, plan
from tests.integration.cluster_chaos.instances import RESUME_GRACE_SECONDS, Instance, Servers
from tests.integration.cluster_chaos.node_process import NodesOrder
from tests.integration.cluster_chaos.people import NodeGroup, Process, SpeakerGroup
from tests.integration.cluster_chaos.records import (
    Diary,
    GaveUp,
    Heard,
    LeftBehind,
    Record,
    read_all,
)
from tests.integration.cluster_chaos.speakers import SpeakersOrder
from tests.integration.cluster_chaos.trouble import Trouble

_START_SECONDS = 180.0
_CLOSE_SECONDS = 150.0
_LEAVE_SECONDS = 40.0
_SETTLE_SECONDS = RESUME_GRACE_SECONDS + 30.0
"""A session whose client never heard that it was opened is kept for the grace."""
_QUIET_SECONDS = 2.0


class Scale(msgspec.Struct, frozen=True):
    """How many of everything."""

    node_groups: int
    nodes_a_group: int
    slots: int
    speaker_groups: int
    speakers_a_group: int
    callers_a_group: int
    pause_seconds: float
    """Between two utterances of a speaker, on average."""
    instances: tuple[str, ...] = ("a", "b", "c")

    @property
    def groups(self) -> list[str]:
        return [f"n{number}" for number in range(self.node_groups)]


class Outcome(msgspec.Struct):
    """What is left to judge when everything has ended."""

    records: list[Record]
    logs: list[str]
    """Of the instances."""
    errors: list[str]
    """Of nodes and speakers."""


async def run(
    folder: Path, seed: int, scale: Scale, kinds: Sequence[Kind], wait_seconds: float
) -> Outcome:
    """Play it through; whatever happens, no process is left."""
    planned = plan(Random(seed), kinds, scale.instances, scale.groups, wait_seconds)
    diary = Diary(folder / "run.diary")
    async with AsyncExitStack() as stack:
        stack.callback(diary.close)
        servers = await stack.enter_async_context(Servers(scale.instances, folder))
        groups = {name: _nodes(folder, seed, scale, servers.urls, name) for name in scale.groups}
        speakers = [
            _speakers(folder, seed, scale, servers.urls, f"s{number}")
            for number in range(scale.speaker_groups)
        ]
        for process in (*groups.values(), *speakers):
            stack.push_async_callback(process.kill)
        for group in groups.values():
            group.start()
        instances = list(servers.instances.values())
        nodes = scale.node_groups * scale.nodes_a_group
        if not await _until(lambda: _all_ready(instances, nodes), _START_SECONDS):
            raise TimeoutError(f"only {await _ready(instances)} of {nodes} nodes got ready")
        for some in speakers:
            some.start()
        if not await _until(partial(_all_speak, folder, scale), _START_SECONDS):
            raise TimeoutError("not everybody could begin to speak")
        await Trouble(servers, groups, diary).make(planned)
        await asyncio.sleep(_QUIET_SECONDS)
        await _let_them_close(speakers, diary)
        await _count_what_is_left(instances, nodes, diary)
        await asyncio.gather(*(group.end(_LEAVE_SECONDS) for group in groups.values()))
    errors = [process.errors for process in (*groups.values(), *speakers)]
    return Outcome(read_all(folder), servers.logs, [text for text in errors if text])


def _nodes(folder: Path, seed: int, scale: Scale, urls: list[str], group: str) -> NodeGroup:
    order = NodesOrder(
        urls=urls,
        node_ids=[f"{group}.{number}" for number in range(scale.nodes_a_group)],
        slots=scale.slots,
        seed=seed,
        diary=str(folder / f"{group}.diary"),
    )
    return NodeGroup(order, folder / f"{group}.err")


def _speakers(folder: Path, seed: int, scale: Scale, urls: list[str], group: str) -> SpeakerGroup:
    order = SpeakersOrder(
        urls=urls,
        speakers=[f"{group}.{number}" for number in range(scale.speakers_a_group)],
        callers=[f"{group}.caller{number}" for number in range(scale.callers_a_group)],
        pause_seconds=scale.pause_seconds,
        seed=seed,
        diary=str(folder / f"{group}.diary"),
    )
    return SpeakerGroup(order, folder / f"{group}.err")


async def _all_speak(folder: Path, scale: Scale) -> bool:
    """Whether every speaker has heard something."""
    heard = {record.speaker for record in read_all(folder) if isinstance(record, Heard)}
    return len(heard) == scale.speaker_groups * scale.speakers_a_group


async def _let_them_close(speakers: Sequence[Process], diary: Diary) -> None:
    in_peace = await asyncio.gather(*(some.end(_CLOSE_SECONDS) for some in speakers))
    for number, ended in enumerate(in_peace):
        if not ended:
            why = f"not everybody was done {_CLOSE_SECONDS:.0f} s after the last utterance"
            diary.write(GaveUp(who=f"s{number}", why=why))


async def _count_what_is_left(instances: Sequence[Instance], nodes: int, diary: Diary) -> None:
    """Wait until no instance sees anything of the past; what stays is written down."""
    if await _until(lambda: _all_quiet(instances, nodes), _SETTLE_SECONDS):
        return
    for instance in instances:
        for what, found in (await _left(instance)).items():
            if found:
                diary.write(LeftBehind(seen_at=instance.name, what=what, count=found))
    missing = nodes - await _ready(instances)
    if missing:
        diary.write(LeftBehind(seen_at="nobody", what="nodes not ready", count=missing))


async def _all_quiet(instances: Sequence[Instance], nodes: int) -> bool:
    for instance in instances:
        if any((await _left(instance)).values()):
            return False
    return await _all_ready(instances, nodes)


async def _all_ready(instances: Sequence[Instance], nodes: int) -> bool:
    return await _ready(instances) == nodes


async def _ready(instances: Sequence[Instance]) -> int:
    """How many nodes are ready, as at least one instance sees it."""
    found: set[str] = set()
    for instance in instances:
        items = await _items(instance, "/nodes")
        found.update(node["node_id"] for node in items if node["status"] == "ready")
    return len(found)


async def _left(instance: Instance) -> dict[str, int]:
    nodes = await _items(instance, "/nodes")
    shown: list[dict[str, Any]] = (await instance.look("/cluster"))["instances"]
    return {
        "slots": sum(node["slots"]["used"] for node in nodes),
        "sessions": len(await _items(instance, "/sessions")),
        "notes": sum(one["inbox_length"] for one in shown),
        "dead letters": sum(one["dead_letters"] for one in shown),
        "instances that are gone": sum(not one["alive"] for one in shown),
    }


async def _items(instance: Instance, path: str) -> list[dict[str, Any]]:
    page = await instance.look(f"{path}?limit=1000")
    items: list[dict[str, Any]] = page["items"]
    return items


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Wait for something; False when it did not come true in time."""
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        try:
            if await condition():
                return True
        except httpx.HTTPError:
            pass  # an instance that finds its way back
        await asyncio.sleep(0.25)
    return False
