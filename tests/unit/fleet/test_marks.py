"""Marks last equally long, are made anew, and end by themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.clock import ManualClock
from dragoman.ids import NodeId
from dragoman.live.fleet.unavailable_services import MARKS_PER_NODE, Marks

A, B = NodeId("a"), NodeId("b")


def names(marks: Marks, node_id: NodeId) -> set[str]:
    return {mark.service_id for mark in marks.of(node_id)}


def test_a_mark_holds_for_its_time_and_no_longer() -> None:
    clock = ManualClock()
    marks = Marks(60, clock)
    marks.add(A, "nmt", "not loaded")
    (mark,) = marks.of(A)
    assert (mark.service_id, mark.reason) == ("nmt", "not loaded")
    assert mark.expires_at_ms == clock.now_ms() + 60_000
    clock.advance(59)
    assert marks.expire() == set()
    clock.advance(1)
    assert marks.expire() == {A}
    assert marks.of(A) == ()
    assert len(marks) == 0


def test_a_second_report_makes_the_mark_last_anew() -> None:
    clock = ManualClock()
    marks = Marks(60, clock)
    marks.add(A, "nmt", "not loaded")
    marks.add(A, "tts", "not loaded")
    clock.advance(30)
    marks.add(A, "nmt", "crashed")
    clock.advance(30)
    assert marks.expire() == {A}
    assert names(marks, A) == {"nmt"}
    assert marks.of(A)[0].reason == "crashed"
    clock.advance(30)
    marks.expire()
    assert marks.of(A) == ()


def test_a_node_that_invents_names_keeps_its_latest_marks_only() -> None:
    marks = Marks(60, ManualClock())
    marks.add(B, "nmt", "gone")
    for number in range(MARKS_PER_NODE + 50):
        marks.add(A, f"s{number}", "gone")
    assert len(marks) == MARKS_PER_NODE + 1
    assert names(marks, A) == {f"s{number}" for number in range(50, MARKS_PER_NODE + 50)}
    assert names(marks, B) == {"nmt"}


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.sampled_from((A, B)), st.sampled_from(("asr", "nmt", "tts"))),
        max_size=40,
    )
)
def test_a_service_is_marked_exactly_while_a_report_is_young_enough(
    reports: list[tuple[float, NodeId, str]],
) -> None:
    clock = ManualClock()
    marks = Marks(10, clock)
    last: dict[tuple[NodeId, str], float] = {}
    for pause, node_id, service_id in reports:
        clock.advance(pause)
        marks.expire()
        marks.add(node_id, service_id, "gone")
        last[node_id, service_id] = clock.monotonic()
        marked = {(node, mark.service_id) for node in (A, B) for mark in marks.of(node)}
        assert marked == {key for key, at in last.items() if at + 10 > clock.monotonic()}
    clock.advance(10)
    marks.expire()
    assert len(marks) == 0
    assert marks.next_end is None
