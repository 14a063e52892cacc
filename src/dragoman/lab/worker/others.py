"""What the other workers do, as they last said: a place goes to one that has less to do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.lab.presence import is_alive
from dragoman.lab.repository import SeenWorker, workers
from dragoman.store import Store


class Load(msgspec.Struct, frozen=True):
    """How many items a worker works on, and may."""

    items: int
    capacity: int


class OtherWorkers:
    """The other workers that take items of any run, as of the last look."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner
        self._loads: list[Load] = []

    async def look(self) -> None:
        """Take up what they say of themselves now."""
        self._loads = loads_of(await self._store.read(workers.seen), self._owner)

    @property
    def are_there(self) -> bool:
        return bool(self._loads)

    def want_places_of(self, items: int) -> bool:
        """Whether a place of this worker, which has so many items, is to go to one of them."""
        return want_places(self._loads, items)


def want_places(loads: Sequence[Load], items: int) -> bool:
    """Whether a worker has room, and less to do than one that has so many items."""
    return any(one.items < one.capacity and one.items + 1 < items for one in loads)


def loads_of(seen: Sequence[SeenWorker], owner: str) -> list[Load]:
    """The loads of those that live and take items; this worker itself is `owner`."""
    return [
        Load(sum(one.items for one in said.doing), said.capacity)
        for said in (one.working for one in seen if is_alive(one))
        if said.owner != owner and said.capacity and not said.is_draining
    ]
