"""One run: everybody starts, things break and are mended, everybody closes, and all is counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
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
    Answered,
    Closed,
    Diary,
    GaveUp,
    Heard,
    LeftBehind,
    Record,
    read_all,
)
from tests.integration.cluster_chaos.speakers import SpeakersOrder
from tests.integration.cluster_chaos.stalls import watch_servers
from tests.integration.cluster_chaos.trouble import Trouble

_START_SECONDS = 180.0
_CLOSE_SECONDS = 150.0
_LEAVE_SECONDS = 40.0
_SETTLE_SECONDS = RESUME_GRACE_SECONDS + 30.0
"""A session whose client never heard that it was opened is kept for the grace.

These are patience without any progress: a busy machine takes longer, and goes on.
"""
_LONGEST_SECONDS = 1800.0
"""Progress that never comes to an end is none."""
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
    folder: Path,
    seed: int,
    scale: Scale,
    kinds: Sequence[Kind],
    wait_seconds: float,
    *,
    redis_cluster: bool = False,
) -> Outcome:
    """Play it through; whatever happens, no process is left."""
    planned = plan(Random(seed), kinds, scale.instances, scale.groups, wait_seconds)
    diary = Diary(folder / "run.diary")
    async with AsyncExitStack() as stack:
        stack.callback(diary.close)
        servers = await stack.enter_async_context(
            Servers(scale.instances, folder, redis_cluster=redis_cluster)
        )
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
        stack.push_async_callback(_cancelled, asyncio.create_task(watch_servers(servers, diary)))
        if not await _until(
            lambda: _all_ready(instances, nodes), _START_SECONDS, lambda: _ready(instances)
        ):
            raise TimeoutError(f"only {await _ready(instances)} of {nodes} nodes got ready")
        for some in speakers:
            some.start()
        if not await _until(
            partial(_all_speak, folder, scale),
            _START_SECONDS,
            partial(_heard, folder),
            every_seconds=1.0,
        ):
            raise TimeoutError("not everybody could begin to speak")
        await Trouble(servers, groups, diary).make(planned)
        await asyncio.sleep(_QUIET_SECONDS)
        await _let_them_close(folder, speakers, diary)
        await _count_what_is_left(instances, nodes, diary)
        await asyncio.gather(*(group.end(_LEAVE_SECONDS) for group in groups.values()))
    errors = [process.errors for process in (*groups.values(), *speakers)]
    return Outcome(read_all(folder), servers.logs, [text for text in errors if text])


def _nodes(folder: Path, seed: int, scale: Scale, urls: dict[str, str], group: str) -> NodeGroup:
    order = NodesOrder(
        urls=list(urls.values()),
        node_ids=[f"{group}.{number}" for number in range(scale.nodes_a_group)],
        slots=scale.slots,
        seed=seed,
        diary=str(folder / f"{group}.diary"),
    )
    return NodeGroup(order, folder / f"{group}.err")


def _speakers(
    folder: Path, seed: int, scale: Scale, urls: dict[str, str], group: str
) -> SpeakerGroup:
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
    return await _heard(folder) == scale.speaker_groups * scale.speakers_a_group


async def _heard(folder: Path) -> int:
    """How many speakers have heard something."""
    records = await asyncio.to_thread(read_all, folder)
    return len({record.speaker for record in records if isinstance(record, Heard)})


async def _let_them_close(folder: Path, speakers: Sequence[Process], diary: Diary) -> None:
    for some in speakers:
        some.ask_to_end()

    async def all_ended() -> bool:
        return not any(some.runs for some in speakers)

    await _until(all_ended, _CLOSE_SECONDS, partial(_ends_told, folder), every_seconds=1.0)
    for number, some in enumerate(speakers):
        if some.runs:
            why = f"not all speakers were done, and no end came for {_CLOSE_SECONDS:.0f} s"
            diary.write(GaveUp(who=f"s{number}", why=why))
        await some.kill()


async def _ends_told(folder: Path) -> int:
    """How many ends of utterances, sessions and jobs there are."""
    records = await asyncio.to_thread(read_all, folder)
    return sum(isinstance(record, (Heard, Closed, Answered)) for record in records)


async def _count_what_is_left(instances: Sequence[Instance], nodes: int, diary: Diary) -> None:
    """Wait until no instance sees anything of the past; what stays is written down."""
    if await _until(
        lambda: _all_quiet(instances, nodes), _SETTLE_SECONDS, lambda: _all_left(instances)
    ):
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


async def _all_left(instances: Sequence[Instance]) -> object:
    """What is left, and who is there: as long as it changes, things move."""
    return [*[await _left(instance) for instance in instances], await _ready(instances)]


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


async def _until(
    condition: Callable[[], Awaitable[bool]],
    seconds: float,
    progress: Callable[[], Awaitable[object]],
    *,
    every_seconds: float = 0.25,
) -> bool:
    """Wait for something; False when it is not so, and nothing has moved for a time."""
    give_up_at = time.monotonic() + _LONGEST_SECONDS
    moved_at, last = time.monotonic(), None
    while time.monotonic() < min(give_up_at, moved_at + seconds):
        with suppress(httpx.HTTPError):  # an instance that finds its way back
            if await condition():
                return True
            now = await progress()
            if now != last:
                moved_at, last = time.monotonic(), now
        await asyncio.sleep(every_seconds)
    return False


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
