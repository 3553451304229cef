"""Mounts the Realtime protocol on a FastAPI application."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Response, WebSocket

from services.face import FaceContext, PacingProfile
from services.realtime.connection import RealtimeConnection
from tts_engine.service.api_errors import no_upgrade

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def make_router(context: FaceContext, profile: PacingProfile | None = None) -> APIRouter:
    """`WS /v1/realtime`.

    Args:
        context: what every face is given.
        profile: how audio is paced, at the protocol's 24 kHz; None for the defaults.

    Serve it with `uvicorn.Config(ws=FaceWebSocketProtocol, ws_per_message_deflate=False)`; with
    another WebSocket implementation it works, and cannot drop a client that does not read.
    """
    router = APIRouter()
    boot_id = _boot_id()

    @router.websocket("/v1/realtime")
    async def realtime(socket: WebSocket) -> None:
        connection = RealtimeConnection(
            socket=socket, context=context, profile=profile or PacingProfile(), boot_id=boot_id
        )
        await connection.serve()

    @router.get("/v1/realtime")
    async def plain() -> Response:
        """A handshake that has lost what makes it one."""
        return no_upgrade()

    return router


def _boot_id() -> str:
    """Names the boot whose monotonic clock this is; empty where the system does not tell."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
