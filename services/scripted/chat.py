"""Chat completions on paper: the answer a request gets, its tokens, its events. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from services.scripted.reply import Parts, ScriptedCall
from services.scripted.spec import ScriptedTexts

_TOKEN = re.compile(r"[\u3400-\u9fff]{1,2}|\s?[A-Za-z0-9][A-Za-z0-9'’]*|\s+|.", re.DOTALL)
#: characters of a call's arguments per token
_ARGUMENT_CHARS = 8

FinishReason = Literal["stop", "length", "tool_calls"]


def split_tokens(text: str) -> list[str]:
    """Splits into pieces of the size that LLMs stream: two Hanzi, one word, or one mark.

    The pieces, joined, are the text.
    """
    return _TOKEN.findall(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One token: what it adds to the message, and the part of it that is text."""

    delta: Mapping[str, Any]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What a request gets.

    Parameters:
        turn: number of user messages in the request.
        pieces: the tokens, in order; none for an empty answer.
        finish_reason: as in the OpenAI API.
        message: the whole message, for answers that are not streamed.
    """

    turn: int
    pieces: tuple[Piece, ...]
    finish_reason: FinishReason
    message: Mapping[str, Any]


def _content(message: Mapping[str, Any]) -> str:
    """Text of a message, whose content may be a list of parts, or null."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _offers_tools(body: Mapping[str, Any]) -> bool:
    return bool(body.get("tools")) and body.get("tool_choice") != "none"


def _pieces(parts: Parts, first_call: str) -> Iterator[Piece]:
    """The tokens of what is said and called, in order."""
    index = 0
    for part in parts:
        if isinstance(part, str):
            yield from (Piece(delta={"content": token}, text=token) for token in split_tokens(part))
        else:
            yield from _call_pieces(part, index, f"{first_call}_{index}")
            index += 1


def _call_pieces(call: ScriptedCall, index: int, call_id: str) -> Iterator[Piece]:
    """The opening of a call, then its arguments bit by bit, as servers stream them."""
    opening = {
        "index": index,
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    yield Piece(delta={"tool_calls": [opening]})
    for at in range(0, len(call.text), _ARGUMENT_CHARS):
        part = call.text[at : at + _ARGUMENT_CHARS]
        yield Piece(delta={"tool_calls": [{"index": index, "function": {"arguments": part}}]})


def _joined(pieces: Iterable[Piece]) -> dict[str, Any]:
    """The message that the tokens amount to."""
    text = ""
    calls: list[dict[str, Any]] = []
    for piece in pieces:
        text += piece.text
        for delta in piece.delta.get("tool_calls", ()):
            if "id" in delta:
                calls.append(
                    {
                        "id": delta["id"],
                        "type": "function",
                        "function": dict(delta["function"]),
                    }
                )
            else:
                calls[-1]["function"]["arguments"] += delta["function"]["arguments"]
    if not calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def plan_answer(
    body: Mapping[str, Any], texts: ScriptedTexts, *, empty: bool = False
) -> ChatAnswer:
    """Decides what a request gets.

    The turn is the number of user messages; the session is the request's `user` field. Where the
    request offers no tools, only the text of a reply is left.

    Args:
        body: the request, with `messages`.
        texts: the replies.
        empty: answer nothing at all.
    """
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    users = [at for at, message in enumerate(messages) if message.get("role") == "user"]
    turn = len(users)
    tools = [at for at, message in enumerate(messages) if message.get("role") == "tool"]
    outputs = sum(1 for at in tools if not users or at > users[-1])
    parts: Parts = ()
    if not empty:
        parts = texts.reply(
            session=str(body.get("user") or ""),
            turn=turn,
            user=_content(messages[users[-1]]) if users else "",
            tool=_content(messages[tools[-1]]) if tools else "",
            outputs=outputs,
        )
    if not _offers_tools(body):
        parts = tuple(part for part in parts if isinstance(part, str))
    pieces = tuple(_pieces(parts, f"call_{turn}_{outputs}"))
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or len(pieces)
    kept = pieces[:limit]
    message = _joined(kept)
    finish: FinishReason = "tool_calls" if "tool_calls" in message else "stop"
    return ChatAnswer(
        turn=turn,
        pieces=kept,
        finish_reason="length" if len(kept) < len(pieces) else finish,
        message=message,
    )


def _usage(body: Mapping[str, Any], answer: ChatAnswer) -> dict[str, int]:
    # two characters a token: near enough for a prompt, and cheaper than splitting it each time
    prompt = sum(len(_content(message)) for message in body["messages"]) // 2 + 1
    count = len(answer.pieces)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": count,
        "total_tokens": prompt + count,
    }


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class ChatEvents:
    """The server-sent events of one streamed answer."""

    def __init__(self, body: Mapping[str, Any], answer: ChatAnswer, *, number: int) -> None:
        self._body = body
        self._answer = answer
        self._head = {
            "id": f"chatcmpl-scripted-{number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": str(body.get("model") or "scripted"),
        }

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        return b"data: " + _json({**self._head, "choices": choices, **more}) + b"\n\n"

    def opening(self) -> bytes:
        """The chunk that names the role, before the first token."""
        delta = {"role": "assistant", "content": ""}
        return self._event([{"index": 0, "delta": delta, "finish_reason": None}])

    def token(self, piece: Piece) -> bytes:
        """One token."""
        return self._event([{"index": 0, "delta": piece.delta, "finish_reason": None}])

    def closing(self) -> bytes:
        """The finish reason, the usage if it was asked for, and the end mark."""
        reason = self._answer.finish_reason
        result = self._event([{"index": 0, "delta": {}, "finish_reason": reason}])
        if (self._body.get("stream_options") or {}).get("include_usage"):
            result += self._event([], usage=_usage(self._body, self._answer))
        return result + b"data: [DONE]\n\n"

    def whole(self) -> bytes:
        """The answer as one JSON body, for requests that do not stream."""
        choice = {
            "index": 0,
            "message": self._answer.message,
            "finish_reason": self._answer.finish_reason,
        }
        return _json(
            {
                **self._head,
                "object": "chat.completion",
                "choices": [choice],
                "usage": _usage(self._body, self._answer),
            }
        )


def error_body(message: str, kind: str) -> bytes:
    """An error as OpenAI-compatible servers write it."""
    return _json({"error": {"message": message, "type": kind, "param": None, "code": kind}})


def models_body() -> bytes:
    """The list of models."""
    return _json(
        {
            "object": "list",
            "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "scripted"}],
        }
    )
