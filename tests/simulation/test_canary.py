"""A canary has its share of a pair's jobs, and costs none of them its result."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.speakers import open_speaker
from tests.simulation.test_services import running
from tests.simulation.world import World, play

from dragoman.live.protocol import ExclusionReason, JobClass, Outcome
from dragoman.testing import JobEnding, MemoryScheduler, SimulatedNode, SubmittedJob, seconds

STEADY = running("asr:ear@1", "nmt:m2m@1", "tts:voice@1")
CANARY = running("asr:ear@1", "nmt:m2m@2", "tts:voice@1")
ROUTE = {"pair": "zh:en", "stage": "nmt", "service": "m2m@2", "share": 0.1}
LEDGERS: list[dict[str, Any]] = [{}, {"wrap": lambda ledger: ledger}]
IDS = ["memory", "shared"]


def routes(*given: dict[str, Any]) -> dict[str, Any]:
    return {"scheduler__canary__routes": given or (ROUTE,)}


async def ask(world: World, count: int, at_once: int = 40, **spec: Any) -> list[SubmittedJob]:
    """So many jobs, some at a time, until all have ended."""
    jobs: list[SubmittedJob] = []
    for number in range(count):
        jobs.append(await world.submit(f"r{len(world.jobs)}-{number}", may_wait=True, **spec))
        if len(jobs) % at_once == 0:
            for job in jobs[-at_once:]:
                await job.end()
    for job in jobs:
        await job.end()
    return jobs


def named(node: SimulatedNode) -> Counter[str]:
    return Counter(assign.services.get("nmt", "") for assign in node.assigned)


def test_a_canary_at_ten_percent_gets_ten_percent_of_ten_thousand_jobs() -> None:
    async def story(world: World) -> None:
        brief: dict[str, Any] = {"service": seconds(0.1), "slots": 20}
        steady = [await world.node(f"s{n}", services=STEADY, **brief) for n in range(4)]
        canary = await world.node("canary", services=CANARY, **brief)
        jobs = await ask(world, 10_000)
        assert {job.outcome for job in jobs} == {Outcome.SUCCESS}
        share = len(canary.assigned) / len(jobs)
        assert abs(share - 0.1) <= 0.001, "ten percent, within a tenth of one"
        assert named(canary) == {"m2m@2": len(canary.assigned)}
        assert sum(len(node.assigned) for node in steady) == 10_000 - len(canary.assigned)
        assert counted(world) == {"success": len(canary.assigned)}
        assert not any(named(node)["m2m@2"] for node in steady)

    play(story, **routes())


def counted(world: MemoryScheduler) -> dict[str, float]:
    """Jobs drawn for the canary, by what it made of them."""
    counts = world.metrics.canary_jobs.counts()
    assert all(name.startswith("zh:en:nmt:m2m@2:") for name in counts)
    return {name.rpartition(":")[2]: count for name, count in counts.items()}


FAILURES = (
    JobEnding.RETRYABLE,
    JobEnding.FINAL,
    JobEnding.OVERLOADED,
    JobEnding.MODEL_MISSING,
)


@pytest.mark.parametrize("ledger", LEDGERS, ids=IDS)
@pytest.mark.parametrize("ending", FAILURES, ids=[ending.value for ending in FAILURES])
def test_a_canary_whose_node_fails_every_job_costs_no_job_its_result(
    ledger: dict[str, Any], ending: JobEnding
) -> None:
    """Whatever the node says: also that the job is at fault, and with a single attempt allowed."""

    async def story(world: World) -> None:
        for number in range(3):
            await world.node(f"s{number}", services=STEADY, slots=20, service=seconds(0.1))
        failing: dict[str, Any] = {"answer": ending, "service": seconds(0.1)}
        canary = await world.node("canary", services=CANARY, slots=20, **failing)
        jobs = await ask(world, 200, at_once=10)
        for job in jobs:
            assert job.outcome is Outcome.SUCCESS, job.code
            assert job.ends[0].attempts_used == 1, "an attempt of a canary does not count"
        assert canary.assigned, "the canary was tried"
        counts = counted(world)
        assert counts.pop("failed") == len(canary.assigned)
        assert set(counts) <= {"elsewhere"}, "a canary that fails is left alone for a while"

    play(story, scheduler__job_timeout__failover_max_attempts=1, **routes(), **ledger)


def test_a_canary_at_another_instance_costs_no_job_its_result_either() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("steady", at="a", services=STEADY, slots=20, service=seconds(0.1))
        fatal: dict[str, Any] = {"answer": JobEnding.FINAL, "service": seconds(0.1)}
        canary = await world.node("canary", at="b", services=CANARY, slots=20, **fatal)
        jobs = [await world.submit("a", f"r{number}", may_wait=True) for number in range(5)]
        for job in jobs:
            assert (await job.end()).outcome is Outcome.SUCCESS
        assert [dict(assign.services) for assign in canary.assigned] == [{"nmt": "m2m@2"}] * 5
        assert counted(world["a"]) == {"failed": 5}, "the instance that drives a job counts it"
        assert counted(world["b"]) == {}

    play_together(story, **routes({**ROUTE, "share": 1.0}))


def test_a_canary_that_never_answers_leaves_time_for_another_node() -> None:
    async def story(world: World) -> None:
        await world.node("steady", services=STEADY, slots=20)
        canary = await world.node("canary", services=CANARY, slots=20, answer=JobEnding.NEVER)
        jobs = [await world.submit(f"r{number}", may_wait=True) for number in range(20)]
        for job in jobs:
            assert (await job.end()).outcome is Outcome.SUCCESS
        assert len(canary.assigned) >= 1

    times = {"run_seconds": 30, "total_seconds": 30}
    settings = {f"scheduler__job_timeout__{name}": value for name, value in times.items()}
    play(story, **settings, **routes())


def test_jobs_that_are_drawn_go_elsewhere_while_the_canary_is_full_or_gone() -> None:
    async def story(world: World) -> None:
        steady = await world.node("steady", services=STEADY, slots=30, service=seconds(5))
        canary = await world.node("canary", services=CANARY, slots=1, service=seconds(5))
        jobs = [await world.submit(f"r{number}") for number in range(20)]
        assert not any(job.refusal for job in jobs)
        await world.pass_time(1)
        assert len(canary.assigned) == 1
        assert len(steady.assigned) == 19
        await jobs[0].end()
        await canary.stop()
        await world.pass_time(60)
        more = [await world.submit(f"later{number}") for number in range(20)]
        assert {(await job.end()).outcome for job in more} == {Outcome.SUCCESS}
        assert counted(world) == {"success": 1, "elsewhere": 39}

    play(story, **routes({**ROUTE, "share": 1.0}))


def test_a_job_that_names_a_service_for_the_stage_is_not_drawn() -> None:
    async def story(world: World) -> None:
        steady = await world.node("steady", services=STEADY, slots=30)
        canary = await world.node("canary", services=CANARY, slots=30)
        await ask(world, 20, services=(("nmt", "m2m@1"),))
        assert (len(steady.assigned), len(canary.assigned)) == (20, 0)
        await ask(world, 20, services=(("tts", "voice@1"),))
        assert (len(steady.assigned), len(canary.assigned)) == (20, 20)
        assert canary.assigned[0].services == {"nmt": "m2m@2", "tts": "voice@1"}
        await ask(world, 20, src_lang="en", tgt_lang="zh")
        assert all(a.services == {} for n in (steady, canary) for a in n.assigned[20:])

    play(story, **routes({**ROUTE, "share": 1.0}))


def test_a_canary_that_is_all_there_is_serves_every_job() -> None:
    async def story(world: World) -> None:
        canary = await world.node("canary", services=CANARY, slots=30)
        jobs = await ask(world, 30)
        assert {job.outcome for job in jobs} == {Outcome.SUCCESS}
        assert named(canary) == {"m2m@2": 3, "": 27}

    play(story, **routes())


def test_a_full_fleet_keeps_the_canary_for_its_share_and_says_why() -> None:
    async def story(world: World) -> None:
        await world.node("steady", services=STEADY, slots=1, service=seconds(100))
        await world.node("canary", services=CANARY, slots=9)
        await world.submit("first")
        refused = await world.submit("second")
        assert refused.refusal is not None
        assert refused.refusal.code == "NO_CAPACITY"
        assert refused.refusal.details["reasons"] == {"service_missing": 1, "no_free_slot": 1}

    play(story, **routes({**ROUTE, "share": 0.001}))


def test_the_explanation_of_a_drawn_job_shows_the_canary() -> None:
    async def story(world: World) -> None:
        await world.node("steady", services=STEADY)
        await world.node("canary", services=CANARY)
        (job,) = await ask(world, 1)
        explained = world.plane.dispatcher.explain(job.job_id)
        assert explained is not None
        (attempt,) = explained.attempts
        assert (attempt.chosen, attempt.services) == ("canary", {"nmt": "m2m@2"})
        assert attempt.reasons[ExclusionReason.SERVICE_MISSING].nodes == ("steady",)

    play(story, **routes({**ROUTE, "share": 1.0}))


@pytest.mark.parametrize("ledger", LEDGERS, ids=IDS)
def test_utterances_of_sessions_and_batch_work_are_drawn_too(ledger: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        steady = await world.node("steady", services=STEADY, slots=9, service=seconds(0.1))
        canary = await world.node("canary", services=CANARY, slots=9, service=seconds(0.1))
        speaker = await open_speaker(world)
        for number in range(100):
            await speaker.say("hello")
            await speaker.until_ended(number + 1)
        assert abs(len(canary.assigned) - 10) <= 2
        await ask(world, 100, batch=True)
        both = Counter(assign.job_class for assign in canary.assigned)
        assert abs(both[JobClass.BATCH] - 10) <= 2
        assert len(steady.assigned) + len(canary.assigned) == 200

    play(story, **routes(), **ledger)


def test_batch_work_that_gives_way_is_no_failure_of_the_canary() -> None:
    async def story(world: World) -> None:
        both = running("asr:ear@1", "nmt:m2m@1", "nmt:m2m@2", "tts:voice@1")
        node = await world.node("both", services=both, slots=1, service=seconds(2))
        batch = await world.submit("batch", batch=True)
        await world.until(lambda: bool(node.assigned))
        live = await world.submit("live", may_wait=True)
        assert (await live.end()).outcome is Outcome.SUCCESS
        assert (await batch.end()).outcome is Outcome.SUCCESS
        assert [assign.job_class for assign in node.assigned] == [
            JobClass.BATCH,
            JobClass.LIVE,
            JobClass.BATCH,
        ]
        assert named(node) == {"m2m@2": 2, "": 1}
        assert counted(world) == {"success": 1, "elsewhere": 1}

    play(story, **routes({**ROUTE, "share": 1.0}))


def test_what_listeners_waited_is_counted_for_the_version_that_did_the_work() -> None:
    """Also where one node runs both."""

    async def story(world: World) -> None:
        both = running("asr:ear@1", "nmt:m2m@1", "nmt:m2m@2", "tts:voice@1")
        await world.node("both", services=both, slots=9)
        speaker = await open_speaker(world)
        for number in range(10):
            await speaker.speak(100, final=True)
            await speaker.until_ended(number + 1)
        shown = world.metrics.exposition().decode()
        waited = 'scheduler_speech_to_translation_seconds_count{pair="zh:en",service="m2m@'
        assert f'{waited}2"}} 5.0' in shown
        assert f'{waited}1"}} 5.0' in shown

    play(story, **routes({**ROUTE, "share": 0.5}))


def test_a_job_that_is_cancelled_at_the_canary_is_counted_so() -> None:
    async def story(world: World) -> None:
        await world.node("steady", services=STEADY)
        await world.node("canary", services=CANARY, service=seconds(100))
        job = await world.submit("r")
        await world.plane.dispatcher.cancel(job.job_id)
        assert (await job.end()).outcome is Outcome.CANCELLED
        assert counted(world) == {"cancelled": 1}

    play(story, **routes({**ROUTE, "share": 1.0}))


def test_two_canaries_of_a_pair_each_have_their_share() -> None:
    async def story(world: World) -> None:
        await world.node("steady", services=STEADY, slots=50, service=seconds(0.1))
        second = await world.node("second", services=CANARY, slots=50, service=seconds(0.1))
        voices = running("asr:ear@1", "nmt:m2m@1", "tts:voice@2")
        third = await world.node("third", services=voices, slots=50, service=seconds(0.1))
        await ask(world, 1_000)
        assert abs(len(second.assigned) - 100) <= 3
        assert abs(len(third.assigned) - 300) <= 3

    other = {"pair": "ZH:en", "stage": "tts", "service": "voice@2", "share": 0.3}
    play(story, **routes(ROUTE, other))
