"""Invariants: docs/realtime.md tells of every event and every option of the protocol, and what it
says of them is so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from openai import BaseModel
from openai.types.realtime.realtime_client_event import RealtimeClientEvent
from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest
from websockets.asyncio.client import connect

from services.face import Usage
from services.items import FunctionCall
from tests.realtime.fakes import SERVER_EVENTS, Face, check
from tests.realtime.wired import Wired, user
from tts_engine.errors import EngineFailed

_DOC = (Path(__file__).parents[2] / "docs/realtime.md").read_text()


def table(title: str) -> dict[str, str]:
    """What the first table under a heading says of each name."""
    section = _DOC.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", section, re.MULTILINE)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


CLIENT = table("Client events")
SERVER = table("Server events")
SESSION = table("Session")
CLIENT_TYPES = [
    get_args(model.model_fields["type"].annotation)[0]
    for model in get_args(get_args(RealtimeClientEvent)[0])
]
APPEND = ("input_audio_buffer.append", {"audio": "AAAA" * 4})
#: what comes before an event, its fields, and what answers it; None: nothing is to be answered
DRIVES: dict[str, tuple[list[tuple[str, dict[str, Any]]], dict[str, Any], str | None]] = {
    "session.update": ([], {"session": {"type": "realtime"}}, "session.updated"),
    "input_audio_buffer.append": ([], APPEND[1], None),
    "input_audio_buffer.commit": ([APPEND], {}, None),
    "input_audio_buffer.clear": ([], {}, "input_audio_buffer.cleared"),
    "conversation.item.create": ([], {"item": user("x", id="b")}, "conversation.item.added"),
    "conversation.item.retrieve": ([], {"item_id": "a"}, "conversation.item.retrieved"),
    "conversation.item.delete": ([], {"item_id": "a"}, "conversation.item.deleted"),
    "conversation.item.truncate": (
        [],
        {"item_id": "spoken", "content_index": 0, "audio_end_ms": 10},
        "conversation.item.truncated",
    ),
    "response.create": ([], {}, None),
    "response.cancel": ([("response.create", {})], {}, None),
    "output_audio_buffer.clear": ([], {}, None),
}


def test_every_event_of_the_protocol_is_told_of():
    assert set(CLIENT) == set(CLIENT_TYPES) == set(DRIVES)
    assert set(SERVER) == set(SERVER_EVENTS)
    assert set(CLIENT.values()) == {"supported", "refused"}
    assert set(SERVER.values()) == {"sent", "not sent"}


@pytest.mark.parametrize("kind", CLIENT_TYPES)
async def test_every_client_event_is_answered_or_refused_as_the_table_says(face: Face, kind: str):
    before, fields, answer = DRIVES[kind]
    async with connect(face.url) as connection:

        async def until(wanted: str) -> dict[str, Any]:
            while True:
                event = check(json.loads(await connection.recv()))
                if event["type"] == wanted:
                    return event

        async def send(kind: str, fields: dict[str, Any]) -> None:
            await connection.send(json.dumps({"type": kind, "event_id": "mine", **fields}))

        conversation = await face.sessions.opened.get()
        await conversation.sink.begin(1)
        await conversation.sink.audio(1, bytes(960))
        spoken = (await until("response.output_item.added"))["item"]["id"]
        await send("conversation.item.create", {"item": user("x", id="a")})
        for event in before:
            await send(*event)
        if fields.get("item_id") == "spoken":
            fields = {**fields, "item_id": spoken}
        await send(kind, fields)
        if CLIENT[kind] == "refused":
            error = (await until("error"))["error"]
            assert (error["code"], error["param"]) == ("not_supported", "type")
            assert kind in error["message"]
            assert error["event_id"] == "mine"
            assert face.failures
        elif answer is not None:
            await until(answer)
        else:
            name = kind.rpartition(".")[2]
            if name == "append":
                await conversation.until(lambda: bool(conversation.heard))
            else:
                wanted = {"create": "respond"}.get(name, name)
                await conversation.until(lambda: wanted in [call[0] for call in conversation.calls])
        if CLIENT[kind] == "supported":
            assert face.failures == []


def test_every_server_event_is_sent_that_the_table_says():
    wired = Wired()
    wired.sent(wired.core.created())
    wired.update()
    wired.receive(*APPEND[:1], **APPEND[1])
    wired.receive("input_audio_buffer.clear")
    wired.turn()
    wired.speak(1)
    wired.sent(wired.core.call_begun(1, "c", "f"))
    wired.sent(wired.core.call_arguments(1, "c", "{}"))
    wired.sent(wired.core.call_done(1, FunctionCall(call_id="c", name="f", arguments="{}")))
    wired.core.flush(1, heard_ms=10)
    wired.end(1, "interrupted", usage=Usage(input_tokens=1, output_tokens=1))
    wired.update(output_modalities=["text"])
    wired.answer(2)
    wired.add(user("x", id="a"))
    wired.receive("conversation.item.retrieve", item_id="a")
    wired.receive("conversation.item.delete", item_id="a")
    wired.sent(wired.core.idle(since_ms=1, at_ms=2))
    wired.sent(wired.core.turn_ended(at_ms=3))
    wired.sent(wired.core.error(EngineFailed("x")))
    assert set(wired.kinds()) == {kind for kind, here in SERVER.items() if here == "sent"}


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models(argument)


#: their own fields are not gone into
WHOLE = {"tools", "tool_choice", "prompt", "reasoning", "tracing", "truncation"} | {
    f"audio.{field}" for field in ("input.format", "input.noise_reduction", "output.format")
}


def options(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        inner = [] if path in WHOLE else list(models(field.annotation))
        if path != "audio" and path not in ("audio.input", "audio.output"):
            yield path
        for one in inner:
            if name != "voice":
                yield from options(one, f"{path}.")


def test_every_option_of_a_session_is_told_of():
    theirs = set(options(RealtimeSessionCreateRequest)) - {"audio.input.turn_detection.type"}
    ours = {"temperature", "duplexd.echo_cancelled", "duplexd.pauses"}
    assert theirs == set(SESSION) - ours


VALUES: dict[str, Any] = {
    "type": "realtime",
    "instructions": "Be brief",
    "output_modalities": ["text"],
    "max_output_tokens": 5,
    "tools": [{"type": "function", "name": "f"}],
    "tool_choice": "required",
    "temperature": 0.3,
    "duplexd.echo_cancelled": True,
    "duplexd.pauses": True,
    "audio.input.format": {"type": "audio/pcmu"},
    "audio.input.turn_detection": {"type": "server_vad", "silence_duration_ms": 7},
    "audio.input.turn_detection.silence_duration_ms": 300,
    "audio.input.turn_detection.eagerness": "low",
    "audio.input.turn_detection.create_response": False,
    "audio.input.turn_detection.interrupt_response": False,
    "audio.input.turn_detection.idle_timeout_ms": 5000,
    "audio.input.turn_detection.threshold": 0.3,
    "audio.input.turn_detection.prefix_padding_ms": 100,
    "audio.input.transcription": None,
    "audio.input.transcription.language": "zh",
    "audio.input.transcription.languages": ["zh", "en"],
    "audio.input.transcription.model": "whisper-1",
    "audio.input.transcription.prompt": "x",
    "audio.input.transcription.keywords": ["x"],
    "audio.input.transcription.delay": "low",
    "audio.input.noise_reduction": {"type": "near_field"},
    "audio.output.format": {"type": "audio/pcma"},
    "audio.output.voice": "nicole",
    "audio.output.speed": 1.5,
    "model": "gpt-realtime",
    "include": ["item.input_audio_transcription.logprobs"],
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low"},
    "tracing": "auto",
    "truncation": "disabled",
    "prompt": {"id": "x"},
}


@pytest.mark.parametrize("path", SESSION)
def test_every_option_of_a_session_does_what_the_table_says(path: str):
    wired = Wired()
    wired.update()
    before = wired.last("session.updated")["session"]
    value: Any = VALUES[path]
    for name in reversed(path.split(".")):
        value = {name: value}
        if name in ("threshold", "prefix_padding_ms", "silence_duration_ms") or (
            name.endswith(("_response", "timeout_ms"))
        ):
            value["type"] = "server_vad"
        elif name == "eagerness":
            value["type"] = "semantic_vad"
    session = {"type": "realtime", **value}
    if SESSION[path] == "refused":
        assert wired.refused("session.update", session=session)[0] == "not_supported"
        return
    wired.update(**session)
    changed = wired.last("session.updated")["session"] != before
    assert changed == (SESSION[path] == "supported" and path != "type")
