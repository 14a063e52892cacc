"""Keeps the pace of targets: a worker's part of what all workers may call at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dragoman.lab.failures import Failure
from dragoman.lab.model import RunId
from dragoman.lab.pace import Learned, target_key, target_title
from dragoman.lab.repository import Claim, pacing
from dragoman.lab.worker.execution.limiter import Limiter
from dragoman.lab.worker.workplace import Workplace
from dragoman.store import Store, StoreConnection


class Pacer:
    """Asks the database, at every tick, how much of each target's budget is this worker's."""

    def __init__(self, store: Store, owner: str, lease_ms: int) -> None:
        self._store = store
        self._owner = owner
        self._lease_ms = lease_ms
        self._claimed: set[str] = set()
        self._settling = asyncio.Lock()

    async def settle(self, places: Mapping[RunId, Workplace]) -> None:
        """Take up the budgets as they are now, and tell what was learned here."""
        async with self._settling:
            await self._settle(dict(places))

    async def _settle(self, places: Mapping[RunId, Workplace]) -> None:
        by_target: dict[str, list[Workplace]] = {}
        for place in places.values():
            if not isinstance(place.opened, Failure):
                target = target_key(place.run.tenant, place.experiment.spec.target)
                by_target.setdefault(target, []).append(place)
        await self._leave(places)
        known = await self._store.read(lambda c: pacing.find(c, by_target)) if by_target else {}
        for target, at_work in by_target.items():
            pace = known.get(target)
            if (pace and pace.most is not None) or any(map(_has_learned, at_work)):
                await self._share(target, at_work)
                continue
            for place in at_work:
                _apply(place, None, pace.learned if pace else None)

    async def close(self) -> None:
        """Give all shares back."""
        await self._leave({})

    async def _share(self, target: str, at_work: list[Workplace]) -> None:
        claims = {self._claimant(place): place for place in at_work}
        for place in at_work:
            # Until the database has answered, no call is begun that it is not told of.
            _limit(place, _limiter(place).running)
        asked = [_claim(name, place) for name, place in claims.items()]
        spec, tenant = at_work[0].experiment.spec, at_work[0].run.tenant

        def settle(connection: StoreConnection) -> tuple[dict[str, int] | None, Learned | None]:
            pacing.note(connection, target, tenant, target_title(spec.target))
            return pacing.settle(connection, target, asked, self._lease_ms)

        shares, learned = await self._store.write(settle)
        self._claimed |= claims.keys()
        for name, place in claims.items():
            _apply(place, None if shares is None else shares[name], learned)

    async def _leave(self, places: Mapping[RunId, Workplace]) -> None:
        over = self._claimed - {self._claimant(place) for place in places.values()}
        if over:
            await self._store.write(lambda c: pacing.leave(c, over))
            self._claimed -= over

    def _claimant(self, place: Workplace) -> str:
        return f"{self._owner} {place.run.run_id}"


def _limiter(place: Workplace) -> Limiter:
    assert not isinstance(place.opened, Failure)
    return place.opened.bench.target_limiter


def _limit(place: Workplace, share: int | None) -> None:
    assert not isinstance(place.opened, Failure)
    place.opened.bench.set_share(share)


def _claim(name: str, place: Workplace) -> Claim:
    limiter = _limiter(place)
    return Claim(name, place.places, limiter.running, limiter.learned)


def _has_learned(place: Workplace) -> bool:
    return _limiter(place).learned is not None


def _apply(place: Workplace, share: int | None, learned: Learned | None) -> None:
    _limit(place, share)
    if learned is not None:
        _limiter(place).learn(learned)
