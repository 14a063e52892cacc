"""Real nodes beside the simulated ones: they hear, translate and speak English to Spanish.

They also translate Spanish into English and speak it. pocketsphinx hears English alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from dragoman.cli.demo.fleet import LEAVE_SECONDS, in_service
from dragoman.engines import assemble, engine_kind
from dragoman.errors import DragomanError
from dragoman.extras import is_installed
from dragoman.live.protocol import NodeHealth, ResourceUsage, ServiceType
from dragoman.randomness import Randomness
from dragoman.sdk import Event, Node
from dragoman.voice_activity import MODULES

SOURCE, TARGET = "en", "es"
BY = "pocketsphinx, Apertium, espeak-ng"

_LANGUAGES = {
    ServiceType.ASR: [SOURCE],
    ServiceType.NMT: [SOURCE, TARGET],
    ServiceType.TTS: [TARGET, SOURCE],
}


def missing_tools() -> list[str]:
    """The commands that install what real nodes need and this machine lacks."""
    needs = [need for kind in engine_kind("local").stages.values() for need in kind.requirements()]
    commands = [need.install for need in needs if not need.found]
    if not all(map(is_installed, MODULES["webrtc"])):
        commands.append("pip install 'dragoman[vad]'")
    return list(dict.fromkeys(commands))


@asynccontextmanager
async def running_local_nodes(
    url: str, count: int, randomness: Randomness
) -> AsyncIterator[list[Node]]:
    """Real nodes that are ready for jobs inside the block; none where they cannot be had.

    A machine may have the tools and not the languages: then they are told apart by trying.
    """
    nodes: list[Node] = []
    ready = asyncio.Event()

    def noticed(event: Event) -> None:
        if all(node.status is NodeHealth.READY for node in nodes):
            ready.set()

    with suppress(DragomanError):
        nodes += [_node(url, number, randomness, noticed) for number in range(1, count + 1)]
    async with in_service(nodes, ready):
        yield nodes


def _node(url: str, number: int, randomness: Randomness, noticed: Callable[[Event], None]) -> Node:
    chosen = assemble("local", {}, _LANGUAGES, slots=1)
    languages: dict[ServiceType, Sequence[str]] = dict(chosen.languages)
    return Node(
        url,
        services=chosen.services,
        models=chosen.models,
        audio=chosen.audio,
        lifespan=chosen.lifespan,
        asr=languages.get(ServiceType.ASR, ()),
        nmt=languages.get(ServiceType.NMT, ()),
        tts=languages.get(ServiceType.TTS, ()),
        slots=1,
        node_id=f"local-{number}",
        drain_seconds=LEAVE_SECONDS,
        on_event=noticed,
        # All nodes share this machine, so its real load says nothing about one of them.
        usage=lambda: ResourceUsage(cpu_percent=20.0, mem_percent=30.0),
        random=randomness.stream(f"local node {number}"),
    )
