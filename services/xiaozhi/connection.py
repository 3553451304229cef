"""One device's WebSocket: owns the socket and the codecs, and is the Sink.

What is said, and when, `services.xiaozhi.dialogue` decides.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from fastapi import WebSocket
from loguru import logger

from services.face import AnswerOptions, Conversation, Ending, FaceContext, SessionOptions, Sink
from services.outlet import Outlet
from services.pace import AUDIO_BURST_S, AUDIO_S_PER_S, Pace
from services.websocket_protocol import PARTING
from services.xiaozhi.dialogue import (
    Abandon,
    Actions,
    Clear,
    Close,
    Commit,
    Configure,
    Dialogue,
    Drop,
    Greeted,
    Hear,
    Play,
    Respond,
    Say,
    Send,
    Speak,
    Stir,
    Tools,
)
from services.xiaozhi.echo import EchoReference
from services.xiaozhi.events import AudioFormat, Hello, Ignored
from services.xiaozhi.goodbye import goodbye_tool
from services.xiaozhi.handshake import Doors, Identity, vision_address
from services.xiaozhi.messages import Message, encode
from services.xiaozhi.opus import EAR_RATE, Decoder, Encoder, decoder_of, encoder_of
from services.xiaozhi.protocol import DeviceProtocol
from services.xiaozhi.settings import XiaozhiSettings
from services.xiaozhi.tools import DeviceTools
from tts_engine.errors import DuplexdError, TimedOut

#: WebSocket close codes
_NORMAL, _GOING_AWAY, _NO_HELLO, _INTERNAL = 1000, 1001, 1008, 1011
#: longest wait for a goodbye: devices do not answer it, seconds
_PARTING_S = 1.0


class XiaozhiConnection(Sink):
    """Serves one device, from the accepted handshake to the closed socket.

    Parameters:
        socket: not yet accepted.
        identity: of the device, which may come in.
    """

    def __init__(
        self,
        *,
        socket: WebSocket,
        context: FaceContext,
        settings: XiaozhiSettings,
        doors: Doors,
        identity: Identity,
    ) -> None:
        self.profile = settings.profile(doors.board(identity.device_id))
        self._socket = socket
        self._context = context
        self._settings = settings
        self._doors = doors
        self._identity = identity
        self._dialogue = Dialogue(settings=settings, frame_ms=settings.frame_ms)
        self._protocol = DeviceProtocol(version=identity.version)
        self._use(AudioFormat())
        self._echo: EchoReference | None = None
        self._tools: DeviceTools | None = None
        self._own_tools = (goodbye_tool(self._dialogue.leave),) if settings.goodbye else ()
        self._stamp_ms = 0
        self._ignored: Counter[str] = Counter()
        now = time.monotonic()
        self._pace = Pace(now=now)
        self._audio_pace = Pace(now=now, per_s=AUDIO_S_PER_S, burst=AUDIO_BURST_S)
        self._heard_s = 0.0  # of the message at hand
        self._loop = asyncio.get_running_loop()
        self._idle: asyncio.TimerHandle | None = None
        self._greeted = False
        self._code = _GOING_AWAY  # unless somebody has another reason
        # set by `serve` before anything can use them
        self._conversation: Conversation
        self._outlet: Outlet

    @property
    def name(self) -> str:
        """Of the device and its conversation, for logs."""
        return f"{self._conversation.id} {self._identity.device_id}"

    def open(self) -> None:
        """Opens the conversation, before the handshake is accepted.

        Raises:
            DuplexdError: there is none for this device.
        """
        self._conversation = self._context.sessions.open(self, self._options())
        self._outlet = Outlet(
            self._socket,
            name=self.name,
            timeout_s=self._context.send_timeout_s,
            on_failure=self._sending_failed,
        )

    async def serve(self) -> None:
        """Returns when the connection is over and nothing of it is left."""
        if not await self._accept():
            return
        writer = asyncio.create_task(self._outlet.run(), name="xiaozhi-writer")
        reader = asyncio.create_task(self._read(), name="xiaozhi-reader")
        parting: Any = self._socket.scope.get("extensions", {}).get(PARTING)
        if parting is not None:
            parting["set"](self._conversation.close)
        hello = self._loop.call_later(self._settings.hello_timeout_s, self._no_hello)
        try:
            await self._conversation.run()
        except Exception as error:
            self._code = _INTERNAL
            logger.opt(exception=error).error("{}: the conversation broke", self.name)
        finally:
            hello.cancel()
            self._conversation.close()
            if self._idle is not None:
                self._idle.cancel()
            if self._tools is not None:
                await self._tools.close()
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            self._act(self._dialogue.shut())
            await self._outlet.finish()
            await writer
            await self._outlet.close(
                self._code, patience_s=min(_PARTING_S, self._context.send_timeout_s)
            )
            self._tell_ignored()

    def replace(self) -> None:
        """Another connection of this device took its place."""
        logger.info("{}: replaced by a newer connection", self.name)
        self._end(_NORMAL)

    # --- from the device --------------------------------------------------------------------
    async def _accept(self) -> bool:
        """Completes the handshake. A conversation whose device is gone by now does not begin."""
        accepted = False
        try:
            accepted = await self._outlet.accept()
        finally:
            if not accepted:
                self._conversation.close()
        return accepted

    async def _read(self) -> None:
        """Feeds the dialogue until the device is gone."""
        try:
            while True:
                message = await self._socket.receive()
                arrived = time.monotonic()
                if message["type"] == "websocket.disconnect":
                    logger.debug("{}: the device left", self.name)
                    self._outlet.abandon()
                    return
                text = message.get("text")
                event = (
                    self._protocol.receive_bytes(message["bytes"])
                    if text is None
                    else self._protocol.receive_text(text)
                )
                self._act(self._dialogue.receive(event), arrived=arrived)
                heard_s, self._heard_s = self._heard_s, 0.0
                wait_s = max(self._pace.take(arrived), self._audio_pace.take(arrived, heard_s))
                if wait_s:  # read no faster than a device may send; none is lost
                    await asyncio.sleep(wait_s)
        except Exception as error:
            logger.opt(exception=error).error("{}: reading broke", self.name)
            self._code = _INTERNAL
        finally:
            self._conversation.close()

    def _act(self, actions: Actions, *, arrived: float = 0.0) -> None:
        """Does everything but playing, which waits for the socket."""
        conversation = self._conversation
        for action in actions:
            match action:
                case Hear(audio):
                    pcm = self._decoder.decode(audio.packet)
                    if self._echo is not None:
                        pcm = self._echo.cancel(pcm, timestamp_ms=audio.timestamp_ms)
                    conversation.audio(pcm, arrived=arrived)
                    self._heard_s += len(pcm) / (2 * EAR_RATE)
                case Send(message):
                    self._post(message)
                case Stir():
                    self._stir()
                case Greeted(hello):
                    self._meet(hello)
                case Configure():
                    self._update()
                case Clear():
                    conversation.clear()
                case Commit():
                    conversation.commit()
                case Respond():
                    conversation.respond()
                case Say(text):
                    conversation.say(text)
                case Speak(text):
                    self._speak(text)
                case Abandon():
                    conversation.abandon()
                case Tools(event):
                    if self._tools is not None:
                        self._tools.receive(event)
                case Drop(ignored):
                    self._drop(ignored)
                case Close():
                    self._end(_NORMAL)
                case Play():
                    raise AssertionError("frames are sent by `audio`")

    def _meet(self, hello: Hello) -> None:
        """The hellos are exchanged."""
        self._greeted = True
        self._use(hello.audio)
        if hello.aec and self._protocol.version == 2 and self._settings.cancels_echo:
            self._echo = EchoReference(rate=self.profile.sample_rate)
        self._tools = DeviceTools(
            send=self._post,
            vision=self._vision(),
            on_change=self._update,
        )
        if hello.mcp:
            self._tools.start()
        about = f"framing {self._protocol.version}, {hello.audio.format}"
        logger.info("{}: a device is here, {}", self.name, about)

    def _vision(self) -> tuple[str, str]:
        """Where it sends its photos, and with which token; one that never asked the OTA address is
        told the address of this socket.
        """
        url, token = self._doors.vision(self._identity.device_id)
        if url:
            return url, token
        return vision_address(
            secure=self._socket.url.scheme == "wss",
            host=self._socket.headers.get("host", ""),
            port=self._socket.scope["server"][1],
        ), token

    def _use(self, audio: AudioFormat) -> None:
        profile = self.profile
        self._decoder: Decoder = decoder_of(audio)
        self._encoder: Encoder = encoder_of(
            audio, sample_rate=profile.sample_rate, frame_ms=profile.frame_ms
        )

    def _options(self) -> SessionOptions:
        return SessionOptions(
            server_turns=self._dialogue.mode != "manual",
            # Others are not heard while they play, so that nothing they hear is themselves: a short
            # word right after an answer is one. A canceller, wherever it is, needs a second of
            # every conversation to find the echo, and leaves some of it.
            echo_cancelled=self._dialogue.mode != "realtime",
            daemon_tools=(*(self._tools.tools if self._tools else ()), *self._own_tools),
        )

    def _update(self) -> None:
        self._conversation.update(self._options())

    def _speak(self, text: str) -> None:
        try:
            self._conversation.respond(AnswerOptions(text=text, remember=False))
        except DuplexdError as error:
            logger.warning("{}: {!r} is not spoken: {}", self.name, text, error)
            self._context.on_error(error)

    def _drop(self, ignored: Ignored) -> None:
        if not self._ignored[ignored.kind]:
            logger.debug("{}: ignored: {} {!r}", self.name, ignored.kind, ignored.detail)
        self._ignored[ignored.kind] += 1

    def _tell_ignored(self) -> None:
        if self._decoder.corrupt:
            self._ignored["corrupt_packet"] = self._decoder.corrupt
        if self._ignored:
            told = ", ".join(f"{kind} {count}" for kind, count in self._ignored.items())
            logger.info("{}: ignored messages: {}", self.name, told)

    def _no_hello(self) -> None:
        if not self._greeted:
            logger.info("{}: no hello in {:g} s", self.name, self._settings.hello_timeout_s)
            self._end(_NO_HELLO)

    # --- silence ----------------------------------------------------------------------------
    def _stir(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._settings.idle_s:
            self._idle = self._loop.call_later(self._settings.idle_s, self._nobody)

    def _nobody(self) -> None:
        self._act(self._dialogue.idle())

    # --- to the device: see Sink ------------------------------------------------------------
    async def begin(self, revision: int, *, ask: int | None = None) -> None:
        """See Sink. Returns when the device was told: the gap before the first frame begins."""
        for action in self._dialogue.begin(revision):
            if isinstance(action, Send):
                await self._outlet.send(self._encoded(action.message))
            else:
                self._act((action,))

    async def audio(self, revision: int, pcm: bytes) -> None:
        """See Sink."""
        for action in self._dialogue.audio(revision, pcm):
            if isinstance(action, Play):
                await self._outlet.send(self._frame(action))

    def _frame(self, play: Play) -> bytes:
        if play.first:
            self._encoder.reset()
        self._stamp_ms += self.profile.frame_ms
        if self._echo is not None:
            self._echo.played(self._stamp_ms, play.pcm)
        return self._protocol.audio(self._encoder.encode(play.pcm), timestamp_ms=self._stamp_ms)

    async def text(self, revision: int, text: str) -> None:
        """See Sink."""
        self._act(self._dialogue.text(revision, text))

    async def working(self, revision: int) -> None:
        """See Sink."""
        self._act(self._dialogue.working(revision))

    async def rested(self, revision: int) -> None:
        """See Sink."""
        self._act(self._dialogue.rested())

    async def abandoned(self) -> None:
        """See Sink."""
        self._dialogue.abandoned()

    async def flush(self, revision: int, *, heard_ms: int) -> None:
        """See Sink."""
        self._act(self._dialogue.flush(revision))

    async def end(self, revision: int, ending: Ending) -> None:
        """See Sink."""
        self._act(self._dialogue.end(revision, ending))

    async def turn_opened(self, *, at_ms: int) -> None:
        """See Sink."""
        self._act(self._dialogue.turn_opened())

    async def turn_ended(self, *, at_ms: int) -> None:
        """See Sink."""

    async def partial(self, text: str) -> None:
        """See Sink. A device shows final texts alone: partials would overwrite each other."""

    async def final(self, text: str, language: str, *, turn: int) -> None:
        """See Sink."""
        self._act(self._dialogue.final(text, language))

    async def turn_report(self, report: dict[str, Any]) -> None:
        """See Sink."""

    async def error(self, error: DuplexdError) -> None:
        """See Sink."""
        self._act(self._dialogue.error(error.message))

    # --- the socket -------------------------------------------------------------------------
    def _post(self, message: Message) -> None:
        self._outlet.post(self._encoded(message))

    def _encoded(self, message: Message) -> str:
        return encode(message, session_id=self._conversation.id)

    def _sending_failed(self, error: TimedOut | None) -> None:
        if error is not None:
            self._context.on_error(error)
        self._conversation.close()

    def _end(self, code: int) -> None:
        self._code = code
        self._conversation.close()
