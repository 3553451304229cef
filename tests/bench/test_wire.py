"""Invariant: the same thing is the same news, whichever server says it."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from pipecat.frames.frames import (
    EndFrame,
    InputAudioRawFrame,
    InterruptionFrame,
    OutputAudioRawFrame,
    OutputTransportMessageUrgentFrame,
)

from pipeline.bench.peer_wire import PeerSerializer, PeerWire
from pipeline.bench.wire import RealtimeWire

PCM = np.arange(320, dtype=np.int16).tobytes()


def read(event: dict[str, Any]) -> tuple[str, str, str]:
    news = RealtimeWire().read(json.dumps(event), 1.5)
    assert news.at == 1.5
    assert news.event == event
    return news.kind, news.answer, news.text


@pytest.mark.parametrize(
    ("event", "news"),
    [
        ({"type": "session.updated"}, ("ready", "", "")),
        ({"type": "input_audio_buffer.speech_started"}, ("opened", "", "")),
        (
            {
                "type": "conversation.item.input_audio_transcription.completed",
                "transcript": "好",
            },
            ("turn", "", "好"),
        ),
        (
            {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
            ("answer", "r1", "in_progress"),
        ),
        (
            {"type": "response.done", "response": {"id": "r1", "status": "cancelled"}},
            ("done", "r1", "cancelled"),
        ),
        (
            {"type": "response.output_audio_transcript.delta", "response_id": "r1", "delta": "你"},
            ("text", "r1", "你"),
        ),
        ({"type": "duplexd.playback.paused", "response_id": "r1"}, ("paused", "r1", "")),
        ({"type": "duplexd.playback.resumed", "response_id": "r1"}, ("resumed", "r1", "")),
        ({"type": "duplexd.turn", "response_id": "r1", "report": {}}, ("report", "r1", "")),
        ({"type": "error", "error": {"message": "no"}}, ("error", "", "no")),
        ({"type": "error", "error": {}}, ("error", "", "it did not say why")),
        ({"type": "session.created"}, ("other", "", "")),
    ],
)
def test_realtime_events(event: dict[str, Any], news: tuple[str, str, str]) -> None:
    assert read(event) == news


def test_realtime_audio() -> None:
    delta = base64.b64encode(PCM).decode()
    message = {"type": "response.output_audio.delta", "response_id": "r1", "delta": delta}
    news = RealtimeWire().read(json.dumps(message), 0.0)
    assert (news.kind, news.answer) == ("audio", "r1")
    assert news.samples is not None
    assert news.samples.tobytes() == PCM
    sent = json.loads(RealtimeWire().frame(PCM))
    assert sent == {"type": "input_audio_buffer.append", "audio": delta}


def test_the_daemon_is_told_what_the_client_is() -> None:
    wire = RealtimeWire(pauses=False, echo_cancelled=False, session={"instructions": "hi"})
    [message] = map(json.loads, wire.opening())
    session = message["session"]
    assert session["duplexd"] == {"pauses": False, "echo_cancelled": False}
    assert session["instructions"] == "hi"
    assert session["audio"]["input"]["format"]["rate"] == 16_000


async def test_both_ends_of_the_peers_protocol_agree() -> None:
    serializer, wire = PeerSerializer(), PeerWire()
    assert wire.opening() == []

    async def told(frame: Any) -> Any:
        message = await serializer.serialize(frame)
        assert message is not None
        return wire.read(message, 0.0)

    def event(**fields: str) -> OutputTransportMessageUrgentFrame:
        return OutputTransportMessageUrgentFrame(message=fields)

    assert (await told(event(type="ready"))).kind == "ready"
    assert (await told(InterruptionFrame())).kind == "flush"
    assert (await told(event(type="turn", text=""))).answer == "0"
    news = await told(event(type="turn", text="好"))
    assert (news.kind, news.text) == ("turn", "好")
    news = await told(OutputAudioRawFrame(audio=PCM, sample_rate=24_000, num_channels=1))
    assert (news.kind, news.answer) == ("audio", "1")
    assert news.samples is not None
    assert news.samples.tobytes() == PCM
    assert await serializer.serialize(EndFrame()) is None
    frame = await serializer.deserialize(wire.frame(PCM))
    assert isinstance(frame, InputAudioRawFrame)
    assert (frame.audio, frame.sample_rate) == (PCM, 16_000)
    assert await serializer.deserialize("{}") is None
