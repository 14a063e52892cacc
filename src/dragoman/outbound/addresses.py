"""Which addresses may be called: the public ones, and those that the settings list."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""Where public hosts are; the rest of IPv6 is private, retired or not given out."""


class AddressRules:
    """Decides which addresses calls may go to."""

    def __init__(self, allow: tuple[str, ...] | None, open_mode: bool) -> None:
        self.permits_all = allow is None
        """Whether experiments are their user's own, on the user's own machine."""
        self._open_mode = open_mode
        self._hosts: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in allow or ():
            try:
                self._networks.append(ip_network(entry.strip("[]"), strict=False))
            except ValueError:
                self._hosts.add(entry.lower().rstrip("."))

    def permit(self, host: str, address: str) -> bool:
        """Whether a call to the host may go to the address."""
        if self.permits_all or host.lower().rstrip(".") in self._hosts:
            return True
        shown = _meant(ip_address(address.partition("%")[0]))
        if any(shown in network for network in self._networks):
            return True
        if shown.is_loopback:
            return self._open_mode
        if isinstance(shown, IPv6Address) and shown not in _GLOBAL_UNICAST:
            return False
        return shown.is_global and not shown.is_multicast

    def refuse(self, host: str) -> bool:
        """Whether the host is itself an address that may not be called; asks no name server."""
        try:
            ip_address(host.strip("[]").partition("%")[0])
        except ValueError:
            return False
        return not self.permit(host, host.strip("[]"))


def _meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
