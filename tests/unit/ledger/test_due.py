"""A queue of due names: each due name is told once, however often its time moved."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.live.ledger.memory.due import DueQueue

NAMES = st.sampled_from("abc")
TIMES = st.integers(0, 20)


def test_a_name_whose_time_moved_back_and_forth_is_told_once() -> None:
    times = {"a": 10}
    queue = DueQueue[str](times.get)
    queue.watch("a", 10)
    queue.watch("a", 5)
    assert queue.due(5, limit=10) == [], "it is due at 10, whatever was planned meanwhile"
    assert queue.due(10, limit=10) == ["a"]
    assert queue.due(10, limit=10) == ["a"], "it stays due until it is moved or forgotten"


@settings(max_examples=500)
@given(st.lists(st.tuples(NAMES, TIMES, st.sampled_from(("watch", "move", "forget", "due")))))
def test_a_due_queue_tells_each_due_name_once(
    steps: list[tuple[str, int, str]],
) -> None:
    times: dict[str, int] = {}
    queue = DueQueue[str](times.get)
    for name, at, step in steps:
        match step:
            case "watch":
                times[name] = at
                queue.watch(name, at)
            case "move":
                # Only to a later time may a name move without a word to the queue.
                if name in times:
                    times[name] = max(times[name], at)
            case "forget":
                times.pop(name, None)
                queue.forget(name)
            case _:
                due = sorted(name for name, due_at in times.items() if due_at <= at)
                assert sorted(queue.due(at, limit=10)) == due
    assert len(queue) == len(times)
