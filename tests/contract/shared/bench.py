"""A shared ledger on the bench: plain calls, time at will, and short words for common asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from dragoman.ids import (
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    NodeId,
    RequestId,
    SessionId,
    TenantId,
    new_attempt_id,
    new_id,
    new_job_id_for,
)
from dragoman.live.ledger import (
    Beat,
    Ending,
    Heartbeat,
    JobInput,
    JobSpec,
    Keep,
    NodeRegistered,
    Owner,
    PastAttempt,
    Placed,
    Placement,
    Registration,
    SeatRecord,
    Sender,
    Strategy,
    Times,
)
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobClass,
    JobResult,
    Outcome,
    Pipeline,
    RunningJob,
    SessionInit,
)
from dragoman.live.shared import SharedLedger
from dragoman.live.shared import records as r

T = TypeVar("T")

ACK_MS = 5_000
LEASE_MS = 45_000
RUN_MS = 30_000
GRACE_MS = 5_000
CLAIM_MS = 5_000
TOTAL_MS = 60_000
DUE_MS = 10_000
TOMBSTONE_MS = 20_000
SESSION_MS = 300_000
KEEP_DELIVERED = 4
KEEP = Keep(lease_ms=90_000, retention_ms=600_000)
HERE = InstanceId("i-here")
THERE = InstanceId("i-there")
TENANT = TenantId("acme")

CANCELLED = ErrorInfo(code="JOB_CANCELLED", message="The caller cancelled the job.")
FAILED = ErrorInfo(code="INTERNAL_ERROR", message="The model fell over.")
REFUSED = ErrorInfo(code="NO_CAPABLE_NODE", message="No node speaks the language.")


@dataclass(frozen=True)
class Node:
    """A node that has taken its seat."""

    node_id: NodeId
    cell: int
    index: int
    owner: Owner
    placed: Placed

    @property
    def sender(self) -> Sender:
        return Sender(self.node_id, self.owner.epoch)


@dataclass(frozen=True)
class Attempt:
    """An attempt that holds a slot."""

    job_id: JobId
    attempt_id: AttemptId
    cell: int
    node_id: NodeId
    sender: Sender

    @property
    def running(self) -> RunningJob:
        return RunningJob(self.job_id, self.attempt_id)


class Bench:
    """One ledger of one backend. What it is asked, it answers before the next line."""

    def __init__(
        self,
        runner: asyncio.Runner,
        ledger: SharedLedger,
        advance: Callable[[float], None],
        random: Random,
    ) -> None:
        self._runner = runner
        self.ledger = ledger
        self.advance = advance
        """Move the ledger's time on by some seconds."""
        self.random = random
        self._epochs: dict[str, int] = {}

    def __call__(self, asked: Coroutine[Any, Any, T]) -> T:
        """The ledger's answer."""
        return self._runner.run(asked)

    def together(self, *asked: Coroutine[Any, Any, T]) -> list[T]:
        """The answers to things asked at the same time."""

        async def gather() -> list[T]:
            return list(await asyncio.gather(*asked))

        return self._runner.run(gather())

    # --- sessions -------------------------------------------------------------------------------

    def new_session(self, *targets: str, instance_id: InstanceId = HERE) -> r.StoredSession:
        """A session that is not stored yet."""
        return r.StoredSession(
            session_id=SessionId(new_id(self.random, "s")),
            tenant=TENANT,
            secret_hash="secret",
            init=SessionInit(src_lang="zh", tgt_langs=targets or ("en",)),
            owner=r.SessionOwner(instance_id, self.connection_id(), 1),
        )

    def begin(self, *targets: str) -> r.Holding:
        """A session that is stored, in its owner's hands."""
        session = self.new_session(*targets)
        self(self.ledger.begin_session(session))
        return r.Holding(session.session_id, session.owner, session.revision)

    def session(self, held: r.Holding) -> r.StoredSession:
        session = self(self.ledger.read_session(held.session_id))
        assert session is not None
        return session

    def take(
        self, held: r.Holding, instance_id: InstanceId = THERE, epoch: int | None = None
    ) -> r.Holding:
        taken = self(
            self.ledger.take_session(
                held.session_id, instance_id, self.connection_id(), epoch=epoch
            )
        )
        assert isinstance(taken, r.TakenSession)
        return r.Holding(held.session_id, taken.session.owner, taken.session.revision)

    def deliver(self, held: r.Holding, *entries: r.Delivery) -> tuple[int | None, ...]:
        answer = self(self.ledger.deliver(held, entries))
        assert isinstance(answer, r.Delivered)
        return answer.seqs

    def connection_id(self) -> ConnectionId:
        return ConnectionId(new_id(self.random, "c"))

    # --- jobs -----------------------------------------------------------------------------------

    def new_job(
        self, request_id: str = "", target: str = "en", *, body: bytes = b"body", **more: Any
    ) -> r.NewJob:
        """A job that is to be opened; class batch waits without a total time."""
        request = RequestId(request_id or new_id(self.random, "r"))
        job_class = more.pop("job_class", JobClass.LIVE)
        spec = JobSpec(
            tenant=more.pop("tenant", TENANT),
            request_id=request,
            src_lang="zh",
            tgt_lang=target,
            pipeline=Pipeline(use_nmt=True),
            job_class=job_class,
        )
        return r.NewJob(
            job_id=new_job_id_for(self.random, spec.tenant, request, target),
            spec=spec,
            input=JobInput(text="hello"),
            body_hash=body,
            target_key=target,
            attempt_id=new_attempt_id(self.random),
            cell=more.pop("cell", 0),
            total_ms=more.pop("total_ms", TOTAL_MS if job_class is JobClass.LIVE else None),
            refused=more.pop("refused", None),
        )

    def opening(self, *jobs: r.NewJob, **more: Any) -> r.UtteranceOpening:
        return r.UtteranceOpening(
            jobs=jobs,
            instance_id=more.pop("instance_id", HERE),
            claim_ms=CLAIM_MS,
            keep=more.pop("keep", KEEP),
            **more,
        )

    def utterance(
        self, held: r.Holding, index: int, *targets: str, refused: Sequence[str] = (), **more: Any
    ) -> r.UtteranceOpening:
        """The jobs of one utterance of the session."""
        jobs = [
            self.new_job(
                f"{held.session_id}/{index}",
                target,
                refused=REFUSED if target in refused else None,
            )
            for target in targets or ("en",)
        ]
        return self.opening(*jobs, held=held, index=index, **more)

    def open(self, opening: r.UtteranceOpening) -> r.Opened:
        answer = self(self.ledger.open(opening))
        assert isinstance(answer, r.Opened)
        return answer

    def open_job(self, *args: Any, **more: Any) -> r.NewJob:
        """One job of a request."""
        job = self.new_job(*args, **more)
        assert self.open(self.opening(job)).jobs == (r.JobOpened(),)
        return job

    def closing(
        self,
        job: r.NewJob,
        ending: Ending | None = None,
        *,
        held: r.Holding | None = None,
        index: int = 0,
        **more: Any,
    ) -> r.Closing:
        delivery = None if held is None else r.Delivery(index, job.target_key, job.job_id)
        return r.Closing(
            job_id=job.job_id,
            attempt_id=more.pop("attempt_id", job.attempt_id),
            ending=ending or success(job.job_id, job.attempt_id),
            times=Times(1, 2, 3, 4),
            node_id=NodeId("n-1"),
            keep=more.pop("keep", KEEP),
            held=held,
            delivery=more.pop("delivery", delivery),
        )

    def close(self, job: r.NewJob, ending: Ending | None = None, **more: Any) -> r.Closed:
        answer = self(self.ledger.close(self.closing(job, ending, **more)))
        assert isinstance(answer, r.Closed)
        return answer

    def moving(self, job: r.NewJob, seen: AttemptId | None = None, **more: Any) -> r.Move:
        return r.Move(
            job_id=job.job_id,
            seen=seen or job.attempt_id,
            attempt_id=new_attempt_id(self.random),
            cell=more.pop("cell", 1),
            instance_id=more.pop("instance_id", HERE),
            claim_ms=CLAIM_MS,
            **more,
        )

    def take_over(
        self, job: r.NewJob, instance_id: InstanceId = THERE, seen: AttemptId | None = None
    ) -> object:
        return self(
            self.ledger.take_over(
                job.job_id, seen or job.attempt_id, instance_id, claim_ms=CLAIM_MS
            )
        )

    def job(self, job_id: JobId) -> r.StoredJob:
        job = self(self.ledger.read(job_id))
        assert job is not None
        return job

    # --- nodes ----------------------------------------------------------------------------------

    def join(self, name: str, slots: int = 1, running: tuple[RunningJob, ...] = ()) -> Node:
        """The node connects, or connects again, and takes its seat."""
        registration = Registration(
            NodeId(name), HERE, self.connection_id(), at_least_epoch=self._epochs.get(name, 0)
        )
        registered = self(self.ledger.register(registration))
        assert isinstance(registered, NodeRegistered)
        self._epochs[name] = registered.owner.epoch
        placement = Placement(NodeId(name), registered.owner, slots, LEASE_MS, running)
        placed = self(self.ledger.seat(registered.cell, placement))
        assert isinstance(placed, Placed)
        return Node(NodeId(name), registered.cell, placed.index, registered.owner, placed)

    def beat(self, node: Node, *running: RunningJob, number: int = 0) -> Beat:
        answer = self.try_beat(node, *running, number=number)
        assert isinstance(answer, Beat)
        return answer

    def try_beat(self, node: Node, *running: RunningJob, number: int = 0) -> object:
        heartbeat = Heartbeat(node.node_id, node.owner.epoch, LEASE_MS, running, number)
        return self(self.ledger.beat(node.cell, heartbeat))

    def seat(self, node: Node) -> SeatRecord:
        cell = self(self.ledger.read_cell(node.cell))
        assert cell is not None
        return next(seat for seat in cell.seats if seat.node_id == node.node_id)

    def held(self, node: Node) -> int:
        return self.seat(node).held

    # --- attempts -------------------------------------------------------------------------------

    def ask(self, *nodes: Node, **more: Any) -> r.SlotAsk:
        """A slot on one of the nodes, which are of one cell, for a new attempt."""
        attempt_id = more.pop("attempt_id", None) or new_attempt_id(self.random)
        return r.SlotAsk(
            cell=more.pop("cell", nodes[0].cell if nodes else 0),
            candidates=more.pop("candidates", sum(1 << node.index for node in nodes)),
            attempt_id=attempt_id,
            job_id=more.pop("job_id", None) or JobId(f"job-of-{attempt_id}"),
            job_class=more.pop("job_class", JobClass.LIVE),
            instance_id=more.pop("instance_id", HERE),
            strategy=more.pop("strategy", Strategy.RANDOM),
            headroom=more.pop("headroom", 0.0),
            ack_ms=ACK_MS,
            lease_ms=LEASE_MS,
            run_ms=RUN_MS,
            max_preemptions=more.pop("max_preemptions", 2),
            grace_ms=GRACE_MS,
            **more,
        )

    def try_reserve(self, *nodes: Node, **more: Any) -> object:
        return self(self.ledger.reserve(self.ask(*nodes, **more)))

    def dispatch(self, *nodes: Node, **more: Any) -> Attempt:
        ask = self.ask(*nodes, **more)
        granted = self(self.ledger.reserve(ask))
        assert isinstance(granted, r.Granted)
        return as_attempt(ask, granted)

    def accept(
        self, attempt: Attempt, to: AttemptState = AttemptState.ACCEPTED, number: int = 0
    ) -> tuple[AttemptId, ...]:
        step = r.AttemptStep(
            attempt.attempt_id, attempt.sender.node_id, attempt.sender.epoch, to, number
        )
        return self(self.ledger.step(attempt.cell, (step,)))

    def finish(
        self,
        attempt: Attempt,
        *,
        keep: bool = False,
        due_ms: int = DUE_MS,
        sender: Sender | None = None,
        outcome: Outcome = Outcome.SUCCESS,
    ) -> object:
        result = success(attempt.job_id, attempt.attempt_id).output if keep else None
        finish = r.Finish(outcome, result, None, due_ms)
        return self(
            self.ledger.finish(attempt.cell, attempt.attempt_id, sender or attempt.sender, finish)
        )

    def cancel(self, attempt: Attempt, error: ErrorInfo = CANCELLED) -> object:
        return self(self.ledger.cancel(attempt.cell, attempt.attempt_id, error, grace_ms=GRACE_MS))

    def drop(self, attempt: Attempt | r.SlotAsk) -> object:
        return self(self.ledger.drop(attempt.cell, attempt.attempt_id, tombstone_ms=TOMBSTONE_MS))

    def look(self, attempt: Attempt | r.SlotAsk) -> r.StoredAttempt | r.Tombstone:
        return self(self.ledger.look(attempt.cell, attempt.attempt_id, tombstone_ms=TOMBSTONE_MS))


def as_attempt(ask: r.SlotAsk, granted: r.Granted) -> Attempt:
    sender = Sender(granted.node_id, granted.owner.epoch)
    return Attempt(ask.job_id, ask.attempt_id, granted.cell, granted.node_id, sender)


def success(job_id: JobId, attempt_id: AttemptId, text: str = "hola") -> Ending:
    output = JobResult(job_id, attempt_id, True, text_translated=text)
    return Ending(Outcome.SUCCESS, output=output)


def failure(error: ErrorInfo = FAILED) -> Ending:
    return Ending(Outcome.FAILED, error=error)


def past(job: r.NewJob, **more: Any) -> PastAttempt:
    return PastAttempt(
        job.attempt_id, job.cell, NodeId("n-1"), outcome=Outcome.FAILED, error=FAILED, **more
    )
