"""A worker's backlog: each offer once, taken in turns, as many as there is room for."""

from __future__ import annotations

from dragoman.ids import TenantId
from dragoman.lab.model import ItemId, ItemKey, RunId
from dragoman.lab.queue import ItemOffer
from dragoman.lab.worker.backlog import Backlog, Portion, RunShare


def offer(run: str, *names: str) -> ItemOffer:
    return ItemOffer(RunId(run), tuple(ItemKey(ItemId(name)) for name in names))


def portion(run: str, *names: str) -> Portion:
    return Portion(RunId(run), offer(run, *names).keys, len(names))


def backlog_with(*heard: ItemOffer, known: tuple[str, ...] = ("r1", "r2")) -> Backlog:
    backlog = Backlog()
    for one in heard:
        backlog.add(one)
    for run in known:
        backlog.set_share(RunId(run), RunShare(TenantId("acme")))
    return backlog


def test_the_items_of_a_run_come_in_the_order_of_the_hints_and_each_once() -> None:
    backlog = backlog_with(offer("r1", "a", "b"), offer("r2", "x"), offer("r1", "b", "c"))

    assert backlog.next_offers(2, {}) == [portion("r1", "a"), portion("r2", "x")]
    assert backlog.next_offers(9, {}) == [portion("r1", "b", "c")]
    assert len(backlog) == 0


def test_nothing_of_a_run_is_taken_before_its_share_is_known() -> None:
    backlog = backlog_with(offer("r1", "a"), offer("r3", "x"))

    assert backlog.unknown_runs() == [RunId("r3")]
    assert backlog.next_offers(9, {}) == [portion("r1", "a")]
    assert len(backlog) == 1


def test_a_run_that_is_over_leaves_nothing_behind() -> None:
    backlog = backlog_with(offer("r1", "a", "b"), offer("r2", "x"))
    backlog.forget(RunId("r1"))
    backlog.forget(RunId("never heard of"))

    assert backlog.next_offers(9, {}) == [portion("r2", "x")]
    backlog.forget(RunId("r2"))
    assert vars(backlog) == vars(Backlog())


def test_a_run_whose_items_were_not_named_gets_its_share_and_pays_for_what_it_took() -> None:
    backlog = backlog_with(offer("r1"), offer("r2", "x", "y", "z", "w"))

    unnamed, named = backlog.next_offers(4, {})
    assert unnamed == Portion(RunId("r1"), (), 2)
    assert named == portion("r2", "x", "y")
    backlog.took_fewer(unnamed, 0)
    backlog.add(offer("r1"))
    # It had nothing of its turns, so the next one is its own.
    assert backlog.next_offers(1, {}) == [Portion(RunId("r1"), (), 1)]
