"""How several instances divide what all of them must look after."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId
from dragoman.live.dispatch import Share
from dragoman.live.dispatch.hosting import CancelledFirst
from dragoman.live.ledger import Owner
from dragoman.live.protocol import (
    Cut,
    JobAssign,
    JobCancel,
    JobClass,
    Mode,
    Pipeline,
    SchedulerToNode,
)

OWNER = Owner(InstanceId("i"), ConnectionId("c"), 1)
NODE = NodeId("n")


@given(st.integers(1, 12), st.lists(st.integers(0, 999), unique=True))
def test_every_number_is_exactly_one_instances(count: int, numbers: list[int]) -> None:
    shares = [Share(rank, count).of(numbers) for rank in range(count)]
    assert sorted(number for share in shares for number in share) == sorted(numbers)


def test_one_alone_has_everything() -> None:
    assert list(Share().of(range(5))) == [0, 1, 2, 3, 4]


class Nodes:
    """Remembers what was sent."""

    def __init__(self) -> None:
        self.sent: list[SchedulerToNode] = []

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        self.sent.append(message)
        return True

    def report(self, cells: Iterable[int]) -> None: ...


def assign(attempt: str) -> JobAssign:
    return JobAssign(
        job_id=JobId("j"),
        attempt_id=AttemptId(attempt),
        trace_id="t",
        job_class=JobClass.LIVE,
        src_lang="zh",
        tgt_lang="en",
        mode=Mode.ONE_WAY,
        pipeline=Pipeline(use_nmt=True),
        features=(),
        padding_ms=0,
        cut=Cut.NONE,
        deadline_ms=1,
    )


def test_a_node_is_not_given_what_it_was_told_to_cancel_before() -> None:
    nodes = Nodes()
    port = CancelledFirst(nodes)
    cancel = JobCancel(JobId("j"), AttemptId("a-1"), "JOB_CANCELLED")
    assert port.send(NODE, OWNER, cancel)
    assert not port.send(NODE, OWNER, assign("a-1"))
    assert port.send(NODE, OWNER, assign("a-2"))
    assert nodes.sent == [cancel, assign("a-2")]
