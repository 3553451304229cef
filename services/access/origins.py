# pyright: strict
"""Which web pages may connect: see docs/decisions/009-origins.md."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from services.access.hosts import host_port, is_loopback, plain

if TYPE_CHECKING:
    from starlette.datastructures import Headers

_PORTS = {"http": 80, "https": 443}


def foreign_origin(headers: Headers, allowed: frozenset[str] = frozenset()) -> str | None:
    """The origin of a web page that this request comes from and that must not make it.

    A page of the client's own machine may, so may one of the host that the client knows the daemon
    by, and so may those that are allowed. Clients that are no web pages name no origin.

    Args:
        headers: of the request; that its `Host` names this daemon is checked elsewhere.
        allowed: as `origin_of` gives them.

    Returns:
        The origin as it was sent; None: the request is welcome.
    """
    host = _host(f"//{headers.get('host', '')}")
    for origin in headers.getlist("origin"):
        page = _host(origin)
        if not page or not (page == host or is_loopback(page) or origin_of(origin) in allowed):
            return origin
    return None


def origin_of(text: str) -> str | None:
    """An origin as it is compared: scheme://host:port in lower case, with its port.

    Returns:
        None: the text is none, or more than one, as an address with a path.
    """
    try:
        parts = urlsplit(text)
        host, port = plain(parts.hostname or ""), parts.port
    except ValueError:
        return None
    more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in _PORTS or not host or more:
        return None
    usual = _PORTS[parts.scheme]
    return f"{parts.scheme}://{host_port(host, usual if port is None else port)}"


def _host(url: str) -> str:
    """Empty where there is none, as in the origin "null" of a file or a sandbox."""
    try:
        return plain(urlsplit(url).hostname or "")
    except ValueError:
        return ""
