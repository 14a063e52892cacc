"""A session's record where instances share it: every change is stored before the client hears.

The writer of a session sends one step at a time: it opens utterances with their jobs, gives ends
their numbers, and passes acknowledgements on. A step that is not answered is asked again until it
is; no later one overtakes it. What the client has not heard may still change its number, what it
has heard may not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from dragoman.errors import DependencyDown
from dragoman.ids import ConnectionId, JobId, SessionId
from dragoman.live.dispatch import AfterClaim, Claimed, Job
from dragoman.live.ledger import Keep
from dragoman.live.sessions.known_record import KnownRecord, Place, joined
from dragoman.live.shared import SharedLedger, hot_of
from dragoman.live.shared import records as r
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")

OpenAnswer = r.Opened | r.Behind | r.NotOwner

AfterDelivery = Callable[[int], None]
"""Gets the number of an end; 0: the client acknowledged it before."""

NO_JOB = JobId("")
"""Stands in the record for the job of an utterance that is open, and has none."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.6
"""Between two times that a step is asked which is not answered."""

_RESTORED_STEP = 1_000
"""A record that is written again gets a revision so much higher than what was found: closings that
are on their way may raise the older record meanwhile, and must not reach it."""

_MOST_TOGETHER = 256

ACKNOWLEDGED_SECONDS = 1.0
"""How long the record may not know what the client has. A client that comes back says it again, and
meanwhile the next utterances need not wait for it."""


class WriterTerms(msgspec.Struct, frozen=True):
    """What every opening names, and what every record keeps."""

    claim_ms: int
    keep: Keep
    keep_delivered: int
    """How far back unacknowledged deliveries are kept."""


class _Claim(msgspec.Struct, frozen=True):
    job: Job
    new: r.NewJob
    then: AfterClaim


class _Opening(msgspec.Struct, eq=False):
    """An utterance that is to be opened."""

    index: int
    claims: list[_Claim] = []
    elsewhere: dict[str, JobId] = {}
    """Targets with jobs in another shard, or with none."""
    unknown: set[str] = set()
    """Targets whose jobs are still being opened in another shard."""
    next_chunk_seq: int = 0
    half_sample: bytes = b""

    def places(self) -> dict[Place, JobId]:
        claimed = {(self.index, each.new.target_key): each.new.job_id for each in self.claims}
        return claimed | {(self.index, target): job for target, job in self.elsewhere.items()}


class _Ending(msgspec.Struct, frozen=True, eq=False):
    """An end on its way to its number."""

    entry: r.Delivery
    then: AfterDelivery


