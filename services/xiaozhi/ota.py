"""Where a device asks, at every boot, which server it belongs to: the OTA address.

It must answer 200 to everything: whatever else it gets, a device waits ten seconds, twenty, forty,
and in the end looks for an MQTT server. Its JSON is pasted together and may be broken, so it is
known by its headers, and the body is read as far as it goes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from loguru import logger

from services.xiaozhi.handshake import Identity, identity
from services.xiaozhi.proxies import reached
from services.xiaozhi.registry import DeviceRegistry, Enrolled
from services.xiaozhi.router import PATH
from tts_engine.errors import DuplexdError

OTA_PATH = "/xiaozhi/ota/"
#: largest body that is read; devices send about 2 KB
_MOST_BODY = 64 * 1024
#: longest word that is believed of a device's body
_LONGEST = 64
#: how long a device shows the code before it asks again
_CODE_MS = 30_000
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "*",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtaContext:
    """What the OTA address needs.

    Parameters:
        registry: of the devices.
        websocket_url: where devices connect; None: where they have asked.
        trusted_proxies: see `reached`.
        time_zone: None: that of this machine.
        wall: seconds since the epoch.
    """

    registry: DeviceRegistry
    websocket_url: str | None = None
    trusted_proxies: Sequence[str] = ()
    time_zone: ZoneInfo | None = None
    wall: Callable[[], float] = field(default=time.time)


def make_router(context: OtaContext) -> APIRouter:
    """`/xiaozhi/ota/` and `/xiaozhi/ota/activate`, each with and without a slash at its end."""
    router = APIRouter()
    methods = ["GET", "POST"]

    async def boot(request: Request) -> Response:
        """A device boots."""
        body = await _body(request)
        who = identity(request.headers, request.query_params)
        board, firmware = _about(request, body)
        enrolled = Enrolled()
        if who.device_id:
            try:
                enrolled = await asyncio.to_thread(
                    context.registry.boots,
                    who,
                    board=board,
                    firmware=firmware,
                    base="{}://{}".format(*_reached(context, request)),
                )
            except DuplexdError as error:
                logger.error("device {}: {}", who.device_id, error)
        _tell(who, enrolled, board, firmware)
        return JSONResponse(_answer(context, request, enrolled, firmware), headers=_CORS)

    async def activate(request: Request) -> Response:
        """A device that shows a code asks whether it was approved."""
        await _body(request)
        approved = context.registry.approved(identity(request.headers, request.query_params))
        return Response(status_code=200 if approved else 202, headers=_CORS)

    async def options() -> Response:
        """A web page asks whether it may."""
        return Response(status_code=200, headers=_CORS)

    for path, handler in ((OTA_PATH, boot), (f"{OTA_PATH}activate/", activate)):
        for each in (path, path.rstrip("/")):
            router.add_api_route(each, handler, methods=methods)
            router.add_api_route(each, options, methods=["OPTIONS"])
    return router


def _answer(
    context: OtaContext, request: Request, enrolled: Enrolled, firmware: str
) -> dict[str, Any]:
    zone = context.time_zone
    at = context.wall()
    offset = datetime.fromtimestamp(at, tz=zone).astimezone(zone).utcoffset()
    minutes = int(offset.total_seconds() // 60) if offset is not None else 0
    answer: dict[str, Any] = {
        "server_time": {"timestamp": int(at * 1000), "timezone_offset": minutes},
        # What the device has: there is nothing to load.
        "firmware": {"version": firmware or "0.0.0", "url": ""},
        "websocket": {
            "url": context.websocket_url or _websocket(context, request),
            "token": enrolled.token,
            "version": 1,
        },
    }
    if enrolled.code:
        answer["activation"] = {
            "message": f"duplexd\n{enrolled.code}",
            "code": enrolled.code,
            "challenge": enrolled.code,
            "timeout_ms": _CODE_MS,
        }
    return answer


def _websocket(context: OtaContext, request: Request) -> str:
    scheme, host = _reached(context, request)
    return f"{'wss' if scheme == 'https' else 'ws'}://{host}{PATH}"


def _reached(context: OtaContext, request: Request) -> tuple[str, str]:
    return reached(
        request.headers,
        scheme=request.url.scheme,
        client=request.client.host if request.client else "",
        trusted=context.trusted_proxies,
    )


async def _body(request: Request) -> dict[str, Any]:
    """The body as far as it can be read; the rest of a large one is not waited for."""
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > _MOST_BODY:
            return {}
    try:
        found = json.loads(read)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _about(request: Request, body: dict[str, Any]) -> tuple[str, str]:
    """Board and firmware version: `User-Agent: BOARD/VERSION`, else the body."""
    board, slash, firmware = request.headers.get("user-agent", "").partition("/")
    if not slash or " " in board:  # some library's
        board, firmware = "", ""
    application, described = body.get("application"), body.get("board")
    if isinstance(application, dict) and not firmware:
        firmware = str(application.get("version", ""))
    if isinstance(described, dict) and not board:
        board = str(described.get("name") or described.get("type") or "")
    return _word(board), _version(firmware)


def _word(text: str) -> str:
    return "".join(char for char in text if char.isprintable())[:_LONGEST]


def _version(text: str) -> str:
    """Numbers between dots: a device dies of anything else."""
    numbers = text.strip().split(".")
    good = all(each.isascii() and each.isdigit() and len(each) < 9 for each in numbers)
    return text.strip() if good else ""


def _tell(who: Identity, enrolled: Enrolled, board: str, firmware: str) -> None:
    about = f"{who.device_id or 'a device without an id'}, {board or 'board unknown'} {firmware}"
    if enrolled.code:
        how = f"`run.py devices approve {enrolled.code}`"
        logger.warning("device {} waits for approval: {}", about, how)
    else:
        logger.info("device {} boots", about)
