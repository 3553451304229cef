"""Invariants: every message of the protocol is its event; nothing raises, whatever comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.xiaozhi.events import (
    Abort,
    Audio,
    AudioFormat,
    Detect,
    Goodbye,
    Hello,
    Ignored,
    IotDescriptors,
    IotStates,
    ListenStart,
    ListenStop,
    Mcp,
    Ping,
)
from services.xiaozhi.messages import (
    MAX_TEXT,
    Alert,
    Emotion,
    IotCommands,
    McpRequest,
    Message,
    Pong,
    SentenceStart,
    ServerHello,
    Stt,
    TtsStart,
    TtsStop,
    encode,
)
from services.xiaozhi.protocol import DeviceProtocol

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["type", "state", "mode", "text", "payload", "features", "audio_params", "descriptors",
     "states", "reason", "version", "update"]
)  # fmt: skip
KINDS = st.sampled_from(["hello", "listen", "abort", "mcp", "iot", "ping", "goodbye", "other"])


def read(message: Any, *, greeted: bool = True) -> Any:
    protocol = DeviceProtocol(version=1)
    if greeted:
        protocol.receive_text('{"type":"hello"}')
    return protocol.receive_text(json.dumps(message))


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ({"type": "listen", "state": "start", "mode": "auto"}, ListenStart("auto")),
        ({"type": "listen", "state": "start", "mode": "manual"}, ListenStart("manual")),
        ({"type": "listen", "state": "start", "mode": "realtime"}, ListenStart("realtime")),
        ({"type": "listen", "state": "start", "mode": "other"}, ListenStart("auto")),
        ({"type": "listen", "state": "start", "mode": 7}, ListenStart("auto")),
        ({"type": "listen", "state": "start"}, ListenStart("auto")),
        ({"type": "listen", "state": "stop"}, ListenStop()),
        ({"type": "listen", "state": "detect", "text": " 你好小智 "}, Detect("你好小智")),
        ({"type": "listen", "state": "detect"}, Detect("")),
        ({"type": "listen", "state": "x"}, Ignored("bad_message", "listen 'x'")),
        ({"type": "abort"}, Abort("")),
        ({"type": "abort", "reason": "wake_word_detected"}, Abort("wake_word_detected")),
        ({"type": "abort", "reason": 1}, Abort("")),
        ({"type": "mcp", "payload": {"id": 1}}, Mcp({"id": 1})),
        ({"type": "mcp"}, Ignored("bad_message", "mcp without a payload")),
        ({"type": "iot", "descriptors": [{"name": "Lamp"}]}, IotDescriptors(({"name": "Lamp"},))),
        (
            {"type": "iot", "update": True, "descriptors": [{"name": "Lamp"}, 7]},
            IotDescriptors(({"name": "Lamp"},), update=True),
        ),
        ({"type": "iot", "states": [{"name": "Lamp"}]}, IotStates(({"name": "Lamp"},))),
        ({"type": "iot"}, Ignored("bad_message", "iot without descriptors or states")),
        ({"type": "ping"}, Ping()),
        ({"type": "goodbye"}, Goodbye()),
        ({"type": "hello"}, Ignored("second_hello")),
        ({"type": "other"}, Ignored("unknown_type", "other")),
        ({"type": 7}, Ignored("no_type")),
        ({}, Ignored("no_type")),
        ([], Ignored("not_json", "[]")),
        ("x", Ignored("not_json", '"x"')),
    ],
)
def test_messages(message: Any, event: Any) -> None:
    assert read(message) == event


@pytest.mark.parametrize(
    ("members", "hello"),
    [
        ({}, Hello()),
        (
            {
                "version": 3,
                "features": {"mcp": True, "aec": True, "glyph_push": False},
                "audio_params": {
                    "format": "opus", "sample_rate": 16000, "channels": 1, "frame_duration": 20,
                },
            },
            Hello(version=3, mcp=True, aec=True, audio=AudioFormat(frame_ms=20)),
        ),
        (
            {"audioParams": {"format": "pcm", "sample_rate": 24000.0}},
            Hello(audio=AudioFormat(format="pcm", sample_rate=24_000)),
        ),
        (
            {"audio_params": {"sample_rate": True, "frame_duration": 9999, "channels": "1"}},
            Hello(),
        ),
        ({"audio_params": {"sample_rate": 1e300}, "version": 9, "features": "x"}, Hello()),
        ({"audio_params": {"sample_rate": 16000.5}, "features": {"mcp": "yes"}}, Hello()),
    ],
)  # fmt: skip
def test_hellos(members: dict[str, Any], hello: Hello) -> None:
    assert read({"type": "hello", **members}, greeted=False) == hello


def test_audio_counts_after_the_hello_only() -> None:
    protocol = DeviceProtocol(version=3)
    assert protocol.receive_bytes(b"\0\0\0\1x") == Ignored("audio_before_hello")
    protocol.receive_text('{"type":"hello"}')
    assert protocol.receive_bytes(b"\0\0\0\1x") == Audio(b"x")
    assert protocol.audio(b"x", timestamp_ms=5) == b"\0\0\0\1x"


def test_an_unknown_framing_is_the_first() -> None:
    assert DeviceProtocol(version=7).version == 1


@pytest.mark.parametrize("text", ["", "{", "nul", '{"a":' * 50_000, "[" * 50_000, "a" * 70_000])
def test_what_is_no_json_is_ignored(text: str) -> None:
    assert isinstance(DeviceProtocol(version=1).receive_text(text), Ignored)


@given(st.text())
def test_any_text(text: str) -> None:
    DeviceProtocol(version=1).receive_text(text)


@given(st.dictionaries(NAMES, JSON), KINDS, st.booleans())
def test_any_members(members: dict[str, Any], kind: str, greeted: bool) -> None:
    read({**members, "type": kind}, greeted=greeted)


# --- to the device -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("message", "members"),
    [
        (Stt("好"), {"type": "stt", "text": "好"}),
        (Emotion("happy", "🙂"), {"type": "llm", "emotion": "happy", "text": "🙂"}),
        (TtsStart(), {"type": "tts", "state": "start"}),
        (SentenceStart("好"), {"type": "tts", "state": "sentence_start", "text": "好"}),
        (TtsStop(), {"type": "tts", "state": "stop"}),
        (McpRequest({"id": 1}), {"type": "mcp", "payload": {"id": 1}}),
        (IotCommands(({"name": "x"},)), {"type": "iot", "commands": [{"name": "x"}]}),
        (
            Alert(status="a", message="b"),
            {"type": "alert", "status": "a", "message": "b", "emotion": "sad"},
        ),
        (Pong(), {"type": "pong"}),
        (
            ServerHello(),
            {
                "type": "hello",
                "version": 1,
                "transport": "websocket",
                "audio_params": {
                    "format": "opus",
                    "sample_rate": 24_000,
                    "channels": 1,
                    "frame_duration": 60,
                },
            },
        ),
    ],
)
def test_what_a_device_is_told(message: Message, members: dict[str, Any]) -> None:
    assert json.loads(encode(message, session_id="s1")) == {"session_id": "s1", **members}


@given(st.text(st.characters(), max_size=3000))
def test_every_text_can_be_sent_and_is_bounded(text: str) -> None:
    for message in (Stt(text), SentenceStart(text), Alert(status=text, message=text)):
        written = encode(message, session_id="s1")
        assert len(written.encode()) <= 8 * MAX_TEXT + 200
        json.loads(written)