class RecordWriter:
    """Writes one session's record, one step at a time, and knows what is stored in it.

    When the record is gone or was taken back, as a Redis that fails over may do, it is written
    again from what is known here. When another connection owns it, the session is let go of.
    """

    def __init__(
        self,
        record: r.StoredSession,
        shards: SharedLedger,
        terms: WriterTerms,
        *,
        run: Callable[[Coroutine[Any, Any, None]], None],
        on_lost: Callable[[r.SessionOwner], None],
        on_restored: Callable[[], None],
        on_down: Callable[[], None],
    ) -> None:
        """on_lost is told that another connection owns the session, on_down that the server did
        not answer, after which it may have forgotten something."""
        self.session_id: SessionId = record.session_id
        self.owner = record.owner
        self.seen = record.revision
        """The newest revision that is known to be stored."""
        self.client_is_here = False
        self.doubtful = False
        """The record may lack something that was stored; `check` sees to it."""
        self._shards = shards
        self._terms = terms
        self._run = run
        self._on_lost = on_lost
        self._on_restored = on_restored
        self._on_down = on_down
        self._connections = {record.owner.connection_id}
        """All that spoke for the session here, or asked to, since its owner is known."""
        self._known = KnownRecord(record, terms.keep_delivered)
        # What is to be stored.
        self._collected: dict[int, _Opening] = {}
        """Utterances whose jobs are being submitted."""
        self._openings: deque[_Opening] = deque()
        self._endings: list[_Ending] = []
        self._numbered: dict[int, _Ending] = {}
        """Ends whose numbers are known, and which wait for a lower number to be known."""
        self._trust_from = 0
        """Of earlier utterances, the numbers that closings were given are asked for again: the
        record was written anew since, perhaps without them."""
        self._acknowledged = 0
        """What the record has not been told: everything up to this number has arrived."""
        self._heard_until: tuple[int, bytes] | None = None
        """What the record has not been told: chunks up to there hold nothing to send again."""
        self._telling: asyncio.TimerHandle | None = None
        """Waits until the record is told of both."""
        self._tells_now = False
        """Whether it is time for that."""
        self._hot = hot_of(shards, run)
        self._turn = asyncio.Lock()
        self._is_under_way = False
        """An opening is on its way that was asked for without the turn."""
        self._landed: asyncio.Future[None] | None = None
        """Waited for by one that has the turn, until that opening is answered."""
        self._asked: _Opening | None = None
        """The opening that is on its way."""
        self._has_forked = False
        """A number is another end's in the record than the client was told."""
        self._working = False
        self._opened_last = False
        self._waits_for_client = False
        self._stopped = False
        self._lost_to: r.SessionOwner | None = None
        self._failures = 0

    @property
    def holding(self) -> r.Holding:
        """What is named with every write."""
        return r.Holding(self.session_id, self.owner, self.seen)

    @property
    def next_index(self) -> int:
        """Utterances below it are stored."""
        return self._known.next_index

    @property
    def next_chunk_seq(self) -> int:
        """Chunks below it are in stored utterances."""
        return self._known.next_chunk_seq

    @property
    def is_idle(self) -> bool:
        """Whether all that was to be stored is."""
        return not (
            self._openings
            or self._endings
            or self._numbered
            or self._acknowledged
            or self._heard_until
        )

    # --- utterances -----------------------------------------------------------------------------

    def claim(self, job: Job, new: r.NewJob, then: AfterClaim) -> None:
        """A job of the utterance that is being submitted: it is opened with the utterance.

        `then` gets its answer, and the shard's time.
        """
        if self._stopped:
            then(job, None, 0)
            return
        index = job.spec.utterance_index or 0
        claim = _Claim(job, new, then)
        if self._was_submitted(index):
            # The shard knows the job, or never will.
            self._openings.append(_Opening(index, [claim]))
            self._wake()
        else:
            self._collect(index).claims.append(claim)

    def elsewhere(self, index: int, target: str) -> Callable[[JobId | None], None]:
        """A job of the utterance lies in another shard, where the ledger opens it.

        The utterance is opened once the function that is returned was told the job's id. The
        target is written as requests are bound by it.
        """
        opening = _Opening(index) if self._was_submitted(index) else self._collect(index)
        opening.unknown.add(target)

        def known(job_id: JobId | None) -> None:
            opening.unknown.discard(target)
            opening.elsewhere[target] = NO_JOB if job_id is None else job_id
            self._wake()

        return known

    def open(
        self, index: int, targets: Iterable[str], next_chunk_seq: int, half_sample: bytes
    ) -> None:
        """All jobs of an utterance were submitted, or refused: it is opened with those claimed.

        Targets without a job are open, too, until the reason for that takes its turn.
        """
        opening = self._collected.pop(index, None) or _Opening(index)
        if self._stopped:
            return
        claimed = {claim.new.target_key for claim in opening.claims}
        for target in targets:
            if target not in claimed and target not in opening.unknown:
                opening.elsewhere.setdefault(target, NO_JOB)
        opening.next_chunk_seq, opening.half_sample = next_chunk_seq, half_sample
        self._openings.append(opening)
        self._wake()

    def made_again(self, index: int, target: str, job_id: JobId) -> None:
        """An utterance that is open is another job's than the record says."""
        if not self._stopped and self._known.made_again((index, target), job_id):
            self.doubtful = True
            self._wake()

    def _was_submitted(self, index: int) -> bool:
        if not self._openings:
            return index < self._known.next_index
        return index < self.next_index or any(each.index == index for each in self._openings)

    def _collect(self, index: int) -> _Opening:
        opening = self._collected.get(index)
        if opening is None:
            opening = self._collected[index] = _Opening(index)
        return opening

    # --- ends -----------------------------------------------------------------------------------

    def deliver(self, entry: r.Delivery, then: AfterDelivery, seq: int = 0) -> None:
        """An end takes its turn: `then` gets its number, once that and all lower ones are known.

        seq is the number that the job's closing was given; 0: none.
        """
        if self._stopped:
            return
        ending = _Ending(entry, then)
        trusted = seq and not self.doubtful and entry.index >= self._trust_from
        if trusted and self._number(ending, seq):
            self._tell()
            return
        self._endings.append(ending)
        self._wake()

    def acknowledge(self, upto: int) -> None:
        """The client has everything up to a number."""
        arrived = self._known.acknowledged(upto)
        if arrived and not self._stopped:
            self._acknowledged = max(self._acknowledged, arrived)
            self._tell_record_soon()

    def heard_until(self, next_chunk_seq: int, place: bytes) -> None:
        """Up to a chunk, and a place in it, the audio is in utterances that were opened, or is
        silence. Nothing is said to the record while utterances are on their way to it."""
        if self._stopped or self._openings or self._collected:
            return
        if next_chunk_seq > self._known.next_chunk_seq:
            self._heard_until = (next_chunk_seq, place)
            self._tell_record_soon()

    def _tell_record_soon(self) -> None:
        if self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(ACKNOWLEDGED_SECONDS, self._tell_record)

    def _tell_record(self) -> None:
        self._telling = None
        self._tells_now = True
        self._wake()

    def _number(self, ending: _Ending, seq: int) -> bool:
        """An end has a number; False when that is another's: the record was taken back."""
        if seq < self._known.next_seq or seq in self._numbered:
            self.doubtful = self._has_forked = True
            return False
        self._numbered[seq] = ending
        return True

    def _tell(self) -> None:
        """Tell all ends whose turn has come, in the order of their numbers.

        None while the record may have numbered them beside what the client was told.
        """
        while (
            not self._has_forked
            and (ending := self._numbered.pop(self._known.next_seq, None)) is not None
        ):
            _call(ending.then, self._known.told(ending.entry))

    # --- owners ---------------------------------------------------------------------------------

    def saw(self, revision: int) -> None:
        """An answer told the record's revision; 0: it is another's, or older than it should be."""
        if revision > self.seen:
            self.seen = revision
        elif not revision and not self._stopped:
            self.doubtful = True
            # The answer's own news comes first.
            asyncio.get_running_loop().call_soon(self._wake)

    def expect(self, connection_id: ConnectionId) -> None:
        """A connection asks to speak for the session."""
        self._connections.add(connection_id)

    def is_ours(self, owner: r.SessionOwner) -> bool:
        """Whether an owner is this very session, without another owner in between.

        The answer to a resume may be still on its way, or lost: its connection owns the record
        before that is known here.
        """
        if owner == self.owner:
            return True
        return (
            owner.instance_id == self.owner.instance_id
            and owner.connection_id in self._connections
            and owner.epoch == self.owner.epoch + 1
        )

    def is_newer_than(self, record: r.StoredSession) -> bool:
        """Whether the record lacks what was stored here."""
        if record.owner != self.owner:
            return record.owner.epoch < self.owner.epoch
        return self.doubtful or record.revision < self.seen or self._known.lacks(record)

    def own(self, owner: r.SessionOwner, revision: int) -> None:
        """The client speaks over a connection that owns the record, since a revision of it."""
        self.client_is_here = True
        self._waits_for_client = False
        if owner != self.owner:
            self.owner = owner
            if revision > self.seen:
                self.seen = revision
            else:
                self.doubtful = True
        self._connections = {owner.connection_id}
        self._wake()

    def client_left(self) -> None:
        """The connection is gone: it is not known whether the client goes on elsewhere."""
        self.client_is_here = False

    def stop(self) -> None:
        """Store nothing more: the session is over here."""
        if self._stopped:
            return
        self._stopped = True
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        waiting = [*self._openings, *self._collected.values()]
        if self._asked is not None:
            waiting.remove(self._asked)  # Its answer is passed on when it comes.
        self._openings.clear()
        self._collected.clear()
        self._endings.clear()
        self._numbered.clear()
        owner = self._lost_to
        for opening in waiting:
            _answer(opening.claims, r.NotOwner(owner) if owner is not None else None)

    # --- one step at a time ---------------------------------------------------------------------

    def _wake(self) -> None:
        if self._working or self._stopped or self._waits_for_client:
            return
        opening = self._openings[0] if self._openings else None
        if opening is not None and opening.unknown:
            opening = None
        if opening is None:
            # In most cases there is nothing at all.
            may_have = self.doubtful or self._endings or self._tells_now
            if not may_have or not self._has_work():
                return
        self._working = True
        if (
            opening is None
            or self.doubtful
            or self._failures
            or self._turn.locked()
            or (self._endings and self._opened_last and self._due())
        ):
            self._run(self._work())
        else:
            self._begin_opening(opening)

    def _begin_opening(self, opening: _Opening) -> None:
        """Open the next utterance; its answer is taken in where it is read, without a task."""
        self._opened_last = True
        self._asked = opening
        self._landed = None
        self._is_under_way = True
        held, seen = self.holding, self.seen
        then = partial(self._opening_answered, opening, held, seen)
        try:
            self._hot.open(self._opening_of(opening, held), then)
        except Exception as error:
            then(None, error)

    def _opening_answered(
        self,
        opening: _Opening,
        held: r.Holding,
        seen: int,
        answer: OpenAnswer | None,
        error: Exception | None,
    ) -> None:
        self._asked = None
        self._is_under_way = False
        done = False
        try:
            if answer is not None:
                done = self._take_opened(opening, held, answer)
            else:
                assert error is not None, "there is an answer, or an error"
                done = self._not_opened(opening, error)
                if isinstance(error, DependencyDown):
                    self._is_down(error, seen)
        finally:
            self._working = False
            if self._landed is not None and not self._landed.done():
                self._landed.set_result(None)
            if done and error is None:
                self._wake()
            elif not self._stopped:
                self._working = True
                self._run(self._work(pause_first=not done))

    def _has_work(self) -> bool:
        if self._stopped or self._waits_for_client:
            return False
        return bool(
            self.doubtful
            or self._next_opening()
            or self._due()
            or (self._tells_now and (self._acknowledged or self._heard_until))
        )

    def _next_opening(self) -> _Opening | None:
        opening = self._openings[0] if self._openings else None
        return opening if opening is not None and not opening.unknown else None

    def _due(self) -> list[_Ending]:
        """Ends whose turn has come: of utterances that are stored, with none open before them."""
        if not self._endings:
            return []
        due: list[_Ending] = []
        ahead = {(each.entry.index, each.entry.target) for each in self._numbered.values()}
        for ending in self._endings[:_MOST_TOGETHER]:
            entry = ending.entry
            if entry.index < self._known.next_index and not any(
                index < entry.index and target == entry.target and (index, target) not in ahead
                for index, target in self._known.open
            ):
                ahead.add((entry.index, entry.target))
                due.append(ending)
        return due

    async def _work(self, *, pause_first: bool = False) -> None:
        try:
            if pause_first:
                await self._pause()
            while self._has_work():
                if not await self._step():
                    await self._pause()
        finally:
            self._working = False

    async def _pause(self) -> None:
        pause = FIRST_PAUSE_SECONDS * 2**self._failures
        self._failures += pause < LONGEST_PAUSE_SECONDS
        await asyncio.sleep(pause)

    async def _step(self) -> bool:
        """Take the next step; False when it must be taken again, after a pause."""
        seen = self.seen
        try:
            async with self._turn:
                if self.doubtful:
                    await self._check(returning=False)
                    return True
                opening, due = self._next_opening(), self._due()
                if opening is not None and not (due and self._opened_last):
                    self._opened_last = True
                    return await self._open_next(opening)
                self._opened_last = False
                if due:
                    return await self._deliver(due)
                if self._tells_now and (self._acknowledged or self._heard_until):
                    return await self._acknowledge(self._acknowledged, self._heard_until)
                return True
        except DependencyDown as down:
            self._is_down(down, seen)
            return False

    def _is_down(self, down: DependencyDown, seen: int) -> None:
        """A step was not answered; seen is the newest revision that was known when it was asked."""
        # If it was done, it may be in the place of one that was confirmed meanwhile.
        self.doubtful |= self.seen > seen
        self._on_down()
        log.warning_limited(
            "session_not_stored", key="record", every_seconds=10, error=down.message
        )

    def _opening_of(self, opening: _Opening, held: r.Holding) -> r.UtteranceOpening:
        claims = opening.claims
        return r.UtteranceOpening(
            jobs=(claims[0].new,) if len(claims) == 1 else tuple([each.new for each in claims]),
            instance_id=held.owner.instance_id,
            claim_ms=self._terms.claim_ms,
            keep=self._terms.keep,
            held=held,
            elsewhere=tuple(
                [
                    r.OpenUtterance(opening.index, target, job_id)
                    for target, job_id in opening.elsewhere.items()
                ]
            )
            if opening.elsewhere
            else (),
            index=opening.index,
            next_chunk_seq=opening.next_chunk_seq,
            half_sample=opening.half_sample,
        )

    async def _open_next(self, opening: _Opening) -> bool:
        """Open the next utterance, with its jobs."""
        held = self.holding
        self._asked = opening
        try:
            answer = await self._shards.open(self._opening_of(opening, held))
        except Exception as error:
            done = self._not_opened(opening, error)
            if isinstance(error, DependencyDown):
                raise
            return done
        finally:
            self._asked = None
        return self._take_opened(opening, held, answer)

    def _not_opened(self, opening: _Opening, error: Exception) -> bool:
        """There is no answer, or the step failed; whether the next one may be taken."""
        if isinstance(error, DependencyDown):
            if self._stopped:
                _answer(opening.claims, None)
            return False
        log.error("utterance_not_opened", session_id=self.session_id, exc_info=error)
        self._open_without_jobs(opening)
        return True

    def _take_opened(self, opening: _Opening, held: r.Holding, answer: OpenAnswer) -> bool:
        """Take in what became of an utterance; False when the step must be taken again."""
        if isinstance(answer, r.Opened):
            self._failures = 0
            self._opened(opening, answer)
            return True
        if self._stopped:
            _answer(opening.claims, answer)
            return True
        if isinstance(answer, r.NotOwner):
            return self._refused(held, answer)
        if answer.next_index <= opening.index and opening.index >= self.next_index:
            # It is the next one, so the record has lost some.
            self.doubtful = True
            return False
        self._openings.popleft()
        self._note_opened(opening, opening.places())
        _answer(opening.claims, answer)
        return True

    def _opened(self, opening: _Opening, answer: r.Opened) -> None:
        if self._openings and self._openings[0] is opening:
            self._openings.popleft()
        self.saw(answer.revision)
        places = opening.places()
        for claim, each in zip(opening.claims, answer.jobs, strict=True):
            if isinstance(each, r.JobFound):
                places[opening.index, claim.new.target_key] = each.job.job_id
        self._note_opened(opening, places)
        for claim, each in zip(opening.claims, answer.jobs, strict=True):
            _call(claim.then, claim.job, each, answer.at_ms)

    def _note_opened(self, opening: _Opening, places: dict[Place, JobId]) -> None:
        self._known.opened(opening.index, places, opening.next_chunk_seq, opening.half_sample)

    def _open_without_jobs(self, opening: _Opening) -> None:
        """A step failed that must not: the utterance is opened so that it can end."""
        claims, opening.claims = opening.claims, []
        for claim in claims:
            opening.elsewhere[claim.new.target_key] = NO_JOB
        _answer(claims, None)

    async def _deliver(self, due: Sequence[_Ending]) -> bool:
        """Have ends numbered; a repeat gets the same numbers."""
        held = self.holding
        answer = await self._shards.deliver(held, [ending.entry for ending in due])
        if self._stopped:
            return True
        if isinstance(answer, r.NotOwner):
            return self._refused(held, answer)
        self.saw(answer.revision)
        waiting = set()
        acknowledged = []
        for ending, seq in zip(due, answer.seqs, strict=True):
            if seq == 0:
                acknowledged.append(ending)
            elif seq is None or not self._number(ending, seq):
                waiting.add(ending)
        done = set(due) - waiting
        self._endings = [each for each in self._endings if each not in done]
        if done:
            self._failures = 0
        for ending in acknowledged:
            self._known.ended(ending.entry)
            _call(ending.then, 0)
        self._tell()
        # One whose turn has not come, though it should have: the record lacks something.
        self.doubtful |= bool(waiting)
        return not waiting

    async def _acknowledge(self, upto: int, heard_until: tuple[int, bytes] | None) -> bool:
        held = self.holding
        next_chunk_seq, place = heard_until or (0, b"")
        revision = await self._shards.acknowledge(held, upto, next_chunk_seq, place)
        if not revision:
            return self._refused(held, None)
        self.saw(revision)
        if self._acknowledged == upto:
            self._acknowledged = 0
        if heard_until is not None:
            self._known.heard_until(next_chunk_seq, place)
            if self._heard_until == heard_until:
                self._heard_until = None
        self._tells_now = bool(self._acknowledged or self._heard_until)
        return True

    def _refused(self, held: r.Holding, answer: r.NotOwner | None) -> bool:
        """The record is not held as it was said to be: find out why, unless that is known."""
        if held.owner != self.owner and (answer is None or answer.owner == self.owner):
            return True  # The client came back over another connection meanwhile.
        self.doubtful = True
        return True

    # --- what was lost --------------------------------------------------------------------------

    async def check(self, *, returning: bool = False) -> bool:
        """Look at the record, and write it again if it must be; False when it is not ours.

        Only who holds the client, or to whom it is just returning, writes a record that is gone:
        the session may have come to its end elsewhere.
        """
        try:
            async with self._turn:
                if self._is_under_way:
                    self._landed = asyncio.get_running_loop().create_future()
                    await self._landed
                return await self._check(returning)
        finally:
            self._wake()

    async def _check(self, returning: bool) -> bool:
        while True:
            owner = self.owner
            found = await self._shards.read_session(self.session_id)
            if self._stopped:
                return False
            if self.owner != owner:
                continue  # The client came back meanwhile, and this is older.
            if found is not None and self.is_ours(found.owner):
                self.owner = found.owner
                if found.revision >= self.seen and not (
                    self._has_forked or self._known.lacks(found)
                ):
                    self.seen = found.revision
                    self.doubtful = False
                    return True
            elif found is not None and found.owner.epoch >= self.owner.epoch:
                self._lose(found.owner)
                return False
            elif not (returning or self.client_is_here):
                self.doubtful = False
                self._waits_for_client = True
                return False
            else:
                found = None
            if await self._restore(found):
                return True

    async def _restore(self, found: r.StoredSession | None) -> bool:
        """Write the whole record; False when it must be looked at again."""
        known = self.known()
        self._trust_from = self.next_index
        if found is not None:
            known = joined(known, found)
        # What the client has not heard gets its number again, or another one.
        untold = [self._numbered[seq] for seq in sorted(self._numbered)]
        self._endings[:0] = untold
        self._numbered.clear()
        highest = max(self.seen, found.revision if found is not None else 0)
        whole = msgspec.structs.replace(known, revision=highest + _RESTORED_STEP)
        # What becomes doubtful from here on is not in it.
        forked, self._has_forked, self.doubtful = self._has_forked, False, False
        revision = 0
        try:
            revision = await self._shards.restore_session(whole)
        finally:
            if not revision:
                self._has_forked |= forked
                self.doubtful = True
        if not revision or self.owner != whole.owner:
            return False
        self.seen = max(self.seen, revision)
        log.info("session_restored", session_id=self.session_id)
        self._on_restored()
        return True

    def known(self) -> r.StoredSession:
        """The record with all that is known to be stored, and that the client has heard."""
        return self._known.stored(self.owner, self.seen)

    def _lose(self, owner: r.SessionOwner) -> None:
        """Another connection owns the session: it lets go of its jobs before they are answered."""
        self._lost_to = owner
        self._on_lost(owner)
        self.stop()


def _answer(claims: Iterable[_Claim], answer: Claimed) -> None:
    for claim in claims:
        _call(claim.then, claim.job, answer, 0)


def _call(then: Callable[..., None], *told: object) -> None:
    """Tell an answer; a listener that fails must not stop the writer."""
    try:
        then(*told)
    except Exception:
        log.exception("session_step_failed")
