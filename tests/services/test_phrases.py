"""Invariant: a fixed sentence sounds as it did the first time, and costs nothing more."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from services.scripted.tts import ScriptedVoice, VoiceFault
from services.tts.phrases import PhraseBook
from tts_engine.engine import SpeechChunk
from tts_engine.errors import EngineFailed
from tts_engine.text.stream import segment

GREETING = "我在，请说。"
[CLAUSE] = [clause.text for clause in segment(GREETING)]
OTHER = "今天天气不错。"


async def spoken(
    book: PhraseBook,
    voice: ScriptedVoice,
    text: str = CLAUSE,
    *,
    name: str | None = None,
    speed: float = 1.0,
    style: str = "",
) -> list[SpeechChunk]:
    chunks = book.synthesize(voice, voice.reading(), text, voice=name, speed=speed, style=style)
    return [chunk async for chunk in chunks]


async def test_it_is_synthesised_once() -> None:
    book, voice = PhraseBook([GREETING]), ScriptedVoice()
    first = await spoken(book, voice)
    assert len(first) > 1
    assert await spoken(book, voice) == first
    assert await spoken(book, voice, name=voice.voices[0]) == first  # the default by its name
    assert voice.stats.jobs == len(book) == 1


async def test_what_sounds_otherwise_is_another_one() -> None:
    book, voice = PhraseBook([GREETING]), ScriptedVoice()
    first = await spoken(book, voice)
    assert await spoken(book, voice, name=voice.voices[1]) != first
    assert await spoken(book, voice, speed=1.5) != first
    await spoken(book, voice, style="happily")
    assert voice.stats.jobs == len(book) == 4


async def test_what_is_not_fixed_is_never_kept() -> None:
    book, voice = PhraseBook([GREETING]), ScriptedVoice()
    await spoken(book, voice, OTHER)
    await spoken(book, voice, OTHER)
    assert (voice.stats.jobs, len(book)) == (2, 0)


async def test_one_that_was_interrupted_is_made_again() -> None:
    book, voice = PhraseBook([GREETING]), ScriptedVoice()
    chunks = book.synthesize(voice, voice, CLAUSE, voice=None, speed=1.0, style="")
    async with aclosing(chunks):
        await anext(chunks)
    assert voice.cancelled == 1
    assert len(book) == 0
    assert b"".join(chunk.pcm for chunk in await spoken(book, voice))
    assert len(book) == 1


async def test_one_that_failed_is_made_again() -> None:
    book, voice = PhraseBook([GREETING]), ScriptedVoice()
    voice.failures[1] = VoiceFault(after_chunks=1, kind="raise")
    with pytest.raises(EngineFailed):
        await spoken(book, voice)
    voice.failures[2] = VoiceFault(after_chunks=1, kind="empty")
    assert len(await spoken(book, voice)) == 1  # cut short without a word
    assert len(book) == 0
    assert len(await spoken(book, voice)) > 1


async def test_a_name_that_stands_for_another_voice() -> None:
    class Renamed(ScriptedVoice):
        """Its voices can be registered anew."""

        number = 1

        def identity(self, voice: str | None) -> str:
            return f"{super().identity(voice)} {self.number}"

    book, voice = PhraseBook([GREETING]), Renamed()
    await spoken(book, voice)
    voice.number = 2
    await spoken(book, voice)
    assert voice.stats.jobs == 2
    chunks = book.synthesize(voice, voice, CLAUSE, voice=None, speed=2.0, style="")
    await anext(chunks)
    voice.number = 3  # it is spoken to its end in the voice that was
    async for _ in chunks:
        pass
    await spoken(book, voice, speed=2.0)
    assert voice.stats.jobs == 4


async def test_the_oldest_goes_when_there_is_no_room() -> None:
    texts = [f"这是第{number}句。" for number in "一二三四"]
    one = sum(
        len(chunk.pcm) for chunk in await spoken(PhraseBook(texts), ScriptedVoice(), texts[0])
    )
    book, voice = PhraseBook(texts, most_bytes=3 * one), ScriptedVoice()
    for text in texts:
        await spoken(book, voice, text)
    assert len(book) < 4
    made = voice.stats.jobs
    await spoken(book, voice, texts[-1])
    assert voice.stats.jobs == made
    await spoken(book, voice, texts[0])
    assert voice.stats.jobs == made + 1


async def test_a_rehearsal_makes_all_of_them() -> None:
    long = "我先休息了，有事情的时候再叫我。明天见，晚安，做个好梦。"
    book, voice = PhraseBook([GREETING, long]), ScriptedVoice()
    await book.rehearse(voice, [GREETING, long], voice=None, speed=1.0, busy=lambda: False)
    clauses = [clause.text for text in (GREETING, long) for clause in segment(text)]
    assert voice.stats.jobs == len(book) == len(clauses) > 2
    for clause in clauses:
        await spoken(book, voice, clause)
    assert voice.stats.jobs == len(clauses)


async def test_a_rehearsal_gives_way() -> None:
    book, voice = PhraseBook([GREETING]), ScriptedVoice()
    await book.rehearse(voice, [GREETING], voice=None, speed=1.0, busy=lambda: True)
    assert voice.stats.jobs == 0
    voice.failures[1] = VoiceFault(after_chunks=0, kind="raise")
    await book.rehearse(voice, [GREETING], voice=None, speed=1.0, busy=lambda: False)
    assert len(book) == 0
