"""The mind of a scripted LLM server: it decides, paces, fails and records.

`services.scripted.llm` puts it behind the real OpenAI client by a transport inside the process,
`services.scripted.llm_server` behind a real socket.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from services.scripted.chat import (
    ChatAnswer,
    ChatEvents,
    error_body,
    models_body,
    plan_answer,
)
from services.scripted.due import Due
from services.scripted.spec import ScriptedTexts
from tts_engine.engine import EngineStats
from tts_engine.errors import AtCapacity, EngineFailed

#: tokens sent without a break by a server that knows no pace: the loop must go round in between
_BURST = 8

FaultKind = Literal["slow", "unreachable", "empty", "dies", "garbage", "http_500", "http_429"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmFault:
    """How an answer goes wrong.

    Parameters:
        kind: "slow": the first token comes `delay_s` later. "unreachable": no connection (from
            `ScriptedLlmServer`, for a single turn: closed without an answer). "empty": a regular
            answer without text. "dies": the connection breaks after `after_tokens` tokens.
            "garbage": after `after_tokens` tokens comes an event that is not JSON. "http_500",
            "http_429": an error instead of an answer.
        after_tokens: tokens sent before it goes wrong.
        delay_s: of "slow"; infinity for never.
    """

    kind: FaultKind
    after_tokens: int = 3
    delay_s: float = 5.0


class ConnectionDropped(Exception):
    """The script wants the connection broken off, here and now."""


@dataclass(slots=True, kw_only=True, eq=False)
class LlmRequest:
    """What the server saw of one request, updated while it answers.

    Parameters:
        body: the request as it came.
        turn: number of its user messages.
        started: time.monotonic() at its arrival.
        tokens: tokens that its answer has.
        tokens_sent: tokens sent so far.
        text_sent: text of those.
        finished: answered to the end, regular or as scripted.
        cancelled: the client closed the connection before that.
        over: set as soon as one or the other is known.
    """

    body: dict[str, Any]
    turn: int
    started: float
    tokens: int = 0
    tokens_sent: int = 0
    text_sent: str = ""
    finished: bool = False
    cancelled: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation that was sent."""
        return self.body["messages"]

    @property
    def session(self) -> str:
        """The request's `user` field."""
        return str(self.body.get("user") or "")


