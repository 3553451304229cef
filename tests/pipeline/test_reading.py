"""The clauses of an answer are one text for the voice, and no two answers are."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.pipeline.harness import NotingVoice, conversation
from tts_engine.engine import Reading, SpeechChunk


class NotedReading:
    """A reading that notes its clauses."""

    def __init__(self, voice: NotingVoice, clauses: list[str]) -> None:
        self._voice = voice
        self._clauses = clauses

    def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        self._clauses.append(text)
        return self._voice.synthesize(text, voice=voice, speed=speed, style=style)


async def test_each_answer_is_a_text_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[list[str]] = []

    def reading(voice: NotingVoice) -> Reading:
        texts.append([])
        return NotedReading(voice, texts[-1])

    monkeypatch.setattr(NotingVoice, "reading", reading)
    async with conversation() as talk:
        for count in (1, 2):
            await talk.microphone.say(1.0)
            await talk.sink.wait("end", count)
    said = [clauses for clauses in texts if clauses]
    assert len(said) == 2
    assert "".join(said[0]) == "我今天很好，谢谢你。"
