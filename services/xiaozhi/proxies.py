# pyright: strict
"""By which address a device has reached us, so that it can be told where to connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network


def reached(
    headers: Mapping[str, str], *, scheme: str, client: str, trusted: Sequence[str]
) -> tuple[str, str]:
    """Scheme and host (with a port, if it is not the usual one) that a device has asked.

    Args:
        headers: of its request.
        scheme: of the connection itself, "http" or "https".
        client: address of the other end.
        trusted: addresses and networks of proxies, whose word on scheme and host counts.
    """
    host = headers.get("host", "")
    if _is_one_of(client, trusted):
        scheme = _first(headers.get("x-forwarded-proto", "")) or scheme
        host = _first(headers.get("x-forwarded-host", "")) or host
    return "https" if scheme in ("https", "wss") else "http", host


def _first(value: str) -> str:
    """Of a list, what the outermost proxy has seen."""
    return value.partition(",")[0].strip()


def _is_one_of(client: str, trusted: Sequence[str]) -> bool:
    try:
        address = ip_address(client)
    except ValueError:
        return False
    return any(address in ip_network(each, strict=False) for each in trusted)
