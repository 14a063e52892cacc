"""The way out: utterances become jobs, one for each target, in the order they were spoken."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from dragoman import errors
from dragoman.ids import JobId, RequestId
from dragoman.live.dispatch import FORGOTTEN, JobOrder, utterance_request_id
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import ErrorInfo, Outcome
from dragoman.live.sessions.arrivals import Arrivals
from dragoman.live.sessions.open_index import OpenIndex
from dragoman.live.sessions.orders import Speech, job_spec
from dragoman.live.sessions.record import OpenJob, SessionRecord
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.tools import Client, Tools
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")

_MOST_CLAIMS = 5
"""An utterance whose job the ledger keeps losing is claimed so often, then announced."""

Key = tuple[int, str]
"""An utterance and a target."""


class Departures:
    """Sends a session's utterances off, at most so many at a time.

    One after another: what is stored of the session never runs ahead of an utterance that is not.
    """

    def __init__(
        self,
        record: SessionRecord,
        tools: Tools,
        client: Client,
        open_index: OpenIndex,
        arrivals: Arrivals,
        spans: Spans | None = None,
    ) -> None:
        self._session_id = record.session_id
        self._tenant = record.tenant
        self._init = record.init
        self._tools = tools
        self._client = client
        self._open_index = open_index
        self._arrivals = arrivals
        self._spans = spans
        self._watched = record.init.ui_events
        """The client wants to see every step."""
        self.waiting_bytes = 0
        """Of utterances that wait until less is in flight."""
        self.working_bytes = 0
        """Of utterances that jobs work on."""
        self._waiting: deque[Speech] = deque()
        self._departing = False
        self._over = False
        self._handed_on = False
        """Another instance holds the session: its jobs go on, and their ends are its business."""
        self._jobs: dict[Key, tuple[JobId, Speech | None]] = {}
        """And what each was made of; None when another instance made it."""
        self._claims: Counter[Key] = Counter()
        """How often jobs were claimed again."""
        self._lost_since: dict[Key, float] = {}

    def __len__(self) -> int:
        """Utterances that wait until less is in flight."""
        return len(self._waiting)

    @property
    def working(self) -> int:
        """Utterances that are in flight and do not wait."""
        return self._arrivals.in_flight - len(self._waiting)

    @property
    def departing(self) -> bool:
        """Whether an utterance is just being sent off."""
        return self._departing

    def job_of(self, index: int, target: str) -> JobId | None:
        """The job that works on an utterance."""
        job = self._jobs.get((index, target))
        return job[0] if job is not None else None

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
            while self._waiting and not self._handed_on:
                if self._waiting[0].refusal is None and (
                    self.working >= self._tools.rules.max_inflight
                ):
                    return
                speech = self._waiting.popleft()
                self.waiting_bytes -= speech.size_bytes
                await self._send_off(speech)
        finally:
            self._departing = False

    # --- the end of the session ------------------------------------------------------------------

    def hand_on(self) -> None:
        """Another instance holds the session, or will: leave it all that is under way."""
        self._handed_on = True
        self._waiting.clear()

    async def stop(self) -> int:
        """Send nothing off any more, and cancel what is under way; how many waited in vain."""
        self._over = True
        waited = len(self._waiting)
        self._waiting.clear()
        for job_id, _ in list(self._jobs.values()):
            await self._cancel(job_id)
        return waited

    # --- what an earlier owner left --------------------------------------------------------------

    async def take_up(self, jobs: Sequence[OpenJob], found: Mapping[JobId, JobRecord]) -> None:
        """Wait for the jobs that an earlier owner of the session had made, or take their ends.

        The input of an utterance without one is lost: it is announced when the client does not
        send it again.
        """
        ended = []
        for job in jobs:
            key = (job.utterance_index, job.target)
            record = found.get(job.job_id) if job.job_id is not None else None
            if record is None:
                self._lose(key)
                continue
            self._jobs[key] = (record.job_id, None)
            if record.ended:
                ended.append((key, record))
            else:
                self._tools.dispatcher.expect(
                    record,
                    partial(self._ended, key),
                    partial(self._arrivals.partial, *key),
                    partial(self._arrivals.progress, *key) if self._watched else None,
                )
        for key, record in ended:
            await self._end(key, record)

    # --- one utterance ---------------------------------------------------------------------------

    async def _send_off(self, speech: Speech) -> None:
        """Make the utterance's jobs, and store that they are open."""
        refused: list[tuple[str, ErrorInfo]] = []
        for target in speech.targets:
            refusal = speech.refusal or await self._submit(speech, target)
            if refusal is not None:
                refused.append((target, refusal))
                self._open_index.add(OpenJob(speech.index, target, None))
        await self._open_index.store(speech)
        for target, info in refused:
            await self._refuse(speech, target, info)

    async def _submit(self, speech: Speech, target: str) -> ErrorInfo | None:
        """Make the utterance's job for a target, or find it; the refusal when no node takes it."""
        try:
            await self._claim(speech, target)
        except errors.DragomanError as error:
            return ErrorInfo(error.code, error.message, details=error.details or None)
        except Exception:
            # Without its end the utterance would block every later one.
            log.exception("utterance_not_submitted", session_id=self._session_id)
            failed = errors.InternalError("The server failed on this utterance; send it again.")
            return ErrorInfo(failed.code, failed.message)
        return None

    async def _claim(self, speech: Speech, target: str) -> None:
        index, arrivals = speech.index, self._arrivals
        key = (index, target)
        spec = job_spec(
            self._session_id, self._tenant, self._init, self._tools.rules, speech, target
        )
        order = JobOrder(
            spec,
            speech.input,
            may_wait=True,
            began=speech.began,
            on_end=partial(self._ended, key),
            on_partial=partial(arrivals.partial, index, target),
            on_progress=partial(arrivals.progress, index, target) if self._watched else None,
            parent_span=self._spans.context(index) if self._spans is not None else None,
        )
        try:
            submitted = await self._tools.dispatcher.submit(order)
        except errors.RequestConflict as conflict:
            await self._claim_otherwise(speech, target, conflict)
            return
        job_id = submitted.job_id
        if self._over:
            await self._cancel(job_id)
            return
        self._open_index.add(OpenJob(index, target, job_id))
        if arrivals.is_open(index, target):
            self._jobs[key] = (job_id, speech)
            self.working_bytes += speech.size_bytes

    async def _claim_otherwise(
        self, speech: Speech, target: str, conflict: errors.RequestConflict
    ) -> None:
        """An earlier owner cut the same audio otherwise, and did not get to store it.

        What it made of it is not wanted; what is here goes under a name of its own.
        """
        other_id = conflict.details.get("job_id")
        if speech.request_id is not None or not isinstance(other_id, str):
            raise conflict
        await self._cancel(JobId(other_id))
        name = f"{utterance_request_id(self._session_id, speech.index)}/{self._client.epoch}"
        await self._claim(msgspec.structs.replace(speech, request_id=RequestId(name)), target)

    async def _refuse(self, speech: Speech, target: str, info: ErrorInfo) -> None:
        """No node takes the utterance: it ends in its turn, with the reason."""
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

    # --- jobs that are lost ----------------------------------------------------------------------

    async def look_for_lost_jobs(self, *, driven_too: bool = False) -> None:
        """Find jobs without a driver: ended unheard of, or gone from the ledger."""
        now = self._tools.clock.monotonic()
        for key, job in list(self._jobs.items()):
            job_id, speech = job
            if self._tools.dispatcher.drives(job_id) and not driven_too:
                continue
            record = await self._tools.ledger.read(job_id)
            if self._jobs.get(key) is not job:
                continue
            if record is None:
                if not await self._claim_again(key, speech):
                    self._lose(key)
            elif record.ended:
                await self._end(key, record)
        for key, since in list(self._lost_since.items()):
            if now - since >= self._tools.rules.gap_grace_seconds:
                self._forget(key)
                await self._arrivals.gave_up(*key)

    def _lose(self, key: Key) -> None:
        """No node works on the utterance, and this instance does not have its input."""
        self._lost_since.setdefault(key, self._tools.clock.monotonic())
        self._arrivals.abandoned(*key)

    async def _claim_again(self, key: Key, speech: Speech | None) -> bool:
        """The ledger lost the job: make it again from the input; False when that is not here.

        Only a ledger that others share can forget, and come back empty.
        """
        if speech is None or self._tools.peers is None or self._claims[key] >= _MOST_CLAIMS:
            return False
        claims = self._claims[key] + 1
        self._forget(key)
        self._claims[key] = claims
        refusal = await self._submit(speech, key[1])
        await self._open_index.store(speech)
        if refusal is not None:
            del self._claims[key]
            await self._refuse(speech, key[1], refusal)
        return True

    async def _is_made_again(self, key: Key) -> bool:
        """Whether a job that the ledger lost is being made again, or may yet be."""
        if key not in self._jobs:
            return key in self._claims
        speech = self._jobs[key][1]
        if speech is None and not self._over:
            # An earlier owner had the input; the client may have it still.
            self._lose(key)
            return True
        return not self._over and await self._claim_again(key, speech)

    # --- the end of jobs -------------------------------------------------------------------------

    def _ended(self, key: Key, record: JobRecord) -> None:
        self._tools.dispatcher.run(self._end(key, record))

    async def _end(self, key: Key, record: JobRecord) -> None:
        job = self._jobs.get(key)
        if job is not None and job[0] != record.job_id:
            return
        if self._handed_on:
            await self._hand_on_end(record)
            return
        if record.error is FORGOTTEN and await self._is_made_again(key):
            return
        self._forget(key)
        if not self._over:
            await self._arrivals.ended(*key, record)
        elif record.outcome is Outcome.SUCCESS:
            self._tools.metrics.results_dropped.labels("session_gone").inc()
            await self._tools.ledger.release((record.job_id,))

    async def _hand_on_end(self, record: JobRecord) -> None:
        """Tell the instance that holds the session now."""
        if self._tools.peers is None:
            return
        try:
            session = await self._tools.records.read(self._session_id)
        except errors.DependencyDown:
            # That instance looks for the job now and then.
            return
        if session is not None:
            self._tools.peers.ended(record.job_id, session.owner.instance_id)

    def _forget(self, key: Key) -> None:
        self._lost_since.pop(key, None)
        job = self._jobs.pop(key, None)
        if job is not None:
            _, speech = job
            if speech is not None:
                self.working_bytes -= speech.size_bytes
            if self._claims:
                del self._claims[key]

    async def _cancel(self, job_id: JobId) -> None:
        try:
            await self._tools.dispatcher.cancel(job_id)
        except (errors.JobEnded, errors.NotFound):
            return
        except errors.DependencyDown:
            log.warning_limited("job_not_cancelled", key="cancel", every_seconds=10, job_id=job_id)
