"""Invariants: every event that we send is valid by the original's types and has an id of its own;
items are chained by previous_item_id; a response that is created is done, once; the item of an
answer holds what was heard.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from services.face import SessionOptions
from services.realtime.actions import (
    AddText,
    Cancel,
    Clear,
    Commit,
    Hear,
    HeardUntil,
    Refuse,
    Respond,
    Send,
    Update,
)
from services.realtime.protocol import RealtimeCore
from services.realtime.session import Session
from tests.realtime.fakes import check
from tts_engine.errors import AtCapacity, EngineFailed, UnknownVoice

FRAME = bytes(960)


class Wired:
    """A core whose events are checked and kept."""

    def __init__(self, **session: Any) -> None:
        self.core = RealtimeCore(
            session=Session(id="sess", default_voice="xiaobei", **session),
            seed="seed",
            boot_id="boot",
        )
        self.events: list[dict[str, Any]] = []
        self.ids: set[str] = set()

    def sent(self, texts: list[str] | str | None) -> list[dict[str, Any]]:
        texts = [texts] if isinstance(texts, str) else texts or []
        events = [check(json.loads(text)) for text in texts]
        for event in events:
            assert event["event_id"] not in self.ids
            self.ids.add(event["event_id"])
        self.events += events
        return events

    def receive(self, kind: str, **fields: Any) -> list[Any]:
        """The actions other than messages."""
        others = []
        for action in self.core.receive(json.dumps({"type": kind, **fields})):
            if isinstance(action, Send | Refuse):
                self.sent(action.text)
            else:
                others.append(action)
        return others

    def update(self, **session: Any) -> SessionOptions:
        (action,) = self.receive("session.update", session={"type": "realtime", **session})
        assert isinstance(action, Update)
        self.sent(self.core.updated(action))
        return action.options

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def last(self, kind: str) -> dict[str, Any]:
        return next(event for event in reversed(self.events) if event["type"] == kind)

    def turn(self, text: str = "你好", start: int = 100, end: int = 1100) -> None:
        self.sent(self.core.turn_opened(at_ms=start))
        self.sent(self.core.turn_ended(at_ms=end))
        self.sent(
            self.core.final(
                text,
            )
        )

    def speak(self, revision: int, text: str = "很好。", frames: int = 2) -> None:
        self.sent(self.core.begin(revision))
        self.sent(self.core.text(revision, text))
        for _ in range(frames):
            self.sent(self.core.audio(revision, FRAME))


def test_session_created_shows_the_effective_session():
    wired = Wired(model="duplexd")
    (event,) = wired.sent(wired.core.created())
    session = event["session"]
    assert event["type"] == "session.created"
    assert session["id"] == "sess"
    assert session["model"] == "duplexd"
    assert session["audio"]["output"]["voice"] == "xiaobei"
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "create_response": True,
        "interrupt_response": True,
    }
    assert session["max_output_tokens"] == "inf"


def test_a_whole_turn_in_order():
    wired = Wired()
    wired.turn()
    wired.speak(1)
    wired.sent(wired.core.end(1, "answered", heard="很好。"))
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
    wired.sent(wired.core.end(1, "interrupted", heard="一二"))
    assert wired.last("conversation.item.truncated")["audio_end_ms"] == 30
    assert wired.last("response.output_audio_transcript.done")["transcript"] == "一二三四五六"
    item = wired.last("conversation.item.done")["item"]
    assert item["content"][0]["transcript"] == "一二"
    assert item["status"] == "incomplete"
    done = wired.last("response.done")["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}


@pytest.mark.parametrize("how", ["response.cancel", "response.create"])
def test_a_response_that_the_client_ends_says_so(how):
    wired = Wired()
    wired.speak(1)
    (action,) = wired.receive(how)
    assert action == (Cancel() if how == "response.cancel" else Respond(None))
    wired.core.flush(1, heard_ms=20)
    wired.sent(wired.core.end(1, "interrupted", heard=""))
    details = wired.last("response.done")["response"]["status_details"]
    assert details["reason"] == "client_cancelled"


def reasons(wired: Wired) -> list[str]:
    return [
        event["response"]["status_details"]["reason"]
        for event in wired.events
        if event["type"] == "response.done"
    ]


def test_an_answer_that_the_client_ends_before_it_began_says_so():
    wired = Wired()
    # the decisions reach the client after both messages were read
    assert wired.receive("response.create") == [Respond(None)]
    assert wired.receive("response.cancel") == [Cancel()]
    wired.sent(wired.core.begin(1))
    wired.core.flush(1, heard_ms=0)
    wired.sent(wired.core.end(1, "interrupted", heard=""))
    assert reasons(wired) == ["client_cancelled"]
    # the next one is interrupted by the user
    wired.receive("response.create")
    wired.speak(2)
    wired.sent(wired.core.end(2, "interrupted", heard=""))
    assert reasons(wired) == ["client_cancelled", "turn_detected"]


def test_answers_asked_for_at_once_replace_one_another():
    wired = Wired()
    for _ in range(3):
        wired.receive("response.create")
    for revision in (1, 2, 3):
        wired.sent(wired.core.begin(revision))
        wired.sent(wired.core.end(revision, "interrupted", heard=""))
    assert reasons(wired) == ["client_cancelled", "client_cancelled", "turn_detected"]


@pytest.mark.parametrize("how", ["it speaks", "it writes", "another turn"])
def test_a_cancel_that_came_too_early_taints_no_later_answer(how: str):
    wired = Wired()
    wired.receive("response.create")
    wired.receive("response.cancel")
    if how == "another turn":
        wired.turn()
    wired.sent(wired.core.begin(1))
    if how == "it speaks":
        wired.sent(wired.core.audio(1, FRAME))
    elif how == "it writes":
        wired.sent(wired.core.text(1, "好"))
    wired.sent(wired.core.end(1, "interrupted", heard=""))
    assert reasons(wired) == ["turn_detected"]


def test_truncating_the_answer_that_plays_is_the_clients_end_of_it():
    wired = Wired()
    wired.speak(1)
    first = wired.last("response.output_item.added")["item"]["id"]
    truncate = {"content_index": 0, "audio_end_ms": 10}
    assert wired.receive("conversation.item.truncate", item_id=first, **truncate) == [
        HeardUntil(1, 10)
    ]
    wired.core.flush(1, heard_ms=10)
    wired.sent(wired.core.end(1, "interrupted", heard=""))
    wired.speak(2)
    # an answer that is over has nothing to do with the one that plays
    wired.receive("conversation.item.truncate", item_id=first, **truncate)
    wired.sent(wired.core.end(2, "interrupted", heard=""))
    assert reasons(wired) == ["client_cancelled", "turn_detected"]


def test_a_failed_answer_says_why():
    wired = Wired()
    wired.speak(1)
    wired.sent(wired.core.end(1, "failed", heard="", error=AtCapacity("Full", mend="Wait")))
    done = wired.last("response.done")["response"]
    assert done["status"] == "failed"
    assert done["status_details"]["error"] == {
        "type": "server_error",
        "code": "at_capacity",
        "message": "Full. Wait",
    }
    wired.speak(2)
    wired.sent(wired.core.end(2, "failed", heard=""))
    error = wired.last("response.done")["response"]["status_details"]["error"]
    assert error["code"] == "engine_failed"


def test_an_answer_that_fails_before_it_began_is_not_silent():
    wired = Wired()
    (event,) = wired.sent(wired.core.end(1, "failed", heard="", error=EngineFailed("No LLM")))
    assert event["error"]["message"] == "No LLM"
    assert wired.core.end(1, "interrupted", heard="") == []


def test_what_comes_after_the_end_is_stale():
    wired = Wired()
    wired.speak(1)
    wired.sent(wired.core.end(1, "answered", heard=""))
    assert wired.core.audio(1, FRAME) is None
    assert wired.core.text(1, "?") == []
    assert wired.core.pause(1) == []
    wired.core.flush(1, heard_ms=0)
    assert wired.core.end(1, "interrupted", heard="") == []


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
    wired.sent(wired.core.end(1, "interrupted", heard="很"))
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


def test_pause_and_resume_are_our_own_events():
    wired = Wired()
    wired.speak(1)
    (paused,) = wired.sent(wired.core.pause(1))
    (resumed,) = wired.sent(wired.core.resume(1))
    created = wired.last("response.created")["response"]
    assert paused["type"] == "duplexd.playback.paused"
    assert resumed["type"] == "duplexd.playback.resumed"
    assert paused["response_id"] == resumed["response_id"] == created["id"]


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


def test_deltas_carry_what_two_partials_agree_on():
    wired = Wired()
    core = wired.core
    wired.sent(core.turn_opened(at_ms=0))
    deltas = []
    for text in ("今天", "今天天气。", "今天天气怎", "今天天汽怎么样"):
        deltas += [event["delta"] for event in wired.sent(core.partial(text))]
    assert deltas == ["今天", "天气"]
    wired.sent(core.turn_ended(at_ms=900))
    final = wired.sent(core.final("今天天气怎么样？"))
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
    (event,) = wired.sent(core.final("天气"))
    assert event["transcript"] == "天气"


def test_partials_outside_a_turn_go_nowhere():
    wired = Wired()
    assert wired.core.partial("?") == []
    assert wired.core.final("?") == []


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
    wired.sent(wired.core.final("你好"))
    assert "input_audio_buffer.committed" in wired.kinds()
    assert not any("speech" in kind for kind in wired.kinds())
    # nothing is being made, until it is asked for
    assert wired.receive("response.cancel") == []
    assert wired.receive("response.create") == [Respond(None)]
    assert wired.receive("response.cancel") == [Cancel()]


def test_audio_sent_while_a_commit_is_worked_on_can_be_committed():
    wired = Wired()
    wired.update(audio={"input": {"turn_detection": None}})
    for _ in range(2):
        wired.receive("input_audio_buffer.append", audio="AAAA" * 4)
        assert wired.receive("input_audio_buffer.commit") == [Commit()]
        wired.receive("input_audio_buffer.append", audio="AAAA" * 4)
        wired.sent(wired.core.turn_ended(at_ms=500))
        wired.sent(wired.core.final("你好"))
        assert wired.receive("input_audio_buffer.commit") == [Commit()]


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
    assert action == Hear(bytes(12))
    assert wired.receive("input_audio_buffer.clear") == [Clear()]
    assert wired.last("input_audio_buffer.cleared")
    assert wired.receive("input_audio_buffer.commit") == []
    assert wired.last("error")["error"]["code"] == "input_audio_buffer_commit_empty"


def test_an_answer_on_its_way_can_be_cancelled():
    wired = Wired()
    wired.turn()
    assert wired.receive("response.cancel") == [Cancel()]
    wired.turn("")
    assert wired.receive("response.cancel") == []
    wired.speak(1)
    active = wired.last("response.created")["response"]["id"]
    assert wired.receive("response.cancel", response_id="other") == []
    assert wired.receive("response.cancel", response_id=active) == [Cancel()]


def test_every_option_reaches_the_conversation():
    options = Wired().update(
        instructions="Be brief",
        max_output_tokens=50,
        temperature=0.5,
        model="gpt-realtime",
        include=[],
        tracing="auto",
        truncation="auto",
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
        audio={
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": {"type": "near_field"},
                "transcription": {"model": "whisper-1"},
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 400,
                    "create_response": False,
                    "interrupt_response": False,
                },
            },
            "output": {"voice": {"id": "nicole"}, "speed": 1.25},
        },
    )
    assert options == SessionOptions(
        instructions="Be brief",
        voice="nicole",
        speed=1.25,
        server_turns=True,
        auto_respond=False,
        interruptible=False,
        floor_ms=400,
        max_tokens=50,
        temperature=0.5,
        speak=True,
    )


def test_an_update_changes_what_it_mentions():
    wired = Wired()
    wired.update(
        instructions="A",
        max_output_tokens=50,
        temperature=0.1,
        audio={
            "input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}},
            "output": {"voice": "nicole"},
        },
    )
    options = wired.update(
        max_output_tokens="inf", audio={"output": {"speed": 2}, "input": {}}, instructions=None
    )
    assert (options.instructions, options.voice, options.speed) == ("A", "nicole", 2)
    assert (options.floor_ms, options.max_tokens) == (300, None)
    session = wired.last("session.updated")["session"]
    assert session["temperature"] == 0.1
    assert session["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 300
    assert wired.update(instructions="").instructions == ""


def test_an_update_that_the_conversation_refuses_changes_nothing():
    wired = Wired()
    (action,) = wired.receive(
        "session.update",
        event_id="mine",
        session={"type": "realtime", "audio": {"output": {"voice": "nobody"}}},
    )
    refused = wired.core.not_updated(action, UnknownVoice("There is no voice 'nobody'"))
    (event,) = wired.sent(refused.text)
    assert event["error"]["code"] == "unknown_voice"
    assert event["error"]["event_id"] == "mine"
    assert wired.update().voice is None


@pytest.mark.parametrize(
    ("role", "kind", "shown"),
    [
        ("user", "input_text", "input_text"),
        ("system", "text", "input_text"),
        ("assistant", "output_text", "output_text"),
    ],
)
def test_messages_are_added_in_order(role, kind, shown):
    wired = Wired()
    parts = [{"type": kind, "text": "一"}, {"type": kind, "text": "二"}]
    item = {"type": "message", "role": role, "content": parts}
    assert wired.receive("conversation.item.create", item={**item, "id": "first"}) == [
        AddText(role, "一二")
    ]
    assert wired.receive(
        "conversation.item.create", item=item, previous_item_id="first", event_id="e"
    ) == [AddText(role, "一二")]
    added = [event for event in wired.events if event["type"] == "conversation.item.added"]
    assert [event["previous_item_id"] for event in added] == [None, "first"]
    assert added[0]["item"]["content"] == [{"type": shown, "text": "一二"}]
    assert wired.kinds().count("conversation.item.done") == 2


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


def test_items_are_chained_and_old_ones_forgotten():
    wired = Wired()
    for revision in range(1, 301):
        wired.sent(wired.core.turn_opened(at_ms=0))
        wired.sent(wired.core.turn_ended(at_ms=1))
        wired.sent(wired.core.begin(revision))
        wired.sent(wired.core.end(revision, "answered", heard=""))
    previous = None
    for event in wired.events:
        if event["type"] == "conversation.item.added":
            assert event["previous_item_id"] == previous
            previous = event["item"]["id"]
    first = next(e for e in wired.events if e["type"] == "response.output_item.added")["item"]
    wired.receive(
        "conversation.item.truncate", item_id=first["id"], content_index=0, audio_end_ms=0
    )
    assert wired.last("error")["error"]["code"] == "item_not_found"
