"""The loop over the real classes with tiny random weights: together is as alone, in every mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.asr.base import Samples
from services.asr.funasr.assembly import assemble, make_loop, warm_up
from services.asr.funasr.second_pass import SecondPass
from services.asr.funasr.wire import Feed, Final, Finished, Mode, Partial, Report, Settings
from tests.asr.funasr.conftest import Sound
from tts_engine.errors import ConfigError, DuplexdError, ModelMissing
from tts_engine.frames import Failed

TinyDir = Callable[[Any], Path]


def settings(tiny_dir: TinyDir, mode: Mode, **options: Any) -> Settings:
    return Settings(
        mode=mode,
        streaming_dir=str(tiny_dir("paraformer-streaming")),
        offline_dir=str(tiny_dir("sensevoice")),
        punctuation_dir=str(tiny_dir("ct-punc")) if mode == "streaming" else "",
        streaming_device="cpu",
        offline_device="cpu",
        **{"segment_s": 3.0, **options},
    )


def recognised(chosen: Settings, turns: dict[int, Samples]) -> list[Report]:
    """What the loop tells of turns that are spoken at once, in pieces that are not of a size."""
    parts, limits = assemble(chosen)
    warm_up(parts, limits, chosen)
    told: list[Report] = []
    loop = make_loop(parts, limits, chosen, emit=told.append)
    for at in range(0, max(each.size for each in turns.values()), 7_001):
        for turn, samples in turns.items():
            if at < samples.size:
                block = samples[at : at + 7_001]
                loop.inbox.put(
                    Feed(turn=turn, at=at, came=0.0, partials=True, payload=block.tobytes())
                )
        loop.turn()
    for turn in turns:
        loop.inbox.put(Final(id=100 + turn, turn=turn, came=0.0, languages=["zh", "en"]))
    loop.inbox.put(Final(id=200, turn=1, came=0.0, languages=["zh", "en"]))
    while loop.turn() and loop.busy:
        pass
    assert not [each for each in told if isinstance(each, Failed)]
    return told


@pytest.mark.parametrize("mode", ["streaming+offline", "offline", "streaming"])
def test_together_is_as_alone(mode: Mode, tiny_dir: TinyDir, sound: Sound) -> None:
    turns = {number: sound(24_000 * number + 333, number) for number in (1, 2, 3)}
    chosen = settings(tiny_dir, mode, pieces=4)
    told = recognised(chosen, turns)
    finals = {each.id: each for each in told if isinstance(each, Finished)}
    assert sorted(finals) == [101, 102, 103, 200]
    assert finals[200].text == finals[101].text  # the same audio twice
    for turn, samples in turns.items():
        alone = recognised(chosen, {1: samples})
        [text, _] = [each.text for each in alone if isinstance(each, Finished)]
        assert text
        assert finals[100 + turn].text == text
        partials = [each for each in told if isinstance(each, Partial) and each.turn == turn]
        if mode == "offline":
            assert not partials
            continue
        assert [each.end % 9_600 for each in partials] == [0] * len(partials)
        expected = [(each.text, each.end) for each in alone if isinstance(each, Partial)]
        assert [(each.text, each.end) for each in partials] == expected


def test_a_final_is_what_the_offline_model_says(tiny_dir: TinyDir, tiny: Any, sound: Sound) -> None:
    samples = sound(40_000)
    told = recognised(settings(tiny_dir, "offline"), {1: samples})
    [expected] = SecondPass(tiny("sensevoice")).transcribe([samples], languages=[("zh", "en")])
    finished = next(each for each in told if isinstance(each, Finished))
    assert finished.text == expected.text
    assert finished.log_prob == pytest.approx(expected.log_prob)
    assert [text for text, _, _ in finished.words] == [word.text for word in expected.words]


def test_silence_needs_no_model(tiny_dir: TinyDir) -> None:
    told = recognised(settings(tiny_dir, "streaming"), {1: np.zeros(30_000, np.float32)})
    assert {each.text for each in told if isinstance(each, Finished)} == {""}


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"streaming_dir": "/nowhere"}, ModelMissing, "no directory /nowhere"),
        ({"offline_device": "teapot"}, ConfigError, "teapot"),
        ({"chunk_ms": 100}, ConfigError, "100 ms"),
    ],
)
def test_what_cannot_be_assembled(
    tiny_dir: TinyDir, options: dict[str, Any], kind: type[DuplexdError], told: str
) -> None:
    chosen = dataclasses.replace(settings(tiny_dir, "streaming+offline"), **options)
    with pytest.raises(kind, match=told):
        assemble(chosen)


def test_a_warm_up_that_fails_is_a_failure(
    tiny_dir: TinyDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no kernel")

    chosen = settings(tiny_dir, "offline")
    parts, limits = assemble(chosen)
    monkeypatch.setattr(SecondPass, "transcribe", fail)
    with pytest.raises(DuplexdError, match="second pass: RuntimeError: no kernel"):
        warm_up(parts, limits, chosen)
