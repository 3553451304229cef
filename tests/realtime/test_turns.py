"""Invariants: a turn that ended is one item with one transcript or one failure; speech that started
stops once; deltas are never taken back.
"""

from __future__ import annotations

import base64

import pytest

from services.realtime.actions import Cancel, Clear, Commit, Hear, Remove, Respond
from services.realtime.formats import PCM
from tests.realtime.wired import Wired
from tts_engine.errors import EngineFailed


def test_deltas_carry_what_two_partials_agree_on():
    wired = Wired()
    core = wired.core
    wired.sent(core.turn_opened(at_ms=0))
    deltas = []
    for text in ("今天", "今天天气。", "今天天气怎", "今天天汽怎么样"):
        deltas += [event["delta"] for event in wired.sent(core.partial(text))]
    assert deltas == ["今天", "天气"]
    wired.sent(core.turn_ended(at_ms=900))
    final = wired.sent(core.final("今天天气怎么样？", turn=1))
    assert [event.get("delta", event.get("transcript")) for event in final] == [
        "怎么样？",
        "今天天气怎么样？",
    ]


def test_a_final_that_contradicts_the_deltas_stands_alone():
    wired = Wired()
    core = wired.core
    wired.sent(core.turn_opened(at_ms=0))
    wired.sent(core.partial("天汽"))
    wired.sent(core.partial("天汽"))
    wired.sent(core.turn_ended(at_ms=900))
    (event,) = wired.sent(core.final("天气", turn=1))
    assert event["transcript"] == "天气"


def test_partials_outside_a_turn_go_nowhere():
    wired = Wired()
    assert wired.core.partial("?") == []
    assert wired.core.final("?", turn=1) == []


def test_the_language_of_a_turn_is_told():
    wired = Wired()
    wired.turn("Hello")
    assert wired.events[-1]["languages"] == [{"code": "zh"}]


def test_a_client_that_wants_no_transcripts_gets_none():
    wired = Wired()
    wired.update(audio={"input": {"transcription": None}})
    assert wired.last("session.updated")["session"]["audio"]["input"]["transcription"] is None
    wired.sent(wired.core.turn_opened(at_ms=0))
    for _ in range(2):
        wired.sent(wired.core.partial("你"))
    wired.sent(wired.core.turn_ended(at_ms=500))
    wired.sent(wired.core.final("你好", "zh", turn=1))
    wired.sent(wired.core.turn_ended(at_ms=600))
    wired.sent(wired.core.error(EngineFailed("The recogniser died")))
    assert not any("transcription" in kind for kind in wired.kinds())
    assert wired.kinds()[-1] == "error"


def test_a_turn_is_an_item_that_can_be_had_and_deleted():
    wired = Wired()
    item_id = wired.turn("你好", number=7)
    wired.receive("conversation.item.retrieve", item_id=item_id)
    shown = wired.last("conversation.item.retrieved")["item"]
    assert shown["content"] == [{"type": "input_audio", "transcript": "你好"}]
    assert wired.receive("conversation.item.delete", item_id=item_id) == [Remove("turn-7")]
    silent = wired.turn("")
    assert wired.receive("conversation.item.delete", item_id=silent) == []
    assert wired.last("conversation.item.deleted")["item_id"] == silent


def test_a_turn_that_is_being_recognised_stays():
    wired = Wired()
    wired.sent(wired.core.turn_opened(at_ms=0))
    wired.sent(wired.core.turn_ended(at_ms=500))
    item_id = wired.last("input_audio_buffer.committed")["item_id"]
    delete = ("conversation.item.delete", {"item_id": item_id})
    assert wired.refused(delete[0], **delete[1]) == ("item_in_progress", "item_id")
    wired.receive("conversation.item.retrieve", item_id=item_id)
    assert wired.last("conversation.item.retrieved")["item"]["content"][0]["transcript"] is None
    wired.sent(wired.core.error(EngineFailed("The recogniser died")))
    assert wired.receive(delete[0], **delete[1]) == []


def test_a_silence_that_is_answered_is_an_item_without_text():
    wired = Wired()
    wired.turn()
    wired.sent(wired.core.idle(since_ms=1000, at_ms=6000))
    silence = wired.last("input_audio_buffer.timeout_triggered")
    assert (silence["audio_start_ms"], silence["audio_end_ms"]) == (1000, 6000)
    item = wired.last("conversation.item.done")["item"]
    assert item["id"] == silence["item_id"]
    assert item["content"] == [{"type": "input_audio", "transcript": ""}]
    # an answer is on its way
    assert wired.receive("response.cancel") == [Cancel()]


