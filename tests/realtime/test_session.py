"""Invariants: an update changes what it mentions, and nothing when the conversation refuses it;
what is shown is what holds.
"""

from __future__ import annotations

from typing import Any

import pytest

from services.face import SessionOptions
from services.realtime.turn_detection import SILENCE_MS
from services.tools import NamedTool, Tool
from tests.realtime.wired import Wired, function
from tts_engine.errors import BadRequest, UnknownVoice


def test_session_created_shows_the_effective_session():
    wired = Wired(model="duplexd")
    (event,) = wired.sent(wired.core.created())
    session = event["session"]
    assert event["type"] == "session.created"
    assert session["id"] == "sess"
    assert session["model"] == "duplexd"
    assert session["audio"]["output"]["voice"] == "xiaobei"
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "create_response": True,
        "interrupt_response": True,
    }
    assert session["max_output_tokens"] == "inf"


def test_every_option_reaches_the_conversation():
    options = Wired().update(
        instructions="Be brief",
        max_output_tokens=50,
        temperature=0.5,
        model="gpt-realtime",
        include=[],
        tracing="auto",
        truncation="auto",
        tools=[function()],
        tool_choice={"type": "function", "name": "weather"},
        parallel_tool_calls=True,
        duplexd={"echo_cancelled": True, "pauses": True},
        audio={
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": {"type": "near_field"},
                "transcription": {
                    "model": "whisper-1",
                    "prompt": "x",
                    "keywords": ["y"],
                    "delay": "low",
                    "language": "zh-CN",
                    "languages": ["en", "EN_us"],
                },
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 400,
                    "idle_timeout_ms": 6000,
                    "create_response": False,
                    "interrupt_response": False,
                },
            },
            "output": {"voice": {"id": "nicole"}, "speed": 1.25},
        },
    )
    assert options == SessionOptions(
        instructions="Be brief",
        voice="nicole",
        speed=1.25,
        server_turns=True,
        auto_respond=False,
        interruptible=False,
        floor_ms=400,
        max_tokens=50,
        temperature=0.5,
        speak=True,
        idle_ms=6000,
        languages=("en", "zh"),
        hotwords=("x", "y"),
        echo_cancelled=True,
        pauses=True,
        tools=(Tool(name="weather", description="d", parameters={"type": "object"}),),
        tool_choice=NamedTool("weather"),
    )


