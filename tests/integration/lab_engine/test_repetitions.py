"""Items that are tried several times: each repetition is worked on, kept and retried by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.chaos_seeds import chaos_seeds
from tests.integration.lab_engine.laboratory import (
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
    read,
    until,
)
from tests.integration.lab_engine.processes import LabProcess
from tests.integration.lab_engine.targets import noted
from tests.servers import DATABASES, TWO_DATABASES

from dragoman.lab.experiments import StartAsk
from dragoman.lab.failures import TargetError
from dragoman.lab.feed import ItemsArchived
from dragoman.lab.filters import parse_filter
from dragoman.lab.model import ExperimentId, ItemId, JsonValue, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.results import Repeated, Results, Sorting
from dragoman.lab.states import ENDED, RunMode, RunStatus
from dragoman.store import Store, open_store, upgrade

DATABASE_KINDS = TWO_DATABASES

SEED = 20_261_115
SEEDS = chaos_seeds(3, first=SEED)
"""One for each database; `make chaos` draws many more."""
N = 3


def turn(calls: str, key: str, number: int = 0, **changes: JsonValue) -> dict[str, JsonValue]:
    return {
        "key": key,
        "turn": number,
        "calls": calls,
        "delay_ms": 0,
        "fate": "well",
        **changes,
    }


class Repeating:
    """A target that fails at chosen calls of an item, counted from 1."""

    def __init__(self, failing: dict[str, set[int]] | None = None) -> None:
        self.failing = failing or {}
        self.calls: Counter[str] = Counter()

    async def __call__(self, key: str) -> str:
        self.calls[key] += 1
        if self.calls[key] in self.failing.get(key, ()):
            raise TargetError("not this time", retryable=False)
        return f"{key} {self.calls[key]}"


def calling(version: Any, **options: Any) -> Any:
    """An experiment on the function `target`, one call at a time."""
    spec = experiment(version, "answer", {"length": "judge"}, concurrency=1, **options)
    return msgspec.structs.replace(spec, target=TargetSpec("python", {"function": "target"}))


async def rows_of(at: Laboratory, experiment_id: ExperimentId, **asked: Any) -> list[Any]:
    rows, _ = await Results(at.store).page(TENANT, experiment_id, **asked)
    return rows


def test_every_item_is_tried_as_often_as_asked_and_each_time_is_a_row(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            items = [[turn(calls, f"k{n}", t) for t in range(2)] for n in range(4)]
            version, _ = await add_items(at.store, items)

            made = await at.run(experiment(version, "answer", {"length": "judge"}, repetitions=N))

            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.SUCCESS
            assert (shown.stats.success, shown.stats.items, shown.items) == (12, 12, 12)
            assert shown.progress == 1.0
            assert set(Counter(noted(calls)).values()) == {N}
            rows = await rows_of(at, made.experiment_id)
            assert [(row.repetition, row.turn) for row in rows] == [
                (repetition, t) for _ in range(4) for repetition in (1, 2, 3) for t in range(2)
            ]
            assert all(row.scores["length"].score is not None for row in rows)

    asyncio.run(story())


def test_rows_are_filtered_sorted_and_paged_by_repetition(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(5)])
            made = await at.run(experiment(version, "answer", {"length": "judge"}, repetitions=N))

            wanted = parse_filter({"field": "repetition", "op": ">=", "value": 2})
            found = await rows_of(at, made.experiment_id, wanted=wanted)
            assert [row.repetition for row in found] == [2, 3] * 5
            aggregates = await Results(at.store).aggregates(
                TENANT, made.experiment_id, wanted=wanted
            )
            assert aggregates.scores["length"].count == 10

            paged: list[tuple[str, int]] = []
            after = None
            for sorting in ((), (Sorting("repetition", descending=True),)):
                paged.clear()
                while True:
                    page, after = await Results(at.store).page(
                        TENANT, made.experiment_id, sorting=sorting, after=after, most=2
                    )
                    paged += [(row.item_id, row.repetition) for row in page]
                    if after is None:
                        break
                assert len(paged) == len(set(paged)) == 15
            assert [repetition for _, repetition in paged] == [3] * 5 + [2] * 5 + [1] * 5

    asyncio.run(story())


def test_fail_retry_tries_the_failed_repetitions_alone(database_url: str, calls: str) -> None:
    target = Repeating({"k0": {2}, "k2": {1, 3}})

    async def story() -> None:
        context = Context(functions={"target": target})
        async with laboratory(database_url, context=context) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(3)])
            made = await at.run(calling(version, repetitions=N))
            failed = [
                (row.repetition, row.status)
                for row in await rows_of(at, made.experiment_id)
                if row.status != "success"
            ]
            assert failed == [(2, "fail"), (1, "fail"), (3, "fail")]
            reached = await Results(at.store).aggregates(TENANT, made.experiment_id)
            assert (reached.failures.items, reached.failures.share) == (3, 3 / 9)
            before = Counter(target.calls)

            ask = StartAsk(RunMode.FAIL_RETRY)
            started = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            await at.ended(started.run_id)

            assert target.calls - before == Counter({"k0": 1, "k2": 2})
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert (shown.stats.success, shown.stats.fail) == (9, 0)
            (run, _) = await at.lab.experiments.runs(TENANT, made.experiment_id)
            assert run.stats.items == 3

    asyncio.run(story())


def test_retry_items_tries_every_repetition_of_an_item_again(database_url: str, calls: str) -> None:
    target = Repeating()

    async def story() -> None:
        context = Context(functions={"target": target})
        async with laboratory(database_url, context=context) as at:
            version, ids = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(3)])
            made = await at.run(calling(version, repetitions=N))

            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=(ids[1],))
            started = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            await at.ended(started.run_id)

            assert target.calls == Counter({"k0": 3, "k1": 6, "k2": 3})
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert (shown.stats.success, shown.progress) == (9, 1.0)

    asyncio.run(story())


def test_retry_items_joins_a_run_with_the_repetitions_that_have_ended(
    database_url: str, calls: str
) -> None:
    held = asyncio.Event()
    target = Repeating()

    async def story() -> None:
        async def held_up(key: str) -> str:
            said = await target(key)
            if key == "k1" and target.calls[key] == 2:
                await held.wait()
            return said

        context = Context(functions={"target": held_up})
        async with laboratory(database_url, context=context) as at:
            version, ids = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(3)])
            made, started = await at.lab.experiments.submit(TENANT, calling(version, repetitions=N))

            async def is_held() -> bool:
                # The next repetition begins before the end of the last one is written.
                ended = "SELECT COUNT(*) FROM item_run_log WHERE result_state <> 'init'"
                return target.calls["k1"] == 2 and await at.rows(ended) == [(N + 1,)]

            await until(is_held)
            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=(ids[0], ids[1]))
            joined = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            assert (joined.run_id, joined.joined) == (started.run_id, True)
            held.set()
            await at.ended(started.run_id)

            # Of k1, one repetition had ended, one was being worked on, one was waiting.
            assert target.calls == Counter({"k0": 6, "k1": 4, "k2": 3})
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert (shown.stats.success, shown.stats.items) == (9, 9)

    asyncio.run(story())


def test_a_trial_tries_the_first_items_with_all_their_repetitions(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(5)])
            spec = experiment(version, "answer", repetitions=N)
            ask = StartAsk(RunMode.TRIAL, trial_items=2)
            made, started = await at.lab.experiments.submit(TENANT, spec, ask)
            await at.ended(started.run_id)

            assert Counter(noted(calls)) == Counter({"k0/0": N, "k1/0": N})
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert (shown.items, shown.stats.success, shown.progress) == (6, 6, 1.0)

    asyncio.run(story())


def test_a_start_in_pages_has_whole_items_and_every_repetition(
    database_url: str, calls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.lab.scheduler.step.START_PAGE", 7)

    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(11)])
            made = await at.run(experiment(version, "answer", repetitions=N))

            rows = await at.rows(
                "SELECT item_id, count(*), min(repetition), max(repetition) FROM item_result "
                "WHERE experiment_id = :e GROUP BY item_id",
                e=made.experiment_id,
            )
            assert [row[1:] for row in rows] == [(N, 0, N - 1)] * 11

    asyncio.run(story())


def test_a_watcher_hears_of_every_repetition_once_and_reads_its_row(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(4)])
            spec = experiment(version, "answer", repetitions=N)
            made = await at.lab.experiments.create(TENANT, spec)
            told: list[tuple[str, int]] = []
            with at.lab.feed.watch(made.experiment_id) as watcher:
                await at.lab.experiments.start(TENANT, made.experiment_id)
                async for change in watcher:
                    if not isinstance(change, ItemsArchived):
                        break
                    rows = await Results(at.store).of_items(made.experiment_id, change.keys)
                    assert len(rows) == len(change.keys)
                    told += [(row.item_id, row.repetition) for row in rows]
            assert len(told) == len(set(told)) == 4 * N

    asyncio.run(story())


def test_aggregates_tell_how_repetitions_vary_and_what_k_tries_achieve(
    database_url: str, calls: str
) -> None:
    said = {"k0": [1.0, 0.0, 1.0, 1.0], "k1": [0.0, 0.0, 0.0, 1.0]}
    made_so_far: Counter[str] = Counter()

    async def target(key: str) -> float:
        made_so_far[key] += 1
        return said[key][made_so_far[key] - 1]

    async def score(output: float) -> bool:
        return output == 1.0

    async def story() -> Repeated:
        context = Context(functions={"target": target, "score": score})
        async with laboratory(database_url, context=context) as at:
            version, _ = await add_items(at.store, [[turn(calls, key)] for key in said])
            spec = calling(version, repetitions=4)
            judge = msgspec.structs.replace(spec.evaluators[0], settings={"function": "score"})
            made = await at.run(msgspec.structs.replace(spec, evaluators=(judge,)))
            reached = await Results(at.store).aggregates(TENANT, made.experiment_id)
            await until(_rows_in(at.store, "experiment_aggregate"))  # a moment after the end
            kept = await at.rows("SELECT aggregates_json FROM experiment_aggregate")
            assert '"pass_hat_k"' in kept[0][0]
            told = reached.scores["length"].repetitions
            assert isinstance(told, Repeated)
            return told

    told = asyncio.run(story())
    # Means 3/4 and 1/4; each item's squares add up to 3/4, with three degrees of freedom.
    assert told.count == 4
    assert told.within == pytest.approx(0.25)
    assert told.between == pytest.approx(0.125 - 0.25 / 4)
    assert told.pass_at_k == pytest.approx({1: 0.5, 2: 0.75, 3: 0.875, 4: 1.0})
    assert told.pass_hat_k == pytest.approx({1: 0.5, 2: 0.25, 3: 0.125, 4: 0.0})


# --- kills ----------------------------------------------------------------------------------------

Snapshot = list[Any]
ITEMS = 10
FATES = ("well", "well", "well", "target_fails", "evaluator_fails")


def cases(calls: str) -> list[list[dict[str, JsonValue]]]:
    """Items of one or two turns, some of which fail, always in the same way."""
    random = Random(SEED)
    return [
        [
            turn(
                calls,
                f"k{number}",
                t,
                delay_ms=random.choice((0, 5, 20)),
                fate=random.choice(FATES),
            )
            for t in range(random.choice((1, 2)))
        ]
        for number in range(ITEMS)
    ]


async def snapshot(store: Store, experiment_id: ExperimentId, ids: list[ItemId]) -> Snapshot:
    """What users see, without what differs between any two runs."""
    rows, after = await Results(store).page(TENANT, experiment_id, most=1000)
    assert after is None
    named = await read(store, "SELECT id, coalesce(content_id, id) FROM dataset_item")
    places = {shown: ids.index(item_id) for item_id, shown in named if item_id in ids}
    return [
        (
            *(places[row.item_id], row.repetition, row.turn, row.status, row.output, row.scores),
            *(row.error_code, row.error_message),
        )
        for row in rows
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """What comes out when no process is killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    url = f"sqlite:///{folder}/dragoman.db"
    upgrade(url)

    async def story() -> Snapshot:
        async with laboratory(url) as at:
            version, ids = await add_items(at.store, cases(str(folder / "calls")))
            made = await at.run(experiment(version, "answer", {"length": "judge"}, repetitions=N))
            return await snapshot(at.store, made.experiment_id, ids)

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("database_url", "seed"),
    [(DATABASES[number % len(DATABASES)], seed) for number, seed in enumerate(SEEDS)],
    indirect=["database_url"],
)
def test_a_kill_at_a_random_moment_loses_and_repeats_no_repetition(
    database_url: str, tmp_path: Path, undisturbed: Snapshot, seed: int
) -> None:
    random = Random(seed)
    calls = str(tmp_path / "calls")
    victims = random.choice((("scheduler",), ("worker",), ("scheduler", "worker")))
    moment_seconds = random.uniform(0.0, 0.6)

    async def story() -> None:
        async with await open_store(database_url) as store:
            version, ids = await add_items(store, cases(calls))
            spec = experiment(version, "answer", {"length": "judge"}, repetitions=N)
            async with laboratory(database_url, schedules=False, works=False) as idle:
                made, _ = await idle.lab.experiments.submit(TENANT, spec)
            with ExitStack() as stack:
                alive = {role: stack.enter_context(_process(database_url, role)) for role in ROLES}
                await until(_rows_in(store, "item_run_log"))
                await asyncio.sleep(moment_seconds)
                for role in victims:
                    alive[role].kill()
                for role in victims:
                    stack.enter_context(_process(database_url, role))
                await until(_is_over(store))
                assert await snapshot(store, made.experiment_id, ids) == undisturbed
                # Each repetition has one output of its own for each turn that has one.
                outputs = await read(
                    store,
                    "SELECT item_id, repetition, turn_no, count(*) FROM target_record "
                    "GROUP BY item_id, repetition, turn_no",
                )
                assert {row[3] for row in outputs} == {1}
                states = await read(
                    store,
                    "SELECT DISTINCT result_state, archived_try_no - try_no FROM item_run_log",
                )
                assert states == [("resulted", 0)]

    asyncio.run(story())


