"""Network addresses and host names, as far as limits and checks have to tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_IPV6_NETWORK_BITS = 64

Address = IPv4Address | IPv6Address


def address_group(address: str) -> str:
    """Who is counted together: one IPv4 address, or the IPv6 network that one party holds."""
    parsed = parsed_address(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv6Address):
        return f"{int(parsed) >> (128 - _IPV6_NETWORK_BITS):x}/{_IPV6_NETWORK_BITS}"
    return str(parsed)


def parsed_address(text: str) -> Address | None:
    """The address that a text is; an IPv4 address in the clothes of IPv6 is one of IPv4."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address):
        if parsed.scope_id is not None:
            return None
        return parsed.ipv4_mapped or parsed
    return parsed


def among(networks: Iterable[str]) -> Callable[[str], bool]:
    """A test whether an address lies in one of the networks; ``*`` stands for every address."""
    listed = list(networks)
    if "*" in listed:
        return lambda address: True
    parsed = [ip_network(network, strict=False) for network in listed]

    def is_among(address: str) -> bool:
        found = parsed_address(address)
        return found is not None and any(found in network for network in parsed)

    return is_among


def host_of(authority: str) -> str | None:
    """The host of ``host``, ``host:port`` or ``[address]:port``, in the one form to compare.

    That is lower-case, without the dot that may stand at the end of a full name, and for addresses
    the shortest form. None for what is none of these.
    """
    try:
        parts = urlsplit(f"//{authority}")
        host, _ = parts.hostname, parts.port  # a port that is none raises
    except ValueError:
        return None
    if not host or parts.netloc != authority or "@" in authority:
        return None
    bracketed = authority.startswith("[")
    address = parsed_address(host)
    if bracketed != (":" in host) or (bracketed and address is None):
        return None
    return str(address) if address is not None else host.removesuffix(".")
