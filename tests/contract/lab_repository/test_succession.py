"""Items that follow one another in a worker's places: never more are worked on than before."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from tests.contract.lab_repository.bench import (
    LONG_MS,
    OWNER,
    Bench,
    first_of,
    items_of,
    output,
    over,
    score,
)

from dragoman.lab.model import ItemId, ItemKey, Run
from dragoman.lab.owners import new_owner
from dragoman.lab.repository import Lease, TryEntry, dispatching, giving_up, items
from dragoman.lab.states import ItemStatus


def started(bench: Bench, count: int = 4, concurrency: int = 1) -> tuple[Run, list[ItemId]]:
    ids = bench.with_items(count)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run, concurrency)
    return run, ids


def take_next(
    bench: Bench, run: Run, owner: str = OWNER, lease_ms: int = LONG_MS, **wanted: int
) -> list[Lease]:
    places, ahead = wanted.get("places", 0), wanted.get("ahead", 0)
    return bench.write(
        lambda c: items.take_next(c, run.run_id, owner, lease_ms, places=places, ahead=ahead)
    )


def end(bench: Bench, lease: Lease, successor: Lease) -> list[bool]:
    ending: TryEntry = msgspec.structs.replace(over(lease), successor=successor)
    return bench.enter(lease, output(lease), score(lease), ending)


def states(bench: Bench) -> list[tuple[str, str, str | None]]:
    return bench.rows("SELECT status, result_state, lease_owner FROM item_run_log ORDER BY item_id")


def ids_of(leases: Sequence[Lease]) -> list[ItemId]:
    return [lease.item_id for lease in leases]


WAITING = ("queueing", "init", None)


def test_items_set_aside_wait_and_are_handed_out_to_no_other_worker(bench: Bench) -> None:
    run, ids = started(bench, 4)
    ahead = take_next(bench, run, ahead=2)

    assert ids_of(ahead) == ids[1:3]
    assert states(bench)[1:3] == [("queueing", "init", OWNER)] * 2
    assert bench.dispatch(run, 4) == ids[3:]
    assert take_next(bench, run, "w-2", ahead=4) == []
    assert bench.read(lambda c: dispatching.worked_on(c, run)) == first_of([ids[0], ids[3]])


def test_the_write_that_ends_an_item_begins_the_one_that_has_its_place(bench: Bench) -> None:
    run, ids = started(bench)
    (first,) = bench.take(run, ids[:1])
    (second,) = take_next(bench, run, ahead=1)

    assert end(bench, first, second) == [True] * 3

    assert states(bench)[:2] == [("success", "logged", OWNER), ("processing", "init", OWNER)]
    assert bench.dispatch(run, 1) == [], "the place is taken"
    assert bench.finish(second) == [True] * 3


def test_an_item_that_took_a_place_and_ended_in_the_same_write_has_ended(bench: Bench) -> None:
    run, ids = started(bench)
    (first,) = bench.take(run, ids[:1])
    second, third = take_next(bench, run, ahead=2)
    ending = msgspec.structs.replace(over(first), successor=second)

    end(bench, second, third)
    assert bench.enter(first, ending) == [True]

    assert [row[:2] for row in states(bench)[:3]] == [
        *([("success", "logged")] * 2),
        ("processing", "init"),
    ]


def test_a_worker_that_lost_the_item_does_not_begin_the_one_that_was_to_follow(
    bench: Bench,
) -> None:
    run, ids = started(bench)
    (first,) = bench.take(run, ids[:1], lease_ms=-1)
    (second,) = take_next(bench, run, ahead=1)
    bench.write(lambda c: dispatching.take_back(c, run, 2))

    assert end(bench, first, second) == [False] * 3

    assert states(bench)[:2] == [WAITING, ("queueing", "init", OWNER)]


def test_an_item_ends_although_the_one_that_was_to_follow_went_to_another_worker(
    bench: Bench,
) -> None:
    run, ids = started(bench)
    (first,) = bench.take(run, ids[:1])
    (second,) = take_next(bench, run, lease_ms=-1, ahead=1)
    (taken,) = take_next(bench, run, "w-2", ahead=1)
    assert (taken.item_id, taken.token) == (second.item_id, second.token + 1)

    assert end(bench, first, second) == [True] * 3

    assert states(bench)[:2] == [("success", "logged", OWNER), ("queueing", "init", "w-2")]
    assert bench.finish(second) == [False] * 3, "its token is old"


def test_items_set_aside_by_a_worker_that_falls_silent_are_handed_out(bench: Bench) -> None:
    run, ids = started(bench, 3)
    (late, _) = take_next(bench, run, lease_ms=-1, ahead=2)

    assert bench.dispatch(run, 3) == ids[1:]

    assert bench.finish(late) == [False] * 3
    tries = bench.rows("SELECT DISTINCT try_no FROM item_run_log")
    assert tries == [(1,)], "no try was begun"


def test_items_set_aside_by_a_process_that_has_ended_are_free_at_once(bench: Bench) -> None:
    run, ids = started(bench, 3)
    # Its process id is taken, by a process that started at another time.
    gone = "/".join([*new_owner(bench.random).split("/")[:3], "1"])
    bench.take(run, ids[:1], owner=gone)
    take_next(bench, run, gone, ahead=2)
    assert bench.dispatch(run, 3) == []

    taken_back = bench.write(lambda c: dispatching.take_back(c, run, 2))

    assert items_of(taken_back.queued) == ids[:1]
    assert bench.dispatch(run, 3) == ids


def test_items_set_aside_are_renewed_and_handed_back_like_others(bench: Bench) -> None:
    run, ids = started(bench, 3)
    ahead = take_next(bench, run, lease_ms=-1, ahead=2)

    assert bench.write(lambda c: items.renew(c, OWNER, ahead, LONG_MS)) == set(ahead)
    assert take_next(bench, run, "w-2", ahead=2) == []
    bench.write(lambda c: items.give_back(c, OWNER, ahead))

    assert states(bench)[1:] == [WAITING] * 2
    assert ids_of(take_next(bench, run, "w-2", ahead=2)) == ids[1:]
    assert bench.write(lambda c: items.renew(c, OWNER, ahead, LONG_MS)) == set()


def test_items_that_follow_in_places_that_are_free_are_worked_on_at_once(bench: Bench) -> None:
    run, ids = started(bench, 4)
    (first,) = bench.take(run, ids[:1])
    bench.finish(first)

    begun, aside = take_next(bench, run, places=1, ahead=1)

    assert ids_of([begun, aside]) == ids[1:3]
    assert states(bench)[1:] == [
        ("processing", "init", OWNER),
        ("queueing", "init", OWNER),
        WAITING,
    ]


def test_a_kill_ends_items_set_aside_and_fences_their_worker_off(bench: Bench) -> None:
    run, ids = started(bench, 3)
    ahead = take_next(bench, run, ahead=2)

    keys = bench.write(lambda c: giving_up.terminate(c, run, "killed", 10))

    assert sorted(keys) == [ItemKey(one) for one in ids]
    assert {row[0] for row in states(bench)} == {ItemStatus.TERMINATED.value}
    assert bench.finish(ahead[0]) == [False] * 3
