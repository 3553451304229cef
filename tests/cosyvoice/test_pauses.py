"""Long pauses are cut; everything else is spoken, and the language model does not notice."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.cosyvoice.conftest import Reference
from tests.cosyvoice.loop import Loop, as_wav, make_parts
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.pauses import LONGEST, SILENT, Pauses
from tts_engine.cosyvoice.wire import Audio, Done, Register, Speak

QUIET, LOUD = 28, 4000
HOP = 960  # samples of a token


def kept(tokens: list[int], silent: frozenset[int]) -> list[int]:
    pauses = Pauses(silent)
    return [token for token in tokens if pauses.spoken(token)]


@given(st.lists(st.sampled_from([QUIET, 2323, LOUD, 0]), max_size=60))
def test_what_is_left_of_a_pause(tokens: list[int]) -> None:
    silent = SILENT["cosyvoice3"]
    expected: list[int] = []
    for quiet, run in groupby(tokens, silent.__contains__):
        expected += list(run)[: LONGEST if quiet else None]
    assert kept(tokens, silent) == expected
    assert kept(tokens, SILENT["cosyvoice2"]) == tokens


def test_an_utterance_of_silence_is_short(
    model: CosyVoice, reference: Reference, tmp_path: Path
) -> None:
    parts = make_parts(model, tmp_path)
    wav = as_wav(reference, tmp_path / "reference.wav")
    parts.voices.take(Register(id=0, name="anna", text=reference.text, payload=wav))
    orders = [Speak(id=id, text="今天天气很好。", voice="anna", seed=7) for id in (1, 2)]
    spoken, silent = Loop(parts), Loop(parts)
    silent.replace(silent=frozenset(range(6561)))
    spoken.say(orders[0])
    silent.say(orders[1])
    ends = [spoken.end(1), silent.end(2)]
    assert all(isinstance(end, Done) for end in ends)
    assert ends[0].tokens == ends[1].tokens > 2 * LONGEST  # they were all decoded
    assert len(spoken.pcm(1)) > 0.8 * ends[0].tokens * HOP
    assert len(silent.pcm(2)) <= LONGEST * HOP
    marks = [mark for audio in silent.of(Audio, 2) for mark in audio.marks]
    assert marks[-1] == (len(silent.pcm(2)), len(orders[1].text))
