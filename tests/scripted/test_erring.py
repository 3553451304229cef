"""Invariant: what is got wrong is got wrong the same way every time, and only as often as asked."""

import asyncio

import numpy as np
import pytest

from services.scripted.asr import ScriptedAsr
from services.scripted.erring import ErringAsr, err
from services.scripted.spec import ScriptedTexts
from services.scripted.speech import synthetic_speech

LONG = "今天天气怎么样你能不能告诉我明天去上海的高铁几点出发" * 20


def test_the_same_text_has_the_same_errors():
    assert err(LONG, 0.1) == err(LONG, 0.1)
    assert err(LONG, 0.0) == LONG
    # one that goes on is written otherwise
    assert not err(LONG + "呢", 0.1).startswith(err(LONG, 0.1))


@pytest.mark.parametrize("text", [LONG, "how many days are there in a week " * 20])
def test_as_many_letters_are_wrong_as_were_asked_for(text):
    wrong = err(text, 0.1)
    # substitutions leave the others where they are until the first character too many or too few
    assert wrong != text
    kept = sum(a == b for a, b in zip(err(text, 0.02), text, strict=False))
    assert kept
    counts = [abs(len(err(text + str(at), 1.0)) - len(text)) for at in range(5)]
    assert max(counts) < len(text) / 3


def test_marks_and_spaces_are_never_wrong():
    assert err("，。 ！? ", 1.0) == "，。 ！? "
    assert all(char.isascii() for char in err("hello world", 1.0))


def voice(seconds):
    return synthetic_speech(seconds=seconds).astype(np.float32) / 32768


async def test_a_recogniser_errs_in_finals_and_partials():
    told = asyncio.Queue()
    inner = ScriptedAsr(texts=ScriptedTexts(transcripts=[LONG]), partial_every_s=0.2)
    engine = ErringAsr(inner, rate=0.3)
    assert engine.stats is inner.stats
    await engine.start()
    recogniser = engine.open(session="s", on_partial=told.put_nowait)
    recogniser.restrict(("zh",))
    recogniser.feed(voice(1.0))
    assert (await recogniser.finalise()).text == err(LONG, 0.3)
    async with asyncio.timeout(10):
        assert (await told.get()).text == err(LONG[:5], 0.3)
    recogniser.cancel()
    recogniser.reset()
    assert (await recogniser.finalise()).text == ""
    recogniser.close()
    await engine.close()


async def test_a_recogniser_without_partials_makes_none():
    inner = ScriptedAsr(texts=ScriptedTexts(transcripts=["好"]), partial_every_s=0.2)
    recogniser = ErringAsr(inner, rate=1.0).open(session="s")
    recogniser.feed(voice(1.0))
    assert (await recogniser.finalise()).text == err("好", 1.0)
