"""A few nodes and jobs on a ledger, in the words the tests use."""

from __future__ import annotations

from random import Random
from typing import Any

from dragoman.errors import DependencyDown
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
    Claim,
    Granted,
    JobInput,
    JobSpec,
    Ledger,
    Placed,
    Placement,
    Registered,
    Registration,
    Sender,
    SlotAsk,
)
from dragoman.live.protocol import JobClass, Pipeline, RunningJob

HERE = InstanceId("i-here")
TENANT = TenantId("acme")
LEASE_MS = 45_000
ALL = (1 << 100) - 1

_random = Random(11)


async def join(
    ledger: Ledger, name: str, slots: int, running: tuple[RunningJob, ...] = ()
) -> tuple[int, Sender]:
    """A node connects and takes its seat; answers its cell and how it signs."""
    node_id = NodeId(name)
    connection_id = ConnectionId(new_id(_random, "c"))
    registered = await ledger.register(Registration(node_id, HERE, connection_id))
    assert isinstance(registered, Registered)
    placement = Placement(node_id, registered.owner, slots, LEASE_MS, running)
    assert isinstance(await ledger.seat(registered.cell, placement), Placed)
    return registered.cell, Sender(node_id, registered.owner.epoch)


def ask(*cells: int, job_id: str = "j-1", attempt_id: AttemptId | None = None) -> SlotAsk:
    return SlotAsk(
        job_id=JobId(job_id),
        attempt_id=attempt_id or new_attempt_id(_random),
        cells=tuple((cell, ALL) for cell in cells or (0,)),
        job_class=JobClass.LIVE,
        ack_ms=5_000,
        lease_ms=LEASE_MS,
        run_ms=30_000,
    )


def claim(request_id: str = "", spec: JobSpec | None = None, **body: Any) -> Claim:
    spec = spec or JobSpec(
        TENANT, RequestId(request_id or new_id(_random, "r")), "zh", "en", Pipeline(use_nmt=True)
    )
    job_input = JobInput(**body) if body else JobInput(text="hello")
    return Claim(spec, job_input, b"\xff\x00", HERE, claim_ms=5_000, total_ms=60_000)


async def granted_or_none(ledger: Ledger, wanted: SlotAsk) -> Granted | None:
    """A slot; None when it was refused, or when that is unknown."""
    try:
        answer = await ledger.reserve(wanted)
    except DependencyDown:
        return None
    return answer if isinstance(answer, Granted) else None


async def held(ledger: Ledger, cell: int) -> dict[str, int]:
    record = await ledger.read_cell(cell)
    assert record is not None
    return {seat.node_id: seat.held for seat in record.seats}
