"""Invariants: every event that we send is valid by the original's types and has an id of its own; a
response that is created is done, once; the item of an answer holds what was heard.
"""

from __future__ import annotations

import base64

import numpy as np
import pytest

from services.face import Cut, Ending, Usage
from services.realtime.actions import HeardUntil
from tests.realtime.wired import FRAME, Wired
from tts_engine.errors import AtCapacity, EngineFailed


def test_a_whole_turn_in_order():
    wired = Wired()
    wired.turn()
    wired.speak(1)
    wired.sent(wired.core.end(1, Ending(outcome="answered", heard="很好。")))
    assert wired.kinds() == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    user = wired.events[0]["item_id"]
    assert wired.events[0]["audio_start_ms"] == 100
    assert wired.events[1]["audio_end_ms"] == 1100
    assert {event["item_id"] for event in wired.events[:3]} == {user}
    completed = wired.events[6]
    assert (completed["item_id"], completed["transcript"]) == (user, "你好")
    assert completed["usage"] == {"type": "duration", "seconds": 1.0}
    assert wired.events[9]["previous_item_id"] == user
    assert wired.events[8]["item"]["content"] == []
    assert base64.b64decode(wired.events[12]["delta"]) == FRAME
    done = wired.events[-1]["response"]
    assert done["status"] == "completed"
    assert done["status_details"] is None
    assert done["id"] == wired.events[7]["response"]["id"]
    (item,) = done["output"]
    assert item["status"] == "completed"
    assert item["content"] == [{"type": "output_audio", "transcript": "很好。"}]


