"""Offers that a worker knows of and has not taken yet."""

from __future__ import annotations

from itertools import islice

from dragoman.lab.model import ItemKey, RunId
from dragoman.lab.queue import Offer


class Backlog:
    """Offered items in the order of the hints, each once."""

    def __init__(self) -> None:
        self._items: dict[tuple[RunId, ItemKey], None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, offer: Offer) -> None:
        for key in offer.keys:
            self._items[offer.run_id, key] = None

    def next_offer(self, room: int) -> Offer:
        """Take the oldest item and others of its run, as many as there is room for."""
        run_id, _ = next(iter(self._items))
        taken = list(islice((one for one in self._items if one[0] == run_id), room))
        for one in taken:
            del self._items[one]
        return Offer(run_id, tuple(key for _, key in taken))