def test_an_update_changes_what_it_mentions():
    wired = Wired()
    wired.update(
        instructions="A",
        max_output_tokens=50,
        temperature=0.1,
        audio={
            "input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}},
            "output": {"voice": "nicole"},
        },
    )
    options = wired.update(
        max_output_tokens="inf", audio={"output": {"speed": 2}, "input": {}}, instructions=None
    )
    assert (options.instructions, options.voice, options.speed) == ("A", "nicole", 2)
    assert (options.floor_ms, options.max_tokens) == (300, None)
    session = wired.last("session.updated")["session"]
    assert session["temperature"] == 0.1
    assert session["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 300
    assert wired.update(instructions="").instructions == ""


def test_an_update_that_the_conversation_refuses_changes_nothing():
    wired = Wired()
    (action,) = wired.receive(
        "session.update",
        event_id="mine",
        session={"type": "realtime", "audio": {"output": {"voice": "nobody"}}},
    )
    refused = wired.core.not_updated(action, UnknownVoice("There is no voice 'nobody'"))
    (event,) = wired.sent([refused.text])
    assert event["error"]["code"] == "unknown_voice"
    assert event["error"]["param"] == "session.audio.output.voice"
    assert event["error"]["event_id"] == "mine"
    (other,) = wired.sent([wired.core.not_updated(action, BadRequest("No")).text])
    assert other["error"]["param"] == "session"
    assert wired.update().voice is None


def test_what_was_chosen_is_shown():
    wired = Wired()
    wired.update(
        tools=[function(), {"type": "function", "name": "bare"}],
        tool_choice="required",
        audio={
            "input": {
                "format": {"type": "audio/pcma"},
                "transcription": {"language": "zh"},
                "turn_detection": {"type": "server_vad", "idle_timeout_ms": 6000},
            },
            "output": {"format": {"type": "audio/pcm", "rate": 16000}, "voice": "alloy"},
        },
    )
    session = wired.last("session.updated")["session"]
    assert session["tools"][0] == function()
    assert session["tools"][1]["parameters"] == {}
    assert session["tool_choice"] == "required"
    assert session["audio"]["input"]["format"] == {"type": "audio/pcma"}
    assert session["audio"]["input"]["transcription"]["language"] == "zh"
    assert session["audio"]["input"]["turn_detection"]["idle_timeout_ms"] == 6000
    assert session["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 16000}
    assert session["audio"]["output"]["voice"] == "alloy"
    wired.update(
        tools=[],
        tool_choice="auto",
        audio={"input": {"transcription": {"languages": ["zh", "en"]}}},
    )
    session = wired.last("session.updated")["session"]
    assert session["tools"] == []
    assert session["audio"]["input"]["transcription"]["languages"] == ["zh", "en"]
    options = wired.update(audio={"input": {"transcription": {}}})
    assert options.languages is None
    assert options.hotwords == ()


def test_hotwords_are_shown_back_as_they_were_given():
    wired = Wired()
    given = {"prompt": "滨海、达摩院", "keywords": ["Xiaozhi, Dux"]}
    options = wired.update(audio={"input": {"transcription": given}})
    assert options.hotwords == ("滨海", "达摩院", "Xiaozhi", "Dux")
    shown = wired.last("session.updated")["session"]["audio"]["input"]["transcription"]
    assert {name: shown[name] for name in given} == given


def test_what_a_client_says_of_itself_is_shown_back():
    wired = Wired()
    options = wired.update()
    assert (options.echo_cancelled, options.pauses) == (False, False)
    assert "duplexd" not in wired.last("session.updated")["session"]
    options = wired.update(duplexd={"pauses": True})
    assert (options.echo_cancelled, options.pauses) == (False, True)
    assert wired.last("session.updated")["session"]["duplexd"] == {"pauses": True}
    # another microphone was chosen
    options = wired.update(duplexd={"echo_cancelled": True, "pauses": None})
    assert (options.echo_cancelled, options.pauses) == (True, True)
    options = wired.update(duplexd={"echo_cancelled": False})
    assert (options.echo_cancelled, options.pauses) == (False, True)
    shown = wired.last("session.updated")["session"]["duplexd"]
    assert shown == {"echo_cancelled": False, "pauses": True}
    assert wired.update(duplexd=None).pauses is True


@pytest.mark.parametrize(
    ("given", "reason", "param"),
    [
        ({"pauses": "yes"}, "invalid_type", "session.duplexd.pauses"),
        ({"echo_cancelled": 1}, "invalid_type", "session.duplexd.echo_cancelled"),
        ({"echo": True}, "unknown_parameter", "session.duplexd.echo"),
        (True, "invalid_type", "session.duplexd"),
    ],
)
def test_what_a_client_says_of_itself_is_checked(given: Any, reason: str, param: str):
    wired = Wired()
    session = {"type": "realtime", "duplexd": given}
    assert wired.refused("session.update", session=session) == (reason, param)
    assert wired.update().pauses is False


def test_a_named_tool_is_shown_as_it_was_chosen():
    wired = Wired()
    choice = {"type": "function", "name": "weather"}
    wired.update(tools=[function()], tool_choice=choice)
    assert wired.last("session.updated")["session"]["tool_choice"] == choice
    # it cannot go while it has to be called
    session = {"type": "realtime", "tools": []}
    refused = wired.refused("session.update", session=session)
    assert refused == ("invalid_value", "session.tool_choice")


@pytest.mark.parametrize("eagerness", [*SILENCE_MS, None])
def test_eagerness_is_a_length_of_silence(eagerness: Any):
    wired = Wired()
    vad: dict[str, Any] = {"type": "semantic_vad", "interrupt_response": False}
    if eagerness:
        vad["eagerness"] = eagerness
    options = wired.update(audio={"input": {"turn_detection": vad}})
    assert options.floor_ms == SILENCE_MS[eagerness or "auto"]
    assert (options.auto_respond, options.interruptible) == (True, False)
    shown = wired.last("session.updated")["session"]["audio"]["input"]["turn_detection"]
    assert shown == {
        "type": "semantic_vad",
        "eagerness": eagerness or "auto",
        "create_response": True,
        "interrupt_response": False,
    }


def test_a_transcription_session_writes_down_and_says_nothing():
    wired = Wired()
    vad = {"type": "server_vad", "idle_timeout_ms": 6000, "silence_duration_ms": 300}
    options = wired.update(type="transcription", audio={"input": {"turn_detection": vad}})
    assert (options.auto_respond, options.server_turns) == (False, True)
    assert (options.idle_ms, options.floor_ms) == (None, 300)
    session = wired.last("session.updated")["session"]
    assert session["type"] == "transcription"
    assert session["object"] == "realtime.transcription_session"
    assert set(session["audio"]) == {"input"}
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "silence_duration_ms": 300,
    }
    wired.turn("你好")
    completed = wired.last("conversation.item.input_audio_transcription.completed")
    assert completed["transcript"] == "你好"
    assert wired.update(type="transcription").auto_respond is False
    assert wired.update().auto_respond is True
