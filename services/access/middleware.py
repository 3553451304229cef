"""The door of the daemon: every request and WebSocket passes it, or is refused here.

In this order: the host that it is called by, the web page that calls, with which key, how often.
A page of another host shall not even learn whether its guess of a key was right, and whoever has no
good key takes no part of what those have who do: they may come from the same address.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from loguru import logger
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.access.credentials import (
    cookie_of,
    cookie_with,
    no_cookie,
    presented,
    take_from_headers,
    take_from_query,
    take_from_subprotocols,
)
from services.access.hosts import welcome
from services.access.keys import KeyRing
from services.access.limits import Buckets, payer
from services.access.login import LOGIN, posted_key
from services.access.origins import foreign_origin
from services.access.refusals import (
    ForeignOrigin,
    NoKey,
    Refusal,
    TooMany,
    UnknownHost,
    WrongKey,
    answer,
)
from tts_engine.errors import DuplexdError

#: wrong keys of an address a minute, before it is told to wait
WRONG_KEYS_PER_MINUTE = 10
#: lines in the log about refusals of a kind, a minute: whoever is refused may try for hours
_LINES_PER_MINUTE = 10
#: what devices ask for, who have tokens of their own
DEVICES = "/xiaozhi/"
#: what every answer says that does not say otherwise: no cache keeps what a key was needed for, no
#: other page loads it, and a browser takes it for what it is
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class AccessMiddleware:
    """Guards an application.

    Parameters:
        app: what is guarded.
        names: see `own_names`.
        origins: of web pages that may connect, see `foreign_origin`.
        keys: a request needs one of these; None: it needs none, and may come as often as it likes.
        requests_per_minute: of one client's address with a good key, and as many without; 0: any
            number.
        key_page: an HTML page that asks for the key, and posts it to /login.
        key_page_policy: its Content-Security-Policy.
        on_refused: counts refusals.
        clock: seconds that do not go back.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        names: frozenset[str],
        origins: frozenset[str],
        keys: KeyRing | None,
        requests_per_minute: int,
        key_page: bytes,
        key_page_policy: str,
        on_refused: Callable[[DuplexdError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._names = names
        self._origins = origins
        self._keys = keys
        self._key_page = key_page
        self._key_page_policy = key_page_policy
        self._on_refused = on_refused
        self._clock = clock
        limited = requests_per_minute > 0
        self._guests = Buckets(per_minute=requests_per_minute) if limited else None
        self._strangers = Buckets(per_minute=requests_per_minute) if limited else None
        self._wrong = Buckets(per_minute=WRONG_KEYS_PER_MINUTE)
        self._lines = Buckets(per_minute=_LINES_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        response = await self._judge(scope, receive)
        if response is None:
            # Devices bring their tokens as others bring their keys.
            take_from_headers(scope, but=b"authorization" if _is_of_device(scope) else b"")
            await self._app(scope, receive, send_guarded)
        else:
            await answer(response, scope, receive, send_guarded)

    async def _judge(self, scope: Scope, receive: Receive) -> Response | None:
        """The response in place of the application's; None: let the request in."""
        url_key = take_from_query(scope)
        offered = take_from_subprotocols(scope)
        headers = Headers(scope=scope)
        try:
            self._known_way(headers)
            if self._keys is None:
                return None
            if _is_of_device(scope):
                self._not_too_often(self._strangers, scope)
                return None
            shown = presented(headers, offered, secure=_is_secure(scope))
            return await self._with_key(self._keys, scope, receive, url_key, shown)
        except Refusal as refusal:
            self._tell(refusal, scope)
            return self._refused(refusal, scope, headers)

    def _known_way(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if not welcome(hosts, self._names):
            raise UnknownHost(", ".join(hosts))
        origin = foreign_origin(headers, self._origins)
        if origin is not None:
            raise ForeignOrigin(origin)

    def _not_too_often(self, buckets: Buckets | None, scope: Scope) -> None:
        if buckets is not None:
            wait_s = buckets.take(_payer(scope), now=self._clock())
            if wait_s:
                raise TooMany("requests", wait_s=wait_s)

    async def _with_key(
        self, keys: KeyRing, scope: Scope, receive: Receive, url_key: str, shown: list[str]
    ) -> Response | None:
        """Lets a request with a good key in, by way of a cookie where the key came otherwise."""
        secure = _is_secure(scope)
        if _is(scope, "POST", LOGIN):
            try:
                key = await posted_key(receive)
            except Refusal:
                self._not_too_often(self._strangers, scope)
                raise
            self._check(keys, [key], scope)
            cookie = cookie_with(key, secure=secure)
            return Response(status_code=204, headers={"Set-Cookie": cookie})
        if url_key and _is(scope, "GET", "/"):
            self._check(keys, [url_key, *shown], scope)
            query = scope["query_string"].decode()
            response = RedirectResponse(f"/?{query}" if query else "/", 303)
            if keys.admits(url_key):  # a browser with a good cookie may have come by a bad link
                response.headers["Set-Cookie"] = cookie_with(url_key, secure=secure)
            return response
        self._check(keys, shown, scope)
        return None

    def _check(self, keys: KeyRing, shown: list[str], scope: Scope) -> None:
        """A good key passes always; of wrong ones an address has only so many."""
        admitted = [keys.admits(key) for key in shown]
        if any(admitted):
            self._not_too_often(self._guests, scope)
            return
        self._not_too_often(self._strangers, scope)
        if not shown:
            raise NoKey
        wait_s = self._wrong.take(_payer(scope), now=self._clock())
        if wait_s:
            raise TooMany("wrong API keys", wait_s=wait_s)
        raise WrongKey

    def _refused(self, refusal: Refusal, scope: Scope, headers: Headers) -> Response:
        """What the client is told: a person at a browser is asked for the key."""
        asks = scope["type"] == "http" and scope["method"] == "GET"
        if isinstance(refusal, NoKey) and asks and "text/html" in headers.get("accept", ""):
            response: Response = HTMLResponse(
                self._key_page, refusal.status, headers=refusal.headers
            )
            response.headers["Content-Security-Policy"] = self._key_page_policy
        else:
            response = refusal.response()
        secure = _is_secure(scope)
        if isinstance(refusal, WrongKey) and cookie_of(headers, secure=secure):
            # A browser would bring a revoked key again and again, until its address has to wait.
            response.headers["Set-Cookie"] = no_cookie(secure=secure)
        return response

    def _tell(self, refusal: Refusal, scope: Scope) -> None:
        self._on_refused(refusal)
        if not self._lines.take(refusal.code, now=self._clock()):
            logger.warning("refused {}: {}", _address(scope), refusal.message)


def _is(scope: Scope, method: str, path: str) -> bool:
    return scope["type"] == "http" and scope["method"] == method and scope["path"] == path


def _is_of_device(scope: Scope) -> bool:
    return scope["path"].startswith(DEVICES)


def _is_secure(scope: Scope) -> bool:
    return scope["scheme"] in ("https", "wss")


def _payer(scope: Scope) -> str:
    return payer(_address(scope))


def _address(scope: Scope) -> str:
    """The peer's address; what a proxy says about others is believed by nobody."""
    client = scope.get("client")
    return client[0] if client else "a local socket"
