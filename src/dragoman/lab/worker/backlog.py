"""Offers that a worker knows of and has not taken yet."""

from __future__ import annotations

from itertools import islice

from dragoman.lab.model import ItemId, RunId
from dragoman.lab.queue import Offer


class Backlog:
    """Offered items in the order of the hints, each once."""

    def __init__(self) -> None:
        self._items: dict[tuple[RunId, ItemId], None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, offer: Offer) -> None:
        for item_id in offer.item_ids:
            self._items[offer.run_id, item_id] = None

    def next_offer(self, room: int) -> Offer:
        """Take the oldest item and others of its run, as many as there is room for."""
        run_id, _ = next(iter(self._items))
        keys = list(islice((key for key in self._items if key[0] == run_id), room))
        for key in keys:
            del self._items[key]
        return Offer(run_id, tuple(item_id for _, item_id in keys))
