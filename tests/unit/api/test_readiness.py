"""A server says whether it should be sent work, and if not, why."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.api.application import asked, settings_in

from dragoman.api import Lifecycle, Readiness, ReadinessVerdict, ServerState
from dragoman.clock import ManualClock


async def fine() -> None:
    return None


async def broken() -> None:
    raise ConnectionError("password sesame was refused")


async def silent() -> None:
    await asyncio.Event().wait()


def test_a_server_that_starts_or_drains_says_so() -> None:
    async def scenario() -> list[ReadinessVerdict]:
        lifecycle = Lifecycle()
        readiness = Readiness(lifecycle, ManualClock())
        verdicts = [await readiness.verdict()]
        for state in (ServerState.READY, ServerState.DRAINING):
            lifecycle.move(state)
            verdicts.append(await readiness.verdict())
        return verdicts

    starting, ready, draining = asyncio.run(scenario())

    assert starting == ReadinessVerdict("starting", ("the server is starting",))
    assert ready == ReadinessVerdict("ready")
    assert ready.ready
    assert draining == ReadinessVerdict("draining", ("the server is draining",))


def test_the_dependencies_that_are_down_are_named_and_nothing_is_given_away() -> None:
    async def scenario() -> ReadinessVerdict:
        lifecycle = Lifecycle()
        lifecycle.move(ServerState.READY)
        readiness = Readiness(lifecycle, ManualClock(), timeout_seconds=0.01)
        readiness.add("the database", fine)
        readiness.add("Redis", broken)
        readiness.add("the catalog", silent)
        return await readiness.verdict()

    assert asyncio.run(scenario()) == ReadinessVerdict(
        "unavailable",
        ("Redis is down", "the catalog does not answer"),
        dependencies={"the database": True, "Redis": False, "the catalog": False},
    )


def test_what_limits_work_is_named_and_the_server_stays_ready() -> None:
    said: list[str | None] = [None, "Redis has no memory left and refuses new work"]

    async def scenario() -> list[ReadinessVerdict]:
        lifecycle = Lifecycle()
        lifecycle.move(ServerState.READY)
        readiness = Readiness(lifecycle, ManualClock())
        readiness.add_warning(lambda: said.pop(0))
        return [await readiness.verdict(), await readiness.verdict()]

    well, limited = asyncio.run(scenario())

    assert (well.ready, well.warnings) == (True, ())
    assert (limited.ready, limited.status) == (True, "ready")
    assert limited.warnings == ("Redis has no memory left and refuses new work",)


def test_readyz_follows_the_server_and_its_database(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with asked(settings_in(tmp_path)) as (client, services):
            ready = await client.get("/readyz")
            await services.store.close()
            without_store = await client.get("/readyz")
            services.lifecycle.move(ServerState.DRAINING)
            draining = await client.get("/readyz")
            alive = await client.get("/healthz")
        assert (ready.status_code, ready.json()) == (
            200,
            {"status": "ready", "reasons": [], "lacking": [], "warnings": []},
        )
        assert without_store.status_code == 503
        assert without_store.json() == {
            "status": "unavailable",
            "reasons": ["the database is down"],
            "lacking": [],
            "warnings": [],
        }
        assert draining.status_code == 503
        assert draining.json()["status"] == "draining"
        assert (alive.status_code, alive.json()) == (200, {"status": "ok"})

    asyncio.run(scenario())


def test_metrics_tell_whether_the_server_is_ready_and_what_it_lacks(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, str]:
        async with asked(settings_in(tmp_path)) as (client, services):
            ready = (await client.get("/metrics")).text
            await services.store.close()
            return ready, (await client.get("/metrics")).text

    ready, without_store = asyncio.run(scenario())
    assert "\nscheduler_ready 1.0\n" in ready
    assert '\nscheduler_dependency_up{dependency="database"} 1.0\n' in ready
    assert "\nscheduler_ready 0.0\n" in without_store
    assert '\nscheduler_dependency_up{dependency="database"} 0.0\n' in without_store
