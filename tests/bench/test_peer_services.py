"""An engine's failure is an error frame of the peer's, and ends nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame

from pipeline.bench import clips, facts, speech
from pipeline.bench.clips import clips_of
from pipeline.bench.peer_services import PeerVoice
from pipeline.config import load_config
from services.scripted.tts import ScriptedVoice, VoiceFault


async def test_the_voice() -> None:
    engine = ScriptedVoice(failures={2: VoiceFault(kind="raise")})
    voice = PeerVoice(engine, voice=None, speed=1.0)
    frames = [frame async for frame in voice.run_tts("好", "c1")]
    assert frames
    assert all(isinstance(frame, TTSAudioRawFrame) for frame in frames)
    [frame] = [frame async for frame in voice.run_tts("好", "c2")]
    assert isinstance(frame, ErrorFrame)


def test_a_system_that_does_not_name_its_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "_CPUS", tmp_path / "none")
    found = facts.facts()
    assert "cores, " in found["machine"]
    assert found["command"].startswith("run.py")


@pytest.mark.models
def test_the_first_of_the_speech_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "cache_dir", lambda: tmp_path)
    made: list[None] = []
    found = clips_of(load_config(None), turns=1, advance=lambda: made.append(None))
    assert [clip.name for clip in found] == [clips.lines()[0].text.replace("{600}", " … ")]
    assert made == [None]
    assert speech.cache_dir() == tmp_path
