"""Invariant: where test speech pauses and ends, and what was said by then, is known exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.bench import speech as module
from pipeline.bench.speech import SPEAKERS, Clip, Line, pauses, plain, synthesise
from pipeline.bench.texts import REPLIES, lines
from pipeline.config import load_config
from services.scripted.marks import MarkedSpeech
from services.scripted.reply import parse_reply

TEXT = "帮我订一张{600}明天去上海的高铁票。"
LINES = [Line(text=TEXT, kind="paused"), Line(text="打开灯。", speaker=SPEAKERS[3], kind="command")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("speech")


@pytest.fixture(scope="module")
def clips(folder: Path) -> list[Clip]:
    told: list[Line] = []
    made = synthesise(LINES, load_config(None), advance=told.append, folder=folder)
    assert told == LINES
    return made


@pytest.mark.models
def test_a_pause_is_as_long_as_it_was_written(clips: list[Clip]) -> None:
    [(at, length)] = pauses(clips[0])
    assert length == pytest.approx(0.6, abs=0.021)
    assert clips[0].start < at < clips[0].end - length
    assert pauses(clips[1]) == []


@pytest.mark.models
def test_at_the_pause_exactly_what_stands_before_it_was_said(clips: list[Clip]) -> None:
    paused = clips[0]
    [(at, length)] = pauses(paused)
    marked = paused.marked(1).samples.astype(np.float32) / 32768
    said = MarkedSpeech(lambda _: paused.text)
    middle = round((at + length / 2) * 16_000)
    said.feed(marked[:middle])
    assert said.text == "帮我订一张"
    said.feed(marked[middle:])
    assert said.text == paused.text == "帮我订一张明天去上海的高铁票"


@pytest.mark.models
def test_speech_has_the_level_of_all_speech_and_silence_around(clips: list[Clip]) -> None:
    for clip in clips:
        voiced = clip.samples[round(clip.start * 16_000) : round(clip.end * 16_000)]
        assert -24 < 10 * np.log10(np.mean((voiced / 32768.0) ** 2)) < -18
        assert clip.start == pytest.approx(0.05, abs=0.02)
        assert len(clip.samples) / 16_000 - clip.end == pytest.approx(0.1, abs=0.02)
        assert len(clip.ends) == len(clip.text)
        assert clip.ends[-1] <= clip.end * 16_000


@pytest.mark.models
def test_the_same_line_is_spoken_once(
    clips: list[Clip], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the voice was started")

    monkeypatch.setattr(module, "_engine", fail)
    told: list[Line] = []
    again = synthesise(LINES, load_config(None), advance=told.append, folder=folder)
    assert told == LINES
    assert np.array_equal(again[0].samples, clips[0].samples)


def test_recognisers_write_no_marks() -> None:
    assert plain("我想问一下，附近有火锅店吗？") == "我想问一下附近有火锅店吗"
    assert plain("What's up?") == "What's up"


def test_the_speech_of_the_bench_is_mixed_from_its_beginning() -> None:
    said = lines()
    assert len({line.text for line in said}) == len(said) >= 36
    assert {line.kind for line in said[:8]} >= {"command", "question", "paused"}
    assert len({line.speaker for line in said}) == len(SPEAKERS)
    lengths = [int(part.split("}")[0]) for line in said for part in line.text.split("{")[1:]]
    assert min(lengths) == 200
    assert max(lengths) == 1000
    assert all(parse_reply(reply) for reply in REPLIES)
