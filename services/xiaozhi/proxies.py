# pyright: strict
"""By which address a device has reached us, so that it can be told where to connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network

from services.access.hosts import host_of, is_address, is_loopback

_SCHEMES = {"http": "http", "ws": "http", "https": "https", "wss": "https"}


def reached(
    headers: Mapping[str, str],
    *,
    scheme: str,
    client: str,
    trusted: Sequence[str],
    addresses: Callable[[], Iterable[str]],
) -> str:
    """The address that a device has asked, `http://host` or `http://host:port`.

    Args:
        headers: of its request.
        scheme: of the connection itself.
        client: address of the other end.
        trusted: addresses and networks of proxies, whose word on scheme and host counts.
        addresses: gives this machine's; asked only for one that has come by an IPv6 address, which
            a device cannot read.
    """
    host = headers.get("host", "")
    if _is_one_of(client, trusted):
        forwarded = _first(headers.get("x-forwarded-host", ""))
        host = forwarded if host_of(forwarded) else host
        scheme = _first(headers.get("x-forwarded-proto", "")).lower() or scheme
    return f"{_SCHEMES.get(scheme, 'http')}://{_readable(host, addresses)}"


def _readable(host: str, addresses: Callable[[], Iterable[str]]) -> str:
    """A host that a device can read: a name or an IPv4 address, with its port if there is one."""
    name = host_of(host)
    if name is None:
        return "localhost"
    if not (is_address(name) and ":" in name):
        return host
    port = host.rpartition("]")[2]
    if is_loopback(name):
        return f"localhost{port}"
    return next((each for each in addresses() if ":" not in each), "localhost") + port


def _first(value: str) -> str:
    """Of a list, what the outermost proxy has seen."""
    return value.partition(",")[0].strip()


def _is_one_of(client: str, trusted: Sequence[str]) -> bool:
    try:
        address = ip_address(client)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # IPv4, on a socket that takes both
    return any(address in ip_network(each, strict=False) for each in trusted)
