"""Invariants of WS /ws/tts: texts are spoken in order as they come, each ends in exactly one of
`end`, `cancelled` and `error`, and whatever a client does, the next text is spoken.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import websockets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.scripted.tts import ScriptedVoice, VoiceFault, detect_tone
from tests.audio_api.conftest import ValveVoice
from tests.daemon.inside import settled
from tests.tts_service.served import RATE, TEXT, CloningVoice, Served, Talk, seconds_of, served
from tts_engine.service.api_errors import ApiError
from tts_engine.service.socket_messages import read_message
from tts_engine.text.stream import segment

CLAUSES = [clause.text for clause in segment(TEXT)]
#: bytes of a `ValveVoice`'s chunk
CHUNK = RATE // 10 * 2


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def spoken(talk: Talk, text: str = TEXT) -> None:
    """A whole text is spoken as if nothing had been before."""
    await talk.say("speak", id="next", text=text)
    while True:
        events, audio = await talk.until("end", "error", "cancelled")
        if events[-1]["id"] == "next":
            break
    assert events[-1]["type"] == "end", events
    assert len(audio) / 2 / RATE == seconds_of(text)


# --- what is said -------------------------------------------------------------------------------


async def test_a_whole_text_comes_clause_by_clause():
    async with served() as at, at.talk() as talk:
        await talk.say("speak", text=TEXT)
        events, audio = await talk.until("end")
        assert kinds(events) == ["started", *["clause"] * len(CLAUSES), "end"]
        started, *clauses, end = events
        assert started == {"type": "started", "id": "u1", "voice": "one", "sample_rate": RATE}
        assert [each["number"] for each in clauses] == list(range(len(CLAUSES)))
        assert [each["spoken"] for each in clauses] == CLAUSES
        assert "".join(each["text"] for each in clauses) == TEXT
        starts = [each["at_ms"] for each in clauses]
        assert starts[0] == 0
        assert starts == sorted(starts)
        assert end["audio_ms"] == round(len(audio) / 2 / RATE * 1000)
        assert end["chars"] == len(TEXT)
        assert end["first_audio_ms"] >= 0
        assert len(audio) / 2 / RATE == seconds_of(TEXT)
    assert at.count("speech_requests_total", outcome="done") == 1
    assert at.count("speech_first_byte_seconds_count") == 1
    assert at.count("speech_seconds_count") == 1


async def test_an_event_comes_just_before_the_audio_that_it_is_about():
    async with served() as at, at.talk() as talk:
        await talk.say("speak", text=TEXT)
        samples = 0
        while not isinstance(got := await talk.next(), dict) or got["type"] != "end":
            if isinstance(got, bytes):
                samples += len(got) // 2
            elif got["type"] == "clause":
                assert got["at_ms"] == round(samples / RATE * 1000)


async def test_pieces_are_spoken_while_the_rest_is_not_written_yet():
    async with served() as at, at.talk() as talk:
        await talk.say("start", id="answer", voice="two", speed=1.5, instruct="happy")
        for piece in ("好的，今", "天天气", "很好。"):
            await talk.say("text", text=piece)
        events, _ = await talk.until("clause")
        assert kinds(events) == ["started", "clause"]
        assert events[1]["text"] == "好的，今天天气很好。"
        await talk.say("text", text="再见！")
        await talk.say("end")
        events, _ = await talk.until("end")
        assert events[-1]["id"] == "answer"
        clause, *_ = at.service.voice.spoken  # type: ignore[attr-defined]
        assert (clause.voice, clause.speed, clause.style) == ("two", 1.5, "happy")


async def test_several_utterances_follow_each_other_on_one_socket():
    texts = {"a": "第一句话。", "b": "第二句话。", "c": "第三句话。"}
    async with served() as at, at.talk() as talk:
        for name, text in texts.items():
            await talk.say("speak", id=name, text=text)
        for name, text in texts.items():
            events, audio = await talk.until("end")
            assert {event["id"] for event in events} == {name}
            assert len(audio) / 2 / RATE == seconds_of(text)
        await spoken(talk)


async def test_other_rates_pitch_and_energy_are_made_here_too():
    async with served(ScriptedVoice(tone_hz=440)) as at, at.talk() as talk:
        await talk.say("speak", text=TEXT, sample_rate=16_000, pitch=1.5, energy=0.5)
        events, audio = await talk.until("end")
    assert events[0]["sample_rate"] == 16_000
    assert len(audio) / 2 / 16_000 == pytest.approx(seconds_of(TEXT), abs=0.02)
    assert events[-1]["audio_ms"] == pytest.approx(seconds_of(TEXT) * 1000, abs=10)
    assert detect_tone(audio, 16_000) == pytest.approx(660, abs=5)


async def test_a_browser_that_offers_a_subprotocol_gets_it():
    async with served() as at, at.talk(subprotocols=["tts"]) as talk:
        assert talk.connection.subprotocol == "tts"


# --- cancelling ---------------------------------------------------------------------------------


async def test_what_is_spoken_is_cancelled_at_once():
    voice = ValveVoice()
    async with served(voice) as at, at.talk() as talk:
        await talk.say("speak", text=TEXT)
        voice.give("part")
        await talk.until("clause")
        assert isinstance(await talk.next(), bytes)
        await talk.say("cancel")
        events, audio = await talk.until("cancelled")
        assert (kinds(events), audio) == (["cancelled"], b"")
        assert events[0]["audio_ms"] == 100
        assert voice.closed == CLAUSES[:1]
        await talk.say("cancel")  # there is nothing any more
        await talk.say("speak", text=TEXT)
        voice.give(*["last"] * len(CLAUSES))
        events, audio = await talk.until("end")
        assert len(audio) == CHUNK * len(CLAUSES)
    assert at.count("speech_requests_total", outcome="cancelled") == 1


async def test_what_waits_is_cancelled_by_its_name_and_the_others_are_not():
    voice = ValveVoice()
    async with served(voice) as at, at.talk() as talk:
        for name in "abc":
            await talk.say("speak", id=name, text=TEXT)
        await talk.say("cancel", id="b")
        await talk.say("nonsense")
        await talk.until("error")  # everything before it was read
        voice.give(*["last"] * (2 * len(CLAUSES)))
        ends = [(await talk.until("end", "cancelled"))[0][-1] for _ in range(3)]
    assert [(end["id"], end["type"]) for end in ends] == [
        ("a", "end"),
        ("b", "cancelled"),
        ("c", "end"),
    ]


async def test_everything_is_cancelled_without_a_name_also_a_text_that_is_being_written():
    async with served() as at, at.talk() as talk:
        await talk.say("start", id="a")
        await talk.say("text", text="还没")
        await talk.say("cancel")
        events, _ = await talk.until("cancelled")
        assert events[-1]["id"] == "a"
        await talk.say("text", text="说完。")  # its writer may not know yet
        await talk.say("end")
        await spoken(talk)


async def test_after_a_cancel_the_next_text_may_begin_at_once():
    voice = ValveVoice()
    async with served(voice) as at, at.talk() as talk:
        await talk.say("speak", id="a", text=TEXT)  # what follows waits behind it
        await talk.say("start", id="b")
        await talk.say("text", text="还没")
        await talk.say("cancel", id="b")
        await talk.say("text", text="说完。")
        await talk.say("start", id="c")
        await talk.say("cancel", id="c")
        await talk.say("speak", id="d", text=TEXT)
        voice.give(*["last"] * (2 * len(CLAUSES)))
        ends = [(await talk.until("end", "cancelled", "error"))[0][-1] for _ in range(4)]
    assert [(end["id"], end["type"]) for end in ends] == [
        ("a", "end"),
        ("b", "cancelled"),
        ("c", "cancelled"),
        ("d", "end"),
    ]


# --- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message, code, param",
    [
        ("{", "invalid_json", None),
        ("[1]", "invalid_json", None),
        (b"\x00\x01", "unknown_message", None),
        ({"type": "shout"}, "unknown_message", "type"),
        ({"type": ["speak"]}, "unknown_message", "type"),
        ({"text": "x"}, "unknown_message", "type"),
        ({"type": "speak"}, "missing_required_parameter", "text"),
        ({"type": "speak", "text": " "}, "invalid_value", "text"),
        ({"type": "speak", "text": "x" * 10_000}, "text_too_long", "text"),
        ({"type": "speak", "text": "x", "more": 1}, "unknown_parameter", "more"),
        ({"type": "speak", "text": "x", "voice": "nobody"}, "unknown_voice", "voice"),
        ({"type": "speak", "text": "x", "sample_rate": 7}, "invalid_value", None),
        ({"type": "speak", "text": "x", "speed": 2, "pitch": 0.5}, "bad_request", None),
        ({"type": "speak", "text": "x", "id": ""}, "invalid_value", "id"),
        ({"type": "speak", "text": "hi\ud800"}, "invalid_value", "text"),
        ({"type": "text", "text": "\udc00"}, "invalid_value", "text"),
        ({"type": "text", "text": "x"}, "bad_request", None),
        ({"type": "end"}, "bad_request", None),
    ],
)
async def test_a_wrong_message_is_told_and_the_next_text_is_spoken(
    message: Any, code: str, param: str | None
):
    async with served() as at, at.talk() as talk:
        sent = message if isinstance(message, str | bytes) else json.dumps(message)
        await talk.connection.send(sent)
        [event], _ = await talk.until("error")
        assert event["id"] is None
        assert (event["error"]["code"], event["error"]["param"]) == (code, param)
        await spoken(talk)


@pytest.mark.parametrize("text", ["😀😀", "```py\nx\n```", "<think>hm</think>"])
async def test_a_text_without_a_sound_is_refused(text: str):
    async with served() as at, at.talk() as talk:
        await talk.say("speak", id="a", text=text)
        events, _ = await talk.until("error")
        assert (events[-1]["id"], events[-1]["error"]["code"]) == ("a", "nothing_to_say")
        assert events[-1]["error"]["param"] == "text"
        await spoken(talk)
    assert at.count("speech_requests_total", outcome="refused") == 1


async def test_pieces_that_become_too_long_end_their_text():
    async with served(sets={"speech.max_chars": 100}) as at, at.talk() as talk:
        await talk.say("start", id="a")
        for _ in range(30):
            await talk.say("text", text="今天天气很好。")
        await talk.say("end")
        events, _ = await talk.until("error")
        assert (events[-1]["id"], events[-1]["error"]["code"]) == ("a", "text_too_long")
        await spoken(talk, "今天很好。")


async def test_a_text_that_is_not_written_on_is_not_waited_for():
    async with served(sets={"speech.idle_s": 0.2}) as at, at.talk() as talk:
        for pieces in ([], ["今天天"]):
            await talk.say("start", id="a")
            for piece in pieces:
                await talk.say("text", text=piece)
            events, _ = await talk.until("error")
            assert (events[-1]["id"], events[-1]["error"]["code"]) == ("a", "timed_out")
            await talk.say("text", text="还有")
            await talk.say("end")
        await spoken(talk)


async def test_one_text_is_written_at_a_time():
    async with served() as at, at.talk() as talk:
        await talk.say("start", id="a")
        for kind, more in (("start", {}), ("speak", {"text": "x"})):
            await talk.say(kind, **more)
            events, _ = await talk.until("error")
            assert events[-1]["error"]["code"] == "bad_request"
        await talk.say("text", text="好的。")
        await talk.say("end")
        events, _ = await talk.until("end")
        assert events[-1]["id"] == "a"


async def test_names_and_places_in_the_queue_are_limited():
    voice = ValveVoice()
    async with served(voice) as at, at.talk() as talk:
        await talk.say("speak", id="a", text=TEXT)
        await talk.say("speak", id="a", text=TEXT)
        [*_, twice], _ = await talk.until("error")
        assert (twice["error"]["param"], twice["error"]["code"]) == ("id", "bad_request")
        for _ in range(15):
            await talk.say("speak", text=TEXT)
        await talk.say("speak", text=TEXT)
        [*_, full], _ = await talk.until("error")
        assert full["error"]["code"] == "at_capacity"
        await talk.say("cancel")
        for _ in range(16):
            await talk.until("cancelled")


async def test_a_service_that_is_full_refuses_the_utterance_and_not_the_socket():
    voice = ValveVoice()
    async with served(voice, {"speech.parallel": 1}) as at, at.talk() as one, at.talk() as two:
        await one.say("speak", text=TEXT)
        await one.until("started")
        await two.say("speak", text=TEXT)
        events, _ = await two.until("error")
        assert events[-1]["error"]["code"] == "at_capacity"
        voice.give(*["last"] * (2 * len(CLAUSES)))
        await one.until("end")
        await two.say("speak", text=TEXT)
        await two.until("end")


async def test_an_utterance_whose_voice_is_deleted_ends_with_its_clause():
    voice = CloningVoice("mine")
    voice.pause = asyncio.Event()
    async with served(voice) as at, at.talk() as talk, at.http() as client:
        await talk.say("speak", id="a", text=TEXT, voice="mine")
        await talk.until("clause")
        assert (await client.delete("/voices/mine")).status_code == 200
        voice.pause.set()
        events, audio = await talk.until("error")
        assert len(audio) / 2 / RATE == seconds_of(CLAUSES[0])
        assert (events[-1]["id"], events[-1]["error"]["code"]) == ("a", "unknown_voice")
        await spoken(talk)


@pytest.mark.parametrize("kind", ["raise", "empty", "hang"])
async def test_an_utterance_that_fails_is_told_and_the_next_one_is_spoken(kind: Any):
    voice = ScriptedVoice(failures={2: VoiceFault(kind=kind)})
    async with served(voice, {"tts.clause_timeout_s": 0.5}) as at, at.talk() as talk:
        await talk.say("speak", id="a", text=TEXT)
        events, _ = await talk.until("error")
        assert events[-1]["id"] == "a"
        assert events[-1]["error"]["code"] == ("timed_out" if kind == "hang" else "engine_failed")
        assert events[-1]["error"]["type"] == "server_error"
        await spoken(talk)
    assert at.count("speech_requests_total", outcome="failed") == 1


async def test_words_of_the_list_are_seen_however_they_are_cut(tmp_path: Path):
    words = tmp_path / "words.txt"
    words.write_text("坏词\n", encoding="utf-8")
    async with (
        served(sets={"speech.blocked_words": json.dumps(str(words))}) as at,
        at.talk() as talk,
    ):
        await talk.say("speak", text="坏词。")
        events, _ = await talk.until("error")
        assert events[-1]["error"]["code"] == "blocked_text"
        await talk.say("start", id="a")
        for piece in ("今天天气很好。", "这是坏", "词吗？"):
            await talk.say("text", text=piece)
        await talk.say("end")
        events, _ = await talk.until("error")
        assert (events[-1]["id"], events[-1]["error"]["code"]) == ("a", "blocked_text")
        assert "这是" not in "".join(event.get("text", "") for event in events)
        await spoken(talk)


# --- who leaves, and who does not take it -------------------------------------------------------


async def test_a_client_that_leaves_in_the_middle_ends_the_work():
    voice = ValveVoice()
    async with served(voice, {"speech.parallel": 1}) as at:
        async with at.talk() as talk:
            await talk.say("speak", text=TEXT)
            voice.give("part")
            await talk.until("clause")
        await settled(lambda: voice.closed == CLAUSES[:1], "the voice still works")
        await settled(lambda: at.count("speech_requests_total", outcome="gone") == 1, "lost")
        voice.give(*["last"] * len(CLAUSES))
        async with at.talk() as talk:
            await talk.say("speak", text=TEXT)
            await talk.until("end")


async def test_a_connection_that_breaks_ends_the_work():
    voice = ValveVoice()
    async with served(voice) as at, at.talk() as talk:
        await talk.say("speak", text=TEXT)
        await talk.until("started")
        await settled(lambda: voice.asked == CLAUSES[:1], "nothing was asked for")
        talk.connection.transport.abort()
        await settled(lambda: voice.closed == CLAUSES[:1], "the voice still works")


async def test_a_client_that_takes_nothing_is_cut():
    voice = ScriptedVoice()
    long = "今天天气很好，我们去公园走走吧。" * 250
    async with served(voice, {"speech.stall_s": 0.3, "speech.ahead_s": 1.0}) as at:
        async with at.talk(max_queue=1) as talk:
            talk.connection.transport.pause_reading()
            await talk.say("speak", text=long)
            await settled(
                lambda: at.count("speech_requests_total", outcome="stalled") == 1, "waited for"
            )
            talk.connection.transport.abort()
        assert at.count("errors_total", code="timed_out") == 1
        await at.works()


async def test_the_server_may_end_while_it_speaks():
    voice = ValveVoice()
    async with served(voice) as at:
        talk = at.talk()
        client = await talk.__aenter__()
        await client.say("speak", text=TEXT)
        await client.until("started")
    with pytest.raises(websockets.ConnectionClosed):
        await client.until("end")
    await talk.__aexit__(None, None, None)
    assert voice.closed == voice.asked


async def test_a_bug_of_ours_closes_the_socket_and_says_so(monkeypatch: pytest.MonkeyPatch):
    def broken(_: str) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("tts_engine.service.socket.read_message", broken)
    async with served() as at, at.talk() as talk:
        await talk.say("speak", text=TEXT)
        with pytest.raises(websockets.ConnectionClosedError):
            await talk.next()
        assert talk.connection.close_code == 1011
        await at.works()


async def test_a_service_that_warms_up_turns_sockets_away():
    never = asyncio.Event()

    class Slow(ScriptedVoice):
        async def start(self) -> None:
            await never.wait()

    async with served(Slow(), ready=False) as at:
        with pytest.raises(websockets.InvalidStatus) as caught:
            async with at.talk():
                pass
        never.set()
    response = caught.value.response
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.body is not None
    assert json.loads(response.body)["error"]["code"] == "not_ready"


async def test_a_socket_goes_on_beside_requests():
    async with served() as at, at.talk() as talk:
        await asyncio.gather(spoken(talk), at.works())
        assert isinstance(at, Served)


# --- whatever is sent ---------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.one_of(
        st.text(max_size=50),
        st.dictionaries(
            st.sampled_from(["type", "text", "id", "voice", "speed", "sample_rate", "x"]),
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.sampled_from(["speak", "start", "text", "end", "cancel", "1", ""])
            | st.lists(st.integers(), max_size=2),
            max_size=5,
        ).map(json.dumps),
    )
)
def test_a_message_is_read_or_refused(text: str):
    with contextlib.suppress(ApiError):
        read_message(text)
