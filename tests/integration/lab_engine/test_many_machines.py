"""Three schedulers and four workers, killed and paused at random, with their servers restarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from tests.chaos_seeds import chaos_seeds
from tests.integration.lab_engine.crash_story import (
    Snapshot,
    cases,
    differences,
    every_try_was_archived_once,
    snapshot,
)
from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    add_items,
    experiment,
    laboratory,
    read,
    until,
)
from tests.integration.lab_engine.processes import LabProcess
from tests.servers import MariadbProcess, PostgresProcess, RedisProcess

from dragoman.errors import StoreError
from dragoman.lab.model import ExperimentId, ItemId, RunId
from dragoman.lab.owners import process_of
from dragoman.lab.repository import leases, read_now_ms, runs
from dragoman.settings import LabSettings
from dragoman.store import Store, open_store, upgrade

FIRST_SEED = 20_261_116
SEEDS = chaos_seeds(4, first=FIRST_SEED)
"""Each database, and each kind of queue; `make chaos` plays many more."""
SCHEDULERS, WORKERS = 3, 4
ITEMS, DELAYS_MS = 60, (20, 100, 300)
FAULTS = 6
SETTINGS = QUICK.model_copy(
    update={"lease_seconds": 2.0, "safety_tick_ms": 250, "item_concurrency": 8}
)
LONG = SETTINGS.model_copy(update={"lease_seconds": 5.0})
"""A machine that is busy may stand still for seconds, which is to be little beside a lease."""
PATIENCE_SECONDS = 120.0
"""For the first item, and for the end: seven processes start at once on a machine that is busy."""
RETRIES = 100
"""Every kill costs the items in progress a try; none may run out of them."""

Database = PostgresProcess | MariadbProcess


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    server = RedisProcess(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresProcess]:
    server = PostgresProcess()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbProcess]:
    server = MariadbProcess()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """What comes out when nothing happens to any process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    url = f"sqlite:///{folder}/dragoman.db"
    upgrade(url)

    async def story() -> Snapshot:
        async with laboratory(url) as at:
            rows = cases(str(folder / "calls"), ITEMS, DELAYS_MS)
            version, ids = await add_items(at.store, rows)
            made = await at.run(experiment(version, "answer", {"length": "judge"}, concurrency=60))
            return await snapshot(at.store, made.experiment_id, ids)

    return asyncio.run(story())


class Machines:
    """The processes of a lab, each of which can be replaced."""

    def __init__(
        self,
        stack: ExitStack,
        url: str,
        queue_url: str,
        *,
        fenced: bool = True,
        settings: LabSettings = SETTINGS,
    ) -> None:
        self._settings = settings
        self._stack = stack
        self._url = url
        self._queue_url = queue_url
        self._fenced = fenced
        self.alive = [self._start(schedules=True) for _ in range(SCHEDULERS)]
        self.alive += [self._start(schedules=False) for _ in range(WORKERS)]

    def _start(self, *, schedules: bool) -> LabProcess:
        return self._stack.enter_context(
            LabProcess(
                self._url,
                schedules=schedules,
                works=not schedules,
                queue_url=self._queue_url,
                settings=self._settings,
                fenced=self._fenced,
            )
        )

    def replace(self, victim: LabProcess) -> None:
        """Kill a process, and start another in its place."""
        victim.kill()
        self.alive[self.alive.index(victim)] = self._start(schedules=victim.schedules)

    def find(self, pid: int | None) -> LabProcess | None:
        return next((one for one in self.alive if one.pid == pid), None)


@asynccontextmanager
async def submitted(
    url: str, calls: str
) -> AsyncIterator[tuple[Store, ExperimentId, RunId, list[ItemId]]]:
    """An experiment that waits for a lab."""
    async with await open_store(url) as store:
        version, ids = await add_items(store, cases(calls, ITEMS, DELAYS_MS))
        spec = experiment(version, "answer", {"length": "judge"}, retries=RETRIES)
        async with laboratory(url, schedules=False, works=False) as idle:
            made, started = await idle.lab.experiments.submit(TENANT, spec)
        yield store, made.experiment_id, started.run_id, ids


async def disturb(place: Place, machines: Machines, random: Random) -> None:
    """Kill and pause processes; in the middle, Redis loses everything and the database restarts."""
    for number in range(FAULTS):
        await asyncio.sleep(random.uniform(0.0, 0.4))
        victims = random.sample(machines.alive, random.choice((1, 1, 2)))
        if number == FAULTS // 3:
            await asyncio.to_thread(place.redis.restart_empty)
        if number == FAULTS // 2:
            await asyncio.to_thread(place.database.kill)
            await asyncio.to_thread(place.database.restart)
        if random.random() < 0.5:
            for victim in victims:
                await asyncio.to_thread(machines.replace, victim)
            continue
        for victim in victims:
            victim.pause()
        await asyncio.sleep(random.choice((0.2, 1.0, 1.5)) * SETTINGS.lease_seconds)
        for victim in victims:
            victim.resume()


