"""A worker's backlog: offers of one run at a time, as many as there is room for."""

from __future__ import annotations

from dragoman.lab.model import ItemId, ItemKey, RunId
from dragoman.lab.queue import Offer
from dragoman.lab.worker.backlog import Backlog


def offer(run: str, *names: str) -> Offer:
    return Offer(RunId(run), tuple(ItemKey(ItemId(name)) for name in names))


def test_the_oldest_offers_come_first_run_by_run() -> None:
    backlog = Backlog()
    for heard in (offer("r1", "a", "b"), offer("r2", "x"), offer("r1", "b", "c")):
        backlog.add(heard)

    assert backlog.next_offer(2) == offer("r1", "a", "b")
    assert backlog.next_offer(9) == offer("r2", "x")
    assert backlog.next_offer(9) == offer("r1", "c")
    assert len(backlog) == 0
