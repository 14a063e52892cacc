"""Offers that a worker knows of and has not taken yet."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec

from dragoman.ids import TenantId
from dragoman.lab.model import ItemKey, RunId
from dragoman.lab.queue import ItemOffer
from dragoman.lab.worker.fair_share import RunClaim, share_out


class RunShare(msgspec.Struct, frozen=True):
    """Whose run it is, and how much it counts beside others."""

    tenant: TenantId
    weight: float = 1.0
    tenant_weight: float = 1.0


class Portion(ItemOffer, frozen=True):
    """What a worker takes of an offer now."""

    most: int
    """No more items, where none is named."""


class Backlog:
    """Offered items, each once; they are taken in turns that `share_out` decides."""

    def __init__(self) -> None:
        self._items: dict[RunId, dict[ItemKey, None]] = {}
        self._unnamed: dict[RunId, None] = {}
        """Runs with offered items that no hint named."""
        self._shares: dict[RunId, RunShare] = {}
        self._turns: dict[RunId, float] = {}
        self._tenant_turns: dict[TenantId, float] = {}

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._items.values()) + len(self._unnamed)

    def waiting(self, run_id: RunId) -> int:
        """How many items of a run wait to be taken, of those that were named."""
        return len(self._items.get(run_id, ()))

    def add(self, offer: ItemOffer) -> None:
        """Keep an offer, in the order of the hints."""
        if offer.keys:
            self._items.setdefault(offer.run_id, {}).update(dict.fromkeys(offer.keys))
        else:
            self._unnamed[offer.run_id] = None

    def has_of_another(self, run_id: RunId) -> bool:
        """Whether items of another run are offered."""
        return any(one != run_id for one in (*self._items, *self._unnamed))

    def unknown_runs(self) -> list[RunId]:
        """Runs with offers whose share is not known; nothing of them is taken before it is."""
        offered = dict.fromkeys((*self._items, *self._unnamed))
        return [run_id for run_id in offered if run_id not in self._shares]

    def set_share(self, run_id: RunId, share: RunShare) -> None:
        """Take up what a run counts. A new run begins level with the others, not ahead of them."""
        if run_id not in self._shares:
            tenant = share.tenant
            if tenant not in self._tenant_turns:
                self._tenant_turns[tenant] = share.tenant_weight * min(
                    (
                        self._tenant_turns[other.tenant] / other.tenant_weight
                        for other in self._shares.values()
                    ),
                    default=0.0,
                )
            self._turns[run_id] = share.weight * min(
                (
                    self._turns[other_id] / other.weight
                    for other_id, other in self._shares.items()
                    if other.tenant == tenant
                ),
                default=0.0,
            )
        self._shares[run_id] = share

    def forget(self, run_id: RunId) -> None:
        """Drop a run that is over, with what was offered of it."""
        self._items.pop(run_id, None)
        self._unnamed.pop(run_id, None)
        self._turns.pop(run_id, None)
        share = self._shares.pop(run_id, None)
        if share and all(other.tenant != share.tenant for other in self._shares.values()):
            del self._tenant_turns[share.tenant]

    def next_offers(self, room: int, in_work: Mapping[RunId, int]) -> list[Portion]:
        """The items to take now, as many as there is room for, those of a run in order.

        Of a run whose items were not named, a portion that names none.
        """
        claims = [
            RunClaim(
                run_id,
                share.tenant,
                # Of those that were not named there may be as many as there is room for.
                waiting=self.waiting(run_id) or (room if run_id in self._unnamed else 0),
                in_work=in_work.get(run_id, 0),
                weight=share.weight,
                tenant_weight=share.tenant_weight,
                turns=self._turns[run_id],
                tenant_turns=self._tenant_turns[share.tenant],
            )
            for run_id, share in self._shares.items()
        ]
        return [self._taken(run_id, places) for run_id, places in share_out(room, claims).items()]

    def took_fewer(self, portion: Portion, taken: int) -> None:
        """Of a run whose items were not named there were fewer than its share: that counts."""
        share = self._shares.get(portion.run_id)
        if share is not None:
            self._turns[portion.run_id] -= portion.most - taken
            self._tenant_turns[share.tenant] -= portion.most - taken

    def _taken(self, run_id: RunId, places: int) -> Portion:
        waiting = self._items.get(run_id, {})
        keys = tuple(islice(waiting, places))
        for key in keys:
            del waiting[key]
        if not keys:
            del self._unnamed[run_id]
        elif not waiting:
            del self._items[run_id]
        self._turns[run_id] += places
        self._tenant_turns[self._shares[run_id].tenant] += places
        return Portion(run_id, keys, places)
