"""Invariants: every committed turn ends in exactly one of answered, interrupted, failed; the
context holds what was heard and nothing else; whatever fails, the next turn works; nothing is left
behind.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipecat.frames.frames import InputAudioRawFrame

from pipeline.ear import EarSettings
from pipeline.latency import PARTS
from pipeline.session import Session
from pipeline.turn_log import TurnLog
from pipeline.turns.settings import TurnSettings
from services.face import AnswerOptions, PacingProfile, SessionOptions
from services.scripted.asr import ScriptedRecogniser
from services.scripted.llm_script import LlmFault
from services.scripted.spec import ScriptedTexts
from services.scripted.speech import synthetic_speech
from services.scripted.tts import VoiceFault, char_times, detect_tone, tone_of
from tests.pipeline.harness import conversation
from tts_engine.errors import BadRequest, UnknownVoice

FIRST, SECOND = "我今天很好，", "谢谢你。"
LONG = ScriptedTexts(
    transcripts=["讲个故事", "停一下", "继续"],
    replies=["从前有一座山，山里有一座庙。庙里有一个老和尚，在给小和尚讲故事。"],
)


def assert_tone(pcm: bytes, expected: float, *, rate: int = 24_000) -> None:
    """The tone, as closely as so short a sound shows it; tones lie 10 Hz apart."""
    assert detect_tone(pcm, rate) == pytest.approx(expected, abs=4)


async def test_a_turn_is_heard_answered_and_remembered() -> None:
    async with conversation() as talk:
        await talk.microphone.say(1.0)
        revision, outcome, heard, error = await talk.sink.wait("end")
        await talk.sink.wait("turn_report")
        assert (revision, outcome, heard, error) == (1, "answered", "我今天很好，谢谢你。", None)
        assert talk.context == [("user", "你好吗？"), ("assistant", "我今天很好，谢谢你。")]
        order = [call[0] for call in talk.sink.calls]
        assert order == [
            "turn_opened", "turn_ended", "final", "begin", "text", "text", "end", "turn_report",
        ]  # fmt: skip
        assert talk.sink.of("final") == [("你好吗？", "zh")]
        assert "".join(text for _, text in talk.sink.of("text")) == "我今天很好，谢谢你。"
        [request] = talk.llm.script.requests
        assert request.body["messages"] == [
            {"role": "system", "content": "请用中文回答。"},
            {"role": "user", "content": "你好吗？"},
        ]
        # The sound is that of the clauses, whole and in order.
        seconds = char_times(FIRST)[-1] + char_times(SECOND)[-1]
        assert len(talk.sink.pcm[1]) == pytest.approx(seconds * 48_000, abs=4)
        assert detect_tone(bytes(talk.sink.pcm[1][:9600])) == pytest.approx(tone_of(FIRST), abs=4)


async def test_the_report_sums_and_counts_every_part() -> None:
    async with conversation(
        turns=TurnSettings(speculate=False),
        asr={"delay_s": 0.3},
        llm={"first_token_s": 0.1, "tokens_per_s": 50},
        voice={"first_chunk_s": 0.1, "leading_silence_s": 0.05},
    ) as talk:
        await talk.microphone.say(1.0, paced=True)
        (shown,) = await talk.sink.wait("turn_report")
        parts = shown["parts_ms"]
        assert list(parts) == [part for part in PARTS if part != "frame_in"]
        assert sum(parts.values()) == pytest.approx(shown["v2v_server_ms"], abs=1)
        # Timers are honest about the least they take; the most is the machine's affair.
        assert 400 <= parts["endpoint_wait"] + parts["vad_lag"] <= 700
        assert parts["asr_final"] == 0  # the text decided when the turn was over
        assert 98 <= parts["llm_first_token"] <= 300
        assert 98 <= parts["tts_first_chunk"] <= 300
        assert parts["leading_silence"] == pytest.approx(50, abs=11)
        assert shown["work_ms"]["asr_decode"] == pytest.approx(300)
        stamps = shown["stamps"]
        assert stamps["vad"] <= stamps["asked"] <= stamps["final"] - 0.298
        assert "speculated" not in stamps
        assert [report.outcome for report in talk.books.turns] == ["answered"]


async def test_voice_interrupts_and_the_context_holds_what_was_heard() -> None:
    async with conversation(texts=LONG) as talk:
        await talk.microphone.say(0.8)
        await talk.sink.wait_audio(1, 1500)
        await talk.microphone.say(0.8)
        revision, outcome, heard, _ = await talk.sink.wait("end")
        assert (revision, outcome) == (1, "interrupted")
        assert heard
        assert LONG.replies[0].startswith(heard)
        ((_, heard_ms),) = talk.sink.of("flush")
        # The text is cut where the sound was: a character more would not have been spoken.
        ends = [end * 1000 for end in char_times("从前有一座山，")]
        offset = ends[-1]
        ends += [offset + end * 1000 for end in char_times("山里有一座庙。")]
        assert len(heard) == pytest.approx(sum(1 for end in ends if end <= heard_ms), abs=1)
        # What had been sent is at most the lead ahead of what was heard.
        sent_ms = len(talk.sink.pcm[1]) / 48
        assert heard_ms <= sent_ms <= heard_ms + 240
        assert await talk.sink.wait("final", 2) == ("停一下", "zh")
        assert (await talk.sink.wait("end", 2))[1] == "answered"
        assert talk.context == [
            ("user", "讲个故事"),
            ("assistant", heard),
            ("user", "停一下"),
            ("assistant", LONG.replies[0]),
        ]
        assert talk.llm.script.requests[1].body["messages"][2]["content"] == heard
        order = [call[0] for call in talk.sink.calls]
        assert (
            order.index("flush") < order.index("end") < len(order) - 1 - order[::-1].index("begin")
        )


async def test_interrupting_while_the_llm_still_writes_closes_its_request() -> None:
    async with conversation(texts=LONG, llm={"tokens_per_s": 4}) as talk:
        await talk.microphone.say(0.8)
        await talk.sink.wait_audio(1, 300)
        await talk.microphone.say(0.8)
        await talk.sink.wait("end")
        assert talk.llm.script.requests[0].cancelled
        assert (await talk.sink.wait("final", 2))[0] == "停一下"


async def test_voice_before_the_first_sound_withdraws_the_answer() -> None:
    async with conversation(texts=LONG, llm={"first_token_s": 1.5}) as talk:
        await talk.microphone.say(0.6)
        await talk.sink.wait("begin")
        await talk.microphone.say(0.6)
        assert await talk.sink.wait("end") == (1, "interrupted", "", None)
        await talk.sink.wait("end", 2)
        # Both messages stand, and are merged for the request: some chat templates insist.
        assert talk.llm.script.requests[-1].body["messages"][1:] == [
            {"role": "user", "content": "讲个故事\n停一下"}
        ]


async def test_a_pause_shorter_than_the_recogniser_is_not_a_cut() -> None:
    async with conversation(asr={"delay_s": 0.5}) as talk:
        await talk.microphone.say(1.6, pauses=((0.6, 0.35),), paced=True)
        await talk.sink.wait("end")
        assert len(talk.sink.of("turn_opened")) == 1
        assert len(talk.sink.of("final")) == 1


async def test_a_user_who_goes_on_after_the_ceiling_and_before_the_text_keeps_the_turn() -> None:
    turns = TurnSettings(ceiling_ms=200)
    async with conversation(asr={"delay_s": 0.5}, turns=turns) as talk:
        talk.microphone.open = False
        speech = synthetic_speech(seconds=0.6, tail_s=0.3)
        for _ in range(2):
            talk.session.audio(speech.tobytes(), arrived=time.monotonic())
        await talk.sink.wait("end")
        assert len(talk.sink.of("turn_opened")) == len(talk.sink.of("final")) == 1
        assert talk.asr.voiced_s[-1] == pytest.approx(1.2, abs=0.04)


async def test_noise_is_heard_and_not_answered() -> None:
    texts = ScriptedTexts(transcripts=[""], replies=["不该听到。"])
    async with conversation(texts=texts) as talk:
        await talk.microphone.say(0.5)
        assert await talk.sink.wait("final") == ("", "")
        await talk.settle()
        assert talk.context == []
        assert talk.sink.of("begin") == []


@pytest.mark.parametrize(
    "fault",
    [
        LlmFault(kind="unreachable"),
        LlmFault(kind="http_500"),
        LlmFault(kind="http_429"),
        LlmFault(kind="empty"),
        LlmFault(kind="garbage", after_tokens=0),
    ],
    ids=lambda fault: fault.kind,
)
async def test_a_failing_llm_is_spoken_of_and_the_next_turn_works(fault: LlmFault) -> None:
    async with conversation() as talk:
        talk.llm.script.fault = fault
        await talk.microphone.say(0.6)
        revision, outcome, heard, error = await talk.sink.wait("end")
        assert (revision, outcome, heard) == (1, "failed", "")
        assert error is not None
        assert str(error)
        assert detect_tone(bytes(talk.sink.pcm[1][:4800])) == pytest.approx(
            tone_of("抱歉。"), abs=4
        )
        assert [e.code for e in talk.books.errors] == [error.code]
        assert talk.context == [("user", "你好吗？")]
        talk.llm.script.fault = None
        await talk.microphone.say(0.6)
        assert (await talk.sink.wait("end", 2))[1] == "answered"


async def test_an_llm_that_dies_in_the_middle() -> None:
    fault = LlmFault(kind="dies", after_tokens=12)
    async with conversation(texts=LONG, llm={"failures": {1: fault}}) as talk:
        await talk.microphone.say(0.6)
        _, outcome, heard, error = await talk.sink.wait("end")
        assert outcome == "failed"
        assert error is not None
        # What there was of it was spoken, and stays.
        assert heard
        assert LONG.replies[0].startswith(heard)
        assert talk.context[1] == ("assistant", heard)


async def test_an_llm_that_is_too_slow() -> None:
    async with conversation(
        llm={"first_token_s": 30.0}, answers={"first_token_timeout_s": 0.3}
    ) as talk:
        await talk.microphone.say(0.6)
        _, outcome, _, error = await talk.sink.wait("end")
        assert (outcome, error.code) == ("failed", "timed_out")
        assert talk.llm.script.requests[0].cancelled


async def test_an_llm_that_stalls_between_tokens() -> None:
    async with conversation(
        texts=LONG, llm={"tokens_per_s": 0.2}, answers={"idle_timeout_s": 0.4}
    ) as talk:
        await talk.microphone.say(0.6)
        _, outcome, _, error = await talk.sink.wait("end")
        assert (outcome, error.code) == ("failed", "timed_out")


@pytest.mark.parametrize("kind", ["raise", "hang"])
async def test_a_failing_voice_is_shown_and_the_next_turn_works(kind: str) -> None:
    async with conversation(
        voice={"failures": {1: VoiceFault(kind=kind), 2: VoiceFault(kind=kind)}},
        clause_timeout_s=0.3,
    ) as talk:
        await talk.microphone.say(0.6)
        _, outcome, heard, error = await talk.sink.wait("end")
        assert (outcome, heard) == ("failed", "")
        assert error is not None
        await talk.microphone.say(0.6)
        assert (await talk.sink.wait("end", 2))[1] == "answered"


@pytest.mark.parametrize("code", ["engine_failed", "timed_out", "at_capacity"])
async def test_a_failing_recogniser_is_shown_and_the_next_turn_works(code: str) -> None:
    async with conversation(asr={"fail_turns": {1: code}}) as talk:
        await talk.microphone.say(0.6)
        (error,) = await talk.sink.wait("error")
        assert error.code == code
        assert await talk.sink.wait("end") == (1, "failed", "", error)
        assert_tone(bytes(talk.sink.pcm[1][:4800]), tone_of("没听清。"))
        assert talk.context == []
        await talk.microphone.say(0.6)
        assert (await talk.sink.wait("end", 2))[1] == "answered"


async def test_a_client_that_stops_sending_ends_its_turn() -> None:
    async with conversation(ear=EarSettings(starvation_ms=200)) as talk:
        await talk.microphone.say(0.8, paced=True)
        talk.microphone.open = False
        assert (await talk.sink.wait("end"))[1] == "answered"


async def test_manual_turns_wait_for_the_client() -> None:
    options = SessionOptions(server_turns=False)
    async with conversation(options=options) as talk:
        await talk.microphone.say(0.6, pauses=())
        await asyncio.sleep(0.5)  # longer than any endpoint: nothing may happen
        assert talk.sink.calls == []
        talk.session.commit()
        assert await talk.sink.wait("final") == ("你好吗？", "zh")
        await talk.settle()
        assert talk.context == [("user", "你好吗？")]
        talk.session.respond(AnswerOptions(instructions="用英文"))
        assert (await talk.sink.wait("end"))[1] == "answered"
        assert talk.llm.script.requests[0].body["messages"][0]["content"] == "用英文"
        await talk.microphone.say(0.4)
        talk.session.clear()
        talk.session.commit()
        await talk.sink.wait("final", 1)


async def test_text_is_answered_like_speech() -> None:
    async with conversation() as talk:
        talk.write("你是谁？")
        talk.session.respond()
        assert (await talk.sink.wait("end"))[:2] == (1, "answered")
        talk.session.respond()
        await talk.sink.wait("begin", 2)
        talk.session.respond()
        assert (await talk.sink.wait("end", 2))[1] == "interrupted"
        assert (await talk.sink.wait("end", 3))[1] == "answered"


async def test_cancel_stops_and_keeps_what_was_heard() -> None:
    async with conversation(texts=LONG) as talk:
        talk.write("讲")
        talk.session.respond()
        await talk.sink.wait_audio(1, 900)
        talk.session.cancel()
        _, outcome, heard, _ = await talk.sink.wait("end")
        assert outcome == "interrupted"
        assert talk.context == [("user", "讲"), ("assistant", heard)]
        talk.session.cancel()  # nothing to cancel


async def test_the_clients_own_report_wins() -> None:
    async with conversation(texts=LONG) as talk:
        talk.write("讲")
        talk.session.respond()
        await talk.sink.wait_audio(1, 1500)
        times = char_times("从前有一座山，")
        talk.session.heard_until(1, round(times[2] * 1000) + 1)
        await talk.sink.wait("end")
        await talk.settle()
        assert talk.context == [("user", "讲"), ("assistant", "从前有")]
        talk.session.heard_until(1, 0)
        talk.session.heard_until(77, 100)
        await talk.settle()
        assert talk.context == [("user", "讲")]


async def test_synthesis_stays_near_the_play_head() -> None:
    sentence = "这是一个很长的句子一直说下去。"
    texts = ScriptedTexts(transcripts=["说"], replies=[sentence * 8])
    async with conversation(texts=texts, ahead_s=1.0) as talk:
        talk.write("说")
        talk.session.respond()
        await talk.sink.wait_audio(1, 1000)
        seconds = char_times(sentence)[-1]
        # A chunk more than what lies ahead; the other clauses were not even begun.
        made = sum(len(clause.text) for clause in talk.voice.spoken) / len(sentence) * seconds
        assert made <= 1.5 + 1.0 + 2 * seconds
        assert len(talk.voice.spoken) <= 3


async def test_pacing_is_even_and_another_rate_is_resampled() -> None:
    profile = PacingProfile(sample_rate=16_000, frame_ms=60, lead_ms=120)
    async with conversation(profile=profile) as talk:
        talk.write("说")
        talk.session.respond()
        await talk.sink.wait("end")
        seconds = char_times(FIRST)[-1] + char_times(SECOND)[-1]
        assert len(talk.sink.pcm[1]) / 32_000 == pytest.approx(seconds, abs=0.01)
        assert detect_tone(bytes(talk.sink.pcm[1][3200:12800]), 16_000) == pytest.approx(
            tone_of(FIRST), abs=4
        )
        at = np.array(talk.sink.sent_at[1])
        due = at[0] + np.maximum(0, np.arange(len(at)) * 0.06 - 0.12)
        assert np.all(at - due > -0.002)
        assert np.percentile(at - due, 90) < 0.05


async def test_a_client_that_is_gone_ends_the_conversation() -> None:
    async with conversation() as talk:
        talk.write("说")
        talk.sink.gone = True
        talk.session.respond()
        async with asyncio.timeout(10):
            await talk.running
        assert [report.outcome for report in talk.books.turns] == ["interrupted"]


async def test_leaving_in_the_middle_keeps_what_was_heard() -> None:
    async with conversation(texts=LONG) as talk:
        talk.write("讲")
        talk.session.respond()
        await talk.sink.wait_audio(1, 1200)
        talk.session.close()
        talk.session.close()
        async with asyncio.timeout(10):
            await talk.running
        (_, first), (role, heard) = talk.context
        assert (first, role) == ("讲", "assistant")
        assert heard
        assert LONG.replies[0].startswith(heard)


class LastLog(TurnLog):
    """What a conversation that ends waits for: meanwhile somebody closes it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.session: Session
        self.begun: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        before = asyncio.all_tasks()
        self.session.close()
        self.begun = asyncio.all_tasks() - before
        await super().close()


