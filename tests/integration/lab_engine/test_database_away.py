"""The database goes away in the middle of a run, and comes back."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import noted
from tests.servers import MariadbProcess, PostgresProcess

from dragoman.lab.model import JsonValue
from dragoman.lab.states import RunStatus


@pytest.mark.parametrize("own_server", ["own_postgres", "own_mariadb"])
def test_a_run_waits_for_a_database_that_is_away(
    own_server: str, request: pytest.FixtureRequest, calls: str
) -> None:
    server: PostgresProcess | MariadbProcess = request.getfixturevalue(own_server)
    items: list[list[dict[str, JsonValue]]] = [
        [{"key": f"k{n}", "turn": 0, "calls": calls, "delay_ms": 20, "fate": "well"}]
        for n in range(40)
    ]
    # Long leases: nothing is given up for lost while everybody is cut off.
    settings = QUICK.model_copy(update={"lease_seconds": 5.0})

    async def story() -> None:
        async with laboratory(server.fresh_database(), settings) as at:
            version, _ = await add_items(at.store, items)
            spec = experiment(version, "answer", {"length": "judge"})
            made, started = await at.lab.experiments.submit(TENANT, spec)
            await until(lambda: _called(calls, 10))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)

            async def ended() -> bool:
                shown = await at.lab.experiments.show(TENANT, made.experiment_id)
                return shown.experiment.status is RunStatus.SUCCESS

            await until(ended)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.stats.success == 40

    asyncio.run(story())


async def _called(calls: str, times: int) -> bool:
    return len(noted(calls)) >= times
