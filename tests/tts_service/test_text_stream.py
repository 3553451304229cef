"""An engine that speaks a text as one while it comes: texts in pieces, on WS /ws/tts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from services.scripted.tts import ScriptedVoice
from tests.tts_service.served import RATE, TEXT, Talk, seconds_of, served
from tts_engine.engine import Mark, SpeechChunk
from tts_engine.errors import EngineFailed, TimedOut


class StreamingVoice(ScriptedVoice):
    """A scripted voice that says a text piece by piece, and notes what each text was."""

    streams_text = True

    def __init__(self) -> None:
        super().__init__(first_chunk_s=0)
        self.texts: list[tuple[str, list[str]]] = []
        self.stops_after: int | None = None
        self.left = 0

    async def synthesize_pieces(
        self,
        texts: AsyncIterator[str],
        *,
        voice: str | None = None,
        speed: float = 1.0,
        style: str = "",
    ) -> AsyncGenerator[SpeechChunk, None]:
        given: list[str] = []
        self.texts.append((style, given))
        samples = chars = 0
        try:
            async for text in texts:
                given.append(text)
                if self.stops_after == len(given):
                    return
                async with aclosing(self.synthesize(text, voice=voice, speed=speed)) as chunks:
                    made = 0
                    async for chunk in chunks:
                        made += len(chunk.pcm) // 2
                        marks = [Mark(samples + m.sample, chars + m.chars) for m in chunk.marks]
                        yield SpeechChunk(pcm=chunk.pcm, marks=tuple(marks))
                samples, chars = samples + made, chars + len(text)
            yield SpeechChunk(pcm=bytes(200))  # a breath behind the last word
        finally:
            self.left += 1


async def written(talk: Talk, *pieces: str, **manner: object) -> list[dict[str, Any]]:
    """A text in pieces, whose first is heard before it is whole; the events up to its end."""
    await talk.say("start", **manner)
    await talk.say("text", text=pieces[0])
    events, _ = await talk.until("clause", "error")
    for piece in pieces[1:]:
        await talk.say("text", text=piece)
    if events[-1]["type"] == "clause":
        await talk.say("end")
        more, _ = await talk.until("error", "end")
        events += more
    return events


async def test_a_text_in_pieces_is_spoken_as_one() -> None:
    voice = StreamingVoice()
    async with served(voice) as at, at.talk() as talk:
        await talk.say("start")
        await talk.say("text", text="好的，今天天气很好。")
        events, _ = await talk.until("clause")
        assert events[-1]["text"] == "好的，今天天气很好。"
        await talk.say("text", text="我们走吧。再见！")
        await talk.say("end")
        events, _ = await talk.until("end")
        clauses = [each for each in events if each["type"] == "clause"]
        assert "".join(each["text"] for each in clauses) == "我们走吧。再见！"
        assert [each["number"] for each in clauses] == list(range(1, 1 + len(clauses)))
        assert sorted(each["at_ms"] for each in clauses) == [each["at_ms"] for each in clauses]
    [(style, given)] = voice.texts
    assert (style, "".join(given)) == ("", "好的，今天天气很好。我们走吧。再见！")


async def test_a_text_that_is_whole_is_spoken_clause_by_clause() -> None:
    voice = StreamingVoice()
    async with served(voice) as at, at.talk() as talk:
        await talk.say("speak", text=TEXT)
        _, audio = await talk.until("end")
        assert len(audio) / 2 / RATE == seconds_of(TEXT)
    assert voice.texts == []
    voice.streams_text = False
    async with served(voice) as at, at.talk() as talk:
        await written(talk, "你好。", TEXT)
    assert voice.texts == []


async def test_another_style_is_another_text() -> None:
    voice = StreamingVoice()
    async with served(voice) as at, at.talk() as talk:
        pieces = ("[开心]你好呀！很高兴见到你。", "[难过]再见了，朋友们。")
        events = await written(talk, *pieces, instruct="慢")
    styles = [style for style, _ in voice.texts]
    assert styles == ["开心", "难过"]
    numbers = [each["number"] for each in events if each["type"] == "clause"]
    assert numbers == list(range(len(numbers)))


async def test_a_voice_that_stops_in_the_middle_is_an_error() -> None:
    voice = StreamingVoice()
    voice.stops_after = 2
    async with served(voice) as at, at.talk() as talk:
        events = await written(talk, "你好。", "今天天气很好。", "再见。")
        assert events[-1]["type"] == "error"
        voice.stops_after = None
        events = await written(talk, "你好。", "再见。")
        assert events[-1]["type"] == "end"


@pytest.mark.parametrize("error", [TimedOut("你好。 is too much"), EngineFailed("你好。")])
async def test_its_failures_are_told_without_the_text(
    error: EngineFailed, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = StreamingVoice()

    async def fail(*_: object, **__: object) -> AsyncGenerator[SpeechChunk, None]:
        raise error
        yield

    async with served(voice) as at, at.talk() as talk:
        monkeypatch.setattr(voice, "synthesize", fail)
        events = await written(talk, "你好。")
        assert events[-1]["type"] == "error"
        assert "你好" not in str(events[-1]["error"])


async def test_one_that_is_cancelled_while_its_text_comes_leaves_the_voice() -> None:
    voice = StreamingVoice()
    async with served(voice) as at, at.talk() as talk:
        await talk.say("start", id="a")
        await talk.say("text", text="好的，今天天气很好。")
        await talk.until("clause")
        await talk.say("cancel", id="a")
        events, _ = await talk.until("cancelled", "error", "end")
        assert events[-1]["type"] == "cancelled"
        async with asyncio.timeout(60):
            while not voice.left:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        events = await written(talk, "再见。")
        assert events[-1]["type"] == "end"