async def test_closing_what_has_ended_by_itself_begins_nothing(tmp_path: Path) -> None:
    log = LastLog(tmp_path / "log.jsonl")
    async with conversation(log=log) as talk:
        log.session = talk.session
        await talk.session._worker.cancel()
        async with asyncio.timeout(10):
            await talk.running
    assert log.begun == set()


async def test_a_fault_in_the_face_does_not_end_the_conversation() -> None:
    async with conversation() as talk:
        talk.sink.fail_on = "turn_opened"
        await talk.microphone.say(0.6)
        assert (await talk.sink.wait("end"))[1] == "answered"


async def test_options_change_between_turns() -> None:
    async with conversation() as talk:
        talk.session.update(
            SessionOptions(
                instructions="只说英文", voice="two", speed=1.5, temperature=0.0, max_tokens=9
            )
        )
        await talk.microphone.say(0.6)
        await talk.sink.wait("end")
        body = talk.llm.script.requests[0].body
        assert body["messages"][0]["content"] == "只说英文"
        assert (body["temperature"], body["max_tokens"]) == (0.0, 9)
        assert detect_tone(bytes(talk.sink.pcm[1][:4800])) == pytest.approx(
            tone_of(FIRST, voice="two"), abs=4
        )
        with pytest.raises(UnknownVoice, match="nobody"):
            talk.session.update(SessionOptions(voice="nobody"))
        with pytest.raises(BadRequest, match="speed"):
            talk.session.update(SessionOptions(speed=9.0))
        with pytest.raises(BadRequest, match="silence"):
            talk.session.update(SessionOptions(floor_ms=-1))


