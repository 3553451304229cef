"""One WebSocket connection of the Realtime protocol: owns the socket, is the Sink."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from typing import Any

from fastapi import WebSocket
from loguru import logger

from services.face import Conversation, Ending, FaceContext, PacingProfile, Sink
from services.handshake import WarmingUp, refuse
from services.items import FunctionCall
from services.outlet import Outlet
from services.pace import AUDIO_BURST_S, AUDIO_S_PER_S, EVENTS_PER_S, Pace
from services.realtime.actions import (
    Action,
    Add,
    Cancel,
    Clear,
    Commit,
    Hear,
    HeardUntil,
    Refuse,
    Remove,
    Respond,
    Send,
    Update,
)
from services.realtime.formats import PCM, EarFeed
from services.realtime.protocol import RealtimeCore
from services.realtime.schema import Refused
from services.realtime.session import Session
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut

#: WebSocket close codes
_NORMAL, _INTERNAL = 1000, 1011
#: what a client may send in a second, as it is told
_EVENTS, _AUDIO = f"{EVENTS_PER_S} events", f"{AUDIO_S_PER_S} seconds of audio"
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
        self._ears = EarFeed(PCM)
        now = time.monotonic()
        self._pace = Pace(now=now)
        self._audio_pace = Pace(now=now, per_s=AUDIO_S_PER_S, burst=AUDIO_BURST_S)
        # set by `serve` before anything can use them
        self._conversation: Conversation
        self._core: RealtimeCore
        self._outlet: Outlet

    async def serve(self) -> None:
        """Returns when the connection is over and nothing of it is left."""
        try:
            self._open()
        except DuplexdError as error:
            logger.warning("realtime client turned away: {}", error)
            self._context.on_error(error)
            await refuse(self._socket, error)
            return
        self._outlet = Outlet(
            self._socket,
            name=self._conversation.id,
            timeout_s=self._context.send_timeout_s,
            on_failure=self._sending_failed,
        )
        self._post(self._core.created())
        if not await self._accept():
            return
        writer = asyncio.create_task(self._outlet.run(), name="realtime-writer")
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
            await self._outlet.finish()
            await writer
            await self._outlet.close(code)

    def _open(self) -> None:
        """Opens the conversation.

        Raises:
            DuplexdError: there is none for this client.
        """
        sessions = self._context.sessions
        if not sessions.ready:
            raise WarmingUp("The daemon is warming up", mend="Try again in a moment")
        query = self._socket.query_params
        session = Session(
            id="",
            kind="transcription" if query.get("intent") == "transcription" else "realtime",
            model=query.get("model", ""),
            default_voice=next(iter(sessions.voices), ""),
        )
        self._conversation = sessions.open(self, session.options())
        self._core = RealtimeCore(
            session=replace(session, id=self._conversation.id),
            seed=secrets.token_hex(8),
            boot_id=self._boot_id,
        )

    async def _accept(self) -> bool:
        """Completes the handshake. A conversation whose client is gone by now does not begin."""
        offered: list[str] = self._socket.scope.get("subprotocols", [])
        accepted = False
        try:
            accepted = await self._outlet.accept(_SUBPROTOCOL if _SUBPROTOCOL in offered else None)
        finally:
            if not accepted:
                self._conversation.close()
        return accepted

    # --- from the client --------------------------------------------------------------------
    async def _read(self) -> None:
        """Feeds the core until the client is gone."""
        try:
            while True:
                message = await self._socket.receive()
                arrived = time.monotonic()
                if message["type"] == "websocket.disconnect":
                    logger.debug("{}: the client left", self._conversation.id)
                    self._outlet.abandon()
                    return
                text = message.get("text")
                actions = self._core.receive_binary() if text is None else self._core.receive(text)
                for action in actions:
                    await self._act(action, arrived)
                await self._slow_down(self._pace.take(arrived), self._pace, _EVENTS)
        except Exception as error:
            logger.opt(exception=error).error("{}: reading broke", self._conversation.id)
            await self.error(EngineFailed("The connection broke"))
        finally:
            self._conversation.close()

    async def _slow_down(self, wait_s: float, pace: Pace, most: str) -> None:
        """Reads no faster than a client may send: what comes too fast waits, and none is lost."""
        if not wait_s:
            return
        if pace.first():
            error = Refused(
                f"More than {most} a second: they are read more slowly",
                reason="rate_limit_exceeded",
            )
            await self._refuse(self._core.refuse(error))
        await asyncio.sleep(wait_s)

    async def _act(self, action: Action, arrived: float) -> None:
        conversation = self._conversation
        match action:
            case Hear():
                await self._hear(action, arrived)
            case Send():
                # waits for room: a client that sends faster than it reads is slowed down by this
                await self._outlet.put(action.text)
            case Refuse():
                await self._refuse(action)
            case Commit():
                conversation.commit()
            case Clear():
                conversation.clear()
            case Add():
                conversation.add(action.ref, action.item, after=action.after)
            case Remove():
                conversation.remove(action.ref)
            case Respond():
                await self._respond(action)
            case Cancel():
                conversation.cancel()
            case HeardUntil():
                conversation.heard_until(action.revision, action.audio_ms)
            case Update():
                await self._update(action)

    async def _hear(self, action: Hear, arrived: float) -> None:
        if action.format != self._ears.format:
            self._ears = EarFeed(action.format)
        # a message may hold minutes: after every second of it others get their turn
        second = action.format.rate * action.format.width
        for start in range(0, len(action.data), second):
            if start:
                await asyncio.sleep(0)
            piece = action.data[start : start + second]
            if heard := self._ears.push(piece):
                self._conversation.audio(heard, arrived=arrived)
            now = time.monotonic()
            wait_s = self._audio_pace.take(now, len(piece) / second)
            if wait_s:
                await self._slow_down(wait_s, self._audio_pace, _AUDIO)
                arrived = time.monotonic()  # it was held back: that is no silence

    async def _update(self, action: Update) -> None:
        try:
            self._conversation.update(action.options)
        except DuplexdError as error:
            await self._refuse(self._core.not_updated(action, error))
        else:
            for event in self._core.updated(action):
                await self._outlet.put(event)

    async def _respond(self, action: Respond) -> None:
        try:
            self._conversation.respond(action.options)
        except DuplexdError as error:
            await self._refuse(self._core.not_asked(action, error))
        else:
            self._core.asked(action)

    async def _refuse(self, action: Refuse) -> None:
        # repr: what a client sent may not be encodable
        logger.debug("{}: refused: {!r}", self._conversation.id, action.error.message)
        self._context.on_error(action.error)
        await self._outlet.put(action.text)

    # --- to the client: see Sink ------------------------------------------------------------
    async def begin(self, revision: int, *, ask: int | None = None) -> None:
        """See Sink."""
        self._post(self._core.begin(revision, ask))

    async def dropped(self, ask: int) -> None:
        """See Sink."""
        self._post(self._core.dropped(ask))

    async def audio(self, revision: int, pcm: bytes) -> None:
        """See Sink."""
        *others, last = self._core.audio(revision, pcm) or (None,)
        if last is not None:
            self._post(others)
            await self._outlet.send(last)

    async def text(self, revision: int, text: str) -> None:
        """See Sink."""
        self._post(self._core.text(revision, text))

    async def call_begun(self, revision: int, call_id: str, name: str) -> None:
        """See Sink."""
        self._post(self._core.call_begun(revision, call_id, name))

    async def call_arguments(self, revision: int, call_id: str, delta: str) -> None:
        """See Sink."""
        self._post(self._core.call_arguments(revision, call_id, delta))

    async def call_done(self, revision: int, call: FunctionCall) -> None:
        """See Sink."""
        self._post(self._core.call_done(revision, call))

    async def flush(self, revision: int, *, heard_ms: int) -> None:
        """See Sink."""
        self._core.flush(revision, heard_ms=heard_ms)

    async def end(self, revision: int, ending: Ending) -> None:
        """See Sink."""
        self._post(self._core.end(revision, ending))

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

    async def final(self, text: str, language: str, *, turn: int) -> None:
        """See Sink."""
        self._post(self._core.final(text, language, turn=turn))

    async def idle(self, *, since_ms: int, at_ms: int) -> None:
        """See Sink."""
        self._post(self._core.idle(since_ms=since_ms, at_ms=at_ms))

    async def turn_report(self, report: dict[str, Any]) -> None:
        """See Sink."""
        self._post(self._core.turn_report(report))

    async def error(self, error: DuplexdError) -> None:
        """See Sink."""
        self._post(self._core.error(error))

    # --- the socket -------------------------------------------------------------------------
    def _post(self, events: list[str]) -> None:
        for event in events:
            self._outlet.post(event)

    def _sending_failed(self, error: TimedOut | None) -> None:
        if error is not None:
            self._context.on_error(error)
        self._conversation.close()
