"""Reads an answer's stream to its end, and keeps everything that it tells."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import httpx2

from services.face import Cut, Usage
from services.items import FunctionCall
from services.llm.calls import CallDone, CallEvent
from services.llm.client import stream_chat
from services.llm.load import ServerLoad
from services.llm.stream import AnswerStream, StreamLimits, TextChunk
from tests.llm.raw_server import Body, RawServer
from tts_engine.errors import DuplexdError


@dataclass
class Reading:
    """What came of an answer.

    Parameters:
        told: pieces of text and events of calls, in order.
    """

    told: list[str | CallEvent] = field(default_factory=list[Any])
    failures: list[DuplexdError] = field(default_factory=list[DuplexdError])
    usages: list[Usage] = field(default_factory=list[Usage])
    cuts: list[Cut] = field(default_factory=list[Any])
    first: int = 0
    called: bool = False
    silence: str = ""

    @property
    def pieces(self) -> list[str]:
        return [piece for piece in self.told if isinstance(piece, str)]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def calls(self) -> list[FunctionCall]:
        return [event.call for event in self.told if isinstance(event, CallDone)]


def stream_of(server: RawServer, *, load: ServerLoad | None = None) -> AnswerStream:
    """An answer's stream of which nothing is kept, and which may not fail."""

    async def unexpected(error: DuplexdError) -> None:
        raise AssertionError(error)

    return AnswerStream(
        ask=lambda: stream_chat(server.client, {"model": "m", "messages": []}),
        load=load or ServerLoad(),
        limits=StreamLimits(first_token_s=5, idle_s=5, chars=10),
        offered=(),
        new_call_id=str,
        on_first_token=lambda: None,
        on_call=lambda _: None,
        on_usage=lambda _: None,
        on_cut=lambda _: None,
        on_failure=unexpected,
    )


async def read(
    body: Callable[[], Body | httpx2.Response],
    *,
    first_token_s: float = 5.0,
    idle_s: float = 5.0,
    chars: int = 10_000,
    offered: Collection[str] = (),
    on_piece: Callable[[TextChunk], Any] = lambda _: None,
) -> Reading:
    server, reading = RawServer(body), Reading()
    ids = itertools.count(1)

    def first() -> None:
        reading.first += 1

    async def failed(error: DuplexdError) -> None:
        reading.failures.append(error)

    stream = AnswerStream(
        ask=lambda: stream_chat(server.client, {"model": "m", "messages": []}),
        load=ServerLoad(),
        limits=StreamLimits(first_token_s=first_token_s, idle_s=idle_s, chars=chars),
        offered=offered,
        new_call_id=lambda: f"ours-{next(ids)}",
        on_first_token=first,
        on_call=reading.told.append,
        on_usage=reading.usages.append,
        on_cut=reading.cuts.append,
        on_failure=failed,
    )
    async for chunk in stream:
        assert chunk.choices[0].delta.tool_calls is None
        reading.told.append(chunk.text)
        await asyncio.sleep(on_piece(chunk) or 0)
    await stream.close()
    reading.called = stream.called
    reading.silence = stream.silence().message
    await server.client.close()
    return reading
