"""How often nodes are heard, and how often a subject is followed up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.clock import ManualClock
from dragoman.ids import NodeId
from dragoman.live.fleet.unavailable_services import Debounce, NodeLimit

A, B = NodeId("a"), NodeId("b")


@given(st.lists(st.tuples(st.floats(0, 4), st.sampled_from((A, B))), max_size=60))
def test_no_stretch_of_the_window_holds_more_than_the_limit(
    calls: list[tuple[float, NodeId]],
) -> None:
    clock = ManualClock()
    limit = NodeLimit(10, 3, clock)
    passed: dict[NodeId, list[float]] = {A: [], B: []}
    for pause, node_id in calls:
        clock.advance(pause)
        now = clock.monotonic()
        recent = [at for at in passed[node_id] if at > now - 10]
        assert limit.allows(node_id) == (len(recent) < 3)
        if len(recent) < 3:
            passed[node_id].append(now)


def test_nodes_that_are_quiet_again_are_not_remembered() -> None:
    clock = ManualClock()
    limit = NodeLimit(10, 3, clock)
    for number in range(1_000):
        limit.allows(NodeId(f"n{number}"))
    assert len(limit) == 1_000
    clock.advance(10)
    limit.allows(A)
    assert len(limit) == 1


def test_a_subject_is_followed_up_once_in_the_window() -> None:
    clock = ManualClock()
    debounce: Debounce[str] = Debounce(5, clock)
    assert debounce.first("nmt")
    assert debounce.first("tts")
    clock.advance(4)
    assert not debounce.first("nmt")
    clock.advance(1)
    assert debounce.first("nmt"), "the calls in between did not prolong the pause"
    assert len(debounce) == 1, "what is over is forgotten"


def test_without_a_window_everything_is_a_first() -> None:
    debounce: Debounce[str] = Debounce(0, ManualClock())
    assert debounce.first("nmt")
    assert debounce.first("nmt")
