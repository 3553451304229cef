"""Invariants: how a turn was said is told to the language model and to nobody else; every request
tells it of a turn in the same words, whether its answer was speculated or not.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pipeline.turns.settings import TurnSettings
from services.asr.base import OnPartial, Transcript
from services.face import SessionOptions
from services.scripted.asr import ScriptedRecogniser
from services.scripted.spec import ScriptedTexts
from tests.pipeline.harness import NotingAsr, Talk, conversation
from tests.pipeline.test_speculation import LATE, asked, over

MOODS = {"moods": {"zh": "（用户听上去很{emotion}。）", "en": "(The user sounds {emotion}.)"}}
SAID = ("我考上大学了", "And you?", "没什么", "好吧")
EMOTIONS = {1: "happy", 2: "surprised", 3: "neutral"}
#: what the model is to read of them
READ = (
    "我考上大学了\n（用户听上去很开心。）",
    "And you?\n（用户听上去很惊讶。）\n(Answer in English.)",
    "没什么",
    "好吧",
)
READING = SessionOptions(speak=False)


def users(request: Any) -> list[str]:
    return [each["content"] for each in request.messages if each["role"] == "user"]


def scripted(**options: Any) -> dict[str, Any]:
    texts = ScriptedTexts(transcripts=list(SAID), replies=["好。"])
    return {"texts": texts, "asr": {"emotions": EMOTIONS}, "options": READING, **options}


async def four_turns(talk: Talk) -> list[Any]:
    for turn in range(1, 5):
        await talk.microphone.say(0.5)
        await talk.sink.wait("end", turn)
    return [request.body for request in talk.llm.script.requests]


async def test_a_conversation_whose_model_knows_the_mood() -> None:
    async with conversation(**scripted(answers=MOODS)) as talk:
        bodies = await four_turns(talk)
        for turn, request in enumerate(talk.llm.script.requests, 1):
            assert users(request) == [*READ[:turn]]
        # What a request holds is what the last one held, and more: the server keeps its work.
        for earlier, later in pairwise(bodies):
            messages = earlier["messages"]
            assert later["messages"][: len(messages)] == messages
        assert all({*each} == {"role", "content"} for body in bodies for each in body["messages"])
        # The client, the context and the report have the words themselves.
        assert [text for text, _ in talk.sink.of("final")] == [*SAID]
        assert [text for role, text in talk.context if role == "user"] == [*SAID]
        assert [report.transcript for report in talk.books.turns] == [*SAID]


async def test_the_same_is_asked_with_and_without_speculation() -> None:
    async with conversation(**scripted(answers=MOODS)) as talk:
        speculated = await four_turns(talk)
        assert "kept" in talk.books.guesses
    turns = TurnSettings(speculate=False)
    async with conversation(**scripted(answers=MOODS, turns=turns)) as talk:
        assert await four_turns(talk) == speculated


async def test_without_a_sentence_for_it_nobody_is_told() -> None:
    async with conversation(**scripted()) as talk:
        bodies = await four_turns(talk)
        assert users(talk.llm.script.requests[0]) == [SAID[0]]
        assert "emotion" not in str(bodies)


async def test_a_prompt_of_the_clients_own_is_told_as_well() -> None:
    options = SessionOptions(speak=False, instructions="Be brief.")
    async with conversation(**scripted(answers=MOODS, options=options)) as talk:
        await talk.microphone.say(0.5)
        await talk.sink.wait("end")
        [request] = talk.llm.script.requests
        assert users(request) == [READ[0]]


async def test_what_is_written_has_no_mood() -> None:
    async with conversation(**scripted(answers=MOODS)) as talk:
        await talk.microphone.say(0.5)
        await talk.sink.wait("end")
        talk.session.say("真的吗", "zh")
        await talk.sink.wait("end", 2)
        assert users(talk.llm.script.requests[-1]) == [READ[0], "真的吗"]


class Wavering(NotingAsr):
    """Hears another emotion each time that it is asked."""

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> ScriptedRecogniser:
        handle = super().open(session=session, on_partial=on_partial)
        finalise = handle.finalise

        async def wavering() -> Transcript:
            self.emotions = {1: "sad" if self.fed_s else "happy"}
            return await finalise()

        handle.finalise = wavering  # type: ignore[method-assign]
        return handle


async def test_a_kept_answer_keeps_the_mood_that_it_was_asked_with() -> None:
    texts = ScriptedTexts(transcripts=["我考上大学了", "好吧"], replies=["好。"])
    async with conversation(
        texts=texts, answers=MOODS, turns=LATE, options=READING, recogniser=Wavering
    ) as talk:
        await talk.microphone.say(0.6)
        await over(await asked(talk))
        talk.microphone.click()  # the same words are recognised anew
        await talk.sink.wait("end")
        assert talk.books.guesses == ["kept"]
        assert len(talk.asr.fed_s) == 2
        await talk.microphone.say(0.6)
        await talk.sink.wait("end", 2)
        first, second = talk.llm.script.requests
        assert users(first) == [READ[0]]
        assert users(second)[0] == READ[0]
