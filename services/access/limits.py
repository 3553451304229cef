# pyright: strict
"""How often an address may ask: token buckets on a clock that the caller brings."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

#: addresses that are remembered; the one that was silent longest is forgotten first
ADDRESSES = 4096
#: a home or a machine has a /64 of IPv6 addresses to itself
_IPV6_PREFIX = 64


class Buckets:
    """One bucket an address: full at first, refilled evenly.

    Parameters:
        per_minute: tokens that a bucket holds, and gets in a minute; at least 1.
        addresses: how many are remembered.
    """

    def __init__(self, *, per_minute: int, addresses: int = ADDRESSES) -> None:
        self._size = float(per_minute)
        self._per_s = per_minute / 60
        self._addresses = addresses
        #: tokens, and when there were so many
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        """Addresses that are remembered."""
        return len(self._buckets)

    def take(self, address: str, *, now: float) -> float:
        """Takes a token.

        Args:
            address: as `payer` gives it.
            now: seconds on any clock that does not go back.

        Returns:
            0.0, or seconds until there is one: nothing was taken then.
        """
        tokens, at = self._buckets.pop(address, (self._size, now))
        tokens = min(self._size, tokens + (now - at) * self._per_s)
        granted = tokens >= 1
        self._buckets[address] = (tokens - granted, now)
        if len(self._buckets) > self._addresses:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (1 - tokens) / self._per_s


def payer(address: str) -> str:
    """Whose bucket pays for a client's address: the address, or its network for IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:  # IPv4, on a socket that takes both
        return str(parsed.ipv4_mapped)
    host_bits = 128 - _IPV6_PREFIX
    return f"{IPv6Address(int(parsed) >> host_bits << host_bits)}/{_IPV6_PREFIX}"