async def test_the_recogniser_gets_the_hotwords_of_the_conversation() -> None:
    async with conversation(options=SessionOptions(hotwords=("小智",))) as talk:
        recogniser = talk.session.ear.recogniser
        assert isinstance(recogniser, ScriptedRecogniser)
        await talk.microphone.say(0.6)
        assert recogniser.hotwords == ("小智",)
        talk.session.update(SessionOptions(hotwords=("滨海", "Dux")))
        await talk.listened()
        assert recogniser.hotwords == ("滨海", "Dux")


async def test_partials_reach_the_face() -> None:
    async with conversation(asr={"partial_every_s": 0.3}) as talk:
        await talk.microphone.say(1.0, paced=True)
        (text,) = await talk.sink.wait("partial")
        assert "你好吗？".startswith(text)


async def test_an_uninterruptible_answer_is_played_to_its_end() -> None:
    async with conversation(turns=TurnSettings(interruptible=False)) as talk:
        talk.write("说")
        talk.session.respond()
        await talk.sink.wait_audio(1, 200)
        await talk.microphone.say(0.5)
        assert (await talk.sink.wait("end"))[1] == "answered"


async def test_an_answer_to_be_read_is_not_spoken() -> None:
    async with conversation(options=SessionOptions(speak=False)) as talk:
        talk.write("说")
        talk.session.respond()
        assert await talk.sink.wait("end") == (1, "answered", FIRST + SECOND, None)
        assert talk.sink.pcm == {}
        assert talk.voice.spoken == []
        assert talk.context[-1] == ("assistant", FIRST + SECOND)


