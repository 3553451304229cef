"""The loudspeaker plays without gaps what came in time, and nothing that was flushed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.talk.stereo import RATE, Playback, StereoRecording, check_writable, read_mono
from tts_engine.errors import BadAudio, BadRequest


def ones(count: int, value: int = 1) -> np.ndarray:
    return np.full(count, value, np.int16)


def test_audio_is_played_behind_what_still_plays() -> None:
    speaker = Playback()
    assert speaker.arrive(100, ones(50)) == 100
    assert speaker.arrive(110, ones(50)) == 150
    assert speaker.arrive(300, ones(10)) == 300  # it ran dry: a gap
    assert speaker.end == 310


def test_what_was_not_played_is_dropped() -> None:
    made = StereoRecording()
    made.heard.arrive(0, ones(50))
    made.heard.arrive(0, ones(50, 2))
    made.heard.arrive(0, ones(50, 3))
    made.heard.flush(60)
    assert made.heard.end == 60
    assert made.heard.arrive(80, ones(5, 9)) == 80
    assert made.right().tolist() == [1] * 50 + [2] * 10 + [0] * 20 + [9] * 5
    made.heard.flush(500)
    assert made.heard.end == 85


def test_the_file_holds_both_channels(tmp_path: Path) -> None:
    made = StereoRecording()
    made.sent = [ones(480), ones(480, 2)]
    made.heard.arrive(480, ones(960, 7))
    path = tmp_path / "talk.wav"
    made.write(path)
    both, rate = soundfile.read(path, dtype="int16")
    assert rate == RATE
    assert both[:, 0].tolist() == [1] * 480 + [2] * 480 + [0] * 480
    assert both[:, 1].tolist() == [0] * 480 + [7] * 960


def test_nothing_was_said_or_heard() -> None:
    made = StereoRecording()
    assert len(made.left()) == len(made.right()) == 0


def test_files_are_read_as_mono_at_our_rate(tmp_path: Path) -> None:
    path = tmp_path / "two.wav"
    tone = np.sin(np.arange(8000) * 2 * np.pi * 440 / 8000)
    soundfile.write(path, np.stack((tone, np.zeros(8000)), axis=1), 8000)
    samples = read_mono(path)
    assert samples.dtype == np.int16
    assert len(samples) == RATE
    assert np.abs(samples).max() == pytest.approx(16384, rel=0.05)


@pytest.mark.parametrize("content", [None, b"no sound", b""])
def test_what_is_no_sound(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadAudio, match="Cannot read"):
        read_mono(path)


def test_a_file_without_samples(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", np.zeros(0), 8000)
    with pytest.raises(BadAudio, match="holds no audio"):
        read_mono(tmp_path / "x.wav")


@pytest.mark.parametrize("name", ["talk.wav", "talk.flac", "TALK.WAV"])
def test_names_that_can_be_written(name: str, tmp_path: Path) -> None:
    check_writable(tmp_path / name)
    StereoRecording().write(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("talk", "unknown format"),
        ("talk.mp4", "unknown format"),
        ("gone/talk.wav", "no such folder"),
        ("a.wav", "no such folder"),
    ],
)
def test_names_that_cannot(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(BadRequest, match=why):
        check_writable(tmp_path / name)
