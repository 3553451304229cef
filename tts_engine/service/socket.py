"""`WS /ws/tts`: texts are spoken one after the other, each as it comes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from fastapi import WebSocket
from loguru import logger
from starlette.websockets import WebSocketDisconnect

from tts_engine.errors import AtCapacity, BadRequest, DuplexdError, NotReady, TimedOut
from tts_engine.service.api_errors import ApiError
from tts_engine.service.desk import SpeechDesk
from tts_engine.service.feed import TextFeed, TextTooLong
from tts_engine.service.requests import Language, Manners, check_language
from tts_engine.service.socket_messages import (
    Cancel,
    ClientMessage,
    End,
    Speak,
    Start,
    Text,
    error_event,
    read_message,
)
from tts_engine.service.utterance import ClientStalled, Utterance

#: utterances of a socket that have not ended
_WAITING = 16
#: of what the server offers to who serves it, see `services.realtime.uvicorn_protocol`
_ABORT = "duplexd.abort"
_NORMAL, _INTERNAL = 1000, 1011


class SpeechSocket:
    """Serves one client, from the handshake to the closed socket.

    Parameters:
        socket: not yet accepted.
        desk: speaks.
        languages: that the engine speaks.
        max_chars: characters of a text.
        idle_s: how long a text may wait for its next piece, seconds.
    """

    def __init__(
        self,
        *,
        socket: WebSocket,
        desk: SpeechDesk,
        languages: Sequence[Language],
        max_chars: int,
        idle_s: float,
    ) -> None:
        self._socket = socket
        self._desk = desk
        self._languages = languages
        self._max_chars = max_chars
        self._idle_s = idle_s
        self._names = itertools.count(1)
        self._live: dict[str, Utterance] = {}  # not ended, in order
        self._queue: asyncio.Queue[Utterance] = asyncio.Queue()
        self._open: Utterance | None = None  # its text is not whole
        self._sending = asyncio.Lock()

    async def serve(self) -> None:
        """Returns when the connection is over and nothing of it is left."""
        try:
            self._desk.check_ready()
        except NotReady as failure:
            error = ApiError.of(failure)
            self._desk.note(error, "socket refused")
            await self._socket.send_denial_response(error.response())
            return
        try:
            # a browser that offers sub-protocols gives up when none is picked
            await self._socket.accept(next(iter(self._socket.scope.get("subprotocols", [])), None))
        except (OSError, RuntimeError, WebSocketDisconnect):
            return  # it left at the door
        reader = asyncio.create_task(self._read(), name="speech socket reader")
        talker = asyncio.create_task(self._talk(), name="speech socket")
        try:
            await asyncio.wait({reader, talker}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.cancel()
            talker.cancel()
            ends = await asyncio.gather(reader, talker, return_exceptions=True)
        await self._close(ends)

    async def _close(self, ends: Sequence[object]) -> None:
        code = _NORMAL
        for error in ends:
            if isinstance(error, Exception) and not isinstance(error, ConnectionError):
                code = _INTERNAL
                logger.opt(exception=error).error("a speech socket broke")
        if any(isinstance(error, ClientStalled) for error in ends):
            self._abort()  # a goodbye would wait behind what the client does not take
            return
        try:
            async with asyncio.timeout(self._desk.stall_s):
                await self._socket.close(code)
        except TimeoutError:
            self._abort()
        except (OSError, RuntimeError, WebSocketDisconnect):
            pass  # the client was faster

    # --- from the client --------------------------------------------------------------------
    async def _read(self) -> None:
        """Takes messages until the client is gone."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            try:
                if text is None:
                    raise ApiError(
                        BadRequest("Messages to this socket are text"), 400, code="unknown_message"
                    )
                self._take(read_message(text))
            except (ApiError, DuplexdError) as failure:
                error = ApiError.of(failure)
                self._desk.note(error, "message refused")
                await self._send(error_event(error, None))

    def _take(self, message: ClientMessage) -> None:
        match message:
            case Speak():
                self._desk.accept(message.text, most=self._max_chars)
                utterance = self._begin(message, message.id)
                utterance.feed.push(message.text)
                utterance.feed.finish()
            case Start():
                self._open = self._begin(message, message.id)
            case Text():
                self._push(message.text)
            case End():
                self._opened().feed.finish()
                self._open = None
            case Cancel():
                self._cancel(message.id)

    def _begin(self, manners: Manners, name: str | None) -> Utterance:
        if self._open is not None and not self._open.ended:
            raise BadRequest(
                "The text that has begun is not whole", mend="Send `end` or `cancel` first"
            )
        self._open = None
        self._live = {key: each for key, each in self._live.items() if not each.over}
        if len(self._live) >= _WAITING:
            raise AtCapacity(f"{_WAITING} utterances of this socket wait", mend="Wait for an `end`")
        if name in self._live:
            raise ApiError(BadRequest(f"An utterance {name!r} has not ended"), 400, param="id")
        check_language(manners.language, self._languages)
        utterance = Utterance(
            name=name or f"u{next(self._names)}",
            desk=self._desk,
            feed=TextFeed(most=self._max_chars, language=manners.reading, idle_s=self._idle_s),
            voice=self._desk.voice(manners.voice),
            manners=manners,
            send=self._send,
        )
        self._live[utterance.name] = utterance
        self._queue.put_nowait(utterance)
        return utterance

    def _opened(self) -> Utterance:
        if self._open is None:
            raise BadRequest("No text has begun", mend="Send `start` first")
        return self._open

    def _push(self, text: str) -> None:
        utterance = self._opened()
        if utterance.ended:
            return  # whoever writes the text may not know yet
        try:
            utterance.feed.push(text)
        except TextTooLong as failure:
            utterance.stop(ApiError(failure, 400, param="text"))

    def _cancel(self, name: str | None) -> None:
        """One that has ended needs no cancelling: its end may just be on its way."""
        for utterance in list(self._live.values()):
            if name in (None, utterance.name):
                utterance.stop()

    # --- to the client ----------------------------------------------------------------------
    async def _talk(self) -> None:
        """Speaks what is waiting, one after the other."""
        while True:
            utterance = await self._queue.get()
            await utterance.run()

    async def _send(self, message: str | bytes) -> None:
        """Sends a message once those before it are with the socket.

        Raises:
            ConnectionError: the client is gone, or takes nothing.
        """
        key = "text" if isinstance(message, str) else "bytes"
        try:
            async with self._sending, asyncio.timeout(self._desk.stall_s):
                await self._socket.send({"type": "websocket.send", key: message})
        except TimeoutError:
            stalled = TimedOut(f"A client took no audio for {self._desk.stall_s:g} s")
            self._desk.accounts.count(stalled)
            logger.warning("{}", stalled)
            raise ClientStalled from None
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError("the client is gone") from error

    def _abort(self) -> None:
        """Drops the socket with all that waits in it, where the server lets us."""
        extension = self._socket.scope.get("extensions", {}).get(_ABORT)
        if extension is not None:
            extension["call"]()
