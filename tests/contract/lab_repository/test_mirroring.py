"""Changes are noted for the mirror, also by a transaction that began before the mirror did."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
from tests.contract.lab_repository.bench import EXPERIMENT, Bench

from dragoman.lab.repository import Held, leases, mirroring
from dragoman.store import StoreConnection

LONG_MS = 60_000


def _noted(bench: Bench) -> list[tuple[str, int]]:
    return [(one.item_id, one.change_no) for one in bench.read(lambda c: mirroring.changes(c, 100))]


def _follow(bench: Bench) -> Held:
    held = bench.write(lambda c: leases.take(c, "mirror", "me", LONG_MS))
    assert held is not None
    bench.write(lambda c: mirroring.begin_following(c, held, "m-1"))
    return held


def test_changes_are_noted_once_an_item_and_counted_while_a_mirror_follows(bench: Bench) -> None:
    ids = bench.with_items(2)
    run = bench.new_run()
    bench.start(run)
    assert _noted(bench) == []
    held = _follow(bench)
    bench.dispatch(run)
    bench.finish(bench.take(run, ids[:1])[0])
    bench.archive(run)
    [(item, times)] = _noted(bench)
    assert item == ids[0]
    changes = bench.read(lambda c: mirroring.changes(c, 100))
    bench.write(lambda c: c.execute(sa.text("UPDATE turn_result SET try_no = 7")).close())
    bench.write(lambda c: mirroring.cross_out(c, held, changes, 1))
    # What changed again since it was read is still noted.
    assert _noted(bench) == [(ids[0], times + 1), (ids[1], 1)]
    bench.write(lambda c: mirroring.stop_following(c))
    bench.write(lambda c: c.execute(sa.text("UPDATE turn_result SET try_no = 8")).close())
    assert _noted(bench) == []


def test_following_begins_after_the_transactions_that_note_nothing_yet(bench: Bench) -> None:
    """Else a change could be neither in the first copy nor among what is noted."""
    bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    if bench.read(lambda c: c.dialect) == "sqlite":
        return  # it has one writer at a time
    held = bench.write(lambda c: leases.take(c, "mirror", "me", LONG_MS))
    assert held is not None
    order: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        changed, go_on = asyncio.Event(), asyncio.Event()

        def change(connection: StoreConnection) -> None:
            connection.execute(sa.text("UPDATE turn_result SET try_no = 5"))
            loop.call_soon(changed.set)
            sleep = "pg_sleep" if connection.dialect == "postgresql" else "sleep"
            while not go_on.is_set():  # the loop goes on between two statements
                connection.execute(sa.text(f"SELECT {sleep}(0.01)"))
            order.append("the change")

        changing = asyncio.create_task(bench.store.write(change))
        await changed.wait()
        following = asyncio.create_task(
            bench.store.write(lambda c: mirroring.begin_following(c, held, "m-1"))
        )
        following.add_done_callback(lambda _: order.append("following"))
        await asyncio.wait([following], timeout=0.3)
        go_on.set()
        await asyncio.gather(changing, following)

    bench.run(story())
    assert order == ["the change", "following"]
    shown = bench.rows("SELECT try_no FROM turn_result WHERE experiment_id = :e", e=EXPERIMENT)
    assert shown == [(5,)]
