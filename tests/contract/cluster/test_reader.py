"""Reading an inbox: order where it matters, failures tried again, nothing stuck behind them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest
from tests.contract.cluster.bench import ASSIGN, ended
from tests.contract.cluster.virtual import TERMS, make_hub
from tests.contract.cluster.virtual import Live as Instance

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId, JobId
from dragoman.live.cluster import CancelNote, EndedNote, MemoryHub, Note
from dragoman.testing import run_virtual

ONE = InstanceId("one")
LONG_SECONDS = TERMS.reclaim_idle_ms / 1000


def test_every_note_is_handled_once_and_struck_out() -> None:
    async def live() -> None:
        hub = make_hub()
        one = Instance(hub, "one")
        await one.start()
        for number in range(500):
            await one.cluster.post(ONE, ended(number))
        await asyncio.sleep(2)
        assert Counter(one.notes) == Counter(ended(number) for number in range(500))
        (view,) = await one.cluster.instances()
        assert (view.inbox_length, view.pending) == (0, 0)
        await one.stop()

    run_virtual(live, seed=1)


def test_notes_about_one_job_are_handled_in_order_and_others_beside_them() -> None:
    async def live() -> None:
        order: list[Note] = []
        slow = asyncio.Event()

        async def handle(note: Note, age_seconds: float) -> None:
            if note == ASSIGN:
                await slow.wait()
            order.append(note)

        hub = make_hub()
        one = Instance(hub, "one", handle)
        await one.start()
        cancel = CancelNote(
            ASSIGN.job_id, ASSIGN.attempt_id, ASSIGN.node_id, ASSIGN.connection_id, 7, "enough"
        )
        for note in (ASSIGN, cancel, ended(99)):
            await one.cluster.post(ONE, note)
        await asyncio.sleep(0.5)
        assert order == [ended(99)]
        slow.set()
        await asyncio.sleep(0.5)
        assert order == [ended(99), ASSIGN, cancel]
        await one.stop()

    run_virtual(live, seed=2)


@pytest.mark.parametrize("error", [DependencyDown("away"), ValueError("a bug")])
def test_a_note_whose_handler_fails_is_tried_again_later(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def live() -> None:
        tries: list[float] = []
        loop = asyncio.get_running_loop()

        async def handle(note: Note, age_seconds: float) -> None:
            tries.append(loop.time())
            if len(tries) < 3:
                raise error

        hub = make_hub()
        one = Instance(hub, "one", handle)
        await one.start()
        await one.cluster.post(ONE, ended(1))
        await asyncio.sleep(5 * LONG_SECONDS)
        assert len(tries) == 3
        assert all(later - sooner >= LONG_SECONDS for sooner, later in pairwise(tries))
        (view,) = await one.cluster.instances()
        assert view.inbox_length == 0
        await one.stop()

    run_virtual(live, seed=3)


def test_a_note_that_always_fails_becomes_a_dead_letter_and_is_counted() -> None:
    async def live() -> None:
        tries = 0

        async def handle(note: Note, age_seconds: float) -> None:
            nonlocal tries
            tries += 1
            await asyncio.sleep(3600)

        hub = make_hub()
        one = Instance(hub, "one", handle)
        await one.start()
        await one.cluster.post(ONE, ended(1))
        await asyncio.sleep(20 * LONG_SECONDS)
        assert tries == TERMS.max_deliveries
        assert len(await one.cluster.letters()) == 1
        assert "scheduler_dlq_total 1.0" in one.metrics.exposition().decode()
        assert "scheduler_inbox_pending 0.0" in one.metrics.exposition().decode()
        await one.stop()

    run_virtual(live, seed=4)


def test_handlers_that_hang_do_not_hold_up_the_rest() -> None:
    async def live() -> None:
        fine: list[Note] = []

        async def handle(note: Note, age_seconds: float) -> None:
            assert isinstance(note, EndedNote)
            if int(note.job_id[2:]) % 10 == 0:
                await asyncio.sleep(3600)
            fine.append(note)

        hub = make_hub()
        one = Instance(hub, "one", handle)
        await one.start()
        for number in range(300):
            await one.cluster.post(ONE, ended(number))
        await asyncio.sleep(1)
        assert len(fine) == 270
        await one.stop()

    run_virtual(live, seed=5)


def test_notes_that_were_handled_when_the_reader_stopped_are_struck_out() -> None:
    async def live() -> None:
        hub = make_hub()
        one = Instance(hub, "one")
        await one.start()
        await one.cluster.post(ONE, ended(1))
        await asyncio.sleep(0.1)
        assert one.notes == [ended(1)]
        await one.stop()
        assert hub.instances == {}

    run_virtual(live, seed=6)


async def _chaos(hub: MemoryHub, seed: int) -> None:
    """Two instances write to each other while everything that can happen to messages does."""
    faults = hub.faults
    one, other = Instance(hub, "one"), Instance(hub, "other")
    await one.start()
    await other.start()
    faults.lost_answers, faults.late_seconds, faults.lost_notes = 0.1, 0.5, 0.1
    posted = set()
    for number in range(200):
        note = EndedNote(JobId(f"j-{seed}-{number}"))
        # Perhaps it was posted after all. Posting again is safe, and here it is left.
        with suppress(DependencyDown):
            await one.cluster.post(InstanceId("other"), note)
        posted.add(note)
        await asyncio.sleep(0.05)
        if number == 100:
            hub.go_down()
            await asyncio.sleep(10)
            hub.come_back()
    faults.lost_answers = faults.late_seconds = faults.lost_notes = 0.0
    await asyncio.sleep(10 * LONG_SECONDS)
    handled = {note for note in other.notes if isinstance(note, EndedNote)}
    assert handled <= posted
    assert len(handled) > len(posted) / 2
    assert one.notes == []
    views = await one.cluster.instances()
    assert [(view.inbox_length, view.pending) for view in views] == [(0, 0), (0, 0)]
    await one.stop()
    await other.stop()


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_to_messages_the_inbox_ends_empty(seed: int) -> None:
    async def live() -> None:
        await _chaos(make_hub(seed), seed)

    run_virtual(live, seed=seed)
