"""Items: handed out, taken once, written only under their lease, archived once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from tests.contract.lab_repository.bench import (
    EXPERIMENT,
    OWNER,
    Bench,
    first_of,
    items_of,
    output,
    over,
)

from dragoman.lab.model import Item, ItemId, ItemKey
from dragoman.lab.repository import (
    Lease,
    Selection,
    dispatching,
    ending,
    experiments,
    giving_up,
    items,
    removing,
    reusing,
    runs,
    showing,
)
from dragoman.lab.states import ItemStatus, RunMode, RunStatus
from dragoman.store import StoreConnection


def test_a_start_makes_its_rows_in_pages_and_goes_on_where_it_stopped(bench: Bench) -> None:
    ids = bench.with_items(25)
    run = bench.new_run()

    assert bench.start(run, size=10) == 4

    assert bench.rows("SELECT count(*) FROM item_run_log") == [(25,)]
    assert bench.rows("SELECT DISTINCT status FROM turn_result") == [("queueing",)]
    found = bench.read(lambda c: runs.find_run(c, run.run_id))
    assert found is not None
    assert (found.items, found.start_done, found.start_cursor) == (25, True, ids[-1])


def test_items_are_handed_out_in_order_up_to_the_concurrency(bench: Bench) -> None:
    ids = bench.with_items(5)
    run = bench.new_run()
    bench.start(run)

    assert bench.dispatch(run, 2) == ids[:2]
    assert bench.dispatch(run, 2) == []
    assert bench.dispatch(run, 3) == ids[2:3]


def test_an_item_told_of_twice_is_taken_once(bench: Bench) -> None:
    ids = bench.with_items(3)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)

    assert [lease.item_id for lease in bench.take(run, ids)] == ids
    assert bench.take(run, ids) == []
    assert bench.take(run, ids, owner="w-2") == []


def test_many_workers_taking_at_once_share_the_items_out(bench: Bench) -> None:
    ids = bench.with_items(40)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)

    async def race() -> list[list[Lease]]:
        async def worker(owner: str) -> list[Lease]:
            return await bench.store.write(
                lambda c: items.take(c, run.run_id, first_of(ids), owner, 1000)
            )

        return await asyncio.gather(*(worker(f"w-{n}") for n in range(6)))

    taken = [lease.item_id for leases in bench.run(race()) for lease in leases]
    assert sorted(taken) == ids


def test_what_a_worker_logged_is_archived_once(bench: Bench) -> None:
    ids = bench.with_items(2)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    first, second = bench.take(run, ids)

    assert bench.finish(first) == [True] * 3
    assert bench.finish(second, ItemStatus.FAIL) == [True] * 3
    assert sorted(bench.archive(run)) == ids
    assert bench.archive(run) == []

    assert bench.rows("SELECT status FROM item_result ORDER BY item_id") == [
        ("success",),
        ("fail",),
    ]
    shown = bench.rows("SELECT error_code, target_record_id FROM turn_result ORDER BY item_id")
    assert [row[0] for row in shown] == [None, "EVALUATOR_ERROR"]
    assert all(row[1] for row in shown)
    states = bench.rows("SELECT result_state, archived_try_no, try_no FROM item_run_log")
    assert states == [("resulted", 1, 1)] * 2


def test_an_item_that_has_ended_is_not_shown_as_worked_on_again(bench: Bench) -> None:
    ids = bench.with_items(2)
    run = bench.new_run()
    bench.start(run)
    handed_out = bench.dispatch(run)
    bench.finish(bench.take(run, ids[:1])[0])
    bench.archive(run)

    bench.write(lambda c: showing.show_worked_on(c, run, first_of(handed_out)))

    for table in ("item_result", "turn_result"):
        shown = bench.rows(f"SELECT status FROM {table} ORDER BY item_id")
        assert shown == [("success",), ("processing",)]


def test_a_lease_that_ran_out_is_taken_back_with_a_new_token_and_try(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    late = bench.take(run, ids, lease_ms=-1)[0]

    taken_back = bench.write(lambda c: dispatching.take_back(c, run, 2))
    assert (taken_back.queued, taken_back.lost) == ((ItemKey(ids[0]),), ())
    assert bench.finish(late) == [False] * 3

    bench.dispatch(run)
    new = bench.take(run, ids, owner="w-2")[0]
    assert new.try_no == 2
    assert new.token > late.token
    assert bench.finish(late) == [False] * 3
    assert bench.rows("SELECT * FROM target_record") == []


def test_a_renewed_lease_is_never_taken_back(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    lease = bench.take(run, ids, lease_ms=-1)[0]

    kept = bench.write(lambda c: items.renew(c, OWNER, [lease], 60_000))

    assert kept == {lease}
    assert bench.write(lambda c: dispatching.take_back(c, run, 2)).queued == ()
    assert bench.write(lambda c: items.renew(c, "w-2", [lease], 60_000)) == set()


def test_a_lease_that_its_worker_no_longer_names_runs_out(bench: Bench) -> None:
    ids = bench.with_items(2)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    in_hand, given_up = bench.take(run, ids, lease_ms=-1)

    bench.write(lambda c: items.renew(c, OWNER, [in_hand], 60_000))

    taken_back = bench.write(lambda c: dispatching.take_back(c, run, 2))
    assert taken_back.queued == (given_up.key,)


def test_an_old_lease_on_an_item_taken_anew_is_not_renewed(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    old = bench.take(run, ids, lease_ms=-1)[0]
    bench.write(lambda c: dispatching.take_back(c, run, 2))
    bench.dispatch(run)
    new = bench.take(run, ids)[0]

    assert bench.write(lambda c: items.renew(c, OWNER, [old, new], 60_000)) == {new}


def test_an_item_without_a_try_left_fails_as_lost(bench: Bench) -> None:
    ids = bench.with_items(1, turns=2)
    run = bench.new_run()
    bench.start(run)
    for _ in range(2):
        bench.dispatch(run)
        bench.take(run, ids, lease_ms=-1)
        taken_back = bench.write(lambda c: dispatching.take_back(c, run, 1))

    assert taken_back.lost == (ItemKey(ids[0]),)
    assert bench.archive(run) == ids
    assert bench.rows("SELECT status, error_code FROM turn_result") == [
        ("fail", "WORKER_LOST"),
        ("fail", "WORKER_LOST"),
    ]


def test_items_handed_back_cost_no_try(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    lease = bench.take(run, ids)[0]

    bench.write(lambda c: items.give_back(c, OWNER, [lease]))

    assert items_of(bench.read(lambda c: items.offered(c, run.run_id, 10))) == ids
    assert bench.finish(lease) == [False] * 3
    assert bench.take(run, ids, owner="w-2")[0].try_no == 1


def test_a_killed_item_refuses_its_worker(bench: Bench) -> None:
    ids = bench.with_items(3)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run, 2)
    lease = bench.take(run, ids[:1])[0]

    assert items_of(bench.write(lambda c: giving_up.terminate(c, run, "killed", 100))) == ids
    assert bench.finish(lease) == [False] * 3
    assert bench.archive(run) == ids
    assert bench.rows("SELECT DISTINCT status, error_code, error_message FROM turn_result") == [
        ("terminated", "CANCELLED", "killed")
    ]


def test_what_went_well_is_found_again_by_a_later_try(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    first = bench.take(run, ids, lease_ms=-1)[0]
    bench.enter(first, output(first))
    bench.write(lambda c: dispatching.take_back(c, run, 2))
    bench.dispatch(run)
    second = bench.take(run, ids)[0]
    item = Item(ids[0], ({"text": ""},))

    (left,) = bench.read(lambda c: reusing.leftovers(c, [(second, item)], [0]))

    assert left.outputs[0].columns == {"output": "x"}
    assert left.scores == {}


def test_what_is_used_up_is_counted_once(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    lease = bench.take(run, ids)[0]

    for _ in range(2):  # as after a commit whose answer was lost
        bench.enter(lease, output(lease, tokens=7, cost=0.5))

    stats = bench.read(lambda c: ending.experiment_totals(c, EXPERIMENT))
    assert (stats.tokens, stats.cost) == (7, 0.5)


@pytest.mark.parametrize("again", [RunMode.RETRY_ALL, RunMode.FAIL_RETRY, RunMode.RETRY_ITEMS])
def test_an_experiment_that_is_over_stands_as_its_items_do(bench: Bench, again: RunMode) -> None:
    ids = bench.with_items(3)

    def carry_out(mode: RunMode, item_ids: list[ItemId], **selection: Any) -> None:
        run = bench.new_run(mode)
        bench.start(run, **selection)
        bench.dispatch(run)
        for lease in bench.take(run, item_ids):
            failed = lease.item_id == ids[0]
            bench.finish(lease, ItemStatus.FAIL if failed else ItemStatus.SUCCESS)
        bench.archive(run)
        assert bench.write(lambda c: ending.end(c, run.run_id, 9)) is not None
        over = bench.read(lambda c: runs.find_run(c, run.run_id))
        kept = bench.read(lambda c: ending.experiment_totals(c, EXPERIMENT, over))
        assert kept == bench.read(lambda c: ending.experiment_totals(c, EXPERIMENT))
        assert (kept.success, kept.fail) == (2, 1)

    carry_out(RunMode.SUBMIT, ids)
    if again is RunMode.RETRY_ALL:
        carry_out(again, ids)
    elif again is RunMode.FAIL_RETRY:
        carry_out(again, ids[:1], unfinished_only=True)
    else:
        carry_out(again, ids[:1], named=tuple(ids[:1]))


def test_an_experiment_is_deleted_with_everything_that_its_runs_left(bench: Bench) -> None:
    ids = bench.with_items(2)
    for _ in range(2):
        run = bench.new_run(RunMode.RETRY_ALL)
        bench.start(run)
        bench.dispatch(run)
        for lease in bench.take(run, ids):
            bench.finish(lease)
        bench.archive(run)
    records = ("target_record", "evaluator_record")
    for table in records:
        belong_to_another = sa.text(
            f"UPDATE {table} SET run_id = 'r', id = 'r/1/i/0' "
            f"WHERE id = (SELECT min(id) FROM {table})"
        )
        bench.write(lambda c: c.execute(belong_to_another).close())  # noqa: B023

    bench.write(lambda c: experiments.delete_experiment(c, EXPERIMENT))
    while bench.write(
        lambda c: removing.remove_some(c, removing.RemovedKind.EXPERIMENT, EXPERIMENT)
    ):
        pass

    for table in (
        *("turn_score", "turn_run_log", "item_run_log", "turn_result", "item_result"),
        *("experiment", "run_log", "pending_removal"),
    ):
        assert bench.rows(f"SELECT * FROM {table}") == []
    for table in records:
        assert bench.rows(f"SELECT id FROM {table}") == [("r/1/i/0",)], "another experiment's"


def test_a_run_that_lets_calls_finish_ends_only_what_no_worker_has_in_hand(bench: Bench) -> None:
    ids = bench.with_items(4)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run, 3)  # one is left waiting
    held = bench.take(run, ids[:1])[0]
    bench.take(run, ids[1:2], lease_ms=-1)  # its worker is gone; the third was taken by none
    stopping = msgspec.structs.replace(run, let_finish=True)

    ended = bench.write(lambda c: giving_up.terminate(c, stopping, "stopped", 100))
    assert sorted(items_of(ended)) == ids[1:]
    assert bench.finish(held) == [True] * 3, "the call in flight is kept"
    assert bench.write(lambda c: giving_up.terminate(c, stopping, "stopped", 100)) == []
    bench.archive(run)
    shown = bench.rows("SELECT status FROM item_result ORDER BY item_id")
    assert shown == [("success",), ("terminated",), ("terminated",), ("terminated",)]


def test_a_run_that_no_longer_lets_calls_finish_ends_them_too(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    held = bench.take(run, ids)[0]
    stopping = msgspec.structs.replace(run, let_finish=True)
    assert bench.write(lambda c: giving_up.terminate(c, stopping, "stopped", 100)) == []
    assert items_of(bench.write(lambda c: giving_up.terminate(c, run, "stopped", 100))) == ids
    assert bench.finish(held) == [False] * 3


def test_a_removal_takes_only_some_rows_in_each_transaction_and_can_be_gone_on_with(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removing, "ROWS_AT_ONCE", 3)
    ids = bench.with_items(20)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    for lease in bench.take(run, ids):
        bench.finish(lease)
    bench.archive(run)
    tables = (
        *("turn_score", "turn_run_log", "item_run_log", "turn_result", "item_result"),
        *("target_record", "evaluator_record"),
    )

    def left() -> int:
        return sum(bench.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables)

    bench.write(lambda c: experiments.delete_experiment(c, EXPERIMENT))
    assert left() == 20 * len(tables), "only what users see is gone at once"
    before = left()
    while True:
        assert bench.read(removing.pending) == [(removing.RemovedKind.EXPERIMENT, EXPERIMENT)]
        goes_on = bench.write(
            lambda c: removing.remove_some(c, removing.RemovedKind.EXPERIMENT, EXPERIMENT)
        )
        now = left()
        assert before - now <= 3
        before = now
        if not goes_on:
            break
    assert (left(), bench.read(removing.pending)) == (0, [])


def test_a_try_that_is_not_the_last_leaves_the_item_with_its_worker(bench: Bench) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    lease = bench.take(run, ids)[0]

    assert bench.enter(lease, over(lease, ItemStatus.FAIL, last=False)) == [True]

    assert bench.archive(run) == []
    assert bench.rows("SELECT status, result_state, try_no FROM item_run_log") == [
        ("processing", "init", 2)
    ]


@pytest.mark.parametrize("status", [ItemStatus.SUCCESS, ItemStatus.FAIL])
def test_a_run_is_judged_by_its_own_rows(bench: Bench, status: ItemStatus) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    assert bench.write(lambda c: ending.end(c, run.run_id, 9)) is None, "the start is not done"
    bench.start(run)
    bench.dispatch(run)
    bench.finish(bench.take(run, ids)[0], status)
    assert bench.write(lambda c: ending.end(c, run.run_id, 9)) is None, "one is not archived"
    bench.archive(run)

    ended = bench.write(lambda c: ending.end(c, run.run_id, 9))

    assert ended is (RunStatus.SUCCESS if status is ItemStatus.SUCCESS else RunStatus.FAILED)
    assert bench.write(lambda c: ending.end(c, run.run_id, 9)) is None
    found = bench.read(lambda c: runs.find_run(c, run.run_id))
    assert found is not None
    assert found.ended_at_ms == 9


def test_an_experiment_is_judged_by_all_its_items(bench: Bench) -> None:
    ids = bench.with_items(2)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    well, ill = bench.take(run, ids)
    bench.finish(well)
    bench.finish(ill, ItemStatus.FAIL)
    bench.archive(run)
    bench.write(lambda c: ending.end(c, run.run_id, 9))

    again = bench.new_run(RunMode.FAIL_RETRY)
    bench.start(again, unfinished_only=True)
    assert bench.dispatch(again) == ids[1:]
    bench.finish(bench.take(again, ids[1:])[0], ItemStatus.FAIL)
    bench.archive(again)

    assert bench.write(lambda c: ending.end(c, again.run_id, 9)) is RunStatus.FAILED
    assert bench.rows("SELECT status, reason FROM experiment") == [("success", None)]
    assert bench.rows("SELECT reason FROM run_log WHERE id = :id", id=again.run_id) == [
        ("No item succeeded; the rows say why.",)
    ]


def test_an_item_joins_a_run_or_finds_it_ended(bench: Bench) -> None:
    ids = bench.with_items(2)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    first, second = bench.take(run, ids)
    bench.finish(first)
    version = bench.rows("SELECT id FROM dataset_version")[0][0]

    def join(connection: StoreConnection) -> bool:
        return ending.join(connection, run.run_id, Selection(version, named=tuple(ids)))

    # The first is logged and not yet archived: its try is moved, then it is tried again.
    assert bench.write(join)
    assert bench.rows("SELECT status, try_no FROM item_run_log ORDER BY item_id") == [
        ("queueing", 2),
        ("processing", 1),
    ]
    bench.finish(second)
    bench.dispatch(run)
    bench.finish(bench.take(run, ids[:1])[0])
    bench.archive(run)
    assert bench.rows("SELECT count(*) FROM turn_run_log") == [(3,)]
    assert bench.rows("SELECT count(*) FROM target_record") == [(3,)], "made anew, not reused"
    assert bench.write(lambda c: ending.end(c, run.run_id, 9)) is RunStatus.SUCCESS
    assert not bench.write(join)


def test_repetitions_of_an_item_are_leased_fenced_and_archived_apart(bench: Bench) -> None:
    (only,) = bench.with_items(1)
    run = bench.new_run()
    bench.start(run, repetitions=3)
    keys = bench.write(lambda c: dispatching.dispatch(c, run, 100))
    assert keys == [ItemKey(only, number) for number in range(3)]
    first, second = bench.write(lambda c: items.take(c, run.run_id, keys[:2], OWNER, 60_000))
    (late,) = bench.write(lambda c: items.take(c, run.run_id, keys[2:], OWNER, -1))

    assert bench.finish(second) == [True] * 3
    assert bench.write(lambda c: dispatching.take_back(c, run, 2)).queued == (keys[2],)
    assert bench.finish(late) == [False] * 3, "another repetition was taken back"
    assert bench.finish(first, ItemStatus.FAIL) == [True] * 3
    bench.archive(run)

    shown = "SELECT repetition, status FROM item_result ORDER BY repetition"
    assert bench.rows(shown) == [(0, "fail"), (1, "success"), (2, "queueing")]
    records = bench.rows("SELECT repetition, id FROM target_record ORDER BY repetition")
    assert [repetition for repetition, _ in records] == [0, 1]
    assert len({record for _, record in records}) == 2

    again = bench.new_run(RunMode.FAIL_RETRY)
    bench.start(again, unfinished_only=True, repetitions=3)
    rows = bench.rows(
        "SELECT repetition, lineage FROM item_run_log WHERE run_id = :run ORDER BY repetition",
        run=again.run_id,
    )
    assert rows == [(0, first.lineage), (2, late.lineage)]
