"""Whole runs: nodes and clients of one's own beside the traffic, arrivals, failures and limits."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from dragoman.live.protocol import TranslationResult
from dragoman.sdk import Answer, Job
from dragoman.simulation import (
    Distribution,
    Exponential,
    Fixed,
    FleetGroup,
    InputKind,
    Lognormal,
    Scenario,
    Traffic,
    TrafficKind,
    World,
    simulate,
    simulate_once,
)

SEED = 9
SPEAKERS = Traffic(name="speakers", sessions=10, input=InputKind.TEXT)
SMALL = Scenario(
    duration_seconds=60,
    warmup_seconds=5,
    fleet=(FleetGroup(nodes=4, slots=2, service_ms=Exponential(300)),),
    traffic=(SPEAKERS,),
)


def test_nodes_of_ones_own_serve_the_traffic() -> None:
    seen: list[str] = []

    async def translate(job: Job) -> Answer:
        await asyncio.sleep(0.2)
        seen.append(job.text or "")
        return Answer(text_translated="mine")

    async def prepare(world: World) -> None:
        await world.site.add_node(translate, nmt=["en", "es"], slots=8)

    run = simulate_once(replace(SMALL, fleet=()), SEED, prepare=prepare)
    assert run.whole.refused == 0
    assert run.whole.served > 50
    assert len(seen) >= run.whole.served
    assert run.whole.total_ms.p50 == pytest.approx(200, abs=30)


def test_clients_of_ones_own_share_the_fleet_with_the_traffic() -> None:
    heard: list[object] = []

    async def talk(world: World) -> None:
        async with world.site.session(src_lang="en", tgt_lang="es") as session:
            for _ in range(5):
                await session.say("hello")
                heard.append(await session.next_result())

    async def prepare(world: World) -> None:
        await talk(world)

    run = simulate_once(SMALL, SEED, prepare=prepare)
    assert [type(result) for result in heard] == [TranslationResult] * 5
    assert run.whole.refused == 0


def test_an_utterance_for_two_targets_is_served_in_both() -> None:
    traffic = replace(SPEAKERS, tgt_langs=("es", "fr"))
    fleet = (replace(SMALL.fleet[0], languages=("en", "es", "fr"), nodes=8),)
    run = simulate_once(replace(SMALL, fleet=fleet, traffic=(traffic,)), SEED)
    assert [pair.pair for pair in run.pairs] == ["en:es", "en:fr"]
    assert run.pairs[0].whole.served == run.pairs[1].whole.served > 50


def test_a_pair_that_no_node_knows_is_refused_with_its_reason() -> None:
    traffic = replace(SPEAKERS, tgt_langs=("ja",))
    run = simulate_once(replace(SMALL, traffic=(traffic,)), SEED)
    assert run.whole.served == 0
    assert set(run.whole.reasons) == {"PAIR_UNSUPPORTED"}
    assert "no node serves this pair" in run.bottleneck.lower()


def test_arrivals_follow_the_curve_over_the_day() -> None:
    jobs = Traffic(
        kind=TrafficKind.JOBS,
        input=InputKind.TEXT,
        jobs_per_second=1.0,
        curve=((0.0, 1.0), (3_600.0, 1.0), (3_601.0, 4.0), (7_200.0, 4.0)),
    )
    scenario = Scenario(
        duration_seconds=7_200,
        warmup_seconds=0,
        start_second_of_day=0,
        fleet=(FleetGroup(nodes=10, slots=4, service_ms=Fixed(100)),),
        traffic=(jobs,),
    )
    run = simulate_once(scenario, SEED)
    first, second = (run.hours[hour].asked for hour in ("00:00", "01:00"))
    assert first == pytest.approx(3_600, rel=0.08)
    assert second == pytest.approx(4 * 3_600, rel=0.05)


def test_sessions_begin_and_end_at_the_rate_that_was_asked_for() -> None:
    traffic = replace(SPEAKERS, sessions=0, starts_per_hour=600, session_seconds=Exponential(120))
    run = simulate_once(
        replace(SMALL, duration_seconds=900, fleet=(replace(SMALL.fleet[0], nodes=8),),
                traffic=(traffic,)),
        SEED,
    )  # fmt: skip
    # Twenty are under way when it begins, and 150 begin in a quarter of an hour.
    assert run.sessions_opened == pytest.approx(170, rel=0.25)
    assert run.sessions_refused == 0
    assert run.violations == []


def test_batch_work_takes_what_live_work_leaves_free() -> None:
    batch = Traffic(
        name="batch", kind=TrafficKind.BATCH, input=InputKind.TEXT, jobs_per_second=30.0
    )
    alone = simulate_once(SMALL, SEED)
    both = simulate_once(replace(SMALL, traffic=(SPEAKERS, batch)), SEED)
    assert both.pairs[0].whole.refused == 0
    assert both.pairs[1].whole.served > 100
    assert "STILL_WAITS" in both.pairs[1].whole.reasons
    assert both.busy_share > 2 * alone.busy_share
    assert both.violations == []


def test_nodes_that_fail_by_themselves_are_noted_and_their_work_goes_elsewhere() -> None:
    group = replace(SMALL.fleet[0], fails_every_seconds=40, down_seconds=Fixed(3), nodes=6)
    run = simulate_once(replace(SMALL, fleet=(group,)), SEED)
    assert len(run.faults) > 3
    assert run.violations == []
    assert run.whole.refused_share < 0.05


def test_nodes_whose_jobs_fail_make_more_attempts() -> None:
    group = replace(SMALL.fleet[0], failure_share=0.1, nodes=8)
    run = simulate_once(replace(SMALL, fleet=(group,)), SEED)
    assert 1.03 < run.whole.attempts < 1.3


def test_limits_of_the_settings_are_those_of_the_scheduler() -> None:
    run = simulate_once(replace(SMALL, settings={"limits.max_sessions": 4}), SEED)
    assert run.sessions_refused > 0
    assert run.sessions_opened == 4


def test_speech_takes_longer_where_nodes_take_time_for_each_second_of_it() -> None:
    traffic = replace(SPEAKERS, input=InputKind.SPEECH, utterance_ms=Fixed(2_000))
    group = replace(SMALL.fleet[0], service_ms=Fixed(100), audio_ms_per_second=200)
    run = simulate_once(replace(SMALL, fleet=(group,), traffic=(traffic,), link_ms=Fixed(0)), SEED)
    assert run.whole.total_ms.p50 == pytest.approx(500, abs=1)


def test_runs_in_other_processes_give_the_same_figures() -> None:
    here = simulate(SMALL, seeds=range(3))
    assert simulate(SMALL, seeds=range(3), processes=2) == here


@pytest.mark.parametrize("pause_ms", [Fixed(5_000), Exponential(5_000), Lognormal(3_000, 15_000)])
def test_sessions_speak_as_often_at_the_beginning_as_later(pause_ms: Distribution) -> None:
    """They are taken to be under way: what a scenario begins with is no burst."""
    scenario = Scenario(
        duration_seconds=60,
        warmup_seconds=0,
        fleet=(FleetGroup(nodes=40, slots=16, service_ms=Fixed(10)),),
        traffic=(
            Traffic(sessions=1_000, input=InputKind.TEXT, utterance_ms=Fixed(0), pause_ms=pause_ms),
        ),
    )
    asked: Counter[int] = Counter()

    async def watch(world: World) -> None:
        began, served = world.loop.time(), world.recorder.served

        def noted(stream: int, asked_at: float, *figures: Any) -> None:
            asked[int(asked_at - began) // 5] += 1
            served(stream, asked_at, *figures)

        world.recorder.served = noted  # type: ignore[assignment, method-assign]

    simulate_once(scenario, SEED, prepare=watch)
    counts = [asked[step] for step in range(12)]
    expected = 1_000 * 5_000 / pause_ms.mean
    assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in counts), counts