async def pause_half_of_the_workers(place: Place, machines: Machines, random: Random) -> None:
    """Pause two workers in the midst of their items until the others have been given these."""
    workers = [one for one in machines.alive if not one.schedules]
    victims = random.sample(workers, WORKERS // 2)
    for victim in victims:
        victim.pause()
    await asyncio.sleep(1.5 * SETTINGS.lease_seconds)
    for victim in victims:
        victim.resume()


async def _ended(store: Store) -> bool:
    try:
        return bool(await read(store, "SELECT 1 FROM run_log WHERE ended_at_ms IS NOT NULL"))
    except StoreError:
        return False


async def _begun(store: Store, number: int = 1) -> bool:
    rows = await read(store, "SELECT COUNT(*) FROM item_run_log WHERE result_state <> 'init'")
    return bool(rows[0][0] >= number)


class Place:
    """The servers that the processes of a schedule meet at."""

    def __init__(self, request: pytest.FixtureRequest, redis: RedisProcess, seed: int) -> None:
        self.redis = redis
        self.database: Database = request.getfixturevalue(("postgres", "mariadb")[seed % 2])
        self.url = self.database.fresh_database()
        notifies = isinstance(self.database, PostgresProcess) and seed % 4 == 0
        self.queue_url = "database" if notifies else redis.url


Trouble = Callable[[Place, Machines, Random], Awaitable[None]]
"""What happens to the processes while they work."""


async def disturbed(
    place: Place,
    random: Random,
    calls: str,
    expected: Snapshot,
    *,
    trouble: Trouble = disturb,
    fenced: bool = True,
) -> None:
    """Carry the experiment out while everything is disturbed; it must come out as expected."""
    async with submitted(place.url, calls) as (store, experiment_id, _, ids):
        with ExitStack() as stack:
            machines = Machines(stack, place.url, place.queue_url, fenced=fenced)
            await until(lambda: _begun(store), PATIENCE_SECONDS)
            await trouble(place, machines, random)
            await until(lambda: _ended(store), PATIENCE_SECONDS)
            # What is late must come to nothing, too.
            await asyncio.sleep(SETTINGS.lease_seconds / 2)
        assert differences(await snapshot(store, experiment_id, ids), expected) == []
        await every_try_was_archived_once(store, ITEMS)


@pytest.mark.parametrize("seed", SEEDS)
def test_kills_pauses_and_restarts_change_nothing_that_users_see(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    redis: RedisProcess,
    undisturbed: Snapshot,
    seed: int,
) -> None:
    place = Place(request, redis, seed)
    asyncio.run(disturbed(place, Random(seed), str(tmp_path / "calls"), undisturbed))


def test_without_fencing_workers_that_were_paused_leave_their_marks(
    request: pytest.FixtureRequest, tmp_path: Path, redis: RedisProcess, undisturbed: Snapshot
) -> None:
    """The law is worth something only if it can be broken."""

    def is_broken(seed: int, *, fenced: bool = False) -> bool:
        place, calls = Place(request, redis, seed), str(tmp_path / f"calls{seed}{fenced}")
        pauses = disturbed(
            place,
            Random(seed),
            calls,
            undisturbed,
            trouble=pause_half_of_the_workers,
            fenced=fenced,
        )
        try:
            asyncio.run(pauses)
        except AssertionError:
            return True
        return False

    assert not is_broken(FIRST_SEED, fenced=True)

    assert any(is_broken(seed) for seed in range(FIRST_SEED, FIRST_SEED + 8))


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_driver_that_falls_silent_is_followed_within_two_lease_times(
    request: pytest.FixtureRequest, tmp_path: Path, redis: RedisProcess, kind: str
) -> None:
    """Measured by the database's clock, from the moment of the pause."""
    database: Database = request.getfixturevalue(kind)
    url = database.fresh_database()

    async def story() -> None:
        async with submitted(url, str(tmp_path / "calls")) as (store, _, run_id, _ids):
            with ExitStack() as stack:
                machines = Machines(stack, url, redis.url, settings=LONG)
                await until(lambda: _begun(store))
                name = runs.lease_name(run_id)
                held = await store.read(lambda c: leases.find(c, name))
                assert held is not None
                driver = machines.find(process_of(held[0].owner))
                assert driver is not None
                driver.pause()
                paused_at = await store.read(read_now_ms)

                async def followed() -> bool:
                    now = await store.read(lambda c: leases.find(c, name))
                    # None: one that followed has ended the run meanwhile, and is done with it.
                    return now is None or now[0].token > held[0].token

                await until(followed)
                taken_ms = await store.read(read_now_ms) - paused_at
                assert taken_ms <= 2 * LONG.lease_seconds * 1000
                driver.resume()

    asyncio.run(story())
