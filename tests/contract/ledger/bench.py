"""A ledger on the bench: plain calls, time at will, and short words for what tests do most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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
    TenantId,
    new_attempt_id,
    new_id,
)
from dragoman.live.ledger import (
    AttemptRecord,
    Beat,
    Bound,
    Claim,
    Claimed,
    Ending,
    Finished,
    Granted,
    Heartbeat,
    JobInput,
    JobRecord,
    JobSpec,
    Keep,
    LateFinish,
    Ledger,
    Owner,
    Placed,
    Placement,
    Registered,
    Registration,
    SeatRecord,
    Sender,
    SlotAsk,
    Stale,
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
)

T = TypeVar("T")

ACK_MS = 5_000
LEASE_MS = 45_000
RUN_MS = 30_000
GRACE_MS = 5_000
CLAIM_MS = 5_000
TOTAL_MS = 60_000
DUE_MS = 1_000
KEEP = Keep(lease_ms=90_000, retention_ms=600_000)
HERE = InstanceId("i-here")
THERE = InstanceId("i-there")
TENANT = TenantId("acme")

CANCELLED = ErrorInfo(code="JOB_CANCELLED", message="Nobody wants it any more.")
FAILED = ErrorInfo(code="INTERNAL_ERROR", message="The model fell over.")


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

    @property
    def candidate(self) -> tuple[int, int]:
        return self.cell, 1 << self.index


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
        ledger: Ledger,
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

    # --- nodes -----------------------------------------------------------------------------------

    def registration(self, name: str, **more: Any) -> Registration:
        """A fresh connection of the node."""
        connection = ConnectionId(new_id(self.random, "c"))
        return Registration(NodeId(name), HERE, connection, **more)

    def join(self, name: str, slots: int = 1, running: tuple[RunningJob, ...] = ()) -> Node:
        """The node connects, or connects again, and takes its seat."""
        seen = self._epochs.get(name, 0)
        registered = self(self.ledger.register(self.registration(name, at_least_epoch=seen)))
        assert isinstance(registered, Registered)
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

    # --- jobs ------------------------------------------------------------------------------------

    def claim(self, request: str = "", *, body: bytes = b"body", **more: Any) -> Claim:
        """What a request asks; class batch waits without a total time."""
        job_class = more.pop("job_class", JobClass.LIVE)
        spec = JobSpec(
            tenant=more.pop("tenant", TENANT),
            request_id=RequestId(request or new_id(self.random, "r")),
            src_lang="zh",
            tgt_lang=more.pop("tgt_lang", "en"),
            pipeline=Pipeline(use_nmt=True),
            job_class=job_class,
        )
        total_ms = TOTAL_MS if job_class is JobClass.LIVE else None
        return Claim(
            spec=spec,
            input=JobInput(text="hello"),
            body_hash=body,
            instance_id=more.pop("instance_id", HERE),
            claim_ms=CLAIM_MS,
            total_ms=more.pop("total_ms", total_ms),
        )

    def new_job(self, request: str = "", **more: Any) -> JobId:
        claimed = self(self.ledger.claim(self.claim(request, **more)))
        assert isinstance(claimed, Claimed)
        return claimed.job_id

    def job(self, job_id: JobId) -> JobRecord:
        record = self(self.ledger.read(job_id))
        assert record is not None
        return record

    def end(
        self, job_id: JobId, attempt_id: AttemptId | None, ending: Ending, keep: Keep = KEEP
    ) -> object:
        return self(self.ledger.end(job_id, attempt_id, ending, times=Times(), keep=keep))

    def retry(self, attempt: Attempt, error: ErrorInfo = FAILED, **more: Any) -> object:
        return self(
            self.ledger.retry(
                attempt.job_id,
                attempt.attempt_id,
                error,
                times=Times(),
                instance_id=more.pop("instance_id", HERE),
                claim_ms=CLAIM_MS,
                **more,
            )
        )

    # --- attempts --------------------------------------------------------------------------------

    def ask(self, job_id: JobId, *nodes: Node, **more: Any) -> SlotAsk:
        """A slot on one of the nodes, for a new attempt."""
        masks: dict[int, int] = {}
        for node in nodes:
            masks[node.cell] = masks.get(node.cell, 0) | 1 << node.index
        return SlotAsk(
            job_id=job_id,
            attempt_id=more.pop("attempt_id", None) or new_attempt_id(self.random),
            cells=more.pop("cells", tuple(masks.items())),
            job_class=more.pop("job_class", JobClass.LIVE),
            ack_ms=ACK_MS,
            lease_ms=LEASE_MS,
            run_ms=RUN_MS,
            strategy=more.pop("strategy", Strategy.RANDOM),
            grace_ms=GRACE_MS,
            **more,
        )

    def reserve(self, ask: SlotAsk) -> Attempt:
        granted = self(self.ledger.reserve(ask))
        assert isinstance(granted, Granted)
        return as_attempt(ask, granted)

    def bind(self, attempt: Attempt, total_ms: int | None = None) -> object:
        return self(
            self.ledger.bind(
                attempt.job_id,
                attempt.attempt_id,
                attempt.cell,
                attempt.node_id,
                total_ms=total_ms,
            )
        )

    def dispatch(self, *nodes: Node, job_id: JobId | None = None, **more: Any) -> Attempt:
        """A job, a slot for it and the bond between them."""
        batch = more.get("job_class") is JobClass.BATCH
        job_class = JobClass.BATCH if batch else JobClass.LIVE
        job_id = job_id or self.new_job(job_class=job_class)
        attempt = self.reserve(self.ask(job_id, *nodes, **more))
        assert isinstance(self.bind(attempt, TOTAL_MS if batch else None), Bound)
        return attempt

    def ack(
        self, attempt: Attempt, to: AttemptState = AttemptState.ACCEPTED, *, number: int = 0
    ) -> object:
        return self(
            self.ledger.transition(
                attempt.cell, attempt.attempt_id, attempt.sender, to, number=number
            )
        )

    def finish(
        self, attempt: Attempt, ending: Ending | None = None, sender: Sender | None = None
    ) -> Finished | LateFinish | Stale:
        answer = self(
            self.ledger.finish(
                attempt.cell,
                attempt.attempt_id,
                sender or attempt.sender,
                ending or success(attempt),
                due_ms=DUE_MS,
            )
        )
        assert isinstance(answer, Finished | LateFinish | Stale)
        return answer

    def cancel(self, attempt: Attempt, error: ErrorInfo = CANCELLED) -> object:
        return self(self.ledger.cancel(attempt.cell, attempt.attempt_id, error, grace_ms=GRACE_MS))

    def read(self, attempt: Attempt) -> AttemptRecord | None:
        return self(self.ledger.read_attempt(attempt.cell, attempt.attempt_id))

    def state(self, attempt: Attempt) -> AttemptState | None:
        record = self.read(attempt)
        return record.state if record else None


def as_attempt(ask: SlotAsk, granted: Granted) -> Attempt:
    sender = Sender(granted.node_id, granted.owner.epoch)
    return Attempt(ask.job_id, ask.attempt_id, granted.cell, granted.node_id, sender)


def success(attempt: Attempt, text: str = "hola") -> Ending:
    output = JobResult(attempt.job_id, attempt.attempt_id, True, text_translated=text)
    return Ending(Outcome.SUCCESS, output=output)


def failure(error: ErrorInfo = FAILED) -> Ending:
    return Ending(Outcome.FAILED, error=error)
