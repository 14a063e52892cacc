"""Whether this server is ready for work, and if not, what it lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from dragoman.api.lifecycle import Lifecycle, ServerState
from dragoman.clock import Clock
from dragoman.observability import get_logger

CHECK_TIMEOUT_SECONDS = 2.0
"""How long a dependency may take to answer before it counts as down."""

_WARN_EVERY_SECONDS = 30.0

Check = Callable[[], Awaitable[object]]
"""Asks a dependency something small; what it raises says that the dependency is down."""


@dataclass(frozen=True, slots=True)
class ReadinessVerdict:
    """Whether a server is ready; the reasons tell people what it waits for."""

    status: str
    reasons: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    """What is down that live work does not need."""
    warnings: tuple[str, ...] = ()
    """What limits live work although everything answers."""
    dependencies: Mapping[str, bool] = field(default_factory=dict)
    """Whether each of them answers; none is asked while the server starts or drains."""

    @property
    def ready(self) -> bool:
        return not self.reasons


class Readiness:
    """Knows the server's state and the things it depends on; each room adds its own."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        clock: Clock,
        *,
        timeout_seconds: float = CHECK_TIMEOUT_SECONDS,
    ) -> None:
        self._lifecycle = lifecycle
        self._timeout_seconds = timeout_seconds
        self._checks: dict[str, Check] = {}
        self._dispensable: set[str] = set()
        self._warnings: list[Callable[[], str | None]] = []
        self._log = get_logger(__name__, clock)

    def add(self, name: str, check: Check, *, dispensable: bool = False) -> None:
        """Make readiness depend on one more thing, by the name people know it by.

        A dispensable dependency is reported when it is down, but the server stays ready: a
        load balancer would take every conversation away for it.
        """
        self._checks[name] = check
        if dispensable:
            self._dispensable.add(name)

    def add_warning(self, warning: Callable[[], str | None]) -> None:
        """Tell of something that limits live work while the server is ready all the same."""
        self._warnings.append(warning)

    async def verdict(self) -> ReadinessVerdict:
        """Ask every dependency, all at once."""
        state = self._lifecycle.state
        if state is not ServerState.READY:
            return ReadinessVerdict(state.value, (f"the server is {state}",))
        answers = await asyncio.gather(
            *(self._problem(name, check) for name, check in self._checks.items())
        )
        problems = {
            name: answer
            for name, answer in zip(self._checks, answers, strict=True)
            if answer is not None
        }
        lacking = tuple(problems[name] for name in problems if name in self._dispensable)
        reasons = tuple(problems[name] for name in problems if name not in self._dispensable)
        return ReadinessVerdict(
            "unavailable" if reasons else ServerState.READY.value,
            reasons,
            lacking,
            tuple(said for warning in self._warnings if (said := warning()) is not None),
            {name: name not in problems for name in self._checks},
        )

    async def _problem(self, name: str, check: Check) -> str | None:
        # Everyone may ask, so the answer names the dependency and the log alone says more.
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await check()
        except TimeoutError:
            self._warn(name, f"no answer within {self._timeout_seconds} s")
            return f"{name} does not answer"
        except Exception as error:
            self._warn(name, str(error))
            return f"{name} is down"
        return None

    def _warn(self, name: str, reason: str) -> None:
        self._log.warning_limited(
            "dependency_down",
            key=name,
            every_seconds=_WARN_EVERY_SECONDS,
            dependency=name,
            reason=reason,
        )
