"""Finds the principal of a key, and tells when that key is revoked."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Self

from dragoman.auth.failures import FailureLimit
from dragoman.auth.key_store import KeyStore
from dragoman.auth.keys import ApiKey
from dragoman.auth.principal import ANYONE, Principal
from dragoman.clock import Clock
from dragoman.errors import StoreError, Unauthorized
from dragoman.ids import KeyId
from dragoman.observability import get_logger

REFRESH_SECONDS = 3.0
"""How often the keys in use are looked at again, for revocations by other processes."""

CACHE_SECONDS = 6.0
"""How long a verified key stays accepted when refreshing fails."""

DIGESTS_A_READ = 500
"""How many keys are looked up in one read of the database."""

OnRevoked = Callable[[], None]

_log = get_logger(__name__)


class Authenticator(ABC):
    """Finds the principal of a request. Used as ``async with``: it refreshes keys meanwhile."""

    @abstractmethod
    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        """The principal behind a key; raises Unauthorized or RateLimited."""

    @abstractmethod
    def watch(self, principal: Principal, on_revoked: OnRevoked) -> Callable[[], None]:
        """Call the function when the principal's key is revoked; returns how to stop that."""

    async def __aenter__(self) -> Self:
        return self

    @abstractmethod
    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class OpenAuthenticator(Authenticator):
    """Accepts every caller as an operator, and ignores keys."""

    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        return ANYONE

    def watch(self, principal: Principal, on_revoked: OnRevoked) -> Callable[[], None]:
        return lambda: None

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


@dataclass(slots=True)
class _Verified:
    principal: Principal
    at_seconds: float
    used: bool = True


class _Lookups:
    """Asks the database for keys, in one read at a time for all who wait.

    However many keys are tried, the database is never asked twice at once.
    """

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._waiting: dict[str, asyncio.Future[Principal | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def holder_of(self, digest: str) -> Principal | None:
        """Whose key has this digest, or None."""
        answer = self._waiting.get(digest)
        if answer is None:
            answer = self._waiting[digest] = asyncio.get_running_loop().create_future()
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        # A caller that stops waiting must not take the answer from others with the same key.
        return await asyncio.shield(answer)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self) -> None:
        answers: dict[str, asyncio.Future[Principal | None]] = {}
        try:
            while self._waiting:
                answers = dict(islice(self._waiting.items(), DIGESTS_A_READ))
                for digest in answers:
                    del self._waiting[digest]
                try:
                    found = await self._keys.holders(answers)
                except StoreError as error:
                    for answer in answers.values():
                        answer.set_exception(error)
                        answer.exception()  # seen, also when its asker has left meanwhile
                else:
                    for digest, answer in answers.items():
                        answer.set_result(found.get(digest))
        finally:
            self._reading = None
            for answer in (*answers.values(), *self._waiting.values()):
                answer.cancel()
            self._waiting.clear()


class KeyAuthenticator(Authenticator):
    """Accepts every caller with a key that is stored and not revoked.

    Verified keys are remembered by their digest, and looked at again every few seconds together
    with the keys of watched sockets, so that a revoked key stops working within ten seconds,
    even if another process revoked it.
    """

    def __init__(
        self,
        keys: KeyStore,
        clock: Clock,
        *,
        failures_per_minute: int,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._failures = FailureLimit(clock, failures_per_minute)
        self._lookups = _Lookups(keys)
        self._refresh_seconds = refresh_seconds
        self._verified: dict[str, _Verified] = {}
        self._watchers: dict[KeyId, dict[object, OnRevoked]] = {}
        self._refreshing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._refreshing = asyncio.create_task(self._refresh_forever())
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._lookups.close()
        if self._refreshing is not None:
            self._refreshing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._refreshing
            self._refreshing = None

    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        if key is None:
            raise Unauthorized(
                "A key is needed: send `Authorization: Bearer KEY`, or `?token=KEY` where headers "
                "cannot be set; `dragoman keys create` creates one."
            )
        if not key.is_well_formed():
            self._failures.record(remote_address)
            raise _wrong()
        # The digest is compared, never the key.
        digest = key.digest()
        verified = self._verified.get(digest)
        now = self._clock.monotonic()
        if verified is not None and now - verified.at_seconds < CACHE_SECONDS:
            verified.used = True
            return verified.principal
        # Looked up even for an address where keys have failed too often: a good key is let in, or
        # a caller that guesses keys would lock out all others behind its address.
        principal = await self._lookups.holder_of(digest)
        if principal is None:
            self._verified.pop(digest, None)
            self._failures.record(remote_address)
            raise _wrong()
        self._verified[digest] = _Verified(principal, now)
        return principal

    def watch(self, principal: Principal, on_revoked: OnRevoked) -> Callable[[], None]:
        key_id = principal.key_id
        if key_id is None:
            return lambda: None
        ticket = object()
        self._watchers.setdefault(key_id, {})[ticket] = on_revoked

        def stop() -> None:
            watching = self._watchers.get(key_id, {})
            watching.pop(ticket, None)
            if not watching:
                self._watchers.pop(key_id, None)

        return stop

    async def refresh(self) -> None:
        """Check every key in use again, and call the watchers of revoked ones."""
        # Taken before the read: what the read sees is at least as new as this.
        now = self._clock.monotonic()
        self._forget_unused()
        looked_at = dict(self._verified)
        in_use = {verified.principal.key_id for verified in looked_at.values()} | set(
            self._watchers
        )
        key_ids = {key_id for key_id in in_use if key_id is not None}
        if not key_ids:
            return
        live = await self._keys.live_among(key_ids)
        for digest, verified in looked_at.items():
            if verified.principal.key_id in live:
                verified.at_seconds = now
            elif self._verified.get(digest) is verified:
                del self._verified[digest]
        for key_id in key_ids - live:
            self._tell(key_id)

    def _forget_unused(self) -> None:
        """Keep what was used since the last look; the rest is verified anew when it comes back."""
        self._verified = {
            digest: verified for digest, verified in self._verified.items() if verified.used
        }
        for verified in self._verified.values():
            verified.used = False

    def _tell(self, key_id: KeyId) -> None:
        watching = self._watchers.pop(key_id, {})
        _log.info("key_revoked", key_id=key_id, connections=len(watching))
        for on_revoked in watching.values():
            try:
                on_revoked()
            except Exception:
                _log.exception("revocation_not_told", key_id=key_id)

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_seconds)
            try:
                await self.refresh()
            except StoreError as error:
                _log.warning("keys_not_read", error=error.message)


def _wrong() -> Unauthorized:
    return Unauthorized(
        "The key is wrong or was revoked; ask an operator for a new one (`dragoman keys create`)."
    )
