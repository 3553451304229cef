"""Where this machine is reached from others."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import psutil

Address = IPv4Address | IPv6Address
#: where no packet goes (RFC 5737): only the route is asked for, and nothing is sent
_ELSEWHERE = ("192.0.2.1", 9)


def own_addresses() -> list[str]:
    """The addresses of the interfaces that are up, without loopback and link-local ones.

    The one of the default route comes first, then IPv4, then IPv6.
    """
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    found = {
        ip_address(each.address)
        for name, addresses in psutil.net_if_addrs().items()
        if name in up
        for each in addresses
        if each.family in (socket.AF_INET, socket.AF_INET6) and "%" not in each.address
    }
    first = _of_the_default_route()

    def order(address: Address) -> tuple[bool, int, int]:
        return str(address) != first, address.version, int(address)

    return [str(each) for each in sorted(filter(_is_reachable, found), key=order)]


def _is_reachable(address: Address) -> bool:
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _of_the_default_route() -> str:
    """Empty where there is no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return ""
        return probe.getsockname()[0]