def test_an_empty_final_completes_the_item():
    wired = Wired()
    wired.turn("")
    event = wired.events[-1]
    assert event["type"] == "conversation.item.input_audio_transcription.completed"
    assert event["transcript"] == ""


def test_an_error_fails_the_transcript_that_is_awaited():
    wired = Wired()
    wired.sent(wired.core.turn_opened(at_ms=0))
    wired.sent(wired.core.turn_ended(at_ms=500))
    failed, error = wired.sent(wired.core.error(EngineFailed("The recogniser died")))
    assert failed["type"] == "conversation.item.input_audio_transcription.failed"
    assert failed["error"]["code"] == "engine_failed"
    assert error["error"]["type"] == "server_error"
    (alone,) = wired.sent(wired.core.error(EngineFailed("Something else")))
    assert alone["type"] == "error"


def test_a_turn_without_a_transcript_is_failed_by_the_next():
    wired = Wired()
    for start in (0, 1000):
        wired.sent(wired.core.turn_opened(at_ms=start))
        wired.sent(wired.core.turn_ended(at_ms=start + 500))
    failed = wired.last("conversation.item.input_audio_transcription.failed")
    assert failed["item_id"] == wired.events[0]["item_id"]


def test_manual_turns_have_no_speech_events():
    wired = Wired()
    options = wired.update(audio={"input": {"turn_detection": None}})
    assert (options.server_turns, options.auto_respond, options.interruptible) == (
        False,
        False,
        False,
    )
    session = wired.last("session.updated")["session"]
    assert session["audio"]["input"]["turn_detection"] is None
    wired.receive("input_audio_buffer.append", audio="AAAA" * 4)
    assert wired.receive("input_audio_buffer.commit") == [Commit()]
    wired.sent(wired.core.turn_opened(at_ms=0))
    assert wired.core.partial("你") == []
    wired.sent(wired.core.turn_ended(at_ms=500))
    wired.sent(wired.core.final("你好", turn=1))
    assert "input_audio_buffer.committed" in wired.kinds()
    assert not any("speech" in kind for kind in wired.kinds())
    # nothing is being made, until it is asked for
    assert wired.receive("response.cancel") == []
    (action,) = wired.receive("response.create")
    assert isinstance(action, Respond)
    assert wired.receive("response.cancel") == [Cancel()]


def test_audio_sent_while_a_commit_is_worked_on_can_be_committed():
    wired = Wired()
    wired.update(audio={"input": {"turn_detection": None}})
    for _ in range(2):
        wired.receive("input_audio_buffer.append", audio="AAAA" * 4)
        assert wired.receive("input_audio_buffer.commit") == [Commit()]
        wired.receive("input_audio_buffer.append", audio="AAAA" * 4)
        wired.sent(wired.core.turn_ended(at_ms=500))
        wired.sent(wired.core.final("你好", turn=1))
        assert wired.receive("input_audio_buffer.commit") == [Commit()]


def test_the_seconds_of_a_manual_turn_are_those_that_were_committed():
    wired = Wired()

    def seconds(at_ms: int) -> float:
        wired.sent(wired.core.turn_ended(at_ms=at_ms))
        wired.sent(wired.core.final("你好", turn=1))
        done = wired.last("conversation.item.input_audio_transcription.completed")
        return done["usage"]["seconds"]

    def append(length: int) -> None:
        audio = base64.b64encode(bytes(48_000 * length)).decode()
        wired.receive("input_audio_buffer.append", audio=audio)

    def commit() -> None:
        assert wired.receive("input_audio_buffer.commit") == [Commit()]

    append(2)
    wired.update(audio={"input": {"turn_detection": None}})  # the daemon has heard those
    append(1)
    wired.update(instructions="Be brief")
    commit()
    assert seconds(3008) == 1.0
    append(2)
    wired.receive("input_audio_buffer.clear")
    append(3)
    commit()
    # what follows before the turn has ended is the next one's
    append(2)
    commit()
    wired.receive("input_audio_buffer.clear")
    append(1)
    assert (seconds(8000), seconds(10000)) == (3.0, 2.0)
    commit()
    assert seconds(11040) == 1.0


