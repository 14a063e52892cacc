"""Experiments that start by themselves: exactly one start a time, whatever the clocks do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from random import Random
from typing import Any

import pytest
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    laboratory,
    until,
)

from dragoman.clock import SystemClock
from dragoman.errors import ExperimentNotRunning, InvalidMessage
from dragoman.ids import new_id
from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import Experiment, ExperimentSpec, TargetSpec, VersionId
from dragoman.lab.plugins import Context
from dragoman.lab.states import ENDED, RunMode, RunStatus
from dragoman.lab.timetable import Timetable

APPEND = StartAsk(RunMode.APPEND)
FUNCTIONS: dict[str, Callable[..., Any]] = {"answer": lambda n: str(n)}
LOOKS_AT_ONCE = 5
"""How often each lab looks at the same moment."""


class WallClock(SystemClock):
    """A clock that shows what the test sets."""

    def __init__(self, text: str) -> None:
        self.set(text)

    def set(self, text: str) -> None:
        self._now_ms = ms(text)

    def now_ms(self) -> int:
        return self._now_ms


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def nightly(version: VersionId | None, **options: Any) -> ExperimentSpec:
    return ExperimentSpec(
        name=new_id(Random(), "nightly"),
        dataset_version_id=version,
        target=TargetSpec("python", {"function": "answer"}),
        cron=options.pop("cron", "30 2 * * *"),
        cron_timezone=options.pop("timezone", "Europe/Vienna"),
        **options,
    )


class Instances:
    """Labs on one database, all with the same clock."""

    def __init__(self, labs: list[Laboratory], clock: WallClock) -> None:
        self.labs = labs
        self.first = labs[0]
        self.clock = clock
        self._timetables = [
            Timetable(one.lab.experiments, clock, tick_seconds=1) for one in labs
        ] * LOOKS_AT_ONCE

    async def at(self, text: str, made: Experiment) -> int:
        """How many runs start when every lab looks at this time, several times at once."""
        before = await self.runs(made)
        self.clock.set(text)
        await asyncio.gather(*(one.start_due() for one in self._timetables))
        started = await self.runs(made) - before
        await until(lambda: self.rests(made))
        return started

    async def runs(self, made: Experiment) -> int:
        [row] = await self.first.rows(
            "SELECT count(*) FROM run_log WHERE experiment_id = :e", e=made.experiment_id
        )
        return int(row[0])

    async def rests(self, made: Experiment) -> bool:
        found = await self.first.lab.experiments.show(TENANT, made.experiment_id)
        return found.experiment.status in ENDED

    async def next_run(self, made: Experiment) -> int | None:
        found = await self.first.lab.experiments.show(TENANT, made.experiment_id)
        return found.experiment.next_run_at_ms


class instances:  # noqa: N801 - used as a function
    """So many labs at work, stopped at the end."""

    def __init__(
        self,
        url: str,
        clock: WallClock,
        number: int = 2,
        functions: dict[str, Callable[..., Any]] = FUNCTIONS,
    ) -> None:
        self._url, self._clock, self._number = url, clock, number
        self._context = Context(functions=functions)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Instances:
        # Their own timetables look so seldom that the test decides when there is a look.
        settings = STEADY.model_copy(update={"safety_tick_ms": 3_000})
        labs = [
            await self._stack.enter_async_context(
                laboratory(self._url, settings, context=self._context, clock=self._clock)
            )
            for _ in range(self._number)
        ]
        return Instances(labs, self._clock)

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()


def test_each_time_has_one_start_across_instances_restarts_jumps_and_daylight_saving(
    database_url: str,
) -> None:
    clock = WallClock("2026-03-27T12:00:00+01:00")

    async def story() -> None:
        async with instances(database_url, clock) as labs:
            version, _ = await add_items(labs.first.store, [[{"n": n}] for n in range(3)])
            made, _ = await labs.first.lab.experiments.submit(TENANT, nightly(version), APPEND)
            await until(lambda: labs.rests(made))
            assert await labs.next_run(made) == ms("2026-03-28T02:30:00+01:00")
            assert await labs.at("2026-03-28T02:29:59+01:00", made) == 0
            assert await labs.at("2026-03-28T02:30:00+01:00", made) == 1
            assert await labs.at("2026-03-28T02:30:01+01:00", made) == 0
            # That night has no 2:30.
            assert await labs.at("2026-03-29T01:59:59+01:00", made) == 0
            assert await labs.at("2026-03-29T03:00:00+02:00", made) == 1
            assert await labs.at("2026-03-29T03:30:00+02:00", made) == 0
            assert await labs.at("2026-03-30T02:30:00+02:00", made) == 1
            # The clock is set back over a time that had its start.
            assert await labs.at("2026-03-30T01:00:00+02:00", made) == 0
            assert await labs.at("2026-03-30T02:30:00+02:00", made) == 0
            # The clock jumps over many times: they make one start.
            assert await labs.at("2026-04-10T12:00:00+02:00", made) == 1
            assert await labs.next_run(made) == ms("2026-04-11T02:30:00+02:00")
        # No lab is there for some days.
        clock.set("2026-10-20T12:00:00+02:00")
        async with instances(database_url, clock) as labs:
            await until(lambda: _are(labs, made, 6))
            await until(lambda: labs.rests(made))
            assert await labs.at("2026-10-20T12:00:01+02:00", made) == 0
            assert await labs.at("2026-10-24T12:00:00+02:00", made) == 1
            # That night has two of them.
            assert await labs.at("2026-10-25T02:30:00+02:00", made) == 1
            assert await labs.at("2026-10-25T02:30:00+01:00", made) == 0
            assert await labs.at("2026-10-26T02:30:00+01:00", made) == 1
            runs = await labs.first.lab.experiments.runs(TENANT, made.experiment_id)
            assert [(one.run.mode, one.run.status, one.stats.success) for one in runs] == [
                (RunMode.APPEND, RunStatus.SUCCESS, 3)
            ] * 9

    asyncio.run(story())


async def _are(labs: Instances, made: Experiment, number: int) -> bool:
    return await labs.runs(made) == number


def test_a_clock_that_was_ahead_and_was_corrected_silences_no_experiment(
    database_url: str,
) -> None:
    clock = WallClock("2026-03-27T12:00:00+01:00")

    async def story() -> None:
        async with instances(database_url, clock) as labs:
            made, _ = await labs.first.lab.experiments.submit(TENANT, nightly(None), APPEND)
            await until(lambda: labs.rests(made))
            # The times up to ten years ahead make one start, that of the next night.
            assert await labs.at("2036-01-01T12:00:00+01:00", made) == 1
            assert await labs.at("2036-01-02T12:00:00+01:00", made) == 1
            assert await labs.next_run(made) == ms("2036-01-03T02:30:00+01:00")
            # Corrected: that night's start is not made twice, and the one after it comes.
            assert await labs.at("2026-03-27T12:05:00+01:00", made) == 0
            assert await labs.next_run(made) == ms("2026-03-29T03:00:00+02:00"), "no 2:30 then"
            assert await labs.at("2026-03-28T02:30:00+01:00", made) == 0
            assert await labs.at("2026-03-29T03:00:00+02:00", made) == 1
            assert await labs.at("2026-03-30T02:30:00+02:00", made) == 1
            assert await labs.at("2036-02-01T12:00:00+01:00", made) == 1
        # Corrected while no lab was there: the first look finds it.
        clock.set("2026-10-24T12:00:00+02:00")
        async with instances(database_url, clock) as labs:
            assert await labs.at("2026-10-24T12:00:01+02:00", made) == 0
            assert await labs.next_run(made) == ms("2026-10-25T02:30:00+02:00")
            assert await labs.at("2026-10-25T02:30:00+02:00", made) == 1
            # Set back over that start, into the hour that this night has twice.
            assert await labs.at("2026-10-25T02:10:00+02:00", made) == 0
            assert await labs.at("2026-10-25T02:31:00+02:00", made) == 0
            assert await labs.at("2026-10-25T02:31:00+01:00", made) == 0
            assert await labs.at("2026-10-26T02:30:00+01:00", made) == 1

    asyncio.run(story())


def test_a_clock_that_is_set_back_over_many_starts_repeats_none_of_them(sqlite_url: str) -> None:
    clock = WallClock("2026-05-01T10:00:00+00:00")

    async def story() -> None:
        async with instances(sqlite_url, clock, 1) as labs:
            made, _ = await labs.first.lab.experiments.submit(
                TENANT, nightly(None, cron="*/15 * * * *", timezone="UTC"), APPEND
            )
            await until(lambda: labs.rests(made))
            for time in ("10:15", "10:30", "10:45", "11:00"):
                assert await labs.at(f"2026-05-01T{time}:00+00:00", made) == 1
            for time in ("10:05", "10:15", "10:30", "10:45", "11:00"):
                assert await labs.at(f"2026-05-01T{time}:00+00:00", made) == 0
            assert await labs.at("2026-05-01T11:15:00+00:00", made) == 1

    asyncio.run(story())


def test_labs_whose_clocks_differ_start_each_time_once(sqlite_url: str) -> None:
    """A clock that is behind looks last, and finds a time that it believes is still to come."""
    slow, fast = WallClock("2026-05-01T12:00:00+00:00"), WallClock("2026-05-01T12:00:00+00:00")

    async def story() -> None:
        async with (
            instances(sqlite_url, fast, 1) as ahead,
            instances(sqlite_url, slow, 1) as behind,
        ):
            made, _ = await ahead.first.lab.experiments.submit(
                TENANT, nightly(None, timezone="UTC"), APPEND
            )
            await until(lambda: ahead.rests(made))
            assert await ahead.at("2026-05-02T02:30:00+00:00", made) == 1
            assert await behind.at("2026-05-02T02:29:50+00:00", made) == 0
            assert await behind.at("2026-05-02T02:30:01+00:00", made) == 0
            assert await behind.at("2026-05-03T02:30:00+00:00", made) == 1
            assert await ahead.at("2026-05-03T02:30:10+00:00", made) == 0

    asyncio.run(story())


def test_items_that_come_between_runs_wait_for_the_next(database_url: str) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")

    async def story() -> None:
        async with instances(database_url, clock, 1) as labs:
            experiments = labs.first.lab.experiments
            made, _ = await experiments.submit(TENANT, nightly(None, timezone="UTC"), APPEND)
            await until(lambda: labs.rests(made))
            await experiments.invoke(TENANT, made.experiment_id, [[{"n": 1}], [{"n": 2}]])
            assert (await experiments.show(TENANT, made.experiment_id)).stats.success == 0
            assert await labs.at("2026-06-02T02:30:00+00:00", made) == 1
            assert (await experiments.show(TENANT, made.experiment_id)).stats.success == 2
            await experiments.invoke(TENANT, made.experiment_id, [[{"n": 3}]])
            assert await labs.at("2026-06-03T02:30:00+00:00", made) == 1
            [latest, *_] = await experiments.runs(TENANT, made.experiment_id)
            assert latest.stats.success == 3, "a run takes every item, not only new ones"

    asyncio.run(story())


def test_finish_ends_the_times_too(sqlite_url: str) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")

    async def story() -> None:
        async with instances(sqlite_url, clock, 1) as labs:
            experiments = labs.first.lab.experiments
            made, started = await experiments.submit(TENANT, nightly(None, timezone="UTC"), APPEND)
            await until(lambda: labs.rests(made))
            assert await experiments.finish(TENANT, made.experiment_id) == started.run_id
            assert await labs.next_run(made) is None
            with pytest.raises(ExperimentNotRunning):
                await experiments.invoke(TENANT, made.experiment_id, [[{"n": 1}]])
            assert await labs.at("2026-06-09T12:00:00+00:00", made) == 0

            again = await experiments.start(TENANT, made.experiment_id, APPEND)
            await until(lambda: labs.rests(made))
            assert await labs.next_run(made) == ms("2026-06-10T02:30:00+00:00")
            assert again.run_id != started.run_id

    asyncio.run(story())


def test_items_that_wait_for_the_next_run_get_a_last_one_when_it_is_finished(
    database_url: str,
) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")

    async def story() -> None:
        async with instances(database_url, clock, 1) as labs:
            experiments = labs.first.lab.experiments
            made, first = await experiments.submit(TENANT, nightly(None, timezone="UTC"), APPEND)
            await until(lambda: labs.rests(made))
            await experiments.invoke(TENANT, made.experiment_id, [[{"n": 1}], [{"n": 2}]])
            last = await experiments.finish(TENANT, made.experiment_id)
            assert last != first.run_id
            assert await labs.next_run(made) is None
            with pytest.raises(ExperimentNotRunning):
                await experiments.invoke(TENANT, made.experiment_id, [[{"n": 3}]])
            await until(lambda: labs.rests(made))
            shown = await experiments.show(TENANT, made.experiment_id)
            assert (shown.experiment.status, shown.stats.success) == (RunStatus.SUCCESS, 2)
            assert await labs.next_run(made) is None
            assert await labs.runs(made) == 2
            with pytest.raises(ExperimentNotRunning, match="nothing to finish"):
                await experiments.finish(TENANT, made.experiment_id)

    asyncio.run(story())


def test_no_item_is_lost_between_invoking_and_finishing_between_two_runs(
    database_url: str,
) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")

    async def story() -> None:
        async with instances(database_url, clock, 1) as labs:
            experiments = labs.first.lab.experiments
            made, _ = await experiments.submit(TENANT, nightly(None, timezone="UTC"), APPEND)
            await until(lambda: labs.rests(made))
            taken: list[str] = []

            async def call(n: int) -> None:
                with suppress(ExperimentNotRunning):
                    taken.extend(await experiments.invoke(TENANT, made.experiment_id, [[{"n": n}]]))

            calls = [call(n) for n in range(20)]
            await asyncio.gather(
                *calls[:10], experiments.finish(TENANT, made.experiment_id), *calls[10:]
            )
            await until(lambda: labs.rests(made))
            shown = await experiments.show(TENANT, made.experiment_id)
            assert shown.stats.success == len(taken)

    asyncio.run(story())


def test_a_last_run_that_cannot_start_is_left_out_and_the_experiment_says_why(
    sqlite_url: str,
) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")
    functions = dict(FUNCTIONS)

    async def story() -> None:
        async with instances(sqlite_url, clock, 1, functions) as labs:
            experiments = labs.first.lab.experiments
            made, first = await experiments.submit(TENANT, nightly(None, timezone="UTC"), APPEND)
            await until(lambda: labs.rests(made))
            await experiments.invoke(TENANT, made.experiment_id, [[{"n": 1}]])
            answer = functions.pop("answer")
            assert await experiments.finish(TENANT, made.experiment_id) == first.run_id
            found = (await experiments.show(TENANT, made.experiment_id)).experiment
            assert found.next_run_at_ms is None
            assert "finished without a last run" in (found.reason or "")
            functions["answer"] = answer
            await experiments.start(TENANT, made.experiment_id, APPEND)
            await until(lambda: labs.rests(made))
            assert (await experiments.show(TENANT, made.experiment_id)).stats.success == 1

    asyncio.run(story())


def test_a_run_that_is_killed_does_not_start_by_itself_again(sqlite_url: str) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")

    async def never(n: int) -> str:
        await asyncio.Event().wait()
        return str(n)

    async def story() -> None:
        async with instances(sqlite_url, clock, 1, {"answer": never}) as labs:
            version, _ = await add_items(labs.first.store, [[{"n": 1}]])
            experiments = labs.first.lab.experiments
            made, _ = await experiments.submit(TENANT, nightly(version), APPEND)
            assert await labs.next_run(made) is not None
            await experiments.kill(TENANT, made.experiment_id)
            await until(lambda: labs.rests(made))
            assert await labs.next_run(made) is None
            assert await labs.at("2026-06-09T12:00:00+00:00", made) == 0

    asyncio.run(story())


def test_an_experiment_with_cron_starts_in_no_other_mode(sqlite_url: str) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")

    async def story() -> None:
        async with instances(sqlite_url, clock, 1) as labs:
            version, _ = await add_items(labs.first.store, [[{"n": 1}]])
            experiments = labs.first.lab.experiments
            made = await experiments.create(TENANT, nightly(version))
            for mode in (RunMode.SUBMIT, RunMode.RETRY_ALL, RunMode.FAIL_RETRY):
                with pytest.raises(InvalidMessage, match="can only be started in mode append"):
                    await experiments.start(TENANT, made.experiment_id, StartAsk(mode))
            with pytest.raises(InvalidMessage, match="bad minute"):
                await experiments.create(TENANT, nightly(version, cron="99 * * * *"))
            clock.set("2026-06-09T12:00:00+00:00")
            assert await experiments.due_starts() == [], "it was never started"

    asyncio.run(story())


def test_a_start_that_is_refused_says_why_and_the_next_time_stands(sqlite_url: str) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")
    functions = dict(FUNCTIONS)

    async def story() -> None:
        async with instances(sqlite_url, clock, 1, functions) as labs:
            experiments = labs.first.lab.experiments
            made, _ = await experiments.submit(TENANT, nightly(None, timezone="UTC"), APPEND)
            await until(lambda: labs.rests(made))
            answer = functions.pop("answer")
            assert await labs.at("2026-06-02T02:30:00+00:00", made) == 0
            functions["answer"] = answer
            found = (await experiments.show(TENANT, made.experiment_id)).experiment
            assert "The run of 2026-06-02T02:30:00+00:00 did not start" in (found.reason or "")
            assert found.next_run_at_ms == ms("2026-06-03T02:30:00+00:00")
            assert await labs.at("2026-06-03T02:30:00+00:00", made) == 1

    asyncio.run(story())


def test_a_start_that_the_tenants_limit_refuses_waits_and_others_do_not(sqlite_url: str) -> None:
    clock = WallClock("2026-06-01T12:00:00+00:00")

    async def story() -> None:
        settings = STEADY.model_copy(update={"running_experiments": 1, "safety_tick_ms": 3_000})
        context = Context(functions=FUNCTIONS)
        async with laboratory(sqlite_url, settings, context=context, clock=clock) as at:
            labs = Instances([at], clock)
            experiments = at.lab.experiments
            made, _ = await experiments.submit(TENANT, nightly(None, timezone="UTC"), APPEND)
            await until(lambda: labs.rests(made))
            open_spec = ExperimentSpec(
                name="open",
                dataset_version_id=None,
                target=TargetSpec("python", made.spec.target.settings),
            )
            holds, _ = await experiments.submit(TENANT, open_spec, APPEND)
            assert await labs.at("2026-06-02T02:30:00+00:00", made) == 0
            assert await labs.next_run(made) == ms("2026-06-02T02:30:00+00:00")
            await experiments.finish(TENANT, holds.experiment_id)
            await until(lambda: labs.rests(holds))
            assert await labs.at("2026-06-02T02:31:00+00:00", made) == 1

    asyncio.run(story())