class LlmScript:
    """The mind of a scripted LLM server; see `services.scripted.llm.scripted_client`.

    Parameters:
        requests: the last `keep` requests, oldest first.
        arrived: set by every request; whoever waits for another one clears it first.
        stats: `jobs` counts finished answers; faults are counted as errors, cancels as neither.
        fault: goes wrong in every turn that `failures` does not name; may be changed at any time.
    """

    def __init__(
        self,
        *,
        first_token_s: float = 0.0,
        tokens_per_s: float = math.inf,
        texts: ScriptedTexts | None = None,
        failures: Mapping[int, LlmFault] | None = None,
        fault: LlmFault | None = None,
        keep: int = 256,
    ) -> None:
        self.first_token_s = first_token_s
        self.tokens_per_s = tokens_per_s
        self.texts = texts or ScriptedTexts()
        self.failures = dict(failures or {})
        self.fault = fault
        self.keep = keep
        self.requests: list[LlmRequest] = []
        self.arrived = asyncio.Event()
        self.stats = EngineStats()
        self._count = 0
        self._live: set[LlmReply] = set()

    def answer(self, method: str, path: str, body: bytes) -> LlmReply:
        """Takes a request; the reply's clock runs from here.

        Raises:
            ConnectionDropped: the server is "unreachable" for this turn.
        """
        if (method, path.rpartition("/")[2]) == ("GET", "models"):
            return LlmReply.fixed(200, models_body())
        if method != "POST" or not path.endswith("/chat/completions"):
            return LlmReply.fixed(404, error_body(f"no {method} {path} here", "not_found"))
        try:
            request = json.loads(body)
            answer = plan_answer(request, self.texts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"not a chat completion request: {error!r}"
            return LlmReply.fixed(400, error_body(why, "invalid_request_error"))
        return self._reply(request, answer)

    def _reply(self, body: dict[str, Any], answer: ChatAnswer) -> LlmReply:
        fault = self.failures.get(answer.turn, self.fault)
        kind = fault.kind if fault else None
        record = LlmRequest(body=body, turn=answer.turn, started=time.monotonic())
        self.requests.append(record)
        del self.requests[: -self.keep]
        self.arrived.set()
        if kind not in (None, "slow", "empty"):
            failure = AtCapacity if kind == "http_429" else EngineFailed
            self.stats.errors[failure.code] = self.stats.errors.get(failure.code, 0) + 1
        if kind in ("unreachable", "http_500", "http_429"):
            record.finished = True
            record.over.set()
            if kind == "http_500":
                return LlmReply.fixed(500, error_body("the scripted server fails", "server_error"))
            if kind == "http_429":
                return LlmReply.fixed(429, error_body("too many requests", "rate_limit_exceeded"))
            raise ConnectionDropped
        if kind == "empty":
            answer = plan_answer(body, self.texts, empty=True)
        record.tokens = len(answer.pieces)
        self._count += 1
        events = ChatEvents(body, answer, number=self._count)
        due = Due()
        streamed = bool(body.get("stream"))
        reply = LlmReply(
            status=200,
            content_type="text/event-stream" if streamed else "application/json",
            parts=self._parts(record, answer, fault, events, due, streamed=streamed),
            due=due,
            over=lambda: self._settle(reply, record),
        )
        self._live.add(reply)
        self.stats.depth += 1
        return reply

    async def _parts(
        self,
        record: LlmRequest,
        answer: ChatAnswer,
        fault: LlmFault | None,
        events: ChatEvents,
        due: Due,
        *,
        streamed: bool,
    ) -> AsyncGenerator[bytes, None]:
        """The body of an answer, token by token when due."""
        first = record.started + self.first_token_s
        limit = len(answer.pieces)
        breaks = fault if fault is not None and fault.kind in ("dies", "garbage") else None
        if breaks is not None:
            limit = min(limit, breaks.after_tokens)
        elif fault is not None and fault.kind == "slow":
            first += fault.delay_s
        for index, piece in enumerate(answer.pieces[:limit]):
            await due.until(first + index / self.tokens_per_s)
            if index % _BURST == _BURST - 1:
                await asyncio.sleep(0)
            record.tokens_sent += 1
            record.text_sent += piece.text
            if streamed:
                yield (b"" if index else events.opening()) + events.token(piece)
        # an answer of n tokens ends with its last; one that breaks, when the next one was due
        last = limit if breaks is not None else max(limit - 1, 0)
        await due.until(first + last / self.tokens_per_s)
        record.finished = True
        if breaks is not None:
            if breaks.kind == "dies":
                raise ConnectionDropped
            yield b"data: <html>scripted garbage</html>\n\n"
        elif streamed:
            yield (b"" if limit else events.opening()) + events.closing()
            self.stats.jobs += 1
        else:
            yield events.whole()
            self.stats.jobs += 1

    def _settle(self, reply: LlmReply, record: LlmRequest) -> None:
        self._live.discard(reply)
        self.stats.depth -= 1
        record.cancelled = not record.finished
        record.over.set()

    async def close(self) -> None:
        """Breaks off every answer in flight. Idempotent."""
        for reply in tuple(self._live):
            await reply.aclose()


def _nothing() -> None:
    """A fixed reply is over without anyone having to know."""


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


class LlmReply:
    """One HTTP response: a status, and an iterator of parts that come when they are due."""

    def __init__(
        self,
        *,
        status: int,
        content_type: str,
        parts: AsyncGenerator[bytes, None],
        due: Due,
        over: Callable[[], None],
    ) -> None:
        self.status = status
        self.content_type = content_type
        self._parts = parts
        self._due = due
        self._over = over
        self._closed = False
        self._reading = False

    @classmethod
    def fixed(cls, status: int, body: bytes) -> LlmReply:
        """A JSON response that is there at once."""
        return cls(
            status=status,
            content_type="application/json",
            parts=_once(body),
            due=Due(),
            over=_nothing,
        )

    def __aiter__(self) -> LlmReply:
        return self

    async def __anext__(self) -> bytes:
        """The next part.

        Raises:
            ConnectionDropped: the script breaks the connection, or it was closed meanwhile.
        """
        if self._closed:
            raise ConnectionDropped
        self._reading = True
        try:
            return await anext(self._parts)
        finally:
            self._reading = False

    async def aclose(self) -> None:
        """The connection is closed; a reader that still waits sees it broken. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._reading:
            self._due.withdraw(ConnectionDropped())
        else:
            await self._parts.aclose()
        self._over()
