"""A connection to a FunASR runtime: one utterance after another, replies as they come."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from loguru import logger
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedOK,
    InvalidHandshake,
    InvalidStatus,
    WebSocketException,
)
from websockets.typing import Subprotocol

from services.asr.base import Samples
from services.asr.funasr_remote import protocol
from services.asr.funasr_remote.protocol import ProtocolError, Reply, Utterance, Wishes
from services.llm.client import is_loopback
from services.sockets import make_honest
from tts_engine.errors import AtCapacity, ConfigError, DuplexdError, EngineFailed

CHECK_URL = "Is it running, and is asr.remote.url right?"
#: the largest message of a server: the times of each word of a long text
_MAX_REPLY = 4 << 20
#: how long a goodbye may take, seconds
_GOODBYE_S = 1.0
#: how a server says that it has no room: an HTTP status, a code of closing
_NO_ROOM_STATUS = (429, 503)
_NO_ROOM_CODE = 1013


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the runtime is, and how it is reached.

    Parameters:
        url: ws:// or wss://.
        headers: sent with the handshake.
        verify: the certificate of a wss:// server must be trusted.
        timeout_s: bound of a handshake, and of a message that the server does not take.
    """

    url: str
    headers: Mapping[str, str]
    verify: bool = True
    timeout_s: float = 20.0

    @property
    def shown(self) -> str:
        """The URL for people to see: without what may be secret in it."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def tls(self) -> ssl.SSLContext | None:
        """The settings of its TLS; reads the system's certificates."""
        if urlsplit(self.url).scheme != "wss":
            return None
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class _Connect(connect):
    """Goes where the configuration says, and nowhere else."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Connection:
    """An open connection.

    Attributes:
        utterance: begun, and not done.
        finished: utterances that are done.
        wishes: of the last utterance.
        failure: why the connection ended; None while it has not.
        clean: the server ended it in good order.
    """

    def __init__(
        self,
        socket: ClientConnection,
        *,
        server: Server,
        on_reply: Callable[[Utterance], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.utterance: Utterance | None = None
        self.finished = 0
        self.wishes: Wishes | None = None
        self.failure: DuplexdError | None = None
        self.clean = False
        self._socket = socket
        self._server = server
        self._on_reply = on_reply
        self._on_lost = on_lost
        self._reader = asyncio.create_task(self._read(), name="funasr-remote replies")

    @classmethod
    async def open(
        cls,
        server: Server,
        tls: ssl.SSLContext | None,
        *,
        on_reply: Callable[[Utterance], None],
        on_lost: Callable[[], None],
    ) -> Connection:
        """Connects.

        Args:
            server: whom to.
            tls: what `server.tls` gave.
            on_reply: told of each reply that belongs to the utterance, after it took it.
            on_lost: told once, when the connection has ended by itself.

        Raises:
            EngineFailed, AtCapacity, ConfigError
        """
        try:
            socket = await _Connect(
                server.url,
                ssl=tls,
                additional_headers=server.headers,
                # The Python servers refuse a client that does not offer it.
                subprotocols=[Subprotocol("binary")],
                compression=None,
                open_timeout=server.timeout_s,
                close_timeout=_GOODBYE_S,
                max_size=_MAX_REPLY,
                # a proxy from the environment could not reach our loopback
                proxy=None if is_loopback(server.url) else True,
            )
        except Exception as error:
            raise explain(server, error) from error
        # What is on its way is bounded: the rest of the audio waits, where it can be sent again.
        make_honest(socket.transport)
        return cls(socket, server=server, on_reply=on_reply, on_lost=on_lost)

    async def begin(self, utterance: Utterance, wishes: Wishes) -> None:
        """Begins an utterance; the one before must be done."""
        self.utterance, self.wishes = utterance, wishes
        await self._send(protocol.begin(utterance.name, wishes))

    async def audio(self, samples: Samples) -> None:
        """Sends a message of audio; returns when the server, or nearly so, has taken it."""
        await self._send(protocol.pcm(samples))

    async def end(self) -> None:
        """Ends the utterance at hand."""
        assert self.utterance is not None, "only what was begun can be ended"
        self.utterance.ended = True
        await self._send(protocol.end(self.utterance.name))

    async def close(self) -> None:
        """Says goodbye, but does not wait for long. Idempotent."""
        self._reader.cancel()
        try:
            await asyncio.wait((self._reader,))
            await self._socket.close()
        finally:
            self._socket.transport.abort()

    async def _send(self, message: str | bytes) -> None:
        """Sends.

        Raises:
            EngineFailed, AtCapacity
        """
        try:
            async with asyncio.timeout(self._server.timeout_s):
                await self._socket.send(message)
        except (TimeoutError, WebSocketException) as error:
            self.clean = isinstance(error, ConnectionClosedOK)
            raise self.failure or explain(self._server, error) from error

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                self._take(protocol.parse(message))
            self.clean = True
            self.failure = EngineFailed(f"The FunASR server at {self._server.shown} hung up")
        except ProtocolError as error:
            self.failure = EngineFailed(
                f"What answers at {self._server.shown} does not speak FunASR's protocol: {error}",
                mend=CHECK_URL,
            )
        except WebSocketException as error:
            self.failure = explain(self._server, error)
        except Exception as error:  # ours, or a conversation's own: nobody would read any more
            logger.exception("funasr-remote: a reply could not be taken")
            self.failure = EngineFailed(
                f"What the FunASR server at {self._server.shown} said could not be taken: "
                f"{type(error).__name__}"
            )
        self._on_lost()

    def _take(self, reply: Reply) -> None:
        utterance = self.utterance
        if utterance is None or not utterance.take(reply):
            return
        if utterance.done:
            self.utterance = None
            self.finished += 1
            if utterance.error:
                # What was on its way to the server meanwhile must not get into the next one.
                self.failure = EngineFailed(f"The FunASR server at {self._server.shown} failed")
        self._on_reply(utterance)


def explain(server: Server, error: Exception) -> DuplexdError:
    """The failure to show when connecting or sending raised `error`."""
    where = server.shown
    match error:
        case InvalidStatus() if error.response.status_code in _NO_ROOM_STATUS:
            return AtCapacity(f"The FunASR server at {where} has no room now")
        case InvalidStatus():
            return EngineFailed(
                f"What answers at {where} is no FunASR server: HTTP {error.response.status_code}",
                mend=CHECK_URL,
            )
        case ssl.SSLCertVerificationError():
            return EngineFailed(
                f"The certificate of {where} is not trusted: {error.verify_message}",
                mend="Servers that made it themselves need asr.remote.verify: false",
            )
        case ssl.SSLError():
            return EngineFailed(
                f"What answers at {where} speaks no TLS", mend="Without TLS, write it as ws://"
            )
        case InvalidHandshake():
            return EngineFailed(
                f"What answers at {where} speaks no WebSocket", mend="With TLS, write it as wss://"
            )
        case ConnectionClosed() if error.rcvd is not None and error.rcvd.code == _NO_ROOM_CODE:
            return AtCapacity(f"The FunASR server at {where} has no room now")
        case ConnectionClosed():
            return EngineFailed(f"The FunASR server at {where} broke off the connection")
        case TimeoutError():
            return EngineFailed(f"The FunASR server at {where} does not answer", mend=CHECK_URL)
        case OSError():
            why = error.strerror or error
            return EngineFailed(f"No FunASR server answers at {where}: {why}", mend=CHECK_URL)
        case _:
            return ConfigError(f"{where} cannot be used: {type(error).__name__}", mend=CHECK_URL)
