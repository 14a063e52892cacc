"""Reading the inbox: each note is handled, then struck out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.cluster.answers import ClusterTerms, Handed, NoteDelivery, Superseded, TakenDown
from dragoman.live.cluster.interface import Inbox
from dragoman.live.cluster.notes import Note, subject_of
from dragoman.live.cluster.pulse import Pulse
from dragoman.observability import Metrics, get_logger

log = get_logger("dragoman.cluster")

_HAND = 100
"""Notes in hand at a time."""

_WAIT_SECONDS = 0.5
"""How long to wait for news before looking for notes that were left lying."""

_DONE_SECONDS = 0.1
_MOST_DONE = 64
"""How long, and how many, notes that are done stay in the inbox."""

_BREATH_SECONDS = 0.2
"""Rest after something that will not be better at once."""


def _none_at_once(note: Note, age_seconds: float) -> bool:
    return False


class InboxReader:
    """Hands the notes of an instance's inbox to a handler.

    Notes about the same thing are handled one after the other, others side by side, so that a slow
    one holds up no other. A note whose handler fails or takes too long stays in the inbox and is
    handed out again later; when that happens too often it becomes a dead letter.
    """

    def __init__(
        self,
        inbox: Inbox,
        handle: Callable[[Note, float], Awaitable[None]],
        *,
        at_once: Callable[[Note, float], bool] = _none_at_once,
        pulse: Pulse,
        clock: Clock,
        terms: ClusterTerms,
        metrics: Metrics,
    ) -> None:
        """handle is told of a note, and for how many seconds it has been on its way at most.

        at_once is told the same before, and answers whether it has handled the note already.
        """
        self._inbox = inbox
        self._handle = handle
        self._at_once = at_once
        self._pulse = pulse
        self._clock = clock
        # Well under the time after which a note counts as left lying.
        self._handling_seconds = terms.reclaim_idle_ms / 2000
        self._metrics = metrics
        self._lines: dict[str, deque[tuple[NoteDelivery, float]]] = {}
        """Notes to be handled, by what they are about; each with when it was posted, at the
        earliest, by this process's clock."""
        self._in_hand: set[str] = set()
        self._done: list[str] = []
        """Handled, and not yet struck out."""
        self._look_at = -inf
        """When the inbox is to be looked through next, for what was left lying."""
        self._emptied = -inf
        """What was not handed out when this was asked for, was posted later."""
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
            asked = self._clock.monotonic()
            if self._is_paused():
                await asyncio.sleep(_BREATH_SECONDS)
            elif asked >= self._look_at or len(self._done) >= _MOST_DONE:
                await self._look_through(room, asked, handlers)
            else:
                await self._receive(room, asked, handlers)
        except DependencyDown as error:
            log.warning_limited("inbox_lost", key="inbox", every_seconds=10, error=error.message)
            await asyncio.sleep(_BREATH_SECONDS)
        except Exception:
            # Whatever it was, an inbox that is not read would fill up.
            log.exception("inbox_failed")
            await asyncio.sleep(_BREATH_SECONDS)

    async def _look_through(self, room: int, asked: float, handlers: asyncio.TaskGroup) -> None:
        """Strike out what is done, and have handed out what was left lying, and what is new."""
        handed = await self._take(room)
        if handed is None:
            # A handler that finishes lets reading go on.
            await asyncio.sleep(_BREATH_SECONDS)
            return
        self._look_at = asked + _WAIT_SECONDS
        if len(handed.deliveries) + handed.buried < room:
            self._emptied = asked
        for delivery in handed.deliveries:
            self._line_up(delivery, asked - delivery.age_ms / 1000, handlers)

    async def _receive(self, room: int, asked: float, handlers: asyncio.TaskGroup) -> None:
        """Wait for new notes. How old they are is known from when there was none of them."""
        emptied = self._emptied
        until = min(self._look_at, asked + _DONE_SECONDS) if self._done else self._look_at
        received = await self._inbox.receive(room, until - asked)
        if received.is_all:
            self._emptied = asked
        for delivery in received.deliveries:
            self._line_up(delivery, emptied, handlers)
        if not received.deliveries and self._done:
            self._look_at = asked

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

    def _line_up(self, delivery: NoteDelivery, posted: float, handlers: asyncio.TaskGroup) -> None:
        subject = subject_of(delivery.note)
        line = self._lines.get(subject)
        if line is None:
            if self._is_handled_at_once(delivery, posted):
                self._done.append(delivery.entry_id)
                return
            self._lines[subject] = line = deque()
            handlers.create_task(self._work_through(subject, line))
        self._in_hand.add(delivery.entry_id)
        line.append((delivery, posted))

    def _is_handled_at_once(self, delivery: NoteDelivery, posted: float) -> bool:
        """Handle a note without a task, where nothing must be waited for."""
        if self._is_paused():
            return False
        try:
            return self._at_once(delivery.note, self._clock.monotonic() - posted)
        except Exception as error:
            # It is handled once more, in a task, and counts as failed there.
            self._not_handled(delivery, error)
            return False

    async def _work_through(self, subject: str, line: deque[tuple[NoteDelivery, float]]) -> None:
        while line:
            delivery, posted = line.popleft()
            # It was on its way when this process stood still; left alone it would lie for long.
            while self._is_paused():  # noqa: ASYNC110  # a pulse, not an event
                await asyncio.sleep(_BREATH_SECONDS)
            if await self._handled(delivery, posted):
                self._done.append(delivery.entry_id)
            self._in_hand.discard(delivery.entry_id)
            self._let_go.set()
        del self._lines[subject]

    async def _handled(self, delivery: NoteDelivery, posted: float) -> bool:
        try:
            async with asyncio.timeout(self._handling_seconds):
                await self._handle(delivery.note, self._clock.monotonic() - posted)
        except Exception as error:
            self._not_handled(delivery, error)
            return False
        return True

    def _not_handled(self, delivery: NoteDelivery, error: Exception) -> None:
        """One bad note must not keep the others from being read."""
        kind = type(delivery.note).__name__
        if isinstance(error, DependencyDown | TimeoutError):
            log.warning_limited(
                "note_not_handled",
                key=kind,
                every_seconds=10,
                kind=kind,
                deliveries=delivery.deliveries,
                error=str(error) or f"took longer than {self._handling_seconds:g} s",
            )
        else:
            log.error("note_failed", kind=kind, deliveries=delivery.deliveries, exc_info=error)

    async def _strike_out(self) -> None:
        try:
            await self._inbox.take(0, done=self._done)
        except DependencyDown:
            # They will be handed out again, which does no harm.
            return

    def _is_paused(self) -> bool:
        return self._pulse.paused(self._clock.monotonic())
