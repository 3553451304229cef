"""Where a device asks, at every boot, which server it belongs to: the OTA address.

It must answer 200 to everything: whatever else it gets, a device waits ten seconds, twenty, forty,
and in the end looks for an MQTT server. Its JSON is pasted together and may be broken, so it is
known by its headers, and the body is read as far as it goes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from loguru import logger

from services.access.addresses import own_addresses
from services.access.limits import Buckets, payer
from services.xiaozhi.device_file import Visit
from services.xiaozhi.firmware import FIRMWARE_PATH, Firmware, FirmwareFolder
from services.xiaozhi.handshake import Identity, identity
from services.xiaozhi.ota_body import about, read_body
from services.xiaozhi.proxies import reached
from services.xiaozhi.registry import DeviceRegistry, Enrolled
from services.xiaozhi.router import PATH
from tts_engine.errors import DuplexdError

OTA_PATH = "/xiaozhi/ota/"
#: lines in the log about the boots of an address, a minute
_LINES_PER_MINUTE = 10
#: how long a device shows the code before it asks again
_CODE_MS = 30_000
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Accept-Language, Activation-Version, Authorization, "
    "Client-Id, Content-Type, Device-Id, Serial-Number",
    "Access-Control-Max-Age": "86400",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtaContext:
    """What the OTA address needs.

    Parameters:
        registry: of the devices.
        websocket_url: where devices connect; None: where they have asked.
        firmware: that they may load.
        trusted_proxies, addresses: see `reached`.
        time_zone: None: that of this machine.
        wall: seconds since the epoch.
    """

    registry: DeviceRegistry
    websocket_url: str | None = None
    firmware: FirmwareFolder = field(default_factory=lambda: FirmwareFolder(None))
    trusted_proxies: Sequence[str] = ()
    addresses: Callable[[], Iterable[str]] = own_addresses
    time_zone: ZoneInfo | None = None
    wall: Callable[[], float] = time.time


def make_router(context: OtaContext) -> APIRouter:
    """`/xiaozhi/ota/` and `/xiaozhi/ota/activate`, each with and without a slash at its end, and
    the firmware.
    """
    router = APIRouter()
    methods = ["GET", "POST"]
    # The file has one writer at a time; those who wait for it shall not take all the threads.
    turn = asyncio.Lock()
    lines = Buckets(per_minute=_LINES_PER_MINUTE)

    async def boot(request: Request) -> Response:
        """A device boots."""
        body = await read_body(request)
        who = identity(request.headers, request.query_params)
        visit = _visit(context, request, body, who)
        enrolled = Enrolled()
        async with turn:
            if who.device_id:
                try:
                    enrolled = await asyncio.to_thread(context.registry.boots, visit)
                except DuplexdError as error:
                    logger.error("device {}: {}", who.device_id, error)
            newer = await asyncio.to_thread(context.firmware.newer, visit.board, visit.firmware)
        if not lines.take(visit.address, now=time.monotonic()):
            _tell(visit, enrolled, asks=context.registry.asks)
        return JSONResponse(_answer(context, visit, enrolled, newer), headers=_CORS)

    async def activate(request: Request) -> Response:
        """A device that shows a code asks whether it was approved."""
        await read_body(request)
        approved = context.registry.approved(identity(request.headers, request.query_params))
        return Response(status_code=200 if approved else 202, headers=_CORS)

    async def options() -> Response:
        """A web page asks whether it may."""
        return Response(status_code=200, headers=_CORS)

    for path, handler in ((OTA_PATH, boot), (f"{OTA_PATH}activate/", activate)):
        for each in (path, path.rstrip("/")):
            router.add_api_route(each, handler, methods=methods)
            router.add_api_route(each, options, methods=["OPTIONS"])

    @router.get(f"{FIRMWARE_PATH}{{board}}/{{name}}")
    async def load(board: str, name: str) -> Response:
        """A device loads what it was offered: an answer with a Content-Length."""
        found = await asyncio.to_thread(context.firmware.file, board, name)
        if found is None:
            return Response(status_code=404)
        return FileResponse(found.path, media_type="application/octet-stream")

    return router


def _visit(context: OtaContext, request: Request, body: dict[str, Any], who: Identity) -> Visit:
    client = request.client.host if request.client else ""
    board, firmware = about(request.headers, body)
    return Visit(
        id=who.device_id,
        client_id=who.client_id,
        board=board,
        firmware=firmware,
        base=_base_of(context.websocket_url)
        or reached(
            request.headers,
            scheme=request.url.scheme,
            client=client,
            trusted=context.trusted_proxies,
            addresses=context.addresses,
        ),
        address=payer(client),
    )


def _base_of(url: str | None) -> str:
    """`http://host:port` of a WebSocket's address."""
    if url is None:
        return ""
    parts = urlsplit(url)
    return f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}"


def _answer(
    context: OtaContext, visit: Visit, enrolled: Enrolled, newer: Firmware | None
) -> dict[str, Any]:
    zone = context.time_zone
    at = context.wall()
    offset = datetime.fromtimestamp(at, tz=zone).astimezone(zone).utcoffset()
    minutes = int(offset.total_seconds() // 60) if offset is not None else 0
    # What the device has is what it shall have: there is nothing to load.
    firmware = {"version": visit.firmware or "0.0.0", "url": ""}
    if newer is not None:
        url = f"{visit.base}{FIRMWARE_PATH}{newer.board}/{newer.version}.bin"
        firmware = {"version": newer.version, "url": url}
    answer: dict[str, Any] = {
        "server_time": {"timestamp": int(at * 1000), "timezone_offset": minutes},
        "firmware": firmware,
        "websocket": {
            # http becomes ws, and https wss
            "url": context.websocket_url or f"ws{visit.base.removeprefix('http')}{PATH}",
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


def _tell(visit: Visit, enrolled: Enrolled, *, asks: bool) -> None:
    about = f"{visit.id or 'without an id'}, {visit.board or 'board unknown'} {visit.firmware}"
    if enrolled.code:
        whose = ", in place of the one that has its id" if enrolled.replaces else ""
        how = f"run.py devices approve {enrolled.code}"
        logger.warning("device {} waits for approval{}: `{}`", about, whose, how)
    elif asks and visit.id and not visit.client_id:
        logger.warning("device {} shows no Client-Id, and gets no token", about)
    else:
        logger.info("device {} boots", about)
