"""Clients that keep no rules: frames by hand, floods, and messages that are nearly right."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.daemon.client import PATIENCE_S, voice

HANDSHAKE = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)
CONTINUATION, TEXT, BINARY, PING = 0, 1, 2, 9


def frame(payload: str | bytes, kind: int = TEXT, *, last: bool = True) -> bytes:
    """A frame of a client's, masked with zeros."""
    data = payload.encode() if isinstance(payload, str) else payload
    size = len(data)
    head = bytes([kind | (0x80 if last else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += b"\xfe" + size.to_bytes(2, "big")
    else:
        head += b"\xff" + size.to_bytes(8, "big")
    return head + bytes(4) + data


def event(kind: str, **fields: Any) -> str:
    """An event as text."""
    return json.dumps({"type": kind, **fields})


def message(text: str, **fields: Any) -> dict[str, Any]:
    """A message of the user's."""
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content, **fields}


def sound(seconds: float, rate: int = 24_000) -> str:
    """Something voiced, as an append event has it."""
    return base64.b64encode(voice(seconds)[:: 24_000 // rate].tobytes()).decode()


async def by_hand(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A socket whose handshake was accepted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE)
    async with asyncio.timeout(PATIENCE_S):
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


TOOL = {
    "type": "function",
    "name": "lamp",
    "description": "d",
    "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}},
}
#: one event of every type, whole enough to be accepted at the right moment
EVENTS: dict[str, dict[str, Any]] = {
    "session.update": {
        "session": {
            "type": "realtime",
            "instructions": "i",
            "output_modalities": ["audio"],
            "max_output_tokens": 100,
            "temperature": 0.5,
            "tools": [TOOL],
            "tool_choice": "auto",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24000},
                    "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                    "transcription": {"language": "zh"},
                },
                "output": {"format": {"type": "audio/pcmu"}, "voice": "one", "speed": 1.5},
            },
        }
    },
    "input_audio_buffer.append": {"audio": sound(0.1)},
    "input_audio_buffer.commit": {},
    "input_audio_buffer.clear": {},
    "conversation.item.create": {"item": message("x"), "previous_item_id": "root"},
    "conversation.item.retrieve": {"item_id": "mine"},
    "conversation.item.delete": {"item_id": "mine"},
    "conversation.item.truncate": {"item_id": "mine", "content_index": 0, "audio_end_ms": 10},
    "response.create": {
        "response": {
            "conversation": "none",
            "instructions": "i",
            "output_modalities": ["text"],
            "metadata": {"a": "b"},
            "input": [
                message("x"),
                {"type": "function_call", "name": "lamp", "arguments": "{", "call_id": "c"},
                {"type": "function_call_output", "call_id": "c", "output": "1"},
                {"type": "item_reference", "id": "mine"},
            ],
            "tools": [TOOL],
            "tool_choice": {"type": "function", "name": "lamp"},
        }
    },
    "response.cancel": {},
    "output_audio_buffer.clear": {},
}
_ITEMS: list[dict[str, Any]] = [
    message("x", id="mine"),
    {"type": "function_call", "name": "lamp", "arguments": "{}", "call_id": "c", "id": "call"},
    {"type": "function_call_output", "call_id": "c", "output": "\u0000", "id": "out"},
    {**message("x"), "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
]
_SESSIONS: list[dict[str, Any]] = [
    {"type": "realtime", "audio": {"input": {"turn_detection": None}}},
    {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}},
    {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcma"}}}},
    {"type": "realtime", "audio": {"output": {"format": {"type": "audio/pcm", "rate": 16000}}}},
    {"type": "realtime", "output_modalities": ["text"], "tool_choice": "required"},
    {"type": "transcription"},
    {"type": "realtime", "output_modalities": ["audio"], "tool_choice": "none"},
]
_ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, 2**63, "", "x", "root", "mine", "c", "好" * 1000, "\u0000"),
    *("x" * 10_000, [], {}, [[]], {"type": "message"}, ["audio", "text"], "audio/pcm", "inf"),
]
#: what no JSON writer would write, put in place of a string
_RAW = ["NaN", "-Infinity", "1e999", '"\\ud800"', '"\\udc00\\ud800"', "[" * 80 + "]" * 80, "01"]
_MARK = "a place for what is no JSON"


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value that can hold another one: container and key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


class Fuzz:
    """Messages that a client could send, by chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def message(self) -> str | bytes:
        """The next one: whole, mutated, broken, or none at all."""
        chance = self._chance
        kind = chance.choice(sorted(EVENTS))
        fields = json.loads(json.dumps(EVENTS[kind]))
        if kind == "session.update" and chance.random() < 0.7:
            fields = {"session": chance.choice(_SESSIONS)}
        elif kind == "conversation.item.create" and chance.random() < 0.7:
            fields = {"item": chance.choice(_ITEMS)}
        elif kind == "response.create" and chance.random() < 0.7:
            fields = {}
        value = json.loads(json.dumps({"type": kind, "event_id": "e", **fields}))
        what = chance.randrange(8)
        if what < 3:
            return json.dumps(value)
        if what == 3:
            return self._audio()
        container, key = chance.choice(list(places(value)))
        if what == 4:
            container[key] = _MARK
            return json.dumps(value).replace(f'"{_MARK}"', chance.choice(_RAW))
        if what == 5:
            container[key] = chance.choice(_ODD)
            return json.dumps(value)
        if what == 6:
            del container[key]
            return json.dumps(value)
        text = json.dumps(value)
        place = chance.randrange(len(text))
        if chance.random() < 0.5:
            return text[:place].encode() + chance.randbytes(3)  # binary: no text at all
        return text[:place] + chance.choice('{}[]",:0\\x\u0000好') + text[place + 1 :]

    def _audio(self) -> str:
        chance = self._chance
        samples = chance.choice([voice(0.1), np.zeros(4800, np.int16), np.zeros(1, np.int16)])
        data = samples.tobytes()[: chance.choice([None, -1, 0])]
        audio = base64.b64encode(data).decode()
        return event("input_audio_buffer.append", audio=audio[: chance.choice([None, -1])])
