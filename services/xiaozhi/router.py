"""Mounts the device protocol's WebSocket on a FastAPI application."""

from __future__ import annotations

from fastapi import APIRouter, Response, WebSocket
from loguru import logger

from services.face import FaceContext
from services.handshake import NotAdmitted, WarmingUp, refuse
from services.xiaozhi.connection import XiaozhiConnection
from services.xiaozhi.handshake import Doors, Identity, identity
from services.xiaozhi.roster import Roster
from services.xiaozhi.settings import XiaozhiSettings
from tts_engine.errors import BadRequest, DuplexdError
from tts_engine.service.api_errors import no_upgrade

#: where devices connect, as their settings have it
PATH = "/xiaozhi/v1/"


def make_router(
    context: FaceContext, settings: XiaozhiSettings, doors: Doors, roster: Roster
) -> APIRouter:
    """`WS /xiaozhi/v1/`.

    Args:
        context: what every face is given.
        settings: how this one behaves.
        doors: who may come in.
        roster: who is in.
    """
    router = APIRouter()

    @router.websocket(PATH)
    @router.websocket(PATH.rstrip("/"))
    async def device(socket: WebSocket) -> None:
        who = identity(socket.headers, socket.query_params)
        connection: XiaozhiConnection | None = None
        try:
            _let_in(context, doors, who)
            connection = XiaozhiConnection(
                socket=socket, context=context, settings=settings, doors=doors, identity=who
            )
            # First: what it left behind gives its place back, which may be the last one.
            roster.enter(who.device_id, connection)
            connection.open()
        except DuplexdError as error:
            if connection is not None:
                roster.leave(who.device_id, connection)
            logger.warning("device {!r} turned away: {}", who.device_id, error)
            context.on_error(error)
            await refuse(socket, error)
            return
        try:
            await connection.serve()
        finally:
            roster.leave(who.device_id, connection)

    @router.get(PATH)
    @router.get(PATH.rstrip("/"))
    async def plain() -> Response:
        """A handshake that has lost what makes it one."""
        return no_upgrade()

    return router


def _let_in(context: FaceContext, doors: Doors, who: Identity) -> None:
    if not who.device_id:
        raise BadRequest(
            "The device does not say who it is",
            mend="Send the header Device-Id, or the parameter device-id",
        )
    if not doors.admits(who.device_id, who.token):
        raise NotAdmitted(
            "The device shows no token, or a wrong one",
            mend="Let it ask the OTA address for its token; docs/xiaozhi.md says how",
        )
    if not context.sessions.ready:
        raise WarmingUp("The daemon is warming up", mend="Try again in a moment")
