"""Invariant: what a device of the bench sends the server understands, and the other way round."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pipeline.bench.xiaozhi_wire import XiaozhiWire
from services.xiaozhi.events import Audio, Hello, ListenStart
from services.xiaozhi.messages import (
    Alert,
    Message,
    Pong,
    SentenceStart,
    ServerHello,
    Stt,
    TtsStart,
    TtsStop,
    encode,
)
from services.xiaozhi.opus import decoder_of, encoder_of
from services.xiaozhi.protocol import DeviceProtocol

TONE = (8000 * np.sin(np.arange(960) * 2 * np.pi * 440 / 16_000)).astype(np.int16)


@pytest.mark.parametrize("codec", ["opus", "pcm"])
def test_both_ends_agree(codec: Any) -> None:
    wire = XiaozhiWire(mode="auto", codec=codec)
    protocol = DeviceProtocol(version=1)
    hello, listen = map(protocol.receive_text, wire.opening())
    assert isinstance(hello, Hello)
    assert hello.audio.format == codec
    assert listen == ListenStart("auto")
    decoder = decoder_of(hello.audio)
    heard = b""
    for _ in range(5):
        packet = protocol.receive_bytes(wire.frame(TONE.tobytes()))
        assert isinstance(packet, Audio)
        heard += decoder.decode(packet.packet)
    level = np.std(np.frombuffer(heard, np.int16)[960:].astype(float))
    assert level == pytest.approx(np.std(TONE.astype(float)), rel=0.2)

    encoder = encoder_of(hello.audio, sample_rate=24_000, frame_ms=60)
    voice = np.resize(TONE, 1440)
    news = wire.read(protocol.audio(encoder.encode(voice.tobytes()), timestamp_ms=0), 2.0)
    assert (news.kind, news.at) == ("audio", 2.0)
    assert news.samples is not None
    assert len(news.samples) == 1440
    if codec == "pcm":
        assert np.array_equal(news.samples, voice)


def test_what_the_server_tells() -> None:
    wire = XiaozhiWire()

    def told(message: Message) -> tuple[str, str, str]:
        news = wire.read(encode(message, session_id="s"), 1.0)
        return news.kind, news.answer, news.text

    assert told(ServerHello()) == ("ready", "", "")
    assert told(Stt("你好")) == ("turn", "", "你好")
    assert told(TtsStart()) == ("answer", "answer 1", "")
    assert told(SentenceStart("好")) == ("text", "answer 1", "好")
    assert told(TtsStop()) == ("done", "answer 1", "stopped")
    assert told(TtsStart()) == ("answer", "answer 2", "")
    assert told(Alert(status="Error", message="no")) == ("error", "", "no")
    assert told(Pong()) == ("other", "", "")
    with pytest.raises(LookupError):
        wire.read(json.dumps({"no": "type"}), 1.0)
