"""Scoring stored outputs again: no target is called, and nothing that was there is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.chaos_seeds import chaos_seeds
from tests.integration.lab_engine.laboratory import (
    HERE,
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
    read,
    until,
)
from tests.integration.lab_engine.processes import LabProcess
from tests.integration.lab_engine.targets import noted, touch
from tests.servers import DATABASES, TWO_DATABASES

from dragoman.errors import ExperimentRunning, InvalidMessage, SchemaMismatch
from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import EvaluatorSpec, ExperimentId, JsonValue, RunId, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.results import Results
from dragoman.lab.states import ENDED, RunMode, RunStatus
from dragoman.store import Store, open_store

DATABASE_KINDS = TWO_DATABASES

SEED = 20_261_116
SEEDS = chaos_seeds(3, first=SEED)
"""One for each database; `make chaos` draws many more."""


def turn(calls: str, key: str, number: int = 0, **changes: JsonValue) -> dict[str, JsonValue]:
    return {
        "key": key,
        "turn": number,
        "calls": calls,
        "delay_ms": 0,
        "fate": "well",
        "fixed": f"{calls}.fixed",
        **changes,
    }


def evaluator(name: str, function: str) -> EvaluatorSpec:
    return EvaluatorSpec("python", name, settings={"function": f"{HERE}:{function}"})


async def rows_of(store: Store, experiment_id: str, run_id: RunId | None = None) -> list[Any]:
    rows, after = await Results(store).page(TENANT, experiment_id, most=1000, run_id=run_id)
    assert after is None
    return rows


def scores_of(rows: list[Any]) -> list[dict[str, float | None]]:
    return [{name: cell.score for name, cell in row.scores.items()} for row in rows]


async def score(at: Laboratory, experiment_id: ExperimentId, *specs: EvaluatorSpec) -> RunId:
    started = await at.lab.experiments.score(TENANT, experiment_id, specs)
    await at.ended(started.run_id)
    return started.run_id


def test_a_new_evaluator_scores_what_is_stored_and_no_target_is_called(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(5)])
            made = await at.run(experiment(version, "answer", {"length": "judge"}, repetitions=2))
            first = (await rows_of(at.store, made.experiment_id))[0].run_id
            before = Counter(noted(calls))

            run_id = await score(at, made.experiment_id, evaluator("again", "judge_again"))

            assert Counter(noted(calls)) - before == Counter({f"again/k{n}": 2 for n in range(5)})
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.SUCCESS
            assert (shown.stats.success, shown.progress) == (10, 1.0)
            rows = await rows_of(at.store, made.experiment_id)
            assert {row.run_id for row in rows} == {run_id}
            assert scores_of(rows) == [{"length": 5.0, "again": 10.0}] * 10
            assert await rows_of(at.store, made.experiment_id, run_id) == rows
            earlier = await rows_of(at.store, made.experiment_id, first)
            assert scores_of(earlier) == [{"length": 5.0}] * 10
            results = Results(at.store)
            history = await results.aggregates(TENANT, made.experiment_id, run_id=first)
            assert set(history.scores) == {"length"}
            now = await results.aggregates(TENANT, made.experiment_id)
            assert {name: found.mean for name, found in now.scores.items()} == {
                "length": 5.0,
                "again": 10.0,
            }
            (run, _) = await at.lab.experiments.runs(TENANT, made.experiment_id)
            assert (run.run.mode, run.stats.success) == (RunMode.SCORE, 10)

    asyncio.run(story())


def test_an_evaluator_of_the_same_name_replaces_the_former_and_history_keeps_it(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(3)])
            spec = experiment(version, "answer", {"length": "judge", "good": "judge_noting"})
            made = await at.run(spec)
            first = (await rows_of(at.store, made.experiment_id))[0].run_id
            before = Counter(noted(calls))

            for _ in range(2):  # the same again is scored again, too
                await score(at, made.experiment_id, evaluator("length", "judge_again"))

            assert Counter(noted(calls)) - before == Counter({f"again/k{n}": 2 for n in range(3)})
            rows = await rows_of(at.store, made.experiment_id)
            assert scores_of(rows) == [{"good": 1.0, "length": 10.0}] * 3
            earlier = await rows_of(at.store, made.experiment_id, first)
            assert scores_of(earlier) == [{"length": 5.0, "good": 1.0}] * 3
            found = (await at.lab.experiments.show(TENANT, made.experiment_id)).experiment.spec
            assert [one.name for one in found.evaluators] == ["length", "good"]
            assert found.evaluator_numbers == (3, 1)

    asyncio.run(story())


def test_what_the_target_failed_at_stays_failed_with_its_own_reason(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            half = [turn(calls, "half", 0), turn(calls, "half", 1, fate="target_fails")]
            none = [turn(calls, "none", 0, fate="target_fails")]
            version, _ = await add_items(at.store, [[turn(calls, "well")], half, none])
            made = await at.run(experiment(version, "answer"))
            before = await rows_of(at.store, made.experiment_id)
            called = len(noted(calls))

            await score(at, made.experiment_id, evaluator("again", "judge_again"))

            assert noted(calls)[called:].count("again/well") == 1
            assert sorted(noted(calls)[called:]) == ["again/half", "again/well"]
            after = await rows_of(at.store, made.experiment_id)
            assert [row.status for row in after] == ["success", "success", "fail", "fail"]
            assert [(row.output, row.error_code, row.error_message) for row in after] == [
                (row.output, row.error_code, row.error_message) for row in before
            ]
            assert [bool(found) for found in scores_of(after)] == [True, True, False, False]
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert (shown.stats.success, shown.stats.fail) == (1, 2)

    asyncio.run(story())


def test_outputs_and_scores_stay_in_sight_while_they_are_scored_again_and_after_a_kill(
    database_url: str, calls: str
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    judged: list[str] = []

    async def held_up(output: str, key: str) -> float:
        judged.append(key)
        if len(judged) == 3:
            reached.set()
            await go_on.wait()
        return 7.0

    async def story() -> None:
        context = Context(functions={"held up": held_up})
        async with laboratory(database_url, context=context) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(5)])
            spec = experiment(
                version, "answer", {"length": "judge", "good": "judge_noting"}, concurrency=1
            )
            made = await at.run(spec)
            before = await rows_of(at.store, made.experiment_id)
            called = len(noted(calls))
            new = EvaluatorSpec("python", "length", settings={"function": "held up"})
            started = await at.lab.experiments.score(TENANT, made.experiment_id, [new])
            await asyncio.wait_for(reached.wait(), 60)

            async def two_are_done() -> bool:
                rows = await rows_of(at.store, made.experiment_id)
                return [row.run_id for row in rows].count(started.run_id) == 2

            await until(two_are_done)
            midway = await rows_of(at.store, made.experiment_id)
            assert [row.status for row in midway] == ["success"] * 5
            assert [row.output for row in midway] == [row.output for row in before]
            await at.lab.experiments.kill(TENANT, made.experiment_id)
            assert await at.ended(started.run_id) is RunStatus.TERMINATED

            killed = await rows_of(at.store, made.experiment_id)
            assert [row.status for row in killed] == [*["success"] * 2, *["terminated"] * 3]
            assert [row.output for row in killed] == [row.output for row in before]
            # What another evaluator of that name said does not pass for this one's.
            assert scores_of(killed) == [{"good": 1.0, "length": 7.0}] * 2 + [{"good": 1.0}] * 3
            aggregates = await Results(at.store).aggregates(TENANT, made.experiment_id)
            length = aggregates.scores["length"]
            assert (length.count, length.errors, length.mean) == (2, 3, 7.0)

            go_on.set()
            ask = StartAsk(RunMode.FAIL_RETRY)
            again = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            assert await at.ended(again.run_id) is RunStatus.SUCCESS

            assert noted(calls)[called:] == [], "neither the target nor the other evaluator"
            assert Counter(judged) == Counter({"k0": 1, "k1": 1, "k2": 2, "k3": 1, "k4": 1})
            rows = await rows_of(at.store, made.experiment_id)
            assert scores_of(rows) == [{"good": 1.0, "length": 7.0}] * 5
            assert [row.output for row in rows] == [row.output for row in before]
            assert [row.latency_ms for row in rows] == [row.latency_ms for row in before]

    asyncio.run(story())


def test_an_evaluator_that_failed_is_retried_without_the_target(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(2)])
            made = await at.run(experiment(version, "answer", {"length": "judge"}))
            called = len(noted(calls))
            await score(at, made.experiment_id, evaluator("broken", "judge_unless_broken"))
            rows = await rows_of(at.store, made.experiment_id)
            assert [(row.status, row.error_code) for row in rows] == [
                ("fail", "EVALUATOR_ERROR")
            ] * 2
            assert scores_of(rows) == [{"length": 5.0, "broken": None}] * 2

            touch(f"{calls}.fixed")
            ask = StartAsk(RunMode.FAIL_RETRY)
            again = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            await at.ended(again.run_id)

            assert Counter(noted(calls)[called:]) == Counter({"broken/k0": 2, "broken/k1": 2})
            rows = await rows_of(at.store, made.experiment_id)
            assert scores_of(rows) == [{"length": 5.0, "broken": 1.0}] * 2

    asyncio.run(story())


def test_a_target_that_is_gone_does_not_keep_its_outputs_from_being_scored(
    sqlite_url: str, calls: str
) -> None:
    async def target(key: str) -> str:
        return key

    async def story() -> None:
        context = Context(functions={"target": target})
        async with laboratory(sqlite_url, context=context) as at:
            version, _ = await add_items(at.store, [[turn(calls, "k0")]])
            spec = experiment(version, "answer", {"length": "judge"})
            gone = TargetSpec("python", {"function": "target"})
            made = await at.run(msgspec.structs.replace(spec, target=gone))
        async with laboratory(sqlite_url) as at:
            await score(at, made.experiment_id, evaluator("again", "judge_again"))
            rows = await rows_of(at.store, made.experiment_id)
            assert scores_of(rows) == [{"length": 2.0, "again": 4.0}]

    asyncio.run(story())


def test_what_cannot_be_scored_is_refused_before_anything_changes(
    sqlite_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, "k0")]])
            lab = at.lab.experiments
            made = await lab.create(TENANT, experiment(version, "answer", {"length": "judge"}))
            new = evaluator("again", "judge_again")
            with pytest.raises(InvalidMessage, match="has not been run"):
                await lab.score(TENANT, made.experiment_id, [new])
            started = await lab.start(TENANT, made.experiment_id)
            await at.ended(started.run_id)
            with pytest.raises(InvalidMessage, match="at least one"):
                await lab.score(TENANT, made.experiment_id, [])
            with pytest.raises(InvalidMessage, match="Two evaluators"):
                await lab.score(TENANT, made.experiment_id, [new, new])
            nowhere = EvaluatorSpec("exact", "exact", settings={"reference": "nowhere"})
            with pytest.raises(SchemaMismatch, match="nowhere"):
                await lab.score(TENANT, made.experiment_id, [nowhere])
            with pytest.raises(InvalidMessage, match="score"):
                await lab.start(TENANT, made.experiment_id, StartAsk(RunMode.SCORE))
            found = (await lab.show(TENANT, made.experiment_id)).experiment
            assert found.spec == made.spec
            assert found.run_id == started.run_id

            held = experiment(version, "hang", {"length": "judge"})
            hanging, running = await lab.submit(TENANT, held)
            with pytest.raises(ExperimentRunning):
                await lab.score(TENANT, hanging.experiment_id, [new])
            await lab.kill(TENANT, hanging.experiment_id)
            await at.ended(running.run_id)

    asyncio.run(story())


def test_items_cannot_join_a_run_that_only_scores(sqlite_url: str, calls: str) -> None:
    go_on = asyncio.Event()

    async def held_up(output: str) -> float:
        await go_on.wait()
        return 1.0

    async def story() -> None:
        context = Context(functions={"held up": held_up})
        async with laboratory(sqlite_url, context=context) as at:
            version, ids = await add_items(at.store, [[turn(calls, "k0")]])
            made = await at.run(experiment(version, "answer"))
            new = EvaluatorSpec("python", "new", settings={"function": "held up"})
            started = await at.lab.experiments.score(TENANT, made.experiment_id, [new])
            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=(ids[0],))
            with pytest.raises(ExperimentRunning):
                await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            go_on.set()
            await at.ended(started.run_id)
            assert noted(calls) == ["k0/0"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("database_url", "seed"),
    [(DATABASES[number % len(DATABASES)], seed) for number, seed in enumerate(SEEDS)],
    indirect=["database_url"],
)
def test_a_kill_at_a_random_moment_loses_no_output_and_no_score(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    calls = str(tmp_path / "calls")
    victims = random.choice((("scheduler",), ("worker",), ("scheduler", "worker")))
    moment_seconds = random.uniform(0.0, 0.4)

    async def story() -> None:
        async with await open_store(database_url) as store:
            items = [[turn(calls, f"k{n}", t) for t in range(1 + n % 2)] for n in range(8)]
            version, _ = await add_items(store, items)
            async with laboratory(database_url) as at:
                made = await at.run(
                    experiment(version, "answer", {"length": "judge"}, repetitions=2, retries=10)
                )
            before = await rows_of(store, made.experiment_id)
            called = len(noted(calls))
            async with laboratory(database_url, schedules=False, works=False) as idle:
                new = evaluator("slow", "judge_slowly")
                started = await idle.lab.experiments.score(TENANT, made.experiment_id, [new])
            with ExitStack() as stack:
                alive = {role: stack.enter_context(_process(database_url, role)) for role in ROLES}
                await until(lambda: _has_rows(store, started.run_id))
                await asyncio.sleep(moment_seconds)
                for role in victims:
                    alive[role].kill()
                midway = await rows_of(store, made.experiment_id)
                assert [row.output for row in midway] == [row.output for row in before]
                assert all("length" in row.scores for row in midway)
                for role in victims:
                    stack.enter_context(_process(database_url, role))
                await until(lambda: _is_over(store, started.run_id))
                after = await rows_of(store, made.experiment_id)
            assert [(row.output, row.status) for row in after] == [
                (row.output, row.status) for row in before
            ]
            assert scores_of(after) == [
                {**found, "slow": 3.0 * (found["length"] or 0)} for found in scores_of(before)
            ]
            assert {line.split("/")[0] for line in noted(calls)[called:]} == {"slow"}

    asyncio.run(story())


ROLES = ("scheduler", "worker")


def _process(url: str, role: str) -> LabProcess:
    return LabProcess(url, schedules=role == "scheduler", works=role == "worker")


async def _has_rows(store: Store, run_id: RunId) -> bool:
    counted = "SELECT count(*) FROM item_run_log WHERE run_id = :run"
    return bool((await read(store, counted, run=run_id))[0][0])


async def _is_over(store: Store, run_id: RunId) -> bool:
    found = await read(store, "SELECT status FROM run_log WHERE id = :run", run=run_id)
    return RunStatus(found[0][0]) in ENDED
