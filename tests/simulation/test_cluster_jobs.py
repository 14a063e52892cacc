"""Jobs of one instance on nodes of another."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.ids import AttemptId, JobId
from dragoman.live.dispatch.driver import FORGOTTEN
from dragoman.live.protocol import JobPartial, JobResult, Outcome
from dragoman.testing import JobEnding, seconds

THREE = ("a", "b", "c")


def test_a_job_asked_for_at_one_instance_is_done_by_a_node_of_another() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(0.5))
        job = await world.submit("a", "r1")
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert len(job.ends) == 1
        assert [assign.job_id for assign in node.assigned] == [job.job_id]
        assert (job.ended_at or 0) - job.asked_at < 0.6, "the end was not told, but found out"
        assert await world.held() == 0

    play_together(story)


def count_looks(world: ClusterWorld, name: str) -> list[AttemptId]:
    """The attempts that an instance looks up in their cells from now on."""
    shared = world.instances[name].plane.shared
    assert shared is not None
    looked, looks = [], shared.look

    async def look(cell: int, attempt_id: AttemptId, *, tombstone_ms: int) -> Any:
        looked.append(attempt_id)
        return await looks(cell, attempt_id, tombstone_ms=tombstone_ms)

    cast(Any, shared).look = look
    return looked


def test_a_young_note_is_believed_and_its_node_told_at_once() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(0.5))
        looked = count_looks(world, "b")
        job = await world.submit("a", "r1")
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert (len(node.assigned), looked) == (1, [])

    play_together(story)


def test_a_note_that_lay_for_long_is_believed_only_after_a_look_at_its_cell() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(0.1))
        looked = count_looks(world, "b")
        world.cut_hub("b")
        job = await world.submit("a", "r1")
        await asyncio.sleep(4.0)
        world.mend_hub("b")
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert [assign.job_id for assign in node.assigned] == [job.job_id]
        assert looked == [node.assigned[0].attempt_id]

    play_together(story)


def test_an_attempt_that_failed_at_its_node_is_tried_again_by_the_jobs_own_instance() -> None:
    async def story(world: ClusterWorld) -> None:
        bad = await world.node("bad", at="b", answer=JobEnding.RETRYABLE, service=seconds(0.1))
        job = await world.submit("a", "r1", may_wait=True)
        good = await world.node("good", at="c", service=seconds(0.1))
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert record.claimed_by == "a"
        assert (len(bad.assigned), len(good.assigned)) == (1, 1)
        assert len(job.ends) == 1

    play_together(story, names=THREE)


def test_a_node_whose_instance_is_known_to_be_gone_costs_no_time() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("far", at="b")
        near = await world.node("near", at="a", service=seconds(0.1))
        far = world.nodes["far"]
        await world.kill("b")
        await far.stop()
        # Its nodes are not yet marked as offline: the inbox says that nobody is there.
        await world.until(lambda: not world.is_present("b"))
        jobs = [await world.submit("a", f"r{number}", may_wait=True) for number in range(8)]
        for job in jobs:
            record = await job.end(seconds=1)
            assert record.outcome is Outcome.SUCCESS
        assert len(near.assigned) == 8

    play_together(story)


def test_a_job_whose_note_lies_in_a_dead_instances_inbox_goes_elsewhere_in_time() -> None:
    async def story(world: ClusterWorld) -> None:
        far = await world.node("far", at="b")
        await world.kill("b")
        await far.stop()
        job = await world.submit("a", "r1", may_wait=True)
        await world.node_anywhere("near", at="a", service=seconds(0.1))
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert len(job.ends) == 1

    play_together(story)


def test_a_job_whose_instance_is_killed_is_ended_once_by_another() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(1.0))
        job = await world.submit("a", "r1")
        await world.kill("a")
        await asyncio.sleep(2.0)
        record = await world.ledger.read(job.job_id)
        assert record is not None
        assert record.outcome is Outcome.SUCCESS
        assert len(node.assigned) == 1

    play_together(story)


def test_a_job_that_waits_when_its_instance_is_killed_is_taken_up_by_another() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, service=seconds(3.0))
        first = await world.submit("b", "r1")
        waiting = await world.submit("a", "r2", may_wait=True)
        await world.kill("a")
        assert (await first.end()).outcome is Outcome.SUCCESS
        await asyncio.sleep(20)
        record = await world.ledger.read(waiting.job_id)
        assert record is not None
        assert record.outcome is Outcome.SUCCESS
        assert record.instance_id == "b"

    play_together(story)


def test_a_node_whose_instance_is_killed_brings_its_work_to_another() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(3.0))
        job = await world.submit("a", "r1")
        await world.until(lambda: len(node.working) == 1)
        await world.kill("b")
        await asyncio.sleep(0.5)
        await world.move("n", to="c")
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS
        assert len(node.assigned) == 1
        assert (job.ended_at or 0) - job.asked_at < 3.1

    play_together(story, names=THREE)


def test_a_slot_that_comes_free_wakes_those_who_wait_at_other_instances() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, service=seconds(1.26))
        first = await world.submit("b", "r1")
        second = await world.submit("a", "r2", may_wait=True)
        await first.end()
        await second.end()
        took = (second.ended_at or 0) - (first.ended_at or 0)
        assert 1.259 < took < 1.30, "it was not woken, but looked by itself"

    play_together(story)


def test_a_job_is_cancelled_from_any_instance() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(10))
        job = await world.submit("a", "r1")
        await world.until(lambda: len(node.working) == 1)
        await world["c"].plane.dispatcher.cancel(job.job_id)
        record = await job.end(seconds=0.5)
        assert record.outcome is Outcome.CANCELLED
        await world.until(lambda: not node.working, seconds=1)
        await asyncio.sleep(0.1)
        assert await world.held() == 0

    play_together(story, names=THREE)


def test_live_work_takes_the_slot_of_batch_work_that_another_instance_drives() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=1, service=seconds(4))
        batch = await world.submit("b", "r1", batch=True)
        await world.until(lambda: len(node.working) == 1)
        live = await world.submit("a", "r2")
        record = await live.end()
        assert record.outcome is Outcome.SUCCESS
        assert (live.ended_at or 0) - live.asked_at < 4.2, "the heir was not told of its slot"
        assert (await batch.end()).outcome is Outcome.SUCCESS
        assert (len(live.ends), len(batch.ends)) == (1, 1)

    play_together(story, scheduler__selection__batch_headroom=0)


def test_the_same_request_at_two_instances_is_one_job_and_both_hear_of_its_end() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(1))
        one = await world.submit("a", "r1")
        other = await world.submit("b", "r1")
        assert one.job_id == other.job_id
        await one.end()
        await other.end()
        assert len(node.assigned) == 1

    play_together(story)


def test_what_a_far_node_has_recognised_so_far_reaches_the_asker() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(1))
        job = await world.submit("a", "r1")
        await world.until(lambda: len(node.working) == 1)
        (running,) = node.working.values()
        await node.say(JobPartial(running.job_id, running.attempt_id, "so far", False))
        await job.end()
        assert [partial.text for partial in job.partials] == ["so far"]

    play_together(story)


def test_what_a_far_node_says_of_another_job_than_its_attempts_is_not_told() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(1))
        job = await world.submit("a", "r1")
        await world.until(lambda: len(node.working) == 1)
        (running,) = node.working.values()
        await node.say(JobPartial(JobId("j-another"), running.attempt_id, "mixed up", False))
        await node.say(JobResult(JobId("j-another"), running.attempt_id, success=False))
        assert (await job.end()).outcome is Outcome.SUCCESS
        assert (job.partials, len(node.assigned)) == ([], 1)

    play_together(story)


def test_when_no_note_and_no_news_arrives_every_job_still_ends_once() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("far", at="b", service=seconds(0.2))
        await world.node("near", at="a", service=seconds(0.2))
        world.hub.faults.lost_notes = 1.0
        world.hub.faults.lost_changes = 1.0
        jobs = [await world.submit("a", f"r{number}", may_wait=True) for number in range(4)]
        for job in jobs:
            assert (await job.end()).outcome is Outcome.SUCCESS
            assert len(job.ends) == 1
        await asyncio.sleep(10)
        assert await world.held() == 0

    play_together(story, scheduler__job_timeout__ack_seconds=1)


def test_a_note_that_comes_twice_gives_a_node_its_attempt_once() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(1))
        hub = world["a"].hub_place
        post = hub.post

        async def twice(*args: object) -> object:
            await post(*args)  # type: ignore[arg-type]
            return await post(*args)  # type: ignore[arg-type]

        hub.post = twice  # type: ignore[method-assign, assignment]
        job = await world.submit("a", "r1")
        await job.end()
        assert len(node.assigned) == 1
        assert len(job.ends) == 1

    play_together(story)


def test_a_caller_at_another_instance_is_told_of_a_job_that_the_ledger_lost() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a", service=seconds(30.0))
        job = await world.submit("a", "r1")
        waits = asyncio.create_task(world["b"].plane.dispatcher.ended(job.job_id, 20))
        await world.until(lambda: len(node.working) == 1)
        world.server.forget_jobs()
        record = await waits
        assert record is not None, "it was waited for in vain"
        assert (record.outcome, record.error) == (Outcome.FAILED, FORGOTTEN)

    play_together(story)


def test_nodes_of_the_own_instance_come_first_while_one_of_them_is_free() -> None:
    async def story(world: ClusterWorld) -> None:
        own = await world.node("own", at="a", slots=2, answer=JobEnding.NEVER)
        far = await world.node("far", at="b", slots=4, answer=JobEnding.NEVER)
        jobs = [await world.submit("a", f"r{number}") for number in range(5)]
        await world.until(lambda: len(own.assigned) + len(far.assigned) == 5)
        assert [assign.job_id for assign in own.assigned] == [job.job_id for job in jobs[:2]]
        assert len(far.assigned) == 3
        told = [await explained(world, job.job_id) for job in jobs]
        assert told == [True, True, False, False, False]

    play_together(story)


def test_without_the_preference_all_nodes_are_alike() -> None:
    async def story(world: ClusterWorld) -> None:
        own = await world.node("own", at="a", slots=100, service=seconds(0.1))
        far = await world.node("far", at="b", slots=100, service=seconds(0.1))
        jobs = [await world.submit("a", f"r{number}") for number in range(60)]
        for job in jobs:
            await job.end()
        assert min(len(own.assigned), len(far.assigned)) > 15
        assert await explained(world, jobs[0].job_id) is None

    play_together(story, scheduler__selection__prefer_local=False)


async def explained(world: ClusterWorld, job_id: JobId) -> bool | None:
    """Whether the job is said to be at a node of the instance that it was asked for at."""
    view = world["a"].plane.dispatcher.explain(job_id)
    assert view is not None
    return view.attempts[-1].local


def test_a_caller_whose_instance_leaves_while_it_looks_for_a_slot_is_answered() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=1, answer=JobEnding.NEVER)
        await world.submit("a", "r1")
        await world.until(lambda: bool(node.assigned))
        asked = asyncio.Event()

        async def never(*args: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        cast(Any, world["a"].ledger).shared.outlook = never
        asking = asyncio.create_task(world.submit("a", "r2"))
        await asked.wait()
        await world.leave("a")
        assert (await asking).refusal is not None

    play_together(story)
