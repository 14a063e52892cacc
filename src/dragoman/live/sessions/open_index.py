"""What is stored of a session's utterances: which are open, and where the next ones begin."""

from __future__ import annotations

from dragoman import errors
from dragoman.live.sessions.arrivals import Arrivals
from dragoman.live.sessions.hold import Hold
from dragoman.live.sessions.orders import Speech
from dragoman.live.sessions.record import OpenJob, SessionRecord
from dragoman.live.sessions.tools import Tools
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")


class OpenIndex:
    """Stores utterances with their jobs, so that the next owner knows what to wait for.

    What could not be stored is stored later. Until then the client keeps its part of it, and
    nothing of it is sent back: the next owner would ask for it again.
    """

    def __init__(self, record: SessionRecord, tools: Tools, hold: Hold, arrivals: Arrivals) -> None:
        self.next_chunk_seq = record.next_chunk_seq
        """The first chunk that is in no stored job."""
        self.half_sample = record.half_sample
        """What the chunks before it end with, and no job has."""
        self.next_utterance_index = record.next_utterance_index
        """The first utterance that is not stored."""
        self._tools = tools
        self._hold = hold
        self._arrivals = arrivals
        self._unstored: list[OpenJob] = []
        self._last: Speech | None = None
        """The last utterance that is to be stored; None when all are."""

    def add(self, job: OpenJob) -> None:
        """An utterance has a job for a target, or is known to have none; `store` stores it."""
        self._unstored.append(job)

    async def store_rest(self) -> None:
        """Store what could not be stored before."""
        if self._last is not None:
            await self.store(self._last)

    async def store(self, speech: Speech) -> None:
        """Store everything up to an utterance.

        Also what has ended meanwhile: until the end is stored, the next owner must know of it.
        """
        self._last = speech
        next_chunk_seq, half_sample = self.next_chunk_seq, self.half_sample
        if speech.next_chunk_seq > next_chunk_seq:
            next_chunk_seq, half_sample = speech.next_chunk_seq, speech.half_sample
        next_index = max(self.next_utterance_index, speech.index + 1)
        unstored = self._unstored[:]
        try:
            if not await self._hold.write(
                lambda held: self._tools.records.opened(
                    held,
                    unstored,
                    next_chunk_seq=next_chunk_seq,
                    next_utterance_index=next_index,
                    half_sample=half_sample,
                )
            ):
                return
        except errors.DependencyDown as down:
            log.warning_limited(
                "open_jobs_not_stored", key="opened", every_seconds=10, error=down.message
            )
            return
        self._unstored = [job for job in self._unstored if job not in unstored]
        if self._last is speech:
            self._last = None
        if next_chunk_seq > self.next_chunk_seq:
            self.next_chunk_seq, self.half_sample = next_chunk_seq, half_sample
        self.next_utterance_index = max(self.next_utterance_index, next_index)
        self._arrivals.stored_index = self.next_utterance_index
        if not self._arrivals.idle:
            await self._arrivals.due()
