"""Invariant: the true end of a recording is what was written down, else what the rule finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.bench.clips import clips_of, room
from pipeline.bench.recordings import read_clips
from pipeline.bench.speech import pauses
from pipeline.config import load_config
from services.scripted.speech import synthetic_speech
from tts_engine.errors import BadAudio, BadRequest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    said = synthetic_speech(seconds=1.5, pauses=[(0.5, 0.4)], lead_s=0.2, tail_s=0.6)
    soundfile.write(tmp_path / "b.wav", said, 16_000)
    soundfile.write(tmp_path / "a.flac", synthetic_speech(seconds=1.0, rate=24_000), 24_000)
    (tmp_path / "README.md").write_text("no recording")
    return tmp_path


def test_ends_by_the_energy_rule(folder: Path) -> None:
    first, second = read_clips(folder)
    assert (first.name, second.name, second.kind) == ("a.flac", "b.wav", "real")
    assert second.start == pytest.approx(0.2, abs=0.021)
    assert second.end == pytest.approx(1.7, abs=0.021)
    assert second.seconds == pytest.approx(1.5, abs=0.04)
    [(at, length)] = pauses(second)
    assert (at, length) == (pytest.approx(0.7, abs=0.021), pytest.approx(0.4, abs=0.03))
    assert second.text == ""


def test_ends_and_text_as_they_were_written_down(folder: Path) -> None:
    (folder / "b.json").write_text(json.dumps({"start_s": 0.1, "end_s": 1.5}))
    (folder / "b.txt").write_text("你好，世界。\n", encoding="utf-8")
    clip = read_clips(folder)[1]
    assert (clip.start, clip.end, clip.text) == (0.1, 1.5, "你好世界")
    assert clip.ends[-1] == 24_000
    assert [*clip.ends] == sorted(clip.ends)


@pytest.mark.parametrize(
    "told", ['{"end_s": 0.1, "start_s": 0.5}', '{"end_s": 99}', '{"ends": 1}', "{", "[]"]
)
def test_what_cannot_be_meant_is_refused(folder: Path, told: str) -> None:
    (folder / "b.json").write_text(told)
    with pytest.raises(BadRequest, match=r"b\.(json|wav)"):
        read_clips(folder)


def test_folders_without_speech_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no recording"):
        read_clips(tmp_path)
    with pytest.raises(BadRequest, match="Cannot read"):
        read_clips(tmp_path / "none")
    soundfile.write(tmp_path / "silent.wav", np.zeros(16_000, np.int16), 16_000)
    with pytest.raises(BadAudio, match="no sound"):
        read_clips(tmp_path)


def test_noise_lies_as_far_below_the_speech_as_was_asked(folder: Path) -> None:
    config = load_config(None)
    [clean] = clips_of(config, folder=folder, turns=1)
    [noisy] = clips_of(config, folder=folder, turns=1, snr_db=10.0)
    noise = noisy.samples.astype(float) - clean.samples
    power = 10 * np.log10(np.mean(clean.samples.astype(float) ** 2) / np.mean(noise**2))
    assert power == pytest.approx(10, abs=0.5)
    assert (noisy.start, noisy.end) == (clean.start, clean.end)
    assert room(None) is None
    between = room(10.0)
    assert between is not None
    level = 10 * np.log10(np.mean((between / 32768.0) ** 2))
    assert level == pytest.approx(-30, abs=0.5)
