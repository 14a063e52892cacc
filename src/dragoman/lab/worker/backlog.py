"""Offers that a worker knows of and has not taken yet."""

from __future__ import annotations

from itertools import islice

from dragoman.lab.model import ItemKey, RunId
from dragoman.lab.queue import Offer


class Backlog:
    """Offered items in the order of the hints, each once."""

    def __init__(self) -> None:
        self._items: dict[tuple[RunId, ItemKey], None] = {}
        self._unnamed: dict[RunId, None] = {}
        """Runs with offered items that no hint named."""

    def __len__(self) -> int:
        return len(self._items) + len(self._unnamed)

    def add(self, offer: Offer) -> None:
        for key in offer.keys:
            self._items[offer.run_id, key] = None
        if not offer.keys:
            self._unnamed[offer.run_id] = None

    def next_offer(self, room: int) -> Offer:
        """Take the oldest item and others of its run, as many as there is room for.

        Of a run whose items were not named, an offer that names none.
        """
        if not self._items:
            run_id = next(iter(self._unnamed))
            del self._unnamed[run_id]
            return Offer(run_id, ())
        run_id, _ = next(iter(self._items))
        taken = list(islice((one for one in self._items if one[0] == run_id), room))
        for one in taken:
            del self._items[one]
        return Offer(run_id, tuple(key for _, key in taken))
