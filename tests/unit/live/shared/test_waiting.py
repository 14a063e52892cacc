"""Which of the waiting instances a free slot wakes."""

from __future__ import annotations

from dragoman.ids import AttemptId, InstanceId, JobId
from dragoman.live.ledger import Strategy
from dragoman.live.protocol import JobClass
from dragoman.live.shared import WAITING_MS
from dragoman.live.shared.memory.waiting import Waiting
from dragoman.live.shared.records import SlotAsk


def ask(
    instance: str,
    candidates: int = 0b1,
    job_class: JobClass = JobClass.LIVE,
    waits_for: str = "zh-en",
) -> SlotAsk:
    return SlotAsk(
        cell=0,
        candidates=candidates,
        attempt_id=AttemptId("a-1"),
        job_id=JobId("j-1"),
        job_class=job_class,
        instance_id=InstanceId(instance),
        strategy=Strategy.RANDOM,
        headroom=0.0,
        ack_ms=1,
        lease_ms=1,
        run_ms=1,
        waits_for=waits_for,
    )


def test_the_one_that_waits_longest_is_woken_once() -> None:
    waiting = Waiting()
    waiting.note(ask("i-1"), 0)
    waiting.note(ask("i-2"), 1)
    assert [waiting.wake(0, 2) for _ in range(3)] == ["i-1", "i-2", None]


def test_asking_again_keeps_the_place_and_brings_the_newest_candidates() -> None:
    waiting = Waiting()
    waiting.note(ask("i-1", 0b01), 0)
    waiting.note(ask("i-2", 0b10), 1)
    waiting.note(ask("i-1", 0b10), 2)
    assert waiting.wake(0, 3) is None
    assert waiting.wake(1, 3) == "i-1"


def test_one_that_was_woken_waits_behind_the_others_when_it_asks_again() -> None:
    waiting = Waiting()
    waiting.note(ask("i-1"), 0)
    waiting.note(ask("i-2"), 1)
    assert waiting.wake(0, 2) == "i-1"
    waiting.note(ask("i-1"), 3)
    assert [waiting.wake(0, 4), waiting.wake(0, 4)] == ["i-2", "i-1"]


def test_live_work_comes_before_batch_work_of_the_same_instance() -> None:
    waiting = Waiting()
    waiting.note(ask("i-1", job_class=JobClass.BATCH), 0)
    waiting.note(ask("i-2"), 1)
    waiting.note(ask("i-1"), 2)
    assert [waiting.wake(0, 3) for _ in range(3)] == ["i-2", "i-1", "i-1"]


def test_pairs_wait_on_their_own() -> None:
    waiting = Waiting()
    waiting.note(ask("i-1", 0b01, waits_for="zh-en"), 0)
    waiting.note(ask("i-1", 0b10, waits_for="zh-fr"), 0)
    assert [waiting.wake(1, 1), waiting.wake(1, 1), waiting.wake(0, 1)] == ["i-1", None, "i-1"]


def test_who_does_not_wait_is_not_noted_and_a_note_runs_out() -> None:
    waiting = Waiting()
    waiting.note(ask("i-1", waits_for=""), 0)
    assert len(waiting) == 0
    waiting.note(ask("i-1"), 0)
    assert waiting.wake(0, WAITING_MS) is None
    assert len(waiting) == 0