async def test_text_that_nobody_speaks_stays_in_the_answer() -> None:
    reply = "好的，代码如下。\n```python\nprint(1)\n```\n"
    async with conversation(texts=ScriptedTexts(replies=[reply])) as talk:
        talk.write("写代码")
        talk.session.respond()
        assert (await talk.sink.wait("end"))[2] == reply
        assert "".join(text for _, text in talk.sink.of("text")) == reply
        assert talk.context[-1] == ("assistant", reply.rstrip())


async def test_another_language_does_not_change_what_the_server_has_read() -> None:
    texts = ScriptedTexts(transcripts=["你好吗？", "And you?", "谁呢"], replies=["好。"])
    async with conversation(texts=texts) as talk:
        for turn in (1, 2, 3):
            await talk.microphone.say(0.5)
            await talk.sink.wait("end", turn)
        requests = [request.body["messages"] for request in talk.llm.script.requests]
        assert requests[2] == [
            {"role": "system", "content": "请用中文回答。"},
            {"role": "user", "content": "你好吗？"},
            {"role": "assistant", "content": "好。"},
            {"role": "user", "content": "And you?\n(Answer in English.)"},
            {"role": "assistant", "content": "好。"},
            {"role": "user", "content": "谁呢"},
        ]
        assert requests[1] == requests[2][:4]


