"""What a device tells of itself when it boots, as far as it can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from services.xiaozhi.bodies import body_of
from services.xiaozhi.firmware import numeric

#: largest body that is read, bytes, and the longest wait for it, seconds; devices send 2 KB
_MOST_BODY, _BODY_S = 64 * 1024, 10.0
#: longest name of a board that is believed, characters
_LONGEST = 64


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object that the body is; empty: it is none, too large, or too slow."""
    try:
        found = json.loads(await body_of(request, most=_MOST_BODY, wait_s=_BODY_S) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def about(headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[str, str]:
    """Board and firmware version: `User-Agent: BOARD/VERSION`, else by the body; may be empty.

    Args:
        headers: of the request.
        body: what could be read of it.
    """
    board, slash, firmware = headers.get("user-agent", "").partition("/")
    if not slash or " " in board:  # some library's
        board, firmware = "", ""
    application, described = body.get("application"), body.get("board")
    if isinstance(application, dict) and not firmware:
        firmware = application.get("version")
    if isinstance(described, dict) and not board:
        board = described.get("name") or described.get("type")
    return _word(board), numeric(firmware) if isinstance(firmware, str) else ""


def _word(text: object) -> str:
    if not isinstance(text, str):
        return ""
    return "".join(char for char in text if char.isprintable())[:_LONGEST]
