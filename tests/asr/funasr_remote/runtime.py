"""A FunASR runtime that speaks the documented protocol on a real socket, and hears letters.

Its own voice detector cuts at their pauses.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from services.asr.base import SAMPLE_RATE

from ..letters import PAUSE, understood

_CHUNK = 9600

#: how each server tells that an utterance is over: the C++ runtime, its offline server, the Python
#: server of today and of old
Flavour = Literal["runtime", "offline", "python", "old python"]


@dataclass
class Heard:
    """An utterance as it came.

    Parameters:
        connection: number of its connection, from 1.
        begin: the message that began it.
        data: all its audio.
        messages: samples of each message.
        finished: its last reply was sent.
    """

    connection: int
    begin: dict[str, Any]
    data: bytearray = field(default_factory=bytearray)
    messages: list[int] = field(default_factory=list)
    finished: bool = False

    @property
    def samples(self) -> int:
        """How many came."""
        return len(self.data) // 2

    @property
    def pcm(self) -> NDArray[np.int16]:
        """All its audio."""
        return self.since(0)

    def since(self, start: int) -> NDArray[np.int16]:
        """Its audio from a sample on."""
        return np.frombuffer(bytes(self.data[2 * start :]), "<i2")


class FakeRuntime:
    """The server; what it does wrong is set before it happens.

    Attributes:
        flavour: how it tells ends.
        url: where it listens.
        heard: all utterances, in the order they were begun.
        connections: how many there were.
        headers: of the last handshake.
        open: shut, it makes no second passes.
        reading: shut, it reads nothing.
        prefix: before every text of the second pass.
        names: it sends `wav_name`.
        hang_up: it ends the connection after every utterance, or when the next one has begun.
        break_off: connections to be broken off, one for each of these numbers of messages.
        errors: what it says instead of the next finals.
        last_words: what it sends instead of the next final replies.
        refuse: HTTP statuses that the next handshakes get.
        deaf: it never tells ends.
        ends: how many it was told.
    """

    def __init__(self, flavour: Flavour = "runtime") -> None:
        self.flavour = flavour
        self.url = ""
        self.heard: list[Heard] = []
        self.connections = 0
        self.headers: dict[str, str] = {}
        self.open = asyncio.Event()
        self.open.set()
        self.reading = asyncio.Event()
        self.reading.set()
        self.prefix = ""
        self.names = True
        self.hang_up: Literal["no", "at once", "late"] = "no"
        self.break_off: list[int] = []
        self.errors: list[str] = []
        self.last_words: list[str | bytes] = []
        self.refuse: list[int] = []
        self.deaf = False
        self.ends = 0
        self.changed = asyncio.Condition()
        self._server: Server | None = None

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until what the server has heard fulfils a condition."""
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(condition)

    @property
    def samples(self) -> int:
        """Samples of the utterance that was begun last."""
        return self.heard[-1].samples if self.heard else 0

    @property
    def finished(self) -> list[Heard]:
        """Utterances that got their last reply."""
        return [heard for heard in self.heard if heard.finished]

    async def start(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        """Listens."""
        python = self.flavour in ("python", "old python")
        self._server = await serve(
            self._talk,
            "127.0.0.1",
            port,
            ssl=tls,
            subprotocols=[Subprotocol("binary")] if python else None,
            process_request=self._admit,
            compression=None,
            close_timeout=0.1,
            max_queue=1,
        )
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'wss' if tls else 'ws'}://127.0.0.1:{port}/"

    async def stop(self) -> None:
        """Breaks everything off."""
        assert self._server is not None
        self.open.set()
        self.reading.set()
        for connection in self._server.connections:
            connection.transport.abort()
        self._server.close()
        await self._server.wait_closed()

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.headers = dict(request.headers.raw_items())
        if self.refuse:
            return connection.respond(self.refuse.pop(0), "no\n")
        return None

    async def _talk(self, connection: ServerConnection) -> None:
        self.connections += 1
        visitor = _Visitor(self, connection, self.connections)
        try:
            while True:
                await self.reading.wait()
                await visitor.take(await connection.recv())
                async with self.changed:
                    self.changed.notify_all()
        except ConnectionClosed:
            pass