async def test_audio_frames_of_a_stock_transport_are_heard_too() -> None:
    async with conversation() as talk:
        samples = synthetic_speech(seconds=0.6, tail_s=0.3)
        frame = InputAudioRawFrame(samples.tobytes(), 16_000, 1)
        await talk.session.ear.queue_frame(frame)
        assert (await talk.sink.wait("end"))[1] == "answered"


async def test_a_commit_covers_all_audio_that_came_before_it() -> None:
    options = SessionOptions(server_turns=False)
    async with conversation(options=options, asr={"delay_s": 0.2}) as talk:
        talk.microphone.open = False
        speech = synthetic_speech(seconds=0.61)  # not a whole number of windows
        talk.session.audio(speech.tobytes(), arrived=time.monotonic())
        talk.session.commit()
        talk.session.respond()
        # What comes while the text is awaited belongs to the next turn, commands included.
        talk.session.audio(speech.tobytes(), arrived=time.monotonic())
        talk.session.commit()
        talk.session.audio(speech.tobytes(), arrived=time.monotonic())
        talk.session.clear()
        talk.session.respond()
        assert await talk.sink.wait("final", 2) == ("再说一遍", "zh")
        await talk.sink.wait("end", 2)
        assert talk.sink.of("final") == [("你好吗？", "zh"), ("再说一遍", "zh")]
        assert [role for role, _ in talk.context].count("user") == 2
        assert talk.asr.fed_s == [pytest.approx(0.61, abs=0.032)] * 2


