"""Invariants: session.created comes first; what a client sends reaches its conversation, and the
other way round; bad input is answered and counted; nothing sent in haste is lost.
"""

from __future__ import annotations

import asyncio
import base64
import time

import numpy as np
import pytest

from services.face import AnswerOptions, Ending, SessionOptions, Usage
from services.items import FunctionCall, Message
from services.pace import Pace
from services.realtime import connection
from services.realtime.messages import MAX_AUDIO_MESSAGE, MAX_MESSAGE
from tests.realtime.client import nothing_left, talking
from tests.realtime.fakes import Face
from tests.realtime.wired import FRAME
from tts_engine.errors import (
    BadAudio,
    BadRequest,
    EngineFailed,
    UnknownVoice,
)


def microphone(seconds: float) -> bytes:
    rng = np.random.default_rng(1)
    return rng.integers(-9000, 9000, round(24_000 * seconds)).astype("<i2").tobytes()


async def test_a_conversation(face: Face):
    async with nothing_left(), talking(face) as client:
        sink, conversation = client.sink, client.conversation
        assert conversation.options == SessionOptions()
        before = time.monotonic()
        pcm = microphone(0.2)
        for start in range(0, len(pcm), 960):
            audio = base64.b64encode(pcm[start : start + 960]).decode()
            await client.send("input_audio_buffer.append", audio=audio)
        await conversation.until(lambda: len(conversation.heard) == 6400)
        assert before < conversation.arrivals[0] <= conversation.arrivals[-1] < time.monotonic()
        await sink.turn_opened(at_ms=10)
        await sink.partial("你")
        await sink.partial("你")
        await sink.turn_ended(at_ms=190)
        await sink.final("你好", "zh", turn=1)
        event = await client.receive("conversation.item.input_audio_transcription.completed")
        assert event["transcript"] == "你好"
        await sink.begin(1)
        await sink.text(1, "很好。")
        await sink.audio(1, FRAME)
        await sink.pause(1)
        await sink.resume(1)
        await sink.audio(1, FRAME)
        await sink.end(1, Ending(outcome="answered", heard="很好。"))
        await sink.turn_report({"turn": 1, "revision": 1})
        assert base64.b64decode((await client.receive("response.output_audio.delta"))["delta"]) == (
            FRAME
        )
        await client.receive("duplexd.playback.paused")
        await client.receive("duplexd.playback.resumed")
        assert (await client.receive("response.done"))["response"]["status"] == "completed"
        report = await client.receive("duplexd.turn")
        assert report["clock"]["name"] == "monotonic"
        assert report["report"] == {"turn": 1, "revision": 1}
    assert conversation.closed.is_set()


async def test_an_interruption_and_a_late_truncation(face: Face):
    async with talking(face) as client:
        sink = client.sink
        await sink.begin(3)
        await sink.text(3, "一二三")
        await sink.audio(3, FRAME)
        await sink.flush(3, heard_ms=12)
        await sink.end(3, Ending(outcome="interrupted", heard="一"))
        await sink.turn_opened(at_ms=500)
        truncated = await client.receive("conversation.item.truncated")
        assert truncated["audio_end_ms"] == 12
        assert (await client.receive("response.done"))["response"]["status"] == "cancelled"
        assert (await client.receive())["type"] == "input_audio_buffer.speech_started"
        await client.send(
            "conversation.item.truncate",
            item_id=truncated["item_id"],
            content_index=0,
            audio_end_ms=8,
        )
        await client.conversation.called("heard_until", 3, 8)
        assert (await client.receive())["audio_end_ms"] == 8


