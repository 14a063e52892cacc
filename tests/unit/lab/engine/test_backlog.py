"""A worker's backlog: each offer once, taken in turns, as many as there is room for."""

from __future__ import annotations

from dragoman.ids import TenantId
from dragoman.lab.model import ItemId, ItemKey, RunId
from dragoman.lab.queue import Offer
from dragoman.lab.worker.backlog import Backlog, RunShare


def offer(run: str, *names: str) -> Offer:
    return Offer(RunId(run), tuple(ItemKey(ItemId(name)) for name in names))


def backlog_with(*heard: Offer, known: tuple[str, ...] = ("r1", "r2")) -> Backlog:
    backlog = Backlog()
    for one in heard:
        backlog.add(one)
    for run in known:
        backlog.set_share(RunId(run), RunShare(TenantId("acme")))
    return backlog


def test_the_items_of_a_run_come_in_the_order_of_the_hints_and_each_once() -> None:
    backlog = backlog_with(offer("r1", "a", "b"), offer("r2", "x"), offer("r1", "b", "c"))

    assert backlog.next_offers(2, {}) == [offer("r1", "a"), offer("r2", "x")]
    assert backlog.next_offers(9, {}) == [offer("r1", "b", "c")]
    assert len(backlog) == 0


def test_nothing_of_a_run_is_taken_before_its_share_is_known() -> None:
    backlog = backlog_with(offer("r1", "a"), offer("r3", "x"))

    assert backlog.unknown_runs() == [RunId("r3")]
    assert backlog.next_offers(9, {}) == [offer("r1", "a")]
    assert len(backlog) == 1


def test_a_run_that_is_over_leaves_nothing_behind() -> None:
    backlog = backlog_with(offer("r1", "a", "b"), offer("r2", "x"))
    backlog.forget(RunId("r1"))
    backlog.forget(RunId("never heard of"))

    assert backlog.next_offers(9, {}) == [offer("r2", "x")]
    backlog.forget(RunId("r2"))
    assert vars(backlog) == vars(Backlog())