async def test_a_turn_that_lasts_too_long_ends_though_the_user_speaks() -> None:
    turns = TurnSettings(max_turn_ms=800)
    async with conversation(turns=turns, asr={"delay_s": 0.3}) as talk:
        await talk.microphone.say(2.5)
        await talk.sink.wait("final", 2)
        assert len(talk.sink.of("turn_opened")) >= 2


async def test_the_first_words_of_the_next_turn_are_not_lost() -> None:
    turns = TurnSettings(ceiling_ms=200)  # the turn is decided before its text is there
    async with conversation(asr={"delay_s": 0.1}, turns=turns) as talk:
        talk.microphone.open = False
        first = synthetic_speech(seconds=0.6, tail_s=0.25)
        second = synthetic_speech(seconds=0.6, tail_s=0.3)
        talk.session.audio(first.tobytes(), arrived=time.monotonic())
        await talk.sink.wait("turn_opened")
        # Two windows of voice, too few for an onset, come before the text of the first turn.
        talk.session.audio(second[:1024].tobytes(), arrived=time.monotonic())
        await talk.sink.wait("final")
        talk.session.audio(second[1024:].tobytes(), arrived=time.monotonic())
        await talk.sink.wait("final", 2)
        assert talk.asr.voiced_s[1] == pytest.approx(0.6, abs=0.04)


async def test_the_end_of_speech_is_found_however_long_the_silence_was() -> None:
    turns = TurnSettings(floor_ms=2400, ceiling_ms=2400)
    async with conversation(turns=turns) as talk:
        talk.microphone.open = False
        speech = synthetic_speech(seconds=0.6, tail_s=0.2)
        spoken_at = time.monotonic()
        talk.session.audio(speech.tobytes(), arrived=spoken_at)
        await talk.settle()  # the text is asked for
        silence = np.zeros(16_000 * 3, np.int16)
        talk.session.audio(silence.tobytes(), arrived=time.monotonic())
        await talk.sink.wait("end")
        [report] = talk.books.turns
        assert report.stamps["received"] == spoken_at


async def test_a_turn_of_silence_alone_has_no_end_of_speech() -> None:
    async with conversation(options=SessionOptions(server_turns=False)) as talk:
        talk.microphone.open = False
        talk.session.audio(bytes(2 * 16_000 * 2), arrived=time.monotonic())
        talk.session.commit()
        assert await talk.sink.wait("final") == ("", "")