class _Visitor:
    """One connection."""

    def __init__(self, runtime: FakeRuntime, connection: ServerConnection, number: int) -> None:
        self._runtime = runtime
        self._connection = connection
        self._number = number
        self._name = ""
        self._mode = "2pass"
        self._heard: Heard | None = None
        self._budget = runtime.break_off.pop(0) if runtime.break_off else None
        #: samples that were told by the first pass, and by the second
        self._told = self._cut = 0
        self._over = False
        #: whether there was any voice since the last cut, and samples since the last of it
        self._voice, self._pause = False, 0

    async def take(self, message: str | bytes) -> None:
        if self._over:
            await self._connection.close()
            return
        if self._budget is not None:
            self._budget -= 1
            if self._budget < 0:
                self._connection.transport.abort()
                return
        if isinstance(message, bytes):
            await self._audio(message)
            return
        body = json.loads(message)
        self._name = body.get("wav_name", self._name)
        self._mode = body.get("mode", self._mode)
        if body["is_speaking"]:
            self._heard = Heard(self._number, body)
            self._runtime.heard.append(self._heard)
            self._told = self._cut = 0
            self._voice, self._pause = False, 0
        else:
            await self._end(body)

    async def _audio(self, message: bytes) -> None:
        heard = self._heard
        assert heard is not None, "audio outside an utterance"
        heard.messages.append(len(message) // 2)
        heard.data += message
        if self._runtime.flavour == "offline" or self._mode == "offline":
            return
        if heard.samples - self._told >= _CHUNK:
            await self._first_pass(last=False)
        voiced = np.flatnonzero(np.frombuffer(message, "<i2"))
        self._voice = self._voice or len(voiced) > 0
        since = len(message) // 2 - (voiced[-1] + 1) if len(voiced) else len(message) // 2
        self._pause = since if len(voiced) else self._pause + since
        if self._mode == "2pass" and self._voice and self._pause >= PAUSE:
            await self._second_pass(mark="，", last=self._runtime.flavour != "runtime")

    async def _first_pass(self, *, last: bool) -> None:
        heard = self._heard
        assert heard is not None
        # with the sample before, which may be of the same letter
        before = max(0, self._told - 1)
        fresh = heard.since(before)
        text = understood(fresh)
        if before and fresh[0]:
            text = text[1:]
        self._told = heard.samples
        runtime = self._runtime.flavour == "runtime"
        if text or (last and runtime):
            mode = "online" if self._mode == "online" and not runtime else "2pass-online"
            body: dict[str, Any] = {"mode": mode, "text": text, "is_final": last}
            if runtime:
                body["slice_type"] = 1
            await self._send(body)

    async def _second_pass(self, *, mark: str, last: bool) -> None:
        heard = self._heard
        assert heard is not None
        await self._runtime.open.wait()
        said = understood(heard.since(self._cut))
        start_ms = 1000 * self._cut // SAMPLE_RATE
        text = self._runtime.prefix + said + mark if said else ""
        body: dict[str, Any] = {"mode": "2pass-offline", "text": text, "is_final": last}
        if self._mode == "offline" or self._runtime.flavour == "offline":
            body["mode"] = "offline"
        if self._runtime.flavour == "runtime":
            body["slice_type"] = 2
            body["timestamp"] = "[]"
            times = [[start_ms + 220 * n, start_ms + 220 * n + 200] for n in range(len(said))]
            body["stamp_sents"] = [{"text_seg": " ".join(said), "punc": mark, "ts_list": times}]
            if not text:
                del body["mode"]
        self._cut, self._voice = heard.samples, False
        await self._send(body)

    async def _end(self, body: dict[str, Any]) -> None:
        runtime, heard = self._runtime, self._heard
        assert heard is not None
        runtime.ends += 1
        if runtime.deaf:
            return
        await runtime.open.wait()
        if runtime.last_words:
            await self._connection.send(runtime.last_words.pop(0))
            return
        error = runtime.errors.pop(0) if runtime.errors else ""
        if not error and self._mode == "online":
            await self._first_pass(last=True)
        elif not error:
            marks = runtime.flavour in ("runtime", "python")
            if runtime.flavour != "python" or self._cut < heard.samples:
                await self._second_pass(mark="。", last=marks)
        # Only the Python server of today says why; the others end the connection.
        if error and runtime.flavour != "python":
            await self._connection.close()
            return
        heard.finished = not error
        if body.get("is_end") and runtime.flavour == "python":
            ack = {"mode": self._mode, "is_end": True, "is_final": not error}
            await self._send(ack | ({"error": error} if error else {}))
        if runtime.hang_up == "at once":
            await self._connection.close()
        self._over = runtime.hang_up == "late"

    async def _send(self, body: dict[str, Any]) -> None:
        name = {"wav_name": self._name} if self._runtime.names else {}
        await self._connection.send(json.dumps(body | name, ensure_ascii=False))


@asynccontextmanager
async def running(
    flavour: Flavour = "runtime", *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeRuntime]:
    """A runtime that listens until the end of the block."""
    runtime = FakeRuntime(flavour)
    await runtime.start(tls=tls)
    try:
        yield runtime
    finally:
        await runtime.stop()
