"""The engines by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from dragoman.engines.simulated.engine import SimulatedEngine
from dragoman.errors import SettingsError
from dragoman.sdk import Answer, Job


class Engine(Protocol):
    """Something that does jobs."""

    @property
    def languages(self) -> Sequence[str]:
        """What a node with this engine offers when its owner names no languages."""
        ...

    async def work(self, job: Job) -> Answer:
        """Do one job."""
        ...


ENGINES: Mapping[str, Callable[[int | None, str], Engine]] = {"simulated": SimulatedEngine}
"""How each engine is made, from a seed and the name of a profile."""


def open_engine(name: str, *, seed: int | None = None, profile: str = "steady") -> Engine:
    """The engine of this name; an unknown one is refused."""
    if name not in ENGINES:
        raise SettingsError(f"there is no engine `{name}`; known are {', '.join(ENGINES)}")
    return ENGINES[name](seed, profile)
