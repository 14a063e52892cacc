"""How results come back, case by case."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.errors import BY_CODE
from dragoman.live.sessions.delivery import DROPPED, GAP_TIMEOUT, Delivery, Ready

GRACE = 10.0


def make_delivery(
    targets: Sequence[str] = ("en",),
    *,
    reorder_window: int = 200,
    keep_messages: int = 256,
    keep_bytes: int = 1_000_000,
    next_delivery_seq: int = 1,
    next_index: int = 0,
) -> Delivery[str]:
    return Delivery(
        targets,
        reorder_window=reorder_window,
        gap_grace_seconds=GRACE,
        keep_messages=keep_messages,
        keep_bytes=keep_bytes,
        next_delivery_seq=next_delivery_seq,
        next_index=next_index,
    )


def open_many(delivery: Delivery[str], count: int) -> None:
    for _ in range(count):
        delivery.open(delivery.next_index, 0.0)


def say(delivery: Delivery[str], index: int, target: str = "en", now: float = 0.0) -> list[int]:
    """Bring a result; the indexes that go out."""
    text = f"{target}{index}"
    return [ready.index for ready in delivery.result(index, target, text, len(text), now)]


def test_results_in_order_go_out_at_once() -> None:
    delivery = make_delivery()
    open_many(delivery, 2)
    assert delivery.result(0, "en", "hello", 5, 0.0) == [Ready(1, 0, "en", "hello")]
    assert delivery.result(1, "en", "world", 5, 0.0) == [Ready(2, 1, "en", "world")]
    assert delivery.in_flight == 0


def test_the_second_utterance_and_all_after_it_are_delivered_like_the_first() -> None:
    delivery = make_delivery()
    for index in range(100):
        delivery.open(index, 0.0)
        assert say(delivery, index) == [index]
        assert delivery.in_flight == 0


def test_a_result_ahead_of_its_turn_is_held_back() -> None:
    delivery = make_delivery()
    open_many(delivery, 3)
    assert say(delivery, 2) == []
    assert say(delivery, 1) == []
    assert delivery.in_flight == 3
    assert delivery.buffered_bytes == 6
    assert say(delivery, 0) == [0, 1, 2]


def test_a_failure_takes_its_turn_like_a_result() -> None:
    delivery = make_delivery()
    open_many(delivery, 2)
    assert delivery.missing(1, "en", "NO_CAPACITY", 0.0) == []
    assert delivery.result(0, "en", "hello", 5, 0.0) == [
        Ready(1, 0, "en", "hello"),
        Ready(2, 1, "en", None, "NO_CAPACITY"),
    ]


def test_several_targets_of_one_utterance_all_arrive() -> None:
    delivery = make_delivery(["en", "de", "fr"])
    open_many(delivery, 2)
    assert say(delivery, 0, "de") == [0]
    assert say(delivery, 1, "de") == [1]
    assert say(delivery, 0, "fr") == [0]
    assert delivery.in_flight == 2
    assert say(delivery, 0, "en") == [0]
    assert delivery.in_flight == 1
    sent = [(ready.delivery_seq, ready.payload) for ready in delivery.unacknowledged(0)]
    assert sent == [(1, "de0"), (2, "de1"), (3, "fr0"), (4, "en0")]


def test_an_utterance_may_have_targets_of_its_own() -> None:
    delivery = make_delivery(["en"])
    delivery.open(0, 0.0)
    delivery.open(1, 0.0, ["fr"])
    delivery.open(2, 0.0)
    assert say(delivery, 1, "fr") == [1]
    assert say(delivery, 2) == []
    assert not delivery.is_open(1, "en")
    assert say(delivery, 0) == [0, 2]


def test_two_way_sessions_have_one_order() -> None:
    delivery = make_delivery(["*"])
    open_many(delivery, 2)
    assert say(delivery, 1, "*") == []
    assert say(delivery, 0, "*") == [0, 1]


@pytest.mark.parametrize("text", ["你好，世界", "é" * 1000, "🗣️", "a\u0301", "\x00"])
def test_text_of_any_language_survives(text: str) -> None:
    delivery = make_delivery()
    open_many(delivery, 1)
    size_bytes = len(text.encode())
    assert delivery.result(0, "en", text, size_bytes, 0.0)[0].payload == text
    assert delivery.unacknowledged(0)[0].payload == text


def test_a_second_result_is_dropped_and_counted() -> None:
    delivery = make_delivery()
    open_many(delivery, 2)
    say(delivery, 1)
    assert say(delivery, 1) == []
    say(delivery, 0)
    assert say(delivery, 0) == []
    assert delivery.missing(1, "en", "JOB_TIMEOUT", 0.0) == []
    assert delivery.dropped == {"duplicate": 3}


def test_a_result_after_the_announcement_is_late() -> None:
    delivery = make_delivery()
    open_many(delivery, 2)
    delivery.missing(1, "en", "JOB_TIMEOUT", 0.0)
    assert say(delivery, 1) == []
    delivery.missing(0, "en", "JOB_TIMEOUT", 0.0)
    assert say(delivery, 0) == []
    assert delivery.dropped == {"late": 2}


def test_an_utterance_is_opened_next_after_next() -> None:
    delivery = make_delivery(next_index=5)
    with pytest.raises(ValueError, match="utterance 6 cannot be opened: 5 is next"):
        delivery.open(6, 0.0)


def test_an_abandoned_utterance_is_announced_when_it_blocked_long_enough() -> None:
    delivery = make_delivery()
    open_many(delivery, 2)
    delivery.abandoned(0, "en", 1.0)
    assert delivery.due(1000.0) == []
    say(delivery, 1, now=5.0)
    assert delivery.deadline == 15.0
    assert delivery.due(14.9) == []
    assert delivery.due(15.0) == [Ready(1, 0, "en", None, GAP_TIMEOUT), Ready(2, 1, "en", "en1")]
    assert delivery.due(1000.0) == []
    assert say(delivery, 0) == []
    assert delivery.dropped == {"late": 1}


def test_an_utterance_that_blocked_before_its_job_was_lost_gets_the_whole_grace() -> None:
    delivery = make_delivery()
    open_many(delivery, 2)
    say(delivery, 1, now=1.0)
    assert delivery.due(60.0) == []
    delivery.abandoned(0, "en", 60.0)
    delivery.abandoned(0, "en", 65.0)
    assert delivery.deadline == 70.0


def test_an_utterance_with_a_job_is_waited_for() -> None:
    delivery = make_delivery()
    open_many(delivery, 2)
    say(delivery, 1)
    delivery.abandoned(0, "en", 0.0)
    delivery.taken_up(0, "en")
    assert delivery.deadline is None
    assert delivery.due(1000.0) == []
    assert say(delivery, 0) == [0, 1]


def test_abandoned_utterances_in_a_row_do_not_add_up_their_graces() -> None:
    delivery = make_delivery()
    open_many(delivery, 4)
    for index in range(3):
        delivery.abandoned(index, "en", 0.0)
    say(delivery, 3, now=0.0)
    assert [ready.reason for ready in delivery.due(10.0)] == [*[GAP_TIMEOUT] * 3, None]


def test_a_gap_of_one_target_does_not_hold_up_another() -> None:
    delivery = make_delivery(["en", "de"])
    open_many(delivery, 2)
    delivery.abandoned(0, "en", 0.0)
    say(delivery, 1, "en")
    assert say(delivery, 0, "de") == [0]
    assert say(delivery, 1, "de") == [1]
    assert [ready.target for ready in delivery.due(10.0)] == ["en", "en"]
    assert delivery.in_flight == 0


def test_word_of_an_utterance_that_has_ended_changes_nothing() -> None:
    delivery = make_delivery()
    open_many(delivery, 1)
    say(delivery, 0)
    delivery.abandoned(0, "en", 0.0)
    delivery.taken_up(0, "en")
    assert delivery.deadline is None


def test_past_the_reorder_window_the_gap_is_announced_at_once() -> None:
    delivery = make_delivery(reorder_window=2)
    open_many(delivery, 6)
    assert say(delivery, 1) == say(delivery, 3) == []
    assert delivery.result(5, "en", "en5", 3, 0.0) == [
        Ready(1, 0, "en", None, GAP_TIMEOUT),
        Ready(2, 1, "en", "en1"),
    ]
    assert say(delivery, 0) == []
    assert delivery.dropped == {"late": 1}
    assert say(delivery, 2) == [2, 3]


def test_what_is_acknowledged_is_let_go() -> None:
    delivery = make_delivery()
    open_many(delivery, 3)
    for index in range(3):
        say(delivery, index)
    assert delivery.buffered_bytes == 9
    released = [(ready.index, ready.target, ready.payload) for ready in delivery.acknowledge(2)]
    assert released == [(0, "en", "en0"), (1, "en", "en1")]
    assert delivery.buffered_bytes == 3
    assert delivery.acknowledge(2) == delivery.acknowledge(0) == []
    assert [ready.delivery_seq for ready in delivery.unacknowledged(0)] == [3]
    assert len(delivery.acknowledge(10**9)) == 1


def test_a_resume_gets_the_same_numbers_again() -> None:
    delivery = make_delivery()
    open_many(delivery, 3)
    sent = [ready for index in range(3) for ready in delivery.result(index, "en", "x", 1, 0.0)]
    assert delivery.unacknowledged(0) == sent
    assert delivery.unacknowledged(1) == sent[1:]
    assert delivery.unacknowledged(3) == []


@pytest.mark.parametrize(("keep_messages", "keep_bytes"), [(2, 1000), (256, 6)])
def test_the_oldest_are_dropped_and_explained_at_a_resume(
    keep_messages: int, keep_bytes: int
) -> None:
    delivery = make_delivery(keep_messages=keep_messages, keep_bytes=keep_bytes)
    open_many(delivery, 4)
    say(delivery, 0)
    delivery.missing(1, "en", "JOB_TIMEOUT", 0.0)
    say(delivery, 2)
    say(delivery, 3)
    reasons = [(ready.delivery_seq, ready.reason) for ready in delivery.unacknowledged(0)]
    assert reasons == [(1, DROPPED), (2, "JOB_TIMEOUT"), (3, None), (4, None)]
    assert delivery.buffered_bytes <= keep_bytes
    assert [ready.payload for ready in delivery.acknowledge(4)] == [None, None, "en2", "en3"]


def test_the_reason_for_a_dropped_result_is_an_error_code() -> None:
    assert DROPPED in BY_CODE


def test_a_client_that_never_acknowledges_costs_a_bounded_amount() -> None:
    delivery = make_delivery(keep_messages=4)
    for index in range(1000):
        delivery.open(index, 0.0)
        say(delivery, index)
    again = delivery.unacknowledged(0)
    assert len(again) == 4 + 4 * 16
    assert [ready.payload for ready in again[-4:]] == ["en996", "en997", "en998", "en999"]


def test_a_session_goes_on_where_another_owner_left_it() -> None:
    delivery = make_delivery(["en", "de"], next_delivery_seq=8, next_index=3)
    delivery.restore(Ready(7, 3, "en", "en3"), 3)
    delivery.open(3, 0.0, ["de"])
    delivery.open(4, 0.0, [])
    delivery.open(5, 0.0)
    assert delivery.in_flight == 2
    assert say(delivery, 5, "en") == [5]
    assert say(delivery, 3, "en") == []
    assert say(delivery, 3, "de") == [3]
    assert [ready.delivery_seq for ready in delivery.unacknowledged(6)] == [7, 8, 9]
