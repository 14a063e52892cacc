"""Reading the inbox: each note is handled, then struck out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.cluster.answers import ClusterTerms, Delivery, Handed, Superseded, TakenDown
from dragoman.live.cluster.interface import Inbox
from dragoman.live.cluster.notes import Note, subject_of
from dragoman.live.cluster.pulse import Pulse
from dragoman.observability import Metrics, get_logger

log = get_logger("dragoman.cluster")

_HAND = 100
"""Notes in hand at a time."""

_WAIT_SECONDS = 0.5
"""How long to wait for news before looking for notes that were left lying."""

_BREATH_SECONDS = 0.2
"""Rest after something that will not be better at once."""


class Reader:
    """Hands the notes of an instance's inbox to a handler.

    Notes about the same thing are handled one after the other, others side by side, so that a slow
    one holds up no other. A note whose handler fails or takes too long stays in the inbox and is
    handed out again later; when that happens too often it becomes a dead letter.
    """

    def __init__(
        self,
        inbox: Inbox,
        handle: Callable[[Note], Awaitable[None]],
        *,
        pulse: Pulse,
        clock: Clock,
        terms: ClusterTerms,
        metrics: Metrics,
    ) -> None:
        self._inbox = inbox
        self._handle = handle
        self._pulse = pulse
        self._clock = clock
        # Well under the time after which a note counts as left lying.
        self._handling_seconds = terms.reclaim_idle_ms / 2000
        self._metrics = metrics
        self._lines: dict[str, deque[Delivery]] = {}
        """Notes to be handled, by what they are about."""
        self._in_hand: set[str] = set()
        self._done: list[str] = []
        """Handled, and not yet struck out."""
        self._let_go = asyncio.Event()
        """Set when a note leaves the hand."""

    async def run(self) -> None:
        """Read until cancelled; what is in hand then stays in the inbox, what is done does not."""
        try:
            async with asyncio.TaskGroup() as handlers:
                while True:
                    await self._read_on(handlers)
        finally:
            await self._strike_out()

    async def _read_on(self, handlers: asyncio.TaskGroup) -> None:
        room = _HAND - len(self._in_hand)
        if room <= 0:
            self._let_go.clear()
            await self._let_go.wait()
            return
        try:
            handed = None if self._is_paused() else await self._take(room)
            if handed is None:
                # A handler that finishes lets reading go on.
                await asyncio.sleep(_BREATH_SECONDS)
            elif handed.deliveries:
                for delivery in handed.deliveries:
                    self._line_up(delivery, handlers)
            else:
                await self._inbox.wait(_WAIT_SECONDS)
        except DependencyDown as error:
            log.warning_limited("inbox_lost", key="inbox", every_seconds=10, error=error.message)
            await asyncio.sleep(_BREATH_SECONDS)
        except Exception:
            # Whatever it was, an inbox that is not read would fill up.
            log.exception("inbox_failed")
            await asyncio.sleep(_BREATH_SECONDS)

    async def _take(self, room: int) -> Handed | None:
        """What the inbox has, or None when this process may not read it."""
        done = self._done[:]
        handed = await self._inbox.take(room, done=done, in_hand=self._in_hand)
        del self._done[: len(done)]
        if isinstance(handed, Superseded | TakenDown):
            return None
        self._metrics.inbox_pending.set(handed.length)
        if handed.buried:
            self._metrics.dlq.inc(handed.buried)
            log.warning("notes_buried", count=handed.buried)
        return handed

    def _line_up(self, delivery: Delivery, handlers: asyncio.TaskGroup) -> None:
        subject = subject_of(delivery.note)
        self._in_hand.add(delivery.entry_id)
        line = self._lines.get(subject)
        if line is None:
            self._lines[subject] = line = deque()
            handlers.create_task(self._work_through(subject, line))
        line.append(delivery)

    async def _work_through(self, subject: str, line: deque[Delivery]) -> None:
        while line:
            delivery = line.popleft()
            # It was on its way when this process stood still; left alone it would lie for long.
            while self._is_paused():  # noqa: ASYNC110  # a pulse, not an event
                await asyncio.sleep(_BREATH_SECONDS)
            if await self._handled(delivery):
                self._done.append(delivery.entry_id)
            self._in_hand.discard(delivery.entry_id)
            self._let_go.set()
        del self._lines[subject]

    async def _handled(self, delivery: Delivery) -> bool:
        kind = type(delivery.note).__name__
        try:
            async with asyncio.timeout(self._handling_seconds):
                await self._handle(delivery.note)
        except (DependencyDown, TimeoutError) as error:
            log.warning_limited(
                "note_not_handled",
                key=kind,
                every_seconds=10,
                kind=kind,
                deliveries=delivery.deliveries,
                error=str(error) or f"took longer than {self._handling_seconds:g} s",
            )
            return False
        except Exception:
            # One bad note must not keep the others from being read.
            log.exception("note_failed", kind=kind, deliveries=delivery.deliveries)
            return False
        return True

    async def _strike_out(self) -> None:
        try:
            await self._inbox.take(0, done=self._done)
        except DependencyDown:
            # They will be handed out again, which does no harm.
            return

    def _is_paused(self) -> bool:
        return self._pulse.paused(self._clock.monotonic())