async def test_what_a_client_asks_for_reaches_the_conversation(face: Face):
    async with talking(face) as client:
        conversation = client.conversation
        await client.send(
            "session.update",
            session={"type": "realtime", "audio": {"input": {"turn_detection": None}}},
        )
        session = (await client.receive("session.updated"))["session"]
        assert session["audio"]["input"]["turn_detection"] is None
        assert not conversation.options.server_turns
        item = {"type": "message", "role": "user", "content": [{"type": "text", "text": "问"}]}
        item["id"] = "q"
        await client.send("conversation.item.create", item=item)
        await client.receive("conversation.item.done")
        await client.send("input_audio_buffer.append", audio="AAAA" * 4)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create", response={"instructions": "简短"})
        await client.send("response.cancel")
        await client.send("conversation.item.delete", item_id="q")
        await client.send("input_audio_buffer.clear")
        await client.receive("input_audio_buffer.cleared")
        assert conversation.calls[1:] == [
            ("add", "item-q", Message(role="user", text="问"), None),
            ("commit",),
            ("respond", AnswerOptions(ask=1, instructions="简短")),
            ("cancel",),
            ("remove", "item-q"),
            ("clear",),
        ]


async def test_bad_messages_are_answered_and_counted(face: Face):
    async with talking(face) as client:
        for message in ("?", b"\0\1", '{"type":"input_audio_buffer.append","audio":"!"}'):
            await client.connection.send(message)
            assert (await client.receive("error"))["error"]["type"] == "invalid_request_error"
        await client.send(
            "session.update",
            event_id="mine",
            session={"type": "realtime", "audio": {"output": {"voice": "nobody"}}},
        )
        error = (await client.receive("error"))["error"]
        assert (error["code"], error["event_id"]) == ("unknown_voice", "mine")
        await client.sink.error(EngineFailed("The recogniser died"))
        assert (await client.receive("error"))["error"]["code"] == "engine_failed"
    assert [type(failure) for failure in face.failures][2:] == [BadAudio, UnknownVoice]


@pytest.mark.parametrize("length", [MAX_MESSAGE + 1, MAX_AUDIO_MESSAGE + 1])
async def test_a_message_over_the_limit_is_refused(face: Face, length: int):
    async with talking(face) as client:
        await client.connection.send("x" * length)
        assert (await client.receive("error"))["error"]["code"] == "message_too_large"


async def test_a_client_in_a_hurry_is_slowed_down_and_kept(face: Face):
    count = 1500
    async with talking(face) as client:
        for _ in range(count):
            await client.send("session.update", session={"type": "realtime"})
        # it has not read anything yet; what the conversation says has its place all the same
        for _ in range(300):
            await client.sink.partial("x")
            await client.sink.turn_opened(at_ms=1)
        for _ in range(count):
            await client.receive("session.updated")
    assert face.failures == []


async def test_minutes_of_audio_in_one_message_leave_room_for_others(face: Face):
    async with talking(face) as client:
        pcm = microphone(30)
        await client.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())
        others = 0
        while len(client.conversation.heard) < 30 * 32_000:
            await asyncio.sleep(0)
            others += 1
        assert len(client.conversation.arrivals) == 30
        assert others >= 30
        assert len(set(client.conversation.arrivals)) == 1


async def test_a_piece_too_short_for_a_sample_is_kept(face: Face):
    async with talking(face) as client:
        for _ in range(3):
            await client.send("input_audio_buffer.append", audio="AAA=")
        await client.conversation.until(lambda: len(client.conversation.heard) == 4)
        assert len(client.conversation.arrivals) == 1


async def test_text_mode_takes_audio_without_sending_it(face: Face):
    async with talking(face) as client:
        await client.send(
            "session.update", session={"type": "realtime", "output_modalities": ["text"]}
        )
        await client.receive("session.updated")
        await client.sink.begin(1)
        await client.sink.audio(1, FRAME)
        await client.sink.text(1, "好")
        assert (await client.receive("response.output_text.delta"))["delta"] == "好"


async def test_a_function_call_reaches_the_client(face: Face):
    async with talking(face) as client:
        sink = client.sink
        await client.send("response.create", response={"metadata": {"a": "b"}})
        await client.conversation.called("respond", AnswerOptions(ask=1))
        await sink.begin(1, ask=1)
        await sink.call_begun(1, "c", "f")
        await sink.call_arguments(1, "c", "{}")
        await sink.call_done(1, FunctionCall(call_id="c", name="f", arguments="{}"))
        await sink.end(
            1, Ending(outcome="answered", heard="", usage=Usage(input_tokens=3, output_tokens=4))
        )
        await client.receive("response.function_call_arguments.delta")
        response = (await client.receive("response.done"))["response"]
        assert response["metadata"] == {"a": "b"}
        assert response["usage"]["total_tokens"] == 7
        assert response["output"][0]["call_id"] == "c"


