# pyright: strict
"""Where a request may carry its key. The key itself gets no further than the check."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

COOKIE = "duplexd_key"
#: the sub-protocol by which browsers, which can set no header, bring OpenAI a key
SUBPROTOCOL = "openai-insecure-api-key."
#: a year, seconds: what browsers keep cookies for at most is a little more
_COOKIE_AGE_S = 365 * 24 * 3600

Scope = MutableMapping[str, Any]


def presented(headers: Headers, subprotocols: list[str]) -> list[str]:
    """The keys that a request carries: one a place, so that a request is one attempt."""
    places = (_bearer(headers), _subprotocol(subprotocols), _cookie(headers))
    return [key for key in places if key]


def _bearer(headers: Headers) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _subprotocol(subprotocols: list[str]) -> str:
    return next(_keys_of(subprotocols), "")


def _cookie(headers: Headers) -> str:
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def _keys_of(subprotocols: list[str]) -> Iterator[str]:
    for name in subprotocols:
        if name.startswith(SUBPROTOCOL):
            yield name.removeprefix(SUBPROTOCOL)


def take_from_subprotocols(scope: Scope) -> list[str]:
    """Takes the key out of the sub-protocols that the application may choose from and echo.

    Returns:
        The sub-protocols as they were; empty for what is no WebSocket.
    """
    offered = cast(list[str], scope.get("subprotocols") or [])
    if offered:
        scope["subprotocols"] = [name for name in offered if not name.startswith(SUBPROTOCOL)]
    return offered


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
    return f"{COOKIE}={key}; {_attributes(_COOKIE_AGE_S, secure=secure)}"


def no_cookie(*, secure: bool) -> str:
    """The `Set-Cookie` that makes a browser forget the key."""
    return f"{COOKIE}=; {_attributes(0, secure=secure)}"


def _attributes(age_s: int, *, secure: bool) -> str:
    return f"Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
