"""One WebSocket connection of the Realtime protocol: owns the socket, is the Sink."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

from fastapi import WebSocket
from loguru import logger
from starlette.websockets import WebSocketDisconnect

from services.face import Conversation, FaceContext, Outcome, PacingProfile, SessionOptions, Sink
from services.realtime.actions import (
    Action,
    AddText,
    Cancel,
    Clear,
    Commit,
    Hear,
    HeardUntil,
    Refuse,
    Respond,
    Send,
    Update,
)
from services.realtime.audio import Downsampler
from services.realtime.origins import foreign_origin
from services.realtime.protocol import RealtimeCore
from services.realtime.session import Session
from services.realtime.uvicorn_protocol import ABORT
from services.realtime.wire import Wire
from services.realtime.writer import SocketWriter
from tts_engine.errors import AtCapacity, BadRequest, DuplexdError, EngineFailed, TimedOut

#: WebSocket close codes
_NORMAL, _INTERNAL, _TRY_LATER = 1000, 1011, 1013
#: bytes of audio taken before other tasks get their turn: one second. A message may hold minutes
_SLICE = 48_000
#: browsers offer this subprotocol, and give up when it is not picked
_SUBPROTOCOL = "realtime"


class RealtimeConnection(Sink):
    """Serves one client, from the handshake to the closed socket.

    Parameters:
        socket: not yet accepted.
        profile: how audio is paced; its rate must be 24 kHz, the protocol's.
        boot_id: see RealtimeCore.
    """

    def __init__(
        self,
        *,
        socket: WebSocket,
        context: FaceContext,
        profile: PacingProfile,
        boot_id: str = "",
    ) -> None:
        self.profile = profile
        self._socket = socket
        self._context = context
        self._boot_id = boot_id
        self._seed = secrets.token_hex(8)
        self._downsampler = Downsampler()
        # set by `serve` before anything can use them
        self._conversation: Conversation
        self._core: RealtimeCore
        self._writer: SocketWriter
        self._gone = False

    async def serve(self) -> None:
        """Returns when the connection is over and nothing of it is left."""
        origin = foreign_origin(self._socket.headers)
        if origin is not None:
            logger.warning("realtime client refused: a web page of {!r} may not connect", origin)
            self._context.on_error(BadRequest("A web page of another host may not connect"))
            await self._socket.close()  # before it is accepted: 403
            return
        offered: list[str] = self._socket.scope.get("subprotocols", [])
        await self._socket.accept(_SUBPROTOCOL if _SUBPROTOCOL in offered else None)
        try:
            self._open()
        except DuplexdError as error:
            await self._turn_away(error)
            return
        self._writer = SocketWriter(
            send=self._send,
            timeout_s=self._context.send_timeout_s,
            on_failure=self._sending_failed,
        )
        self._post(self._core.created())
        writer = asyncio.create_task(self._writer.run(), name="realtime-writer")
        reader = asyncio.create_task(self._read(), name="realtime-reader")
        code = _NORMAL
        try:
            await self._conversation.run()
        except Exception as error:
            code = _INTERNAL
            logger.opt(exception=error).error("{}: the conversation broke", self._conversation.id)
            expected = isinstance(error, DuplexdError)
            await self.error(error if expected else EngineFailed("The conversation broke"))
        finally:
            self._conversation.close()
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            await self._writer.finish()
            await writer
            await self._close(code)

    def _open(self) -> None:
        sessions = self._context.sessions
        if not sessions.ready:
            raise _WarmingUp("The daemon is warming up", mend="Try again in a moment")
        self._conversation = sessions.open(self, SessionOptions())
        session = Session(
            id=self._conversation.id,
            model=self._socket.query_params.get("model", ""),
            default_voice=next(iter(sessions.voices), ""),
        )
        self._core = RealtimeCore(session=session, seed=self._seed, boot_id=self._boot_id)

    async def _turn_away(self, error: DuplexdError) -> None:
        """No conversation: says why, and closes."""
        logger.warning("realtime client turned away: {}", error)
        self._context.on_error(error)
        code = _TRY_LATER if isinstance(error, AtCapacity) else _INTERNAL
        reason = "warming up" if isinstance(error, _WarmingUp) else error.code.replace("_", " ")
        try:
            async with asyncio.timeout(self._context.send_timeout_s):
                await self._send(Wire(seed=self._seed).failure(error))
        except (TimeoutError, ConnectionError):
            return
        await self._close(code, reason)

    # --- from the client --------------------------------------------------------------------
    async def _read(self) -> None:
        """Feeds the core until the client is gone."""
        try:
            while True:
                message = await self._socket.receive()
                arrived = time.monotonic()
                if message["type"] == "websocket.disconnect":
                    logger.debug("{}: the client left", self._conversation.id)
                    self._writer.abandon()
                    return
                text = message.get("text")
                actions = self._core.receive_binary() if text is None else self._core.receive(text)
                for action in actions:
                    await self._act(action, arrived)
        except Exception as error:
            logger.opt(exception=error).error("{}: reading broke", self._conversation.id)
            await self.error(EngineFailed("The connection broke"))
        finally:
            self._conversation.close()

    async def _act(self, action: Action, arrived: float) -> None:
        conversation = self._conversation
        match action:
            case Hear():
                await self._hear(action.pcm, arrived)
            case Send():
                # waits for room: a client that sends faster than it reads is slowed down by this
                await self._writer.put(action.text)
            case Refuse():
                await self._refuse(action)
            case Commit():
                conversation.commit()
            case Clear():
                conversation.clear()
            case AddText():
                conversation.add_text(action.role, action.text)
            case Respond():
                conversation.respond(instructions=action.instructions)
            case Cancel():
                conversation.cancel()
            case HeardUntil():
                conversation.heard_until(action.revision, action.audio_ms)
            case Update():
                await self._update(action)

    async def _hear(self, pcm: bytes, arrived: float) -> None:
        for start in range(0, len(pcm), _SLICE):
            if start:
                await asyncio.sleep(0)
            heard = self._downsampler.push(pcm[start : start + _SLICE])
            if heard:
                self._conversation.audio(heard, arrived=arrived)

    async def _update(self, action: Update) -> None:
        try:
            self._conversation.update(action.options)
        except DuplexdError as error:
            await self._refuse(self._core.not_updated(action, error))
        else:
            for event in self._core.updated(action):
                await self._writer.put(event)

    async def _refuse(self, action: Refuse) -> None:
        # repr: what a client sent may not be encodable
        logger.debug("{}: refused: {!r}", self._conversation.id, action.error.message)
        self._context.on_error(action.error)
        await self._writer.put(action.text)

    # --- to the client: see Sink ------------------------------------------------------------
    async def begin(self, revision: int) -> None:
        """See Sink."""
        self._post(self._core.begin(revision))

    async def audio(self, revision: int, pcm: bytes) -> None:
        """See Sink."""
        event = self._core.audio(revision, pcm)
        if event is not None:
            await self._writer.send(event)

    async def text(self, revision: int, text: str) -> None:
        """See Sink."""
        self._post(self._core.text(revision, text))

    async def flush(self, revision: int, *, heard_ms: int) -> None:
        """See Sink."""
        self._core.flush(revision, heard_ms=heard_ms)

    async def end(
        self, revision: int, outcome: Outcome, *, heard: str, error: DuplexdError | None = None
    ) -> None:
        """See Sink."""
        self._post(self._core.end(revision, outcome, heard=heard, error=error))

    async def pause(self, revision: int) -> None:
        """See Sink."""
        self._post(self._core.pause(revision))

    async def resume(self, revision: int) -> None:
        """See Sink."""
        self._post(self._core.resume(revision))

    async def turn_opened(self, *, at_ms: int) -> None:
        """See Sink."""
        self._post(self._core.turn_opened(at_ms=at_ms))

    async def turn_ended(self, *, at_ms: int) -> None:
        """See Sink."""
        self._post(self._core.turn_ended(at_ms=at_ms))

    async def partial(self, text: str) -> None:
        """See Sink."""
        self._post(self._core.partial(text))

    async def final(self, text: str, language: str) -> None:
        """See Sink. The protocol has no place for the language."""
        self._post(self._core.final(text))

    async def turn_report(self, report: dict[str, Any]) -> None:
        """See Sink."""
        self._post(self._core.turn_report(report))

    async def error(self, error: DuplexdError) -> None:
        """See Sink."""
        self._post(self._core.error(error))

    # --- the socket -------------------------------------------------------------------------
    def _post(self, events: list[str]) -> None:
        for event in events:
            self._writer.post(event)

    async def _send(self, text: str) -> None:
        """Hands a message to the socket.

        Raises:
            ConnectionError: the client is gone.
        """
        try:
            await self._socket.send({"type": "websocket.send", "text": text})
        except (WebSocketDisconnect, RuntimeError) as error:
            # RuntimeError: the socket was closed, by either side, and nobody told us yet
            raise ConnectionError("the client is gone") from error

    def _sending_failed(self, error: TimedOut | None) -> None:
        self._gone = True
        if error is not None:
            logger.warning("{}: connection dropped: {}", self._conversation.id, error)
            self._context.on_error(error)
            self._abort()
        self._conversation.close()

    def _abort(self) -> None:
        """Drops the socket with all that waits in it, where the server lets us."""
        extension = self._socket.scope.get("extensions", {}).get(ABORT)
        if extension is not None:
            extension["call"]()

    async def _close(self, code: int, reason: str = "") -> None:
        if self._gone:
            return
        try:
            async with asyncio.timeout(self._context.send_timeout_s):
                await self._socket.close(code, reason)
        except TimeoutError:
            self._abort()
        except (WebSocketDisconnect, RuntimeError):
            pass  # the client was faster


class _WarmingUp(AtCapacity):
    """The engines are not ready."""
