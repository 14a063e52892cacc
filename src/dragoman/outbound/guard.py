"""Connections to permitted addresses only.

The guard looks a host name up, judges each address, and connects to a judged address itself. The
name is not looked up again in between, so an answer that changes from one moment to the next (DNS
rebinding) gains nothing. Errors do not tell which addresses a name has: a user who may run
experiments could otherwise explore the names of a network that they do not see.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable

import httpcore

from dragoman.outbound.addresses import AddressRules

Lookup = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, best first."""


class AddressRefused(Exception):
    """Raised when a host has no permitted address, or none at all."""


async def look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections for the HTTP client, to permitted addresses only."""

    def __init__(self, rules: AddressRules, lookup: Lookup = look_up) -> None:
        self._rules = rules
        self._lookup = lookup
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._lookup(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} was not found in time") from None
        except OSError as error:
            if self._rules.permits_all:
                raise httpcore.ConnectError(f"{host} was not found: {error}") from error
            addresses = []
        permitted = [address for address in addresses if self._rules.permit(host, address)]
        if not permitted:
            raise AddressRefused(
                f"{host} has no address that experiments may call: it is not known, or private; "
                "in the second case an operator can list it in lab.http_allow"
            )
        try:
            return await self._connect_to_one(
                permitted, port, timeout, local_address, socket_options
            )
        except httpcore.ConnectError:
            raise httpcore.ConnectError(f"{host} accepts no connections on port {port}") from None

    async def _connect_to_one(
        self,
        addresses: list[str],
        port: int,
        timeout: float | None,
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = addresses
        for address in others:
            try:
                return await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