def test_a_turn_that_the_daemon_ended_is_not_the_one_that_is_committed():
    wired = Wired()
    audio = base64.b64encode(bytes(48_000)).decode()
    wired.receive("input_audio_buffer.append", audio=audio)
    wired.sent(wired.core.turn_opened(at_ms=200))
    wired.update(audio={"input": {"turn_detection": None}})
    wired.receive("input_audio_buffer.append", audio=audio)
    assert wired.receive("input_audio_buffer.commit") == [Commit()]
    seconds = []
    for at_ms in (900, 2000):
        wired.sent(wired.core.turn_ended(at_ms=at_ms))
        wired.sent(wired.core.final("你好", turn=1))
        seconds.append(wired.events[-1]["usage"]["seconds"])
    assert seconds == [0.7, 1.0]


def test_what_was_cleared_of_an_open_turn_does_not_count():
    wired = Wired()
    wired.sent(wired.core.turn_opened(at_ms=0))
    wired.receive("input_audio_buffer.append", audio=base64.b64encode(bytes(48_000)).decode())
    wired.receive("input_audio_buffer.clear")
    wired.sent(wired.core.turn_ended(at_ms=1200))
    wired.sent(wired.core.final("你好", turn=1))
    assert wired.events[-1]["usage"]["seconds"] == 0.2


@pytest.mark.parametrize("how", ["manual", "clear"])
def test_speech_that_started_stops_once(how: str):
    wired = Wired()
    wired.receive("input_audio_buffer.append", audio=base64.b64encode(bytes(48_000)).decode())
    wired.sent(wired.core.turn_opened(at_ms=400))
    started = wired.last("input_audio_buffer.speech_started")
    for _ in range(2):
        if how == "manual":
            wired.update(audio={"input": {"turn_detection": None}})
        else:
            wired.receive("input_audio_buffer.clear")
    stopped = wired.last("input_audio_buffer.speech_stopped")
    assert (stopped["item_id"], stopped["audio_end_ms"]) == (started["item_id"], 1000)
    # a turn that was decided already, or is committed now, is the item that was announced
    wired.sent(wired.core.turn_ended(at_ms=1200))
    assert wired.last("input_audio_buffer.committed")["item_id"] == started["item_id"]
    assert wired.kinds().count("input_audio_buffer.speech_stopped") == 1


def test_the_clock_counts_audio_of_every_format():
    wired = Wired()
    for audio_format, size in (
        ({"type": "audio/pcm", "rate": 24000}, 48_000),
        ({"type": "audio/pcm", "rate": 16000}, 32_000),
        ({"type": "audio/pcmu"}, 8_000),
        ({"type": "audio/pcma"}, 8_000),
    ):
        wired.update(audio={"input": {"format": audio_format}})
        audio = base64.b64encode(bytes(size)).decode()
        (action,) = wired.receive("input_audio_buffer.append", audio=audio)
        assert action.format.wire() == audio_format
    wired.sent(wired.core.turn_opened(at_ms=400))
    wired.receive("input_audio_buffer.clear")
    assert wired.last("input_audio_buffer.speech_stopped")["audio_end_ms"] == 4000


def test_speech_cannot_stop_before_it_started():
    wired = Wired()
    wired.sent(wired.core.turn_opened(at_ms=400))
    wired.receive("input_audio_buffer.clear")
    assert wired.last("input_audio_buffer.speech_stopped")["audio_end_ms"] == 400


def test_other_updates_leave_speech_alone():
    wired = Wired()
    wired.update(audio={"input": {"turn_detection": None}})
    wired.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
    wired.sent(wired.core.turn_opened(at_ms=400))
    wired.update(instructions="Be brief")
    assert "input_audio_buffer.speech_stopped" not in wired.kinds()


def test_a_commit_without_a_turn_that_opened():
    wired = Wired(turns=None)
    wired.sent(wired.core.turn_ended(at_ms=500))
    assert wired.kinds()[0] == "input_audio_buffer.committed"


def test_audio_is_committed_or_cleared_once():
    wired = Wired()
    (action,) = wired.receive("input_audio_buffer.append", audio="AAAA" * 4)
    assert action == Hear(bytes(12), PCM)
    assert wired.receive("input_audio_buffer.clear") == [Clear()]
    assert wired.last("input_audio_buffer.cleared")
    assert wired.receive("input_audio_buffer.commit") == []
    assert wired.last("error")["error"]["code"] == "input_audio_buffer_commit_empty"