async def test_a_request_that_is_dropped_or_refused_is_answered(face: Face):
    async with talking(face) as client:
        await client.send("response.create")
        await client.conversation.called("respond", AnswerOptions(ask=1))
        await client.sink.dropped(1)
        assert (await client.receive("response.done"))["response"]["status"] == "cancelled"
        voice = {"audio": {"output": {"voice": "nobody"}}}
        await client.send("response.create", event_id="mine", response=voice)
        error = (await client.receive("error"))["error"]
        assert (error["code"], error["event_id"]) == ("unknown_voice", "mine")
        assert error["param"] == "response.audio.output.voice"
        client.conversation.declines = BadRequest("Not now")
        await client.send("response.create")
        assert (await client.receive("error"))["error"]["param"] == "response"
        await client.sink.idle(since_ms=0, at_ms=5)
        await client.receive("input_audio_buffer.timeout_triggered")


async def test_the_format_of_the_microphone_may_change(face: Face):
    async with talking(face) as client:
        heard = client.conversation.heard
        for audio_format, size in (
            ({"type": "audio/pcm", "rate": 16000}, 6400),
            ({"type": "audio/pcmu"}, 1600),
            ({"type": "audio/pcm", "rate": 24000}, 9600),
        ):
            before = len(heard)
            session = {"type": "realtime", "audio": {"input": {"format": audio_format}}}
            await client.send("session.update", session=session)
            await client.receive("session.updated")
            audio = base64.b64encode(bytes(size)).decode()
            await client.send("input_audio_buffer.append", audio=audio)
            await client.conversation.until(lambda before=before: len(heard) == before + 6400)


async def test_a_client_that_sends_too_fast_is_told_once_and_loses_nothing(
    face: Face, monkeypatch: pytest.MonkeyPatch
):
    class AlwaysTooFast(Pace):
        def take(self, now: float, amount: float = 1.0) -> float:
            return 0.001

    monkeypatch.setattr(connection, "Pace", AlwaysTooFast)
    count = 20
    async with talking(face) as client:
        for number in range(count):
            await client.send("conversation.item.retrieve", item_id=f"i{number}")
        codes = [(await client.receive("error"))["error"]["code"] for _ in range(count + 1)]
    assert codes.count("rate_limit_exceeded") == 1
    assert codes.count("item_not_found") == count


async def test_audio_that_comes_much_too_fast_is_taken_slowly_and_whole(
    face: Face, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "AUDIO_BURST_S", 1)
    monkeypatch.setattr(connection, "AUDIO_S_PER_S", 2)
    seconds = 3
    async with talking(face) as client:
        pcm = bytes(48_000 * seconds)
        started = time.monotonic()
        await client.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())
        await client.send("input_audio_buffer.clear")
        error = (await client.receive("error"))["error"]
        assert error["code"] == "rate_limit_exceeded"
        assert "seconds of audio" in error["message"]
        await client.receive("input_audio_buffer.cleared")
        assert time.monotonic() - started > 0.9
        heard = len(client.conversation.heard) / 32_000
        assert heard == pytest.approx(seconds, abs=0.01)
        # what was held back did not arrive when its message did: nobody was silent meanwhile
        assert len(set(client.conversation.arrivals)) == 2


async def test_a_thousand_events_at_once_are_answered_or_refused(face: Face):
    async with talking(face) as client:
        for number in range(1000):
            await client.send("response.create", event_id=str(number))
        await client.send("input_audio_buffer.clear")
        refused = 0
        while (event := await client.receive())["type"] != "input_audio_buffer.cleared":
            assert event["error"]["code"] == "too_many_responses"
            refused += 1
        asks = [call for call in client.conversation.calls if call[0] == "respond"]
        assert len(asks) + refused == 1000
