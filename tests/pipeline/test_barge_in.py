"""Invariants: sounds over an answer pause it; what is no turn costs the listener nothing and the
conversation knows nothing of it; what is a turn interrupts, and the context then holds what was
heard, however often that happens.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pipeline.turns.actions import Reason
from pipeline.turns.settings import TurnSettings
from services.face import PacingProfile, SessionOptions
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import char_times
from tests.pipeline.harness import Talk, conversation

CLAUSES = ("从前有一座山，", "山里有一座庙。")
REPLY = "".join(CLAUSES)
#: milliseconds of it
LENGTH_MS = 1000 * sum(char_times(clause)[-1] for clause in CLAUSES)
#: a client that cancels its echo, so that only words count
CLEAN = SessionOptions(echo_cancelled=True)


def texts(*said: str) -> ScriptedTexts:
    return ScriptedTexts(transcripts=["讲个故事", *said], replies=[REPLY])


async def story(talk: Talk, ms: float = 500) -> None:
    """Asks for one, and waits until so much of it was sent."""
    await talk.microphone.say(0.6)
    await talk.sink.wait_audio(1, ms)


def told(talk: Talk) -> list[Any]:
    """What the client was told of answers, in order."""
    names = ("begin", "pause", "resume", "flush", "end")
    return [call[0] for call in talk.sink.calls if call[0] in names]


# --- no turn ---------------------------------------------------------------------------------
async def test_a_cough_pauses_and_the_answer_goes_on_from_the_sample() -> None:
    async with conversation(texts=texts("", "谢谢"), options=CLEAN) as talk:
        await story(talk)
        await talk.microphone.say(0.3)
        await talk.sink.wait("resume")
        assert await talk.sink.wait("end") == (1, "answered", REPLY, None)
        assert told(talk) == ["begin", "pause", "resume", "end"]
        assert len(talk.sink.of("turn_opened")) == len(talk.sink.of("final")) == 1
        assert talk.books.dismissals == [(Reason.NOISE, "")]
        assert talk.context == [("user", "讲个故事"), ("assistant", REPLY)]
        # Not a sample was left out or sent twice: it is what the voice made.
        whole = await replayed()
        assert bytes(talk.sink.pcm[1]) == whole


async def test_nothing_is_sent_before_the_client_knows_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with conversation(texts=texts(""), options=CLEAN) as talk:
        sink, tell, sent = talk.sink, talk.sink.resume, list[int]()

        async def slowly(revision: int) -> None:
            sent.append(len(sink.pcm[1]))
            await asyncio.sleep(0.1)
            sent.append(len(sink.pcm[1]))
            await tell(revision)

        monkeypatch.setattr(sink, "resume", slowly)
        await story(talk)
        await talk.microphone.say(0.3)
        assert (await sink.wait("end"))[1] == "answered"
        assert sent[0] == sent[1] < len(sink.pcm[1])


async def replayed() -> bytes:
    """The answer as it is sent when nobody coughs."""
    async with conversation(texts=texts(), options=CLEAN) as talk:
        await talk.microphone.say(0.6)
        await talk.sink.wait("end")
        return bytes(talk.sink.pcm[1])


async def test_a_word_of_agreement_is_no_turn() -> None:
    async with conversation(texts=texts("嗯", "谢谢你啊朋友"), options=CLEAN) as talk:
        await story(talk)
        await talk.microphone.say(0.3)
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert talk.books.dismissals == [(Reason.BACKCHANNEL, "嗯")]
        assert talk.context == [("user", "讲个故事"), ("assistant", REPLY)]
        # Nothing of it is in the turn that follows.
        await talk.microphone.say(0.6)
        assert await talk.sink.wait("final", 2) == ("谢谢你啊朋友", "zh")


@pytest.mark.parametrize(
    ("heard", "reason"),
    [(("music", "laughter"), Reason.BACKCHANNEL), (("cough",), Reason.NOISE)],
)
async def test_who_laughs_wants_to_hear_on(heard: tuple[str, ...], reason: Reason) -> None:
    asr = {"events": {2: heard}}
    async with conversation(texts=texts(""), options=CLEAN, asr=asr) as talk:
        await story(talk)
        await talk.microphone.say(0.3)
        assert await talk.sink.wait("end") == (1, "answered", REPLY, None)
        assert told(talk) == ["begin", "pause", "resume", "end"]
        assert talk.books.dismissals == [(reason, "")]
        assert talk.context == [("user", "讲个故事"), ("assistant", REPLY)]


async def test_words_said_with_a_laugh_are_words() -> None:
    asr = {"events": {2: ("laughter",)}}
    async with conversation(texts=texts("那明天天气呢"), options=CLEAN, asr=asr) as talk:
        await story(talk)
        await talk.microphone.say(0.6)
        assert (await talk.sink.wait("end"))[1] == "interrupted"
        assert await talk.sink.wait("final", 2) == ("那明天天气呢", "zh")


async def test_the_answers_own_words_are_no_turn() -> None:
    async with conversation(texts=texts("从前有一")) as talk:
        await story(talk, 1000)
        await talk.microphone.say(0.3)
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert talk.books.dismissals == [(Reason.ECHO, "从前有一")]


async def test_who_cancels_its_echo_may_say_the_same_words() -> None:
    async with conversation(texts=texts("从前有一"), options=CLEAN) as talk:
        await story(talk, 1000)
        await talk.microphone.say(0.3)
        assert (await talk.sink.wait("end"))[1] == "interrupted"


async def test_sounds_that_cannot_be_recognised_are_no_turn() -> None:
    failing = {"fail_turns": {2: "engine_failed"}}
    async with conversation(texts=texts("停一下"), options=CLEAN, asr=failing) as talk:
        await story(talk)
        await talk.microphone.say(0.3)
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert talk.books.dismissals == [(Reason.FAILED, "")]
        assert [error.code for error in talk.books.errors] == ["engine_failed"]
        assert talk.sink.of("error") == []


async def test_an_answer_does_not_wait_for_a_slow_recogniser() -> None:
    async with conversation(
        texts=texts("嗯"), options=CLEAN, asr={"delay_s": 0.8}, turns=TurnSettings(speculate=False)
    ) as talk:
        await story(talk)
        await talk.microphone.say(0.3)
        await talk.sink.wait("resume")
        assert talk.books.dismissals == []  # the verdict is still to come
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert told(talk) == ["begin", "pause", "resume", "end"]


async def test_a_client_may_withdraw_what_it_sent_over_an_answer() -> None:
    async with conversation(texts=texts("停一下"), options=CLEAN, asr={"delay_s": 1.0}) as talk:
        await story(talk)
        await talk.microphone.say(0.3)
        await talk.sink.wait("pause")
        talk.session.clear()
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert talk.books.dismissals == [(Reason.WITHDRAWN, "")]


async def test_a_muted_microphone_is_silent() -> None:
    async with conversation(texts=texts("停一下"), options=CLEAN) as talk:
        await story(talk)
        talk.session.mute(True)
        await talk.microphone.say(0.6)
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert told(talk) == ["begin", "end"]
        talk.session.mute(False)
        await talk.microphone.say(0.6)
        assert await talk.sink.wait("final", 2) == ("停一下", "zh")


# --- a turn ----------------------------------------------------------------------------------
async def test_words_interrupt_and_are_answered() -> None:
    async with conversation(texts=texts("停一下"), options=CLEAN) as talk:
        await story(talk)
        await talk.microphone.say(0.3)
        _, outcome, heard, _ = await talk.sink.wait("end")
        assert outcome == "interrupted"
        assert REPLY.startswith(heard)
        assert await talk.sink.wait("final", 2) == ("停一下", "zh")
        await talk.sink.wait("begin", 2)
        order = [call[0] for call in talk.sink.calls]
        after = order[order.index("pause") :]
        # A turn is told before what it interrupts; nothing of it was told while it was in doubt.
        names = ["pause", "turn_opened", "flush", "end", "turn_report", "turn_ended", "final"]
        assert [name for name in after if name in names] == names
        # It began with the voice, not with the verdict.
        (began,), (ended,) = talk.sink.of("turn_opened")[1], talk.sink.of("turn_ended")[1]
        assert 450 <= ended - began <= 900


async def test_long_speech_needs_no_words() -> None:
    turns = TurnSettings(barge_in_ms=320)
    async with conversation(
        texts=texts("停一下"), options=CLEAN, turns=turns, asr={"delay_s": 1.0}
    ) as talk:
        await story(talk)
        await talk.microphone.say(0.8)
        await talk.sink.wait("flush")
        assert talk.sink.of("final") == [("讲个故事", "zh")]
        assert await talk.sink.wait("final", 2) == ("停一下", "zh")


async def test_clear_words_interrupt_before_they_end() -> None:
    said = ScriptedTexts(
        transcripts=["讲", "不要再讲这个故事了我想听别的"], replies=[REPLY], chars_per_second=20
    )
    async with conversation(
        texts=said,
        options=CLEAN,
        turns=TurnSettings(barge_in_ms=5000),
        asr={"partial_every_s": 0.2, "whole_text": False},
    ) as talk:
        await story(talk)
        before = len(talk.sink.of("partial"))
        speaking = asyncio.create_task(talk.microphone.say(1.0, paced=True))
        await talk.sink.wait("flush")
        assert not speaking.done()
        # The client is told of the text as soon as it knows of the turn.
        order = [call[0] for call in talk.sink.calls]
        await talk.sink.wait("partial", before + 1)
        assert "turn_opened" in order[order.index("pause") :]
        await speaking
        await talk.sink.wait("final", 2)


async def test_a_turn_that_comes_as_text_interrupts() -> None:
    async with conversation(texts=texts(), options=CLEAN) as talk:
        await story(talk)
        talk.session.say("小明小明")
        _, outcome, heard, _ = await talk.sink.wait("end")
        assert outcome == "interrupted"
        await talk.sink.wait("end", 2)
        assert talk.context == [
            ("user", "讲个故事"),
            *([("assistant", heard)] if heard else []),
            ("user", "小明小明"),
            ("assistant", REPLY),
        ]


# --- what was heard --------------------------------------------------------------------------
async def test_many_interruptions_in_a_row_leave_what_was_heard_of_each() -> None:
    async with conversation(texts=texts("停一下", "换一个", "再来一个"), options=CLEAN) as talk:
        await story(talk, 700)
        for answer in (1, 2, 3):
            await talk.microphone.say(0.3)
            await talk.sink.wait("end", answer)
            await talk.sink.wait_audio(answer + 1, 500 + 200 * answer)
        await talk.sink.wait("end", 4)
        ends = talk.sink.of("end")
        assert [end[1] for end in ends] == ["interrupted"] * 3 + ["answered"]
        expected: list[tuple[str, str]] = []
        for said, end in zip(["讲个故事", "停一下", "换一个", "再来一个"], ends, strict=True):
            expected += [("user", said), ("assistant", end[2])]
        assert talk.context == [message for message in expected if message[1]]
        # What was heard is what had been played, to the character; the client is told whole ms.
        for end, (_, heard_ms) in zip(ends, talk.sink.of("flush"), strict=False):
            assert end[2] in (spoken(heard_ms - 1), spoken(heard_ms + 1))
        for request, until in zip(talk.llm.script.requests, range(1, 9, 2), strict=False):
            shown = [(m["role"], m["content"]) for m in request.messages[1:]]
            assert shown == [message for message in expected[:until] if message[1]]


def spoken(ms: float) -> str:
    """What of the answer is spoken after so many milliseconds of it."""
    result, start = "", 0.0
    for clause in CLAUSES:
        ends = [start + 1000 * end for end in char_times(clause)]
        result += "".join(char for char, end in zip(clause, ends, strict=True) if end <= ms)
        start = ends[-1]
    return result


async def test_a_client_that_leaves_while_it_is_paused_has_heard_what_it_heard() -> None:
    async with conversation(
        texts=texts("停一下"),
        options=SessionOptions(echo_cancelled=True, pauses=True),
        profile=PacingProfile(lead_ms=400),
        turns=TurnSettings(resume_ms=5000),
    ) as talk:
        await story(talk, 1200)
        talk.asr.delay_s = 5.0
        await talk.microphone.say(0.3)
        await talk.sink.wait("pause")
        paused = len(talk.sink.pcm[1])
        await asyncio.sleep(0.5)
        assert len(talk.sink.pcm[1]) == paused
        talk.session.close()
        await talk.running
        [report] = talk.books.turns
        assert report.outcome == "interrupted"
        # It kept what had been sent ahead, and did not play it.
        assert report.answer in spoken(paused / 48 - 250)
        assert talk.context == [("user", "讲个故事"), ("assistant", report.answer)]
