"""The way out: utterances become jobs, one for each target, in the order they were spoken."""

from __future__ import annotations

from collections import deque
from functools import partial

from dragoman import errors
from dragoman.ids import JobId, SessionId, TenantId
from dragoman.live.dispatch import JobOrder
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import ErrorInfo, Outcome, SessionInit
from dragoman.live.sessions.arrivals import Arrivals
from dragoman.live.sessions.orders import Speech, job_spec
from dragoman.live.sessions.record import OpenJob
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.tools import Client, Tools
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")

Key = tuple[int, str]
"""An utterance and a target."""


class Departures:
    """Sends a session's utterances off, at most so many at a time.

    One after another: what is stored of the session never runs ahead of an utterance that is not.
    """

    def __init__(
        self,
        session_id: SessionId,
        tenant: TenantId,
        init: SessionInit,
        tools: Tools,
        client: Client,
        arrivals: Arrivals,
        spans: Spans | None = None,
        *,
        watched: bool,
    ) -> None:
        self._session_id = session_id
        self._tenant = tenant
        self._init = init
        self._tools = tools
        self._client = client
        self._arrivals = arrivals
        self._spans = spans
        self._watched = watched
        """Somebody wants to see every step."""
        self.next_chunk_seq = 0
        """The first chunk that is in no stored job."""
        self.waiting_bytes = 0
        """Of utterances that wait until less is in flight."""
        self.working_bytes = 0
        """Of utterances that jobs work on."""
        self._waiting: deque[Speech] = deque()
        self._departing = False
        self._over = False
        self._jobs: dict[Key, tuple[JobId, int]] = {}
        self._lost_since: dict[Key, float] = {}
        self._unstored: list[OpenJob] = []

    def __len__(self) -> int:
        """Utterances that wait until less is in flight."""
        return len(self._waiting)

    def add(self, speech: Speech) -> None:
        """An utterance is complete; ``go`` sends it off in its turn."""
        self._arrivals.open(speech.index, speech.targets)
        if self._spans is not None:
            self._spans.begin(speech)
        self._waiting.append(speech)
        self.waiting_bytes += speech.size_bytes

    async def go(self) -> None:
        """Send off what waits, as long as not too much is in flight."""
        if self._departing:
            return
        self._departing = True
        try:
            while self._waiting and self._working < self._tools.rules.max_inflight:
                speech = self._waiting.popleft()
                self.waiting_bytes -= speech.size_bytes
                await self._send_off(speech)
        finally:
            self._departing = False

    async def look_for_lost_jobs(self) -> None:
        """Find jobs nobody drives any more: ended unheard of, or gone from the ledger."""
        now = self._tools.clock.monotonic()
        for key, (job_id, _) in list(self._jobs.items()):
            if self._tools.dispatcher.drives(job_id):
                continue
            record = await self._tools.ledger.read(job_id)
            if record is None:
                self._lost_since.setdefault(key, now)
                self._arrivals.abandoned(*key)
            elif record.ended:
                await self._end(key, record)
        for key, since in list(self._lost_since.items()):
            if now - since >= self._tools.rules.gap_grace_seconds:
                self._forget(key)
                await self._arrivals.gave_up(*key)

    async def stop(self) -> int:
        """Send nothing off any more, and cancel what is under way; how many waited in vain."""
        self._over = True
        waited = len(self._waiting)
        self._waiting.clear()
        for job_id, _ in list(self._jobs.values()):
            await self._cancel(job_id)
        return waited

    # --- one utterance ---------------------------------------------------------------------------

    @property
    def _working(self) -> int:
        """Utterances that are in flight and do not wait."""
        return self._arrivals.in_flight - len(self._waiting)

    async def _send_off(self, speech: Speech) -> None:
        """Make the utterance's jobs, and store that they are open."""
        refused: list[tuple[str, ErrorInfo]] = []
        for target in speech.targets:
            try:
                await self._submit(speech, target)
            except errors.DragomanError as error:
                details = error.details or None
                refused.append((target, ErrorInfo(error.code, error.message, details=details)))
            except Exception:
                # Without its end the utterance would block every later one.
                log.exception("utterance_not_submitted", session_id=self._session_id)
                failed = errors.InternalError("The server failed on this utterance; send it again.")
                refused.append((target, ErrorInfo(failed.code, failed.message)))
        await self._store(speech)
        for target, info in refused:
            await self._refuse(speech, target, info)

    async def _submit(self, speech: Speech, target: str) -> None:
        index, arrivals = speech.index, self._arrivals
        spec = job_spec(
            self._session_id, self._tenant, self._init, self._tools.rules, speech, target
        )
        order = JobOrder(
            spec,
            speech.input,
            may_wait=True,
            began=speech.began,
            on_end=partial(self._ended, (index, target)),
            on_partial=partial(arrivals.partial, index, target),
            on_progress=partial(arrivals.progress, index, target) if self._watched else None,
            parent_span=self._spans.context(index) if self._spans is not None else None,
        )
        submitted = await self._tools.dispatcher.submit(order)
        if self._over:
            await self._cancel(submitted.job_id)
        elif arrivals.is_open(index, target):
            self._jobs[index, target] = (submitted.job_id, speech.size_bytes)
            self.working_bytes += speech.size_bytes
            self._unstored.append(OpenJob(index, target, submitted.job_id))

    async def _store(self, speech: Speech) -> None:
        next_chunk_seq = max(self.next_chunk_seq, speech.next_chunk_seq)
        is_open = self._arrivals.is_open
        self._unstored = [job for job in self._unstored if is_open(job.utterance_index, job.target)]
        try:
            await self._tools.records.opened(
                self._session_id,
                self._client.epoch,
                self._unstored,
                next_chunk_seq=next_chunk_seq,
                next_utterance_index=speech.index + 1,
            )
        except errors.DependencyDown as down:
            # The jobs run. Stored with the next utterance; until then the client keeps its chunks.
            log.warning_limited(
                "open_jobs_not_stored", key="opened", every_seconds=10, error=down.message
            )
            return
        self._unstored.clear()
        self.next_chunk_seq = next_chunk_seq

    async def _refuse(self, speech: Speech, target: str, info: ErrorInfo) -> None:
        """Nobody takes the utterance: it ends in its turn, with the reason."""
        job_id = (info.details or {}).get("job_id")
        record = await self._read(JobId(job_id)) if isinstance(job_id, str) else None
        if record is not None and record.error is not None and record.error.code == info.code:
            await self._arrivals.ended(speech.index, target, record)
        else:
            await self._arrivals.refused(speech.index, target, info, speech.request_id)

    async def _read(self, job_id: JobId) -> JobRecord | None:
        try:
            return await self._tools.ledger.read(job_id)
        except errors.DependencyDown:
            return None

    # --- the end of jobs -------------------------------------------------------------------------

    def _ended(self, key: Key, record: JobRecord) -> None:
        self._tools.dispatcher.run(self._end(key, record))

    async def _end(self, key: Key, record: JobRecord) -> None:
        self._forget(key)
        if not self._over:
            await self._arrivals.ended(*key, record)
        elif record.outcome is Outcome.SUCCESS:
            self._tools.metrics.results_dropped.labels("session_gone").inc()

    def _forget(self, key: Key) -> None:
        self._lost_since.pop(key, None)
        job = self._jobs.pop(key, None)
        if job is not None:
            self.working_bytes -= job[1]

    async def _cancel(self, job_id: JobId) -> None:
        try:
            await self._tools.dispatcher.cancel(job_id)
        except (errors.JobEnded, errors.NotFound):
            return
        except errors.DependencyDown:
            log.warning_limited("job_not_cancelled", key="cancel", every_seconds=10, job_id=job_id)