def test_a_killed_run_goes_on_with_the_repetitions_that_are_missing(
    database_url: str, calls: str
) -> None:
    target = Repeating()
    held = asyncio.Event()

    async def story() -> None:
        async def held_up(key: str) -> str:
            said = await target(key)
            if target.calls.total() == 5:
                await held.wait()
            return said

        context = Context(functions={"target": held_up})
        async with laboratory(database_url, context=context) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(3)])
            made, started = await at.lab.experiments.submit(TENANT, calling(version, repetitions=N))

            async def is_held() -> bool:
                shown = await at.lab.experiments.show(TENANT, made.experiment_id)
                return target.calls.total() == 5 and shown.stats.success == 4

            await until(is_held)
            await at.lab.experiments.kill(TENANT, made.experiment_id)
            await at.ended(started.run_id)
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert (shown.stats.success, shown.stats.terminated) == (4, 5)

            ask = StartAsk(RunMode.FAIL_RETRY)
            started = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            await at.ended(started.run_id)

            assert target.calls == Counter({"k0": 3, "k1": 4, "k2": 3})
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert (shown.stats.success, shown.stats.items) == (9, 9)

    asyncio.run(story())


ROLES = ("scheduler", "worker")


def _process(url: str, role: str) -> LabProcess:
    return LabProcess(url, schedules=role == "scheduler", works=role == "worker")


def _rows_in(store: Store, table: str) -> Callable[[], Any]:
    async def some() -> bool:
        return bool((await read(store, f"SELECT count(*) FROM {table}"))[0][0])

    return some


def _is_over(store: Store) -> Callable[[], Any]:
    async def over() -> bool:
        statuses = await read(store, "SELECT status FROM run_log")
        return all(RunStatus(status) in ENDED for (status,) in statuses)

    return over
