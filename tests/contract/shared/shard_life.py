"""A random but repeatable life of the shards: several instances that open, move and end jobs, own
sessions, and take both from each other."""

from __future__ import annotations

from functools import partial

import msgspec
from tests.contract.shared.bench import (
    CANCELLED,
    CLAIM_MS,
    HERE,
    REFUSED,
    TENANT,
    THERE,
    Bench,
    failure,
    past,
    success,
)
from tests.contract.shared.life import STRIDE_SECONDS, Life
from tests.contract.shared.shard_model import Job, Session, ShardModel, same_shard

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, SessionId, shard_in
from dragoman.live.ledger import Ending, Keep, Times
from dragoman.live.protocol import Outcome
from dragoman.live.shared import records as r

KEEP = Keep(lease_ms=20_000, retention_ms=40_000)
SESSION_MS = 100_000
KEEP_DELIVERED = 2
REQUESTS = tuple(f"r-{number}" for number in range(4))
TARGETS = ("en", "fr")
INSTANCES = (HERE, THERE)


class ShardLife(Life):
    """One life, driven by one seed."""

    def __init__(self, bench: Bench, seed: int) -> None:
        super().__init__(bench, seed)
        self.model = ShardModel(KEEP, SESSION_MS, KEEP_DELIVERED)
        self.holdings: list[r.Holding] = []
        """Every holding there ever was; older owners still speak up."""
        self.records: dict[SessionId, r.StoredSession] = {}
        """Each session as it was read last."""
        self.old_records: list[r.StoredSession] = []
        self.jobs: list[tuple[r.NewJob, int]] = []
        """Every job that was ever asked for, with its utterance."""
        self.steps = {
            self.speak: 12,
            self.request: 4,
            self.close: 16,
            self.deliver: 12,
            self.acknowledge: 6,
            self.move: 8,
            self.renew: 3,
            self.take_over: 5,
            self.take_session: 3,
            self.restore: 2,
            self.renew_sessions: 3,
            self.end_session: 1,
            self.release: 2,
            self.advance: 4,
            self.ask_again: 6,
            self.carry_out_late: 8,
        }

    def start(self) -> None:
        for _ in range(2):
            self.begin()

    # --- what must be true at all times ---------------------------------------------------------

    def check(self) -> None:
        self.model.forget()
        for session_id in list(self.records):
            self.check_session(session_id)
        for job_id in {new.job_id for new, _ in self.jobs[-12:]}:
            self.check_job(job_id)

    def check_session(self, session_id: SessionId) -> None:
        """The record is what the model says, and has not gone back."""
        known = self.records[session_id]
        record = self.bench(self.bench.ledger.read_session(known.session_id))
        session = self.model.sessions.get(session_id)
        if session is None:
            assert record is None
            del self.records[session_id]
            return
        assert record is not None
        assert (record.owner, record.next_index) == (session.owner, session.next_index)
        assert record.next_chunk_seq == session.next_chunk_seq
        assert record.next_seq == session.next_seq
        assert {(each.index, each.target): each.job_id for each in record.open} == session.open
        assert [sent.seq for sent in record.unacknowledged] == session.unacknowledged
        for sent in record.unacknowledged:
            assert session.given[sent.delivery.index, sent.delivery.target] == sent.seq
        for before, after in (
            (known.owner.epoch, record.owner.epoch),
            (known.revision, record.revision),
            (known.next_index, record.next_index),
            (known.next_chunk_seq, record.next_chunk_seq),
            (known.next_seq, record.next_seq),
        ):
            assert before <= after, "a session's record went back"
        if record.revision == known.revision:
            assert record == known, "a record changed under the same revision"
        else:
            self.old_records.append(known)
        session.revision = record.revision
        self.records[session_id] = record

    def check_numbers(self, session: Session) -> None:
        """Numbers have no gap, and each target's utterances come in their order."""
        assert sorted(session.given.values()) == list(range(1, len(session.given) + 1))
        for target in TARGETS:
            order = [(seq, index) for (index, to), seq in session.given.items() if to == target]
            indexes = [index for _, index in sorted(order)]
            assert indexes == sorted(indexes)

    def check_job(self, job_id: JobId) -> None:
        record = self.bench(self.bench.ledger.read(job_id))
        job = self.model.jobs.get(job_id)
        if job is None:
            assert record is None
            return
        assert record is not None
        assert (record.attempt_id, record.instance_id) == (job.attempt_id, job.instance_id)
        assert [each.attempt_id for each in record.past] == job.past
        self.check_end(record, job)
        work = self.bench(self.bench.ledger.read_open(job_id))
        assert (work is None) == (job.end is not None)

    def check_end(self, record: r.StoredJob, job: Job) -> None:
        """An end is what it was from the first moment on."""
        if job.end is None:
            assert record.outcome is None
            return
        assert (record.outcome, record.error) == (job.end.outcome, job.end.error)
        if not record.released:
            assert record.output == job.end.output

    # --- choosing -------------------------------------------------------------------------------

    def some_holding(self) -> r.Holding:
        """Mostly the owner's, with what it has seen."""
        records = list(self.records.values())
        if not records or self.chance(0.1):
            return self.random.choice(self.holdings)
        record = self.random.choice(records)
        return r.Holding(record.session_id, record.owner, record.revision)

    def some_job(self) -> tuple[r.NewJob, int]:
        """Mostly one that is open: those that ended, or never were, have little to get wrong."""
        there = self.model.jobs
        open_jobs = [
            (new, index)
            for new, index in self.jobs
            if new.job_id in there and there[new.job_id].end is None
        ]
        return self.random.choice(open_jobs if open_jobs and self.chance(0.7) else self.jobs)

    # --- sessions -------------------------------------------------------------------------------

    def begin(self) -> None:
        record = self.bench.new_session(*TARGETS, instance_id=self.random.choice(INSTANCES))
        for _ in range(2):
            self.bench(self.bench.ledger.begin_session(record))
        self.records[record.session_id] = record
        session = Session(record.session_id, record.owner, record.owner, self.model.now)
        self.model.sessions[record.session_id] = session
        self.model.touch(session)
        self.holdings.append(r.Holding(record.session_id, record.owner, record.revision))

    def take_session(self) -> None:
        held = self.some_holding()
        instance_id, connection_id = self.random.choice(INSTANCES), self.bench.connection_id()
        epoch = held.owner.epoch if self.chance(0.7) else None
        self.ask(partial(self._take_session, held, instance_id, connection_id, epoch))

    def _take_session(
        self,
        held: r.Holding,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        epoch: int | None,
    ) -> None:
        answer = self.bench(
            self.bench.ledger.take_session(held.session_id, instance_id, connection_id, epoch=epoch)
        )
        session = self.model.sessions.get(held.session_id)
        if session is None:
            assert answer is None
            return
        if session.owner.connection_id != connection_id:
            if epoch is not None and session.owner.epoch != epoch:
                assert answer == r.ChangedHands()
                return
            session.before = session.owner
            session.owner = r.SessionOwner(instance_id, connection_id, session.before.epoch + 1)
            self.model.touch(session)
        assert isinstance(answer, r.TakenSession)
        assert (answer.session.owner, answer.before) == (session.owner, session.before)
        self.holdings.append(r.Holding(held.session_id, session.owner, answer.session.revision))

    def restore(self) -> None:
        """An earlier record is written again; a record that is there is never older."""
        records = [*self.old_records[-10:], *self.records.values()]
        if records:
            self.ask(partial(self._restore, self.random.choice(records)))

    def _restore(self, record: r.StoredSession) -> None:
        session = self.model.sessions.get(record.session_id)
        if session is None:
            return  # A record that is gone would come back: the examples have that.
        current = self.bench(self.bench.ledger.read_session(record.session_id))
        assert current is not None
        same = (current.owner, current.revision) == (record.owner, record.revision)
        answer = self.bench(self.bench.ledger.restore_session(record))
        assert answer == (record.revision if same else 0)

    def renew_sessions(self) -> None:
        self.ask(partial(self._renew_sessions, [self.some_holding(), self.some_holding()]))

    def _renew_sessions(self, held: list[r.Holding]) -> None:
        lost = self.bench(self.bench.ledger.renew_sessions(held))
        kept = [session for each in held if (session := self.model.held(each)) is not None]
        assert sorted(lost) == sorted(
            each.session_id for each in held if self.model.held(each) is None
        )
        for session in kept:
            self.model.touch(session)

    def end_session(self) -> None:
        """A session ends now and then; there are always some."""
        if self.chance(0.3):
            self.ask(partial(self._end_session, self.some_holding()))
        if len(self.records) < 2:
            self.begin()

    def _end_session(self, held: r.Holding) -> None:
        session = self.model.sessions.get(held.session_id)
        answer = self.bench(self.bench.ledger.end_session(held.session_id, held.owner))
        assert answer == (session is None or session.owner == held.owner)
        if session is not None and answer:
            self.check_numbers(session)
            del self.model.sessions[held.session_id]

    # --- utterances and requests ----------------------------------------------------------------

    def speak(self) -> None:
        """The next utterance, mostly: its requests are named by the scheduler, or one is not."""
        held = self.some_holding()
        session = self.model.sessions.get(held.session_id)
        index = session.next_index if session is not None else 0
        if self.chance(0.2):
            index = max(0, index + self.random.choice((-1, 1)))
        chunk = (session.next_chunk_seq if session is not None else 0) + self.random.randint(0, 3)
        targets = self.random.choice((("en",), ("fr",), TARGETS, TARGETS))
        if self.chance(0.15):
            self.speak_of_request(held, index, targets[0])
            return
        refused = [target for target in targets if self.chance(0.15)]
        opening = self.bench.utterance(
            held,
            index,
            *targets,
            refused=refused,
            next_chunk_seq=chunk,
            keep=KEEP,
            instance_id=held.owner.instance_id,
        )
        self.jobs += [(job, index) for job in opening.jobs]
        self.ask(partial(self._open_utterance, opening))

    def speak_of_request(self, held: r.Holding, index: int, target: str) -> None:
        """An utterance whose request the client named: two operations, in any order."""
        job = self.bench.new_job(f"{index}-{len(self.jobs)}", target)
        note = r.OpenUtterance(index, target, job.job_id)
        self.jobs.append((job, index))
        self.ask(partial(self._open_requests, self.bench.opening(job, keep=KEEP)))
        opening = self.bench.opening(held=held, index=index, elsewhere=(note,), keep=KEEP)
        self.ask(partial(self._open_utterance, opening))

    def _open_utterance(self, opening: r.UtteranceOpening) -> None:
        held = opening.held
        assert held is not None
        answer = self.bench(self.bench.ledger.open(opening))
        session = self.model.held(held)
        if session is None:
            there = self.model.sessions.get(held.session_id)
            assert answer == r.NotOwner(there.owner if there is not None else None)
            return
        known = [self.model.known(job) for job in opening.jobs]
        if opening.index != session.next_index:
            if opening.index < session.next_index and None not in known:
                assert isinstance(answer, r.Opened)
                assert answer.revision == session.revision
                self.check_found(answer.jobs, opening, known)
            else:
                assert answer == r.Behind(session.next_index, session.next_chunk_seq)
            return
        assert isinstance(answer, r.Opened)
        self.check_found(answer.jobs, opening, known)
        session.next_index += 1
        session.next_chunk_seq = max(session.next_chunk_seq, opening.next_chunk_seq)
        for job, found in zip(opening.jobs, known, strict=True):
            if found is None:
                self.model.make(job, opening)
            name = found.new.job_id if found is not None else job.job_id
            session.open[opening.index, job.target_key] = name
        for note in opening.elsewhere:
            session.open[note.index, note.target] = note.job_id
        for job, found, got in zip(opening.jobs, known, answer.jobs, strict=True):
            if found is None:
                entry = r.Delivery(opening.index, job.target_key, job.job_id)
                seq = self.model.deliver(session, entry) if job.refused is not None else None
                assert got == r.JobOpened(seq)
        self.model.touch(session)
        self.expect_revision(session, answer.revision)

    def request(self) -> None:
        targets = self.random.choice((("en",), TARGETS))
        name = self.random.choice(REQUESTS)
        jobs = [
            self.bench.new_job(
                name,
                target,
                body=b"one" if self.chance(0.9) else b"two",
                refused=REFUSED if self.chance(0.1) else None,
            )
            for target in targets
        ]
        self.jobs += [(job, 0) for job in jobs]
        opening = self.bench.opening(*jobs, keep=KEEP, instance_id=self.random.choice(INSTANCES))
        self.ask(partial(self._open_requests, opening))

    def _open_requests(self, opening: r.UtteranceOpening) -> None:
        answer = self.bench(self.bench.ledger.open(opening))
        assert isinstance(answer, r.Opened)
        known = [self.model.bound(job) for job in opening.jobs]
        self.check_found(answer.jobs, opening, known)
        for job, found in zip(opening.jobs, known, strict=True):
            if found is None:
                self.model.make(job, opening)

    def check_found(
        self,
        answers: tuple[r.JobOpened | r.JobFound, ...],
        opening: r.UtteranceOpening,
        known: list[Job | None],
    ) -> None:
        """A request is one job, as long as it is bound to it."""
        assert len(answers) == len(opening.jobs)
        for answer, job, found in zip(answers, opening.jobs, known, strict=True):
            if found is None:
                assert isinstance(answer, r.JobOpened)
                continue
            assert isinstance(answer, r.JobFound)
            assert answer.job.job_id == found.new.job_id
            assert answer.same_body == (found.new.body_hash == job.body_hash)
            self.check_end(answer.job, found)

    def expect_revision(self, session: Session, revision: int) -> None:
        record = self.bench(self.bench.ledger.read_session(session.session_id))
        assert record is not None
        assert record.revision == revision
        session.revision = revision

    # --- jobs -----------------------------------------------------------------------------------

    def some_ending(self, job: r.NewJob) -> Ending:
        if self.chance(0.6):
            return success(job.job_id, job.attempt_id, str(self.random.random()))
        if self.chance(0.5):
            return Ending(Outcome.CANCELLED, error=CANCELLED)
        return failure()

    def close(self) -> None:
        if not self.jobs:
            return
        new, index = self.some_job()
        job = self.model.jobs.get(new.job_id)
        attempt_id = new.attempt_id if job is None or self.chance(0.2) else job.attempt_id
        held = self.holder_of(new)
        closing = r.Closing(
            job_id=new.job_id,
            attempt_id=None if self.chance(0.2) else attempt_id,
            ending=self.some_ending(new),
            times=Times(),
            node_id=None,
            keep=KEEP,
            held=held,
            delivery=None if held is None else r.Delivery(index, new.target_key, new.job_id),
        )
        self.ask(partial(self._close, closing))

    def holder_of(self, new: r.NewJob) -> r.Holding | None:
        """The session that the job's request names, in the hands of one of its owners."""
        session_id = SessionId(new.spec.request_id.partition("/")[0])
        record = self.records.get(session_id)
        if record is None or self.chance(0.2):
            return None
        if self.chance(0.1):
            return next(held for held in self.holdings if held.session_id == session_id)
        return r.Holding(record.session_id, record.owner, record.revision)

    def _close(self, closing: r.Closing) -> None:
        answer = self.bench(self.bench.ledger.close(closing))
        job = self.model.jobs.get(closing.job_id)
        if not self.expect_current(answer, job, closing.attempt_id):
            return
        assert job is not None
        assert isinstance(answer, r.Closed)
        self.model.end(job, closing.ending)
        session = self.model.held(closing.held) if closing.held is not None else None
        if session is None:
            assert (answer.seq, answer.revision) == (None, 0)
            return
        assert closing.delivery is not None
        assert same_shard(session.session_id, closing.job_id)
        assert answer.seq == (self.model.deliver(session, closing.delivery) or None)
        self.model.touch(session)
        self.expect_revision(session, answer.revision)

    def expect_current(self, answer: object, job: Job | None, attempt_id: str | None) -> bool:
        """Whether the job is open and names the attempt; if not, the answer says what it is."""
        if job is None:
            assert answer == r.NoJob()
        elif job.end is not None:
            assert isinstance(answer, r.HasEnded)
            self.check_end(answer.job, job)
        elif attempt_id is not None and attempt_id != job.attempt_id:
            assert isinstance(answer, r.NotCurrent)
            assert answer.job.attempt_id == job.attempt_id
        else:
            return True
        return False

    def move(self) -> None:
        if not self.jobs:
            return
        new, _ = self.some_job()
        job = self.model.jobs.get(new.job_id)
        seen = new.attempt_id if job is None or self.chance(0.2) else job.attempt_id
        move = self.bench.moving(
            new,
            seen,
            instance_id=self.random.choice(INSTANCES),
            ended=msgspec.structs.replace(past(new), attempt_id=seen) if self.chance(0.7) else None,
        )
        self.ask(partial(self._move, move))

    def _move(self, move: r.Move) -> None:
        answer = self.bench(self.bench.ledger.move(move))
        job = self.model.jobs.get(move.job_id)
        moved = job is not None and job.attempt_id == move.attempt_id
        if not self.expect_current(answer, job, None if moved else move.seen):
            return
        assert job is not None
        assert isinstance(answer, r.MovedOn)
        if not moved:
            if move.ended is not None:
                job.past.append(move.ended.attempt_id)
            job.attempt_id, job.instance_id = move.attempt_id, move.instance_id
            job.claim_until = self.model.claim(move.claim_ms)

    def renew(self) -> None:
        if self.jobs:
            new, _ = self.some_job()
            self.ask(partial(self._renew, new.job_id, self.random.choice(INSTANCES)))

    def _renew(self, job_id: JobId, instance_id: InstanceId) -> None:
        lost = self.bench(self.bench.ledger.renew([job_id], instance_id, claim_ms=CLAIM_MS))
        job = self.model.jobs.get(job_id)
        if job is None or job.end is not None or job.instance_id != instance_id:
            assert lost == (job_id,)
            return
        assert lost == ()
        job.claim_until = max(job.claim_until, self.model.claim(CLAIM_MS))

    def take_over(self) -> None:
        """The sweep finds jobs that are due, or an instance thinks so."""
        if not self.jobs:
            return
        new, _ = self.some_job()
        shard = shard_in(new.job_id)
        assert shard is not None
        due = {job.job_id: job for job in self.bench(self.bench.ledger.due((shard,), 100))}
        assert set(due) == self.model.due(shard)
        job = due.get(new.job_id) or self.bench(self.bench.ledger.read(new.job_id))
        seen = job.attempt_id if job is not None else new.attempt_id
        self.ask(partial(self._take_over, new.job_id, seen, self.random.choice(INSTANCES)))

    def _take_over(self, job_id: JobId, seen: AttemptId, instance_id: InstanceId) -> None:
        answer = self.bench(
            self.bench.ledger.take_over(job_id, seen, instance_id, claim_ms=CLAIM_MS)
        )
        job = self.model.jobs.get(job_id)
        if not self.expect_current(answer, job, seen):
            return
        assert job is not None
        if job.claim_until > self.model.now and job.instance_id != instance_id:
            assert isinstance(answer, r.StillDriven)
            return
        assert isinstance(answer, r.TakenOver)
        assert answer.work.input == job.new.input
        if job.claim_until <= self.model.now:
            job.claim_until = self.model.claim(CLAIM_MS)
            job.instance_id = instance_id

    def release(self) -> None:
        if self.jobs:
            new, _ = self.some_job()
            self.ask(partial(self._release, new.job_id))

    def _release(self, job_id: JobId) -> None:
        self.bench(self.bench.ledger.release([job_id]))

    # --- deliveries -----------------------------------------------------------------------------

    def deliver(self) -> None:
        """The owner delivers what it thinks has its turn: ended jobs, mostly in their order."""
        held = self.some_holding()
        record = self.records.get(held.session_id)
        if record is None:
            return
        entries = [
            r.Delivery(each.index, each.target, each.job_id)
            for each in record.open
            if (job := self.model.jobs.get(each.job_id)) is not None and job.end is not None
        ]
        entries += [sent.delivery for sent in record.unacknowledged if self.chance(0.3)]
        if self.chance(0.2):
            self.random.shuffle(entries)
        if entries:
            self.ask(partial(self._deliver, held, entries[:3]))

    def _deliver(self, held: r.Holding, entries: list[r.Delivery]) -> None:
        answer = self.bench(self.bench.ledger.deliver(held, entries))
        session = self.model.held(held)
        if session is None:
            there = self.model.sessions.get(held.session_id)
            assert answer == r.NotOwner(there.owner if there is not None else None)
            return
        assert isinstance(answer, r.Delivered)
        assert answer.seqs == tuple(self.model.deliver(session, entry) for entry in entries)
        self.model.touch(session)
        self.expect_revision(session, answer.revision)

    def acknowledge(self) -> None:
        held = self.some_holding()
        record = self.records.get(held.session_id)
        if record is not None:
            upto = max(0, record.next_seq - self.random.randint(1, 4))
            self.ask(partial(self._acknowledge, held, upto))

    def _acknowledge(self, held: r.Holding, upto: int) -> None:
        answer = self.bench(self.bench.ledger.acknowledge(held, upto))
        session = self.model.held(held)
        if session is None:
            assert answer == 0
            return
        session.arrived |= {seq for seq in session.given.values() if seq <= upto}
        self.model.touch(session)
        self.expect_revision(session, answer)

    # --- time -----------------------------------------------------------------------------------

    def advance(self) -> None:
        strides = self.random.randint(1, 2)
        self.bench.advance(strides * STRIDE_SECONDS)
        self.model.now += strides * STRIDE_SECONDS
        self.model.forget()

    def wind_up(self) -> None:
        """Everything ends; then nothing is left."""
        ledger = self.bench.ledger
        for session in self.model.sessions.values():
            self.check_numbers(session)
        newest = self.bench(ledger.recent(TENANT, 1_000))
        assert {job.job_id for job in newest} == set(self.model.jobs)
        for job in self.model.jobs.values():
            closing = self.bench.closing(job.new, failure(), attempt_id=None, keep=KEEP)
            self.bench(ledger.close(closing))
        seconds = (KEEP.lease_ms + KEEP.retention_ms + SESSION_MS) / 1000
        self.bench.advance(seconds)
        left = {kind: count for kind, count in self.bench(ledger.size()).items() if count}
        assert left == {}