def test_an_interruption_keeps_what_was_heard():
    wired = Wired()
    wired.speak(1, "一二三四五六")
    wired.core.flush(1, heard_ms=30)
    wired.sent(wired.core.end(1, Ending(outcome="interrupted", heard="一二")))
    assert wired.last("conversation.item.truncated")["audio_end_ms"] == 30
    assert wired.last("response.output_audio_transcript.done")["transcript"] == "一二三四五六"
    item = wired.last("conversation.item.done")["item"]
    assert item["content"][0]["transcript"] == "一二"
    assert item["status"] == "incomplete"
    done = wired.last("response.done")["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}


def test_a_failed_answer_says_why():
    wired = Wired()
    wired.speak(1)
    wired.sent(
        wired.core.end(1, Ending(outcome="failed", heard="", error=AtCapacity("Full", mend="Wait")))
    )
    done = wired.last("response.done")["response"]
    assert done["status"] == "failed"
    assert done["status_details"]["error"] == {
        "type": "server_error",
        "code": "at_capacity",
        "message": "Full. Wait",
    }
    wired.speak(2)
    wired.sent(wired.core.end(2, Ending(outcome="failed", heard="")))
    error = wired.last("response.done")["response"]["status_details"]["error"]
    assert error["code"] == "engine_failed"


def test_an_answer_that_fails_before_it_began_is_not_silent():
    wired = Wired()
    (event,) = wired.sent(
        wired.core.end(1, Ending(outcome="failed", heard="", error=EngineFailed("No LLM")))
    )
    assert event["error"]["message"] == "No LLM"
    assert wired.core.end(1, Ending(outcome="interrupted", heard="")) == []


def test_what_comes_after_the_end_is_stale():
    wired = Wired()
    wired.speak(1)
    wired.sent(wired.core.end(1, Ending(outcome="answered", heard="")))
    assert wired.core.audio(1, FRAME) == []
    assert wired.core.text(1, "?") == []
    assert wired.core.pause(1) == []
    wired.core.flush(1, heard_ms=0)
    assert wired.core.end(1, Ending(outcome="interrupted", heard="")) == []


def test_a_new_answer_closes_one_that_was_left_open():
    wired = Wired()
    wired.speak(1)
    wired.speak(2)
    assert wired.last("response.done")["response"]["status"] == "cancelled"
    assert wired.kinds().count("response.created") == 2


def test_text_mode_sends_text_and_no_audio():
    wired = Wired()
    options = wired.update(output_modalities=["text"])
    assert options.speak is False
    wired.speak(1)
    wired.core.flush(1, heard_ms=20)
    wired.sent(wired.core.end(1, Ending(outcome="interrupted", heard="很")))
    assert wired.last("response.content_part.added")["part"] == {"type": "text", "text": ""}
    assert wired.last("response.output_text.delta")["delta"] == "很好。"
    assert wired.last("response.output_text.done")["text"] == "很好。"
    item = wired.last("response.output_item.done")["item"]
    assert item["content"] == [{"type": "output_text", "text": "很"}]
    assert not any("audio" in kind or "truncated" in kind for kind in wired.kinds())


def test_a_mode_change_holds_from_the_next_answer_on():
    wired = Wired()
    wired.sent(wired.core.begin(1))
    wired.update(output_modalities=["text"])
    assert wired.sent(wired.core.audio(1, FRAME))
    assert wired.core.text(1, "") == []
    wired.end(1)
    wired.sent(wired.core.begin(2))
    assert wired.core.audio(2, FRAME) == []


def test_pause_and_resume_are_our_own_events():
    wired = Wired()
    wired.speak(1)
    (paused,) = wired.sent(wired.core.pause(1))
    (resumed,) = wired.sent(wired.core.resume(1))
    created = wired.last("response.created")["response"]
    assert paused["type"] == "duplexd.playback.paused"
    assert resumed["type"] == "duplexd.playback.resumed"
    assert paused["response_id"] == resumed["response_id"] == created["id"]
    assert paused["item_id"] == resumed["item_id"] == created_item(wired)
    # an answer may be paused as often as somebody coughs
    assert len(wired.sent([*wired.core.pause(1), *wired.core.resume(1)])) == 2


def created_item(wired: Wired) -> str:
    """The message of the last answer."""
    return wired.last("response.output_item.added")["item"]["id"]


def test_only_an_answer_that_was_begun_is_paused():
    wired = Wired()
    assert wired.core.pause(1) == []
    wired.speak(1)
    assert wired.core.resume(1) == []
    assert wired.core.pause(2) == []
    assert not any("playback" in kind for kind in wired.kinds())


def test_a_pause_is_told_between_the_frames_it_separates():
    wired = Wired()
    wired.speak(1, frames=1)
    wired.sent(wired.core.pause(1))
    wired.sent(wired.core.resume(1))
    wired.sent(wired.core.audio(1, FRAME))
    assert wired.kinds()[-4:] == [
        "response.output_audio.delta",
        "duplexd.playback.paused",
        "duplexd.playback.resumed",
        "response.output_audio.delta",
    ]


def test_an_interruption_ends_the_pause_without_a_word():
    wired = Wired()
    wired.speak(1, "一二三四五六")
    wired.sent(wired.core.pause(1))
    wired.sent(wired.core.turn_opened(at_ms=800))
    wired.core.flush(1, heard_ms=20)
    wired.end(1, "interrupted", heard="一二")
    kinds = wired.kinds()
    after = [kind for kind in kinds[kinds.index("duplexd.playback.paused") :] if "item" not in kind]
    assert after[:2] == ["duplexd.playback.paused", "input_audio_buffer.speech_started"]
    assert after[-1] == "response.done"
    assert "duplexd.playback.resumed" not in kinds
    # the voice began before it was known to be one
    assert wired.last("input_audio_buffer.speech_started")["audio_start_ms"] == 800
    details = wired.last("response.done")["response"]["status_details"]
    assert details == {"type": "cancelled", "reason": "turn_detected"}
    # the next answer begins unpaused
    wired.speak(2)
    assert wired.core.resume(2) == []
    assert len(wired.sent(wired.core.pause(2))) == 1


@pytest.mark.parametrize("how", ["truncate", "cancel"])
def test_the_client_may_end_an_answer_that_is_paused(how: str):
    wired = Wired()
    wired.speak(1, "一二三四五六")
    wired.sent(wired.core.pause(1))
    if how == "cancel":
        wired.receive("response.cancel")
    else:
        truncate = {"item_id": created_item(wired), "content_index": 0, "audio_end_ms": 15}
        assert wired.receive("conversation.item.truncate", **truncate) == [HeardUntil(1, 15)]
        assert wired.kinds()[-1] == "conversation.item.truncated"
    wired.core.flush(1, heard_ms=15)
    wired.end(1, "interrupted", heard="一")
    details = wired.last("response.done")["response"]["status_details"]
    assert details == {"type": "cancelled", "reason": "client_cancelled"}
    assert wired.last("response.output_item.done")["item"]["content"][0]["transcript"] == "一"
    assert "duplexd.playback.resumed" not in wired.kinds()


def test_what_the_client_says_it_played_is_not_told_again():
    wired = Wired()
    wired.speak(1, "一二三四五六")
    truncate = {"item_id": created_item(wired), "content_index": 0, "audio_end_ms": 15}
    wired.receive("conversation.item.truncate", **truncate)
    wired.core.flush(1, heard_ms=18)
    wired.end(1, "interrupted", heard="一")
    assert wired.kinds().count("conversation.item.truncated") == 1
    assert wired.last("conversation.item.truncated")["audio_end_ms"] == 15


def test_a_report_names_its_clock_and_its_response():
    wired = Wired()
    wired.speak(7)
    (event,) = wired.sent(wired.core.turn_report({"turn": 1, "revision": 7, "v2v_server_ms": 5.0}))
    assert event["type"] == "duplexd.turn"
    assert event["report"]["v2v_server_ms"] == 5.0
    assert event["clock"] == {"name": "monotonic", "boot_id": "boot"}
    assert event["response_id"] == wired.last("response.created")["response"]["id"]
    (other,) = wired.sent(wired.core.turn_report({"turn": 2, "revision": 8}))
    assert other["response_id"] is None


def test_truncating_the_answer_that_plays_is_the_clients_end_of_it():
    wired = Wired()
    wired.speak(1)
    first = wired.last("response.output_item.added")["item"]["id"]
    truncate = {"content_index": 0, "audio_end_ms": 10}
    assert wired.receive("conversation.item.truncate", item_id=first, **truncate) == [
        HeardUntil(1, 10)
    ]
    wired.core.flush(1, heard_ms=10)
    wired.sent(wired.core.end(1, Ending(outcome="interrupted", heard="")))
    wired.speak(2)
    # an answer that is over has nothing to do with the one that plays
    wired.receive("conversation.item.truncate", item_id=first, **truncate)
    wired.sent(wired.core.end(2, Ending(outcome="interrupted", heard="")))
    details = [
        event["response"]["status_details"]["reason"]
        for event in wired.events
        if event["type"] == "response.done"
    ]
    assert details == ["client_cancelled", "turn_detected"]


def test_the_clients_own_play_head_is_passed_on():
    wired = Wired()
    wired.speak(4, frames=5)
    item_id = wired.last("response.output_item.added")["item"]["id"]
    truncate = {"item_id": item_id, "content_index": 0}
    assert wired.receive("conversation.item.truncate", **truncate, audio_end_ms=100) == [
        HeardUntil(4, 100)
    ]
    assert wired.last("conversation.item.truncated")["audio_end_ms"] == 100
    assert wired.receive("conversation.item.truncate", **truncate, audio_end_ms=101) == []
    assert wired.last("error")["error"]["param"] == "audio_end_ms"


def test_an_answer_that_says_nothing_has_no_message():
    wired = Wired()
    wired.sent(wired.core.begin(1))
    wired.sent(wired.core.pause(1))
    wired.core.flush(1, heard_ms=0)
    wired.end(1, "interrupted")
    assert wired.kinds() == ["response.created", "duplexd.playback.paused", "response.done"]
    assert wired.events[1]["item_id"] is None
    assert wired.events[-1]["response"]["output"] == []


def test_the_tokens_of_an_answer_are_told():
    wired = Wired()
    wired.speak(1)
    wired.end(1, usage=Usage(input_tokens=10, output_tokens=5, cached_tokens=4))
    usage = wired.last("response.done")["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 5, 15)
    assert usage["input_token_details"]["cached_tokens"] == 4
    assert usage["output_token_details"] == {"text_tokens": 5, "audio_tokens": 0}
    wired.answer(2)
    assert wired.last("response.done")["response"]["usage"] is None


@pytest.mark.parametrize(
    ("cut", "reason"), [("max_tokens", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_answer_that_is_cut_is_incomplete(cut: Cut, reason: str):
    wired = Wired()
    wired.speak(1)
    wired.end(1, heard="很好。", cut=cut)
    done = wired.last("response.done")["response"]
    assert done["status"] == "incomplete"
    assert done["status_details"] == {"type": "incomplete", "reason": reason}
    assert done["output"][0]["status"] == "incomplete"


@pytest.mark.parametrize(
    ("audio_format", "size"),
    [
        ({"type": "audio/pcm", "rate": 24000}, 960),
        ({"type": "audio/pcm", "rate": 16000}, 640),
        ({"type": "audio/pcmu"}, 160),
        ({"type": "audio/pcma"}, 160),
    ],
)
def test_an_answer_sounds_in_the_format_of_the_session(audio_format: dict[str, str], size: int):
    wired = Wired()
    wired.update(audio={"output": {"format": audio_format}})
    tone = (8000 * np.sin(np.arange(480 * 10) / 10)).astype("<i2").tobytes()
    wired.sent(wired.core.begin(1))
    # what changes while it speaks holds from the next answer on
    wired.update(audio={"output": {"format": {"type": "audio/pcm"}}})
    for start in range(0, len(tone), 960):
        wired.sent(wired.core.audio(1, tone[start : start + 960]))
    wired.end(1)
    sounds = [
        base64.b64decode(event["delta"])
        for event in wired.events
        if event["type"] == "response.output_audio.delta"
    ]
    assert len(sounds[0]) == size
    total = len(b"".join(sounds))
    # with the filter's tail it is whole, and no more than 2 ms longer
    assert 10 * size <= total <= 10 * size + size // 10
    created = wired.last("response.created")["response"]
    assert created["audio"]["output"]["format"] == audio_format
    item_id = wired.last("response.output_item.done")["item"]["id"]
    truncate = {"item_id": item_id, "content_index": 0}
    assert wired.receive("conversation.item.truncate", **truncate, audio_end_ms=200) == [
        HeardUntil(1, 200)
    ]
    refused = wired.refused("conversation.item.truncate", **truncate, audio_end_ms=201)
    assert refused == ("invalid_value", "audio_end_ms")


def test_a_truncated_answer_has_no_text_that_is_known():
    wired = Wired()
    item_id = wired.answer(1)
    truncate = {"item_id": item_id, "content_index": 0}
    retrieve = ("conversation.item.retrieve", {"item_id": item_id})
    wired.receive("conversation.item.truncate", **truncate, audio_end_ms=40)
    wired.receive(retrieve[0], **retrieve[1])
    shown = wired.last("conversation.item.retrieved")["item"]
    assert shown["content"] == [{"type": "output_audio", "transcript": "很好。"}]
    wired.receive("conversation.item.truncate", **truncate, audio_end_ms=39)
    wired.receive(retrieve[0], **retrieve[1])
    shown = wired.last("conversation.item.retrieved")["item"]
    assert shown["content"] == [{"type": "output_audio", "transcript": None}]
    assert shown["status"] == "incomplete"


def test_a_written_answer_has_no_audio_to_truncate():
    wired = Wired()
    wired.update(output_modalities=["text"])
    item_id = wired.answer(1)
    refused = wired.refused(
        "conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=0
    )
    assert refused == ("invalid_value", "content_index")
