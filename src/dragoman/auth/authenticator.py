"""Finds the principal of a key, and tells when that key is revoked."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Self, TypeVar

from dragoman.auth.address_limit import AddressLimit
from dragoman.auth.key_store import KeyStore
from dragoman.auth.keys import ApiKey
from dragoman.auth.principal import ANYONE, OWN_LAB, OidcPerson, Principal
from dragoman.auth.roles import Role
from dragoman.clock import Clock
from dragoman.errors import Forbidden, InvalidMessage, StoreError, Unauthorized
from dragoman.ids import KeyId, SignInId
from dragoman.observability import get_logger

REFRESH_SECONDS = 3.0
"""How often the keys in use are looked at again, for revocations by other processes."""

CACHE_SECONDS = 6.0
"""How long a verified key stays accepted when refreshing fails."""

DIGESTS_A_READ = 500
"""How many keys are looked up in one read of the database."""

OnRevoked = Callable[[], None]
_Id = TypeVar("_Id")

_TOO_MANY_WRONG = "Too many wrong keys came from this address; wait, and check the key."

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SignIn:
    """What a browser gets for a key: what it presents from now on, and until when."""

    token: ApiKey
    principal: Principal
    seconds: int


class Authenticator(ABC):
    """Finds the principal of a request. Used as ``async with``: it refreshes keys meanwhile."""

    @abstractmethod
    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        """The principal behind a key; raises Unauthorized or RateLimited."""

    def remembers(self, key: ApiKey) -> bool:
        """Whether the key was found right a moment ago; the database is not asked."""
        return False

    async def sign_in(self, key: ApiKey, remote_address: str) -> SignIn:
        """Let a browser act for the holder of a key; raises Unauthorized or RateLimited."""
        raise InvalidMessage("This server asks for no keys (auth.mode is open): use it right away.")

    async def sign_in_person(self, person: OidcPerson) -> SignIn:
        """Let a browser act for a person whom an OpenID provider vouches for."""
        raise InvalidMessage("This server asks for no keys (auth.mode is open): use it right away.")

    async def sign_out(self, principal: Principal) -> None:
        """End what a browser was let do; where every caller is let in, none is signed in."""
        return

    def count_wrong(self, remote_address: str) -> None:
        """Count a secret that this or another part found wrong; RateLimited over the limit."""
        return

    @abstractmethod
    def watch(self, principal: Principal, on_revoked: OnRevoked) -> Callable[[], None]:
        """Call the function when the principal's key is revoked, or the person has signed out.

        Returns how to stop that.
        """

    def lend_to_lab(self) -> ApiKey | None:
        """A key for this server's own lab, kept in memory only; None where none is needed."""
        return None

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
        sign_in_seconds: int = 12 * 3600,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._failures = AddressLimit(clock, failures_per_minute, _TOO_MANY_WRONG)
        self._lookups = _Lookups(keys)
        self._refresh_seconds = refresh_seconds
        self._sign_in_seconds = sign_in_seconds
        self._verified: dict[str, _Verified] = {}
        self._watchers: dict[KeyId, dict[object, OnRevoked]] = {}
        self._sign_in_watchers: dict[SignInId, dict[object, OnRevoked]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._lent: str | None = None
        """The digest of the key that this server's own lab has."""

    def count_wrong(self, remote_address: str) -> None:
        self._failures.record(remote_address)

    def lend_to_lab(self) -> ApiKey | None:
        key = ApiKey.generate()
        self._lent = key.digest()
        return key

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
            self.count_wrong(remote_address)
            raise _wrong()
        remembered = self._remembered(key)
        if remembered is not None:
            return remembered
        # Looked up even for an address where keys have failed too often: a good key is let in, or
        # a caller that guesses keys would lock out all others behind its address.
        digest, now = key.digest(), self._clock.monotonic()
        principal = await self._lookups.holder_of(digest)
        if principal is None:
            self._verified.pop(digest, None)
            self.count_wrong(remote_address)
            raise _wrong()
        self._verified[digest] = _Verified(principal, now)
        return principal

    def remembers(self, key: ApiKey) -> bool:
        return key.is_well_formed() and self._remembered(key) is not None

    def _remembered(self, key: ApiKey) -> Principal | None:
        """Who holds the key, if that was looked up a moment ago."""
        # The digest is compared, never the key.
        if self._lent is not None and key.matches(self._lent):
            return OWN_LAB
        verified = self._verified.get(key.digest())
        if verified is None or self._clock.monotonic() - verified.at_seconds >= CACHE_SECONDS:
            return None
        verified.used = True
        return verified.principal

    async def sign_in(self, key: ApiKey, remote_address: str) -> SignIn:
        principal = await self.authenticate(key, remote_address)
        if principal.role is Role.NODE or principal.key_id is None:
            raise Forbidden("A key with role node is for a node; sign in with another key.")
        if principal.sign_in_id is not None:
            # Or it could be made to last for ever.
            raise Forbidden("What a browser got for a key is no key; sign in with the key itself.")
        seconds = self._sign_in_seconds
        expires_at_ms = self._clock.now_ms() + seconds * 1000
        return SignIn(await self._keys.sign_in(principal.key_id, expires_at_ms), principal, seconds)

    async def sign_in_person(self, person: OidcPerson) -> SignIn:
        seconds = self._sign_in_seconds
        expires_at_ms = self._clock.now_ms() + seconds * 1000
        token = await self._keys.sign_in_person(
            person.key_id, person.role, person.tenant, expires_at_ms
        )
        principal = Principal(
            person.key_id, person.role, person.tenant, sign_in_id=SignInId(token.digest())
        )
        return SignIn(token, principal, seconds)

    async def sign_out(self, principal: Principal) -> None:
        if principal.sign_in_id is None:
            return
        await self._keys.sign_out(principal.sign_in_id)
        self._verified.pop(principal.sign_in_id, None)
        self._tell_signed_out(principal.sign_in_id)

    def watch(self, principal: Principal, on_revoked: OnRevoked) -> Callable[[], None]:
        key_id, sign_in_id = principal.key_id, principal.sign_in_id
        ticket = object()

        def tell() -> None:
            stop()  # a key that is revoked ends what browsers were let do with it, too
            on_revoked()

        def stop() -> None:
            if key_id is not None:
                _forget(self._watchers, key_id, ticket)
            if sign_in_id is not None:
                _forget(self._sign_in_watchers, sign_in_id, ticket)

        if key_id is not None:
            self._watchers.setdefault(key_id, {})[ticket] = tell
        if sign_in_id is not None:
            self._sign_in_watchers.setdefault(sign_in_id, {})[ticket] = tell
        return stop

    async def refresh(self) -> None:
        """Check every key in use again, and call the watchers of revoked ones."""
        # Taken before the read: what the read sees is at least as new as this.
        now = self._clock.monotonic()
        self._forget_unused()
        looked_at = dict(self._verified)
        holders = [verified.principal for verified in looked_at.values()]
        key_ids = {one.key_id for one in holders if one.key_id is not None}
        key_ids |= self._watchers.keys()
        sign_in_ids = {one.sign_in_id for one in holders if one.sign_in_id is not None}
        sign_in_ids |= self._sign_in_watchers.keys()
        if not key_ids:
            return
        live = await self._keys.live_among(key_ids)
        signed_in = await self._keys.signed_in_among(sign_in_ids) if sign_in_ids else set()
        for digest, verified in looked_at.items():
            holder = verified.principal
            is_signed_in = holder.sign_in_id is None or holder.sign_in_id in signed_in
            if holder.key_id in live and is_signed_in:
                verified.at_seconds = now
            elif self._verified.get(digest) is verified:
                del self._verified[digest]
        for key_id in key_ids - live:
            self._tell_revoked(key_id)
        for sign_in_id in sign_in_ids - signed_in:
            self._tell_signed_out(sign_in_id)

    def _forget_unused(self) -> None:
        """Keep what was used since the last look; the rest is verified anew when it comes back."""
        self._verified = {
            digest: verified for digest, verified in self._verified.items() if verified.used
        }
        for verified in self._verified.values():
            verified.used = False

    def _tell_revoked(self, key_id: KeyId) -> None:
        watching = self._watchers.pop(key_id, {})
        _log.info("key_revoked", key_id=key_id, connections=len(watching))
        _tell_all(watching.values())

    def _tell_signed_out(self, sign_in_id: SignInId) -> None:
        watching = self._sign_in_watchers.pop(sign_in_id, {})
        _log.info("signed_out", connections=len(watching))
        _tell_all(watching.values())

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_seconds)
            try:
                await self.refresh()
            except StoreError as error:
                _log.warning("keys_not_read", error=error.message)


def _forget(watchers: dict[_Id, dict[object, OnRevoked]], watched: _Id, ticket: object) -> None:
    watching = watchers.get(watched, {})
    watching.pop(ticket, None)
    if not watching:
        watchers.pop(watched, None)


def _tell_all(watching: Iterable[OnRevoked]) -> None:
    for on_revoked in watching:
        try:
            on_revoked()
        except Exception:
            _log.exception("revocation_not_told")


def _wrong() -> Unauthorized:
    return Unauthorized(
        "The key is wrong or was revoked; ask an operator for a new one (`dragoman keys create`)."
    )
