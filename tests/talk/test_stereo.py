"""The loudspeaker plays without gaps what came in time, and nothing that was flushed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from pipeline.talk.stereo import RATE, Playback, StereoRecording, check_writable, read_mono
from tts_engine.errors import BadAudio, BadRequest


def ones(count: int, value: int = 1) -> np.ndarray:
    return np.full(count, value, np.int16)


def test_audio_is_played_behind_what_still_plays() -> None:
    speaker = Playback()
    speaker.arrive(100, ones(50))
    speaker.arrive(110, ones(50))
    speaker.arrive(300, ones(10))
    assert [piece.start for piece in speaker.pieces] == [100, 150, 300]  # it ran dry: a gap
    assert speaker.end == 310


def test_what_was_not_played_is_dropped() -> None:
    made = StereoRecording()
    made.heard.arrive(0, ones(50))
    made.heard.arrive(0, ones(50, 2))
    made.heard.arrive(0, ones(50, 3))
    made.heard.flush(60)
    assert made.heard.end == 60
    made.heard.arrive(80, ones(5, 9))
    assert made.right().tolist() == [1] * 50 + [2] * 10 + [0] * 20 + [9] * 5
    made.heard.flush(500)
    assert made.heard.end == 85


def test_a_pause_is_silence_and_loses_no_sample() -> None:
    made = StereoRecording()
    made.heard.arrive(0, np.arange(1, 11, dtype=np.int16))
    made.heard.pause(4)
    made.heard.pause(5)  # told twice
    assert made.heard.end == 4
    made.heard.arrive(6, np.arange(11, 14, dtype=np.int16))  # was on its way
    assert made.right().tolist() == [1, 2, 3, 4]
    made.heard.resume(9)
    made.heard.resume(10)
    made.heard.arrive(11, np.arange(14, 16, dtype=np.int16))
    assert made.right().tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 0, *range(5, 16)]
    assert made.heard.end == 20


def test_an_interruption_ends_a_pause() -> None:
    made = StereoRecording()
    made.heard.arrive(0, ones(10))
    made.heard.pause(4)
    made.heard.arrive(5, ones(10, 2))
    made.heard.flush(6)
    made.heard.arrive(8, ones(3, 9))
    assert made.right().tolist() == [1] * 4 + [0] * 4 + [9] * 3


def test_everybodys_audio_is_told_apart() -> None:
    speaker = Playback()
    one, two = object(), object()
    speaker.arrive(0, ones(10), one)
    speaker.arrive(0, ones(10, 2), two)
    speaker.pause(15)
    assert [(piece.start, piece.end) for piece in speaker.of(two)] == [(10, 15)]
    speaker.resume(20)
    assert [(piece.start, piece.end) for piece in speaker.of(one)] == [(0, 10)]
    assert [(piece.start, piece.end) for piece in speaker.of(two)] == [(10, 15), (20, 25)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "pause", "resume", "flush"]),
        st.integers(0, 40),
        st.integers(1, 30),
    )
)


@given(STEPS)
def test_it_plays_what_a_sample_by_sample_loudspeaker_plays(
    steps: list[tuple[str, int, int]],
) -> None:
    """The model: a queue of samples, one of which is played at each position unless paused."""
    made = StereoRecording()
    queue: list[int] = []
    played: list[int] = []
    paused = False
    value = 0
    for what, wait, count in [*steps, ("resume", 0, 1), ("arrive", 0, 1)]:
        now = [] if paused else queue[:wait]
        played += [*now, *[0] * (wait - len(now))]
        queue = queue[len(now) :]
        match what:
            case "arrive":
                samples = np.arange(value, value + count) % 1000 + 1
                value += count
                queue += samples.tolist()
                made.heard.arrive(len(played), samples.astype(np.int16))
            case "pause":
                paused = True
                made.heard.pause(len(played))
            case "resume":
                paused = False
                made.heard.resume(len(played))
            case _:
                queue, paused = [], False
                made.heard.flush(len(played))
    played += queue
    assert made.right().tolist() == played
    assert made.heard.end == len(played)


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
    why = "No such file" if content is None else "Give a WAV or FLAC file"
    with pytest.raises(BadAudio, match="Cannot read") as caught:
        read_mono(path)
    assert why in caught.value.message + caught.value.mend


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
