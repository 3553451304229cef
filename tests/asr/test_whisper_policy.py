"""Noise gives no text, a repeat is checked before it is believed, long turns go piece by piece."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from services.asr.base import SAMPLE_RATE, Samples, Transcript
from services.asr.turn_audio import TurnAudio
from services.asr.whisper_model import Hypothesis
from services.asr.whisper_policy import Piece, WhisperPolicy

from .fakes import FakeDecoder, always, noise, silence

ONCE = "播放周杰伦的晴天"


def transcribe(
    decoder: FakeDecoder,
    samples: Samples,
    *,
    final: bool = True,
    known: dict[tuple[int, int], Piece] | None = None,
    check: Callable[[], None] = lambda: None,
    simplify: Callable[[str], str] = str,
) -> Transcript:
    policy = WhisperPolicy(
        decoder=decoder, simplify=simplify, beam=5, window_s=10.0, min_log_prob=-1.0
    )
    audio = TurnAudio(limit_s=300)
    audio.append(samples)
    return policy.transcribe(
        audio.snapshot(),
        known={} if known is None else known,
        languages=("zh", "en"),
        final=final,
        check=check,
    )


def test_a_turn_is_recognised() -> None:
    decoder = FakeDecoder(always(" 你是什麼模型? ", -0.3))
    heard = transcribe(decoder, noise(2), simplify=lambda text: text.replace("麼", "么"))
    assert heard.text == "你是什么模型?"
    assert (heard.language, heard.final, heard.log_prob) == ("zh", True, -0.3)
    assert heard.audio_s == 2.0
    assert heard.compute_s > 0
    assert decoder.beams == [5]


def test_english_is_not_simplified() -> None:
    decoder = FakeDecoder(always(" Hello there."), language="en")
    heard = transcribe(decoder, noise(2), simplify=lambda _: pytest.fail("not Chinese"))
    assert (heard.text, heard.language) == ("Hello there.", "en")


@pytest.mark.parametrize("seconds, frames", [(1, 1000), (7, 1000), (9, 1200), (27, 3000)])
def test_windows(seconds: float, frames: int) -> None:
    decoder = FakeDecoder()
    transcribe(decoder, noise(seconds))
    assert [mel.shape for mel in decoder.mels] == [(80, frames)]


def test_frames_are_even() -> None:
    decoder = FakeDecoder()
    transcribe(decoder, noise(8.01))
    assert decoder.mels[0].shape == (80, 1102)


@pytest.mark.parametrize(
    "samples", [silence(2), noise(2, level=0.0003), noise(0.02), np.empty(0, dtype=np.float32)]
)
def test_what_holds_no_sound_is_not_decoded(samples: Samples) -> None:
    decoder = FakeDecoder()
    heard = transcribe(decoder, samples)
    assert (heard.text, heard.language, heard.log_prob) == ("", "", None)
    assert decoder.mels == []


@pytest.mark.parametrize(
    "text, log_prob, kept",
    [
        ("你好", -0.9, True),
        ("你好", -1.1, False),
        ("谢谢观看", -0.3, True),
        ("谢谢观看", -0.7, False),
        ("...", -0.1, False),
        ("", 0.0, False),
    ],
)
def test_guards(text: str, log_prob: float, kept: bool) -> None:
    heard = transcribe(FakeDecoder(always(text, log_prob)), noise(2))
    assert heard.text == (text if kept else "")
    assert bool(heard.language) is kept


def test_a_repeat_made_by_the_window_is_heard_again() -> None:
    said = [Hypothesis(ONCE * 2, -0.3), Hypothesis(ONCE, -0.4)]
    decoder = FakeDecoder(lambda n: said[n])
    heard = transcribe(decoder, noise(2))
    assert (heard.text, heard.log_prob) == (ONCE, -0.4)
    assert [mel.shape[1] for mel in decoder.mels] == [1000, 1600]


def test_a_repeat_of_the_speaker_is_kept() -> None:
    assert transcribe(FakeDecoder(always(ONCE * 2)), noise(4)).text == ONCE * 2


def test_a_repeat_faster_than_speech_is_cut() -> None:
    assert transcribe(FakeDecoder(always(ONCE * 9)), noise(2)).text == ONCE


def test_a_loop_is_bounded_by_the_length_of_the_audio() -> None:
    decoder = FakeDecoder()
    transcribe(decoder, noise(2))
    assert decoder.max_tokens == [46]


def long_turn() -> Samples:
    """40 s with a pause at 20 s."""
    samples = noise(40)
    samples[int(19.8 * SAMPLE_RATE) : int(20.2 * SAMPLE_RATE)] *= 0.001
    return samples


def test_a_long_turn_goes_piece_by_piece_and_pieces_are_remembered() -> None:
    decoder = FakeDecoder(lambda n: Hypothesis("一二三四"[n], -0.2))
    known: dict[tuple[int, int], Piece] = {}
    assert transcribe(decoder, long_turn()[: 35 * SAMPLE_RATE], known=known).text == "一二"
    heard = transcribe(decoder, long_turn(), known=known)
    assert heard.text == "一三"
    assert heard.audio_s == 40.0
    assert len(decoder.beams) == 3
    [(start, end)] = known
    assert start == 0
    assert 19.7 < end / SAMPLE_RATE < 20.3


def test_a_silent_piece_adds_nothing() -> None:
    decoder = FakeDecoder(lambda n: Hypothesis(("one", "", "two")[n], -0.2), language="en")
    samples = np.concatenate([long_turn(), silence(40)])
    assert transcribe(decoder, samples).text == "one"


def test_partials_are_greedy_but_not_in_pieces_that_are_complete() -> None:
    decoder = FakeDecoder()
    heard = transcribe(decoder, long_turn(), final=False)
    assert not heard.final
    assert decoder.beams == [5, 1]


@pytest.mark.parametrize("passes", [0, 1, 2])
def test_a_job_stops_at_its_next_step(passes: int) -> None:
    class Stop(Exception):
        pass

    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > passes:
            raise Stop

    decoder = FakeDecoder(always(ONCE * 2))
    with pytest.raises(Stop):
        transcribe(decoder, noise(2), check=check)
    assert (len(decoder.mels), len(decoder.beams)) == [(0, 0), (1, 0), (1, 1)][passes]
