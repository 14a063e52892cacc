"""From a request to a job: claims, wishes, refusals, waiting."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.simulation.world import World, play

from dragoman.live.protocol import Feature, Mode, Outcome, Pipeline
from dragoman.testing import SubmittedJob, seconds


def refusal_of(errand: SubmittedJob) -> tuple[str, dict[str, int]]:
    """The code of a refusal and its reasons."""
    assert errand.refusal is not None
    return errand.refusal.code, errand.refusal.details["reasons"]


# --- claims -------------------------------------------------------------------------------------


def test_a_repeated_request_finds_its_job_while_it_runs_and_within_the_lease() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", service=seconds(2))
        first = await world.submit("r")
        again = await world.submit("r")
        assert (first.created, again.created) == (True, False)
        assert again.job_id == first.job_id
        await again.end()
        late = await world.submit("r")
        assert late.job_id == first.job_id
        assert (await late.end()).output == first.ends[0].output
        assert len(node.assigned) == 1
        await world.pass_time(91)
        anew = await world.submit("r")
        assert anew.job_id != first.job_id

    play(story)


def test_the_same_request_id_with_another_body_is_a_conflict() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(2))
        await world.submit("r", text="one")
        other = await world.submit("r", text="two")
        assert other.refusal is not None
        assert other.refusal.code == "REQUEST_CONFLICT"
        assert (await world.submit("r", text="two", tgt_lang="zh")).created, "another target"
        assert (await world.submit("r", text="two", tenant="else")).created, "another tenant"

    play(story)


def test_a_refused_or_cancelled_request_may_be_made_anew_at_once() -> None:
    async def story(world: World) -> None:
        assert (await world.submit("r")).refusal is not None
        await world.node("n", service=seconds(9))
        job = await world.submit("r")
        assert job.created
        assert await world.cancel(job)
        assert (await world.submit("r")).created

    play(story)


# --- refusals -----------------------------------------------------------------------------------


def test_refusals_say_what_is_missing() -> None:
    async def story(world: World) -> None:
        assert refusal_of(await world.submit("1")) == ("PAIR_UNSUPPORTED", {})
        await world.node("n", slots=1, service=seconds(4), features=("emotion_detection",))
        unpaired = await world.submit("2", tgt_lang="fr")
        assert refusal_of(unpaired) == ("PAIR_UNSUPPORTED", {"pair_unsupported": 1})
        voice = await world.submit("3", features=(Feature.SPEAKER_IDENTIFICATION,))
        assert refusal_of(voice) == ("UNSUPPORTED_FEATURE", {"feature_unsupported": 1})
        tone = await world.submit("4", pipeline=Pipeline(use_nmt=True, use_tts=True, use_tone=True))
        assert refusal_of(tone) == ("NO_AVAILABLE_NODE", {"service_missing": 1})
        assert (await world.submit("5")).created
        full = await world.submit("6")
        assert refusal_of(full) == ("NO_CAPACITY", {"no_free_slot": 1})
        assert full.refusal is not None
        record = await world.ledger.read(full.refusal.details["job_id"])
        assert record is not None
        assert record.error is not None
        assert record.error.code == "NO_CAPACITY", "a refused job keeps its record"
        assert world.plane.dispatcher.explain(record.job_id) is not None

    play(story)


def test_retry_after_follows_from_how_long_the_nodes_take() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=2, service=seconds(4))
        unknown = [await world.submit(f"a{number}") for number in range(3)][-1]
        assert unknown.refusal is not None
        assert unknown.refusal.retry_after_ms == 1_000
        await world.pass_time(5)
        known = [await world.submit(f"b{number}") for number in range(3)][-1]
        assert known.refusal is not None
        assert known.refusal.retry_after_ms == 2_000, "two slots, four seconds each"

    play(story)


def test_jobs_that_can_never_fit_do_not_wait() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        unpaired = await world.submit("1", tgt_lang="fr", may_wait=True)
        assert unpaired.refusal is not None
        voice = await world.submit("2", features=("speaker_identification",), may_wait=True)
        assert voice.refusal is not None

    play(story)


# --- wishes -------------------------------------------------------------------------------------


def test_a_preferred_node_is_taken_while_it_has_a_slot() -> None:
    async def story(world: World) -> None:
        await world.node("a", slots=2)
        await world.node("b", slots=2)
        jobs = [await world.submit(f"r{n}", preferred_node_id="b") for n in range(3)]
        nodes = [(await job.end()).attempts[0].node_id for job in jobs]
        assert nodes == ["b", "b", "a"]

    play(story)


def test_an_excluded_node_is_the_last_resort() -> None:
    async def story(world: World) -> None:
        await world.node("a", slots=1, service=seconds(3))
        await world.node("b", slots=1, service=seconds(3))
        jobs = [await world.submit(f"r{n}", exclude_node_id="a") for n in range(2)]
        nodes = [(await job.end()).attempts[0].node_id for job in jobs]
        assert nodes == ["b", "a"]
        explained = world.plane.dispatcher.explain(jobs[1].job_id)
        assert explained is not None
        first, second = explained.attempts
        assert first.chosen is None
        assert {reason.value: left.count for reason, left in first.reasons.items()} == {
            "excluded": 1,
            "no_free_slot": 1,
        }
        assert second.chosen == "a"

    play(story)


def test_two_way_work_needs_a_node_in_both_pools() -> None:
    async def story(world: World) -> None:
        await world.node("one-way", asr=("zh",), tts=("en",))
        wanted: dict[str, Any] = {
            "mode": Mode.TWO_WAY_AUTO,
            "lang_a": "zh",
            "lang_b": "en",
            "tgt_lang": "*",
        }
        assert (await world.submit("1", **wanted)).refusal is not None
        await world.node("both")
        job = await world.submit("2", **wanted)
        assert (await job.end()).attempts[0].node_id == "both"

    play(story)


def test_a_conversation_is_spread_over_the_nodes() -> None:
    async def story(world: World) -> None:
        await world.node("a")
        await world.node("b")
        served = []
        for number in range(6):
            job = await world.submit(f"r{number}", session="s")
            served.append((await job.end()).attempts[0].node_id)
        assert all(before != after for before, after in pairwise(served))

    play(story, scheduler__task_binding__spread_enabled=True)


# --- waiting ------------------------------------------------------------------------------------


def test_a_freed_slot_calls_the_next_in_line_tenants_in_turn() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1)
        await world.submit("running")
        order = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")]
        jobs = [await world.submit(name, tenant=of, may_wait=True) for name, of in order]
        for job in jobs:
            await job.end()
        names = {job.job_id: job.spec.request_id for job in jobs}
        served = [names[assign.job_id] for assign in node.assigned[1:]]
        assert served == ["a1", "b1", "a2", "b2", "a3"]

    play(story)


def test_a_job_that_waits_too_long_is_refused_with_its_reasons() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(25))
        await world.submit("running")
        job = await world.submit("waiting", may_wait=True)
        record = await job.end()
        assert (job.outcome, job.code) == (Outcome.FAILED, "NO_CAPACITY")
        assert (job.ended_at or 0) - job.asked_at == pytest.approx(10.0, abs=0.2)
        assert record.attempts == ()
        assert world.plane.dispatcher.counts()["waiting"] == 0

    play(story)


def test_a_new_node_serves_those_who_wait() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(25))
        await world.submit("running")
        job = await world.submit("waiting", may_wait=True)
        await world.node("new", slots=1)
        await job.end()
        assert job.outcome is Outcome.SUCCESS

    play(story)


def test_a_full_waiting_room_refuses() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(3))
        await world.submit("running")
        assert (await world.submit("one", may_wait=True)).refusal is None
        assert (await world.submit("two", may_wait=True)).refusal is not None

    play(story, limits__pending_per_pair=1)


def test_a_draining_server_takes_no_new_work_and_finishes_what_it_has() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(2))
        job = await world.submit("r")
        await world.plane.drain()
        assert job.outcome is Outcome.SUCCESS
        late = await world.submit("late")
        assert late.refusal is not None
        assert late.refusal.code == "SERVER_DRAINING"

    play(story)
