# pyright: strict
"""Which web pages may connect: see docs/decisions/009-origins.md."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers


def foreign_origin(headers: Headers) -> str | None:
    """The origin of a web page that this handshake comes from and that must not have it.

    A page of this machine may, and so may one of the host that the client knows the daemon by.
    Clients that are no web pages name no origin.

    Returns:
        The origin as it was sent; None: the handshake is welcome.
    """
    host = _host(f"//{headers.get('host', '')}")
    for origin in headers.getlist("origin"):
        page = _host(origin)
        if not page or not (page == host or _is_loopback(page)):
            return origin
    return None


def _host(url: str) -> str:
    """Empty where there is none, as in the origin "null" of a file or a sandbox."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
