# pyright: strict
"""Where a request may carry its key. The key itself gets no further than the check."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

#: names of the cookie without TLS and with it. A browser lets no other host and no plain connection
#: set the second; and one that has it would not let a plain connection replace it.
COOKIE, SECURE_COOKIE = "duplexd_key", "__Host-duplexd_key"
#: the sub-protocol by which browsers, which can set no header, bring OpenAI a key
SUBPROTOCOL = "openai-insecure-api-key."
#: a year, seconds: what browsers keep cookies for at most is a little more
_COOKIE_AGE_S = 365 * 24 * 3600

#: headers that may hold a key
_SECRET = (b"authorization", b"cookie", b"sec-websocket-protocol")

Scope = MutableMapping[str, Any]


def presented(headers: Headers, subprotocols: list[str], *, secure: bool) -> list[str]:
    """The keys that a request carries: one a place, so that a request is one attempt.

    Args:
        headers: of the request.
        subprotocols: as they were offered.
        secure: the connection has TLS.
    """
    offered = [name for name in subprotocols if name.startswith(SUBPROTOCOL)]
    places = (
        _bearer(headers),
        offered[0].removeprefix(SUBPROTOCOL) if offered else "",
        cookie_of(headers, secure=secure),
    )
    return [key for key in places if key]


def _bearer(headers: Headers) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def cookie_of(headers: Headers, *, secure: bool) -> str:
    """The key that a browser keeps; empty where it keeps none."""
    return cookie_parser(headers.get("cookie", "")).get(_name(secure=secure), "")


def take_from_subprotocols(scope: Scope) -> list[str]:
    """Takes the key out of the sub-protocols that the application may choose from and echo.

    Returns:
        The sub-protocols as they were; empty for what is no WebSocket.
    """
    offered = cast(list[str], scope.get("subprotocols") or [])
    if offered:
        scope["subprotocols"] = [name for name in offered if not name.startswith(SUBPROTOCOL)]
    return offered


def take_from_headers(scope: Scope, *, but: bytes = b"") -> None:
    """Takes the headers out that may hold a key: what is behind the door has no use for them.

    Args:
        scope: of the request.
        but: the name of one that it has a use for.
    """
    headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
    secret = {*_SECRET} - {but}
    scope["headers"] = [each for each in headers if each[0].lower() not in secret]


def take_from_query(scope: Scope) -> str:
    """Takes `?key=` out of the query, before anything logs it; returns its value, or nothing."""
    query = cast(bytes, scope.get("query_string", b""))
    if b"key" not in query:
        return ""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    found = [value for name, value in pairs if name == "key"]
    if not found:
        return ""
    scope["query_string"] = urlencode([pair for pair in pairs if pair[0] != "key"]).encode()
    return found[0]


def cookie_with(key: str, *, secure: bool) -> str:
    """The `Set-Cookie` that makes a browser bring the key from now on.

    Args:
        key: good, and hence free of what is special in a cookie.
        secure: the connection has TLS; over another one the browser would drop such a cookie.
    """
    return f"{_name(secure=secure)}={key}; {_attributes(_COOKIE_AGE_S, secure=secure)}"


def no_cookie(*, secure: bool) -> str:
    """The `Set-Cookie` that makes a browser forget the key."""
    return f"{_name(secure=secure)}=; {_attributes(0, secure=secure)}"


def _name(*, secure: bool) -> str:
    return SECURE_COOKIE if secure else COOKIE


def _attributes(age_s: int, *, secure: bool) -> str:
    # Strict would keep the cookie from whoever follows a link to the daemon, the one with the key
    # included. Lax keeps it from everything else that pages of others can make a browser send.
    return f"Path=/; Max-Age={age_s}; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"
