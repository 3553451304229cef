"""`POST /login` {"key": KEY}: how a browser gets its cookie."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.types import Receive

from services.access.refusals import BadLogin, SlowLogin

LOGIN = "/login"
#: a key, and what is around it
_MAX_BYTES = 4096
#: how long the body may take, seconds
_PATIENCE_S = 10.0


async def posted_key(receive: Receive) -> str:
    """The key in a request's body.

    Raises:
        BadLogin: it has none.
        SlowLogin: it did not come in time.
    """
    try:
        async with asyncio.timeout(_PATIENCE_S):
            body = await _body(receive)
    except TimeoutError:
        raise SlowLogin from None
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise BadLogin from None
    key = content.get("key") if isinstance(content, dict) else None
    if not isinstance(key, str) or not key.strip().isascii():
        raise BadLogin
    return key.strip()


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or len(body) > _MAX_BYTES:
            raise BadLogin
        if not message.get("more_body", False):
            return body
