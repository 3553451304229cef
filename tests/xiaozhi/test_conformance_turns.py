"""Invariants: turns in every mode and framing, line by line of the protocol's checklist, over a
real socket and through the real pipeline.
"""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from services.scripted.tts import ScriptedVoice, char_times
from tests.daemon.inside import Inside, inside
from tests.xiaozhi.device import (
    SENTENCE,
    START,
    STOP,
    Microphone,
    connected,
    silence,
    talking,
    voice,
)
from tests.xiaozhi.order import ALERT, HELLO, LLM, STT, answers
from tests.xiaozhi.served import STORY, served
from tests.xiaozhi.turn import turn

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
MODES = pytest.mark.parametrize("mode", ["auto", "manual", "realtime"])


@VERSIONS
@MODES
@served
async def test_a_turn_in_every_mode(daemon: Inside, version: int, mode: str) -> None:
    """Checklist: auto, manual and realtime turns; the three framings, both ways."""
    async with talking(daemon.address, version=version, mode=mode) as device:
        await turn(device, mode=mode)
        assert device.kinds[:5] == [HELLO, STT, START, LLM, SENTENCE]
        assert device.kinds[-1] == STOP
        seconds = sum(char_times(text)[-1] for text in (STORY[:7], STORY[7:]))
        assert len(device.heard()) / 24_000 == pytest.approx(seconds, abs=0.2)
        subtitles = [each.body["text"] for each in device.of(SENTENCE) if each.body]
        assert "".join(subtitles) == STORY
        await turn(device, mode=mode)  # and the next one works
        assert len(answers(device.told).played) == 2
        stamps = [each.timestamp for each in device.audio]
        if version == 2:
            assert stamps == sorted(set(stamps))
            assert stamps[0] > 0


@served
async def test_a_client_that_does_not_listen_anew_is_heard_all_the_same(daemon: Inside) -> None:
    """Checklist: auto turns: some clients say `listen start` only once."""
    async with talking(daemon.address) as device:
        for count in (1, 2, 3):
            await device.speak()
            await device.wait(STOP, count)


@served
async def test_what_an_auto_device_hears_of_the_answer_is_no_turn(daemon: Inside) -> None:
    """Checklist: auto turns: between our start and our stop it is the device's own voice."""
    async with talking(daemon.address) as device:
        await device.speak()
        await device.playing(3)
        await device.speak(0.8, pause_s=0.8)
        await device.wait(STOP)
        await turn(device)
        assert len(device.of(STT)) == 2
        assert answers(device.told).played[0] == pytest.approx(
            answers(device.told).played[1], abs=1
        )


# --- manual -----------------------------------------------------------------------------------
@VERSIONS
@served
async def test_the_server_does_not_end_a_turn_that_a_button_holds(
    daemon: Inside, version: int
) -> None:
    """Checklist: manual turns end by the button, not by silence."""
    async with talking(daemon.address, mode="manual", version=version) as device:
        await device.speak(0.6, pause_s=3.0)
        await device.speak(0.6, pause_s=0.1)
        assert not device.of(STT)
        await device.release()
        await device.wait(STOP)
        assert len(device.of(STT)) == 1


async def test_a_short_reply_right_after_the_answer_is_heard() -> None:
    """Checklist: manual turns: what is said while the button is pressed is the reply, however short
    it is, and however soon after the answer.
    """
    sets = {"scripted.transcripts": '["要不要听", "好"]', "scripted.replies": "[要不要继续听？]"}
    async with inside(sets) as daemon, talking(daemon.address, mode="manual") as device:
        await turn(device, mode="manual")
        await turn(device, mode="manual", seconds=0.24)
        assert [each.body["text"] for each in device.of(STT) if each.body] == ["要不要听", "好"]


@served
async def test_a_button_that_was_pressed_for_nothing(daemon: Inside) -> None:
    """Checklist: manual turns: nothing was said, and the next turn works."""
    async with talking(daemon.address, mode="manual") as device:
        await device.release()
        await device.listen("manual")
        await device.sound(silence(0.5))
        await device.release()
        await device.release()
        await turn(device, mode="manual")
        assert len(device.of(STT)) == len(device.of(START)) == 1
        answers(device.told)


@served
async def test_a_button_that_is_pressed_while_the_device_speaks(daemon: Inside) -> None:
    """Checklist: manual turns: push-to-talk interrupts, by an abort and a new `listen start`."""
    async with talking(daemon.address, mode="manual") as device:
        await device.speak()
        await device.release()
        await device.playing(4)
        await device.abort()
        await device.wait(STOP)
        await turn(device, mode="manual")
        assert len(device.of(STT)) == 2
        first, second = answers(device.told, aborts=1).played
        assert first < second


@served
async def test_what_was_said_between_two_presses_is_none_of_the_turn(daemon: Inside) -> None:
    """Checklist: manual turns: the microphone counts between press and release."""
    async with talking(daemon.address, mode="manual") as device:
        await turn(device, mode="manual")
        await device.speak(1.0)  # the button is not pressed
        await device.listen("manual")
        await device.release()
        await turn(device, mode="manual")
        assert len(device.of(STT)) == 2


# --- realtime ---------------------------------------------------------------------------------
@VERSIONS
async def test_a_voice_interrupts_a_realtime_device(version: int) -> None:
    """Checklist: realtime turns: barge-in is the server's, without `features.aec`: one stop, and
    the new question is answered.
    """
    sets = {
        "scripted.replies": json.dumps([STORY * 3, "好的，不讲了。"]),
        "scripted.transcripts": '["讲个故事", "换一个别的故事吧"]',
    }
    async with (
        inside(sets) as daemon,
        talking(daemon.address, mode="realtime", version=version) as device,
    ):
        await device.speak()
        await device.playing(12)
        await device.say(np.concatenate((voice(1.0), silence(0.8))))
        await device.wait(STOP, 2)
        assert [each.body["text"] for each in device.of(STT) if each.body] == [
            "讲个故事",
            "换一个别的故事吧",
        ]
        first, _ = answers(device.told).played
        assert first < 60  # of some 110 packets


@served
async def test_noise_over_the_answer_does_not_end_it(daemon: Inside) -> None:
    """Checklist: realtime turns: silence and a click over the answer interrupt nothing."""
    async with talking(daemon.address, mode="realtime") as device:
        await device.speak()
        await device.playing(3)
        await device.say(np.concatenate((silence(0.3), voice(0.06), silence(0.6))))
        await device.wait(STOP)
        seconds = sum(char_times(text)[-1] for text in (STORY[:7], STORY[7:]))
        assert len(device.heard()) / 24_000 == pytest.approx(seconds, abs=0.2)


# --- packets ----------------------------------------------------------------------------------
@VERSIONS
@served
async def test_pauses_of_tiny_and_empty_packets_are_silence(daemon: Inside, version: int) -> None:
    """Checklist: packets of one or two bytes, and empty ones, are silence that takes time."""
    async with talking(daemon.address, version=version) as device:
        await device.sound(voice(0.6))
        for packet in (b"\xf8", b"", b"\xf8\xff") * 5:
            await device.packet(packet)
        await device.wait(STOP)
        assert len(device.of(STT)) == 1


@VERSIONS
@served
async def test_a_pause_as_a_real_encoder_leaves_it_out(daemon: Inside, version: int) -> None:
    """Checklist: a run of DTX packets is silence."""
    async with talking(daemon.address, version=version) as device:
        packets = Microphone(dtx=True).packets(np.concatenate((voice(0.6), silence(1.5))))
        assert sum(len(packet) <= 2 for packet in packets) > 5
        for packet in packets:
            await device.packet(packet)
        await device.wait(STOP)
        assert len(device.of(STT)) == 1


@VERSIONS
@served
async def test_broken_packets_do_not_end_the_decoder(daemon: Inside, version: int) -> None:
    """Checklist: corrupt packets are silence, and what follows is heard."""
    async with talking(daemon.address, version=version) as device:
        for size in (1, 3, 40, 200, 1200):
            await device.packet(b"\xff" * size)
        for code in range(0, 256, 5):
            await device.packet(bytes([code]) * 50)
        await device.sound(silence(1.0))
        stops = len(device.of(STOP))
        await device.speak()
        await device.wait(STOP, stops + 1)
        assert len(answers(device.told).played) >= 1


@pytest.mark.parametrize("frame_ms", [20, 40])
@served
async def test_packets_of_another_length(daemon: Inside, frame_ms: int) -> None:
    """Checklist: the real duration comes from the packet: old builds send 20 and 40 ms."""
    async with connected(daemon.address) as device:
        audio = {"format": "opus", "sample_rate": 16_000, "channels": 1, "frame_duration": frame_ms}
        await device.hello(audio_params=audio)
        await device.listen()
        microphone = Microphone(frame_ms=frame_ms)
        for packet in microphone.packets(np.concatenate((voice(0.6), silence(0.5)))):
            await device.packet(packet)
        await device.wait(STOP)
        assert len(device.of(STT)) == 1


# --- the wake word ----------------------------------------------------------------------------
@VERSIONS
@served
async def test_the_wake_word_is_no_turn(daemon: Inside, version: int) -> None:
    """Checklist: a burst of the wake word before any `listen start`, faster than real time."""
    async with connected(daemon.address, version=version) as device:
        await device.hello()
        await device.sound(voice(1.5))
        await device.detect("你好小智")
        await device.listen()
        await device.sound(silence(1.0))
        await turn(device)
        assert len(device.of(STT)) == len(device.of(START)) == 1


@served
async def test_the_sentence_right_after_the_wake_word_is_heard(daemon: Inside) -> None:
    """Checklist: wake word: the first sentence is not lost."""
    async with connected(daemon.address) as device:
        await device.hello()
        await device.sound(voice(1.5))
        await device.detect("你好小智")
        await device.listen()
        await device.speak()
        await device.wait(STOP)
        assert len(device.of(STT)) == 1


async def test_a_wake_word_is_greeted_where_one_wants_it() -> None:
    """Checklist: wake word: a greeting has its start and stop, and the turn after it works."""
    sets = {
        "xiaozhi.greeting": '{"zh": "我在。", "en": "Yes?"}',
        "scripted.replies": "[好的。]",
    }
    async with inside(sets) as daemon, connected(daemon.address) as device:
        await device.hello()
        await device.detect("你好小智")
        await device.listen()
        await device.wait(STOP)
        assert not device.of(STT)
        await turn(device)
        assert [each.body["text"] for each in device.of(SENTENCE) if each.body] == [
            "我在。",
            "好的。",
        ]
        assert len(device.of(STT)) == 1


async def test_a_greeting_is_ready_before_anybody_calls() -> None:
    engine = ScriptedVoice()
    sets = {"xiaozhi.greeting": '{"zh": "我在，请说。", "en": "Yes?"}'}
    async with inside(sets, voice=engine) as daemon:
        await asyncio.gather(
            *(each for each in asyncio.all_tasks() if each.get_name() == "rehearse greetings")
        )
        assert engine.stats.jobs == 2  # one in each language
        heard: list[bytes] = []
        for _ in range(2):
            async with connected(daemon.address) as device:
                await device.hello()
                await device.detect("你好小智")
                await device.listen()
                await device.wait(STOP)
                heard.append(device.heard().tobytes())
                assert [each.body["text"] for each in device.of(SENTENCE) if each.body] == [
                    "我在，请说。"
                ]
        assert len(heard[0]) > 0
        assert heard[0] == heard[1]
        assert engine.stats.jobs == 2


@VERSIONS
@served
async def test_a_text_is_answered(daemon: Inside, version: int) -> None:
    """Checklist: `listen detect` with any other text is a question."""
    async with connected(daemon.address, version=version) as device:
        await device.hello()
        await device.detect("讲个故事")
        await device.wait(STOP)
        assert [each.body["text"] for each in device.of(STT) if each.body] == ["讲个故事"]
        assert answers(device.told).played[0]


# --- what is said -----------------------------------------------------------------------------
async def test_marks_links_and_reasoning_are_not_read_aloud() -> None:
    """Checklist: what is told of an answer is what can be spoken, with a face for its mood."""
    reply = "<think>想一想</think>😊 **好的**，见 [这里](http://example.com/x)。"
    sets = {"scripted.replies": json.dumps([reply], ensure_ascii=False)}
    engine = ScriptedVoice()
    async with inside(sets, voice=engine) as daemon, talking(daemon.address) as device:
        engine.spoken.clear()
        await turn(device)
        said = "".join(each.text for each in engine.spoken)
        shown = "".join(each.body["text"] for each in device.of(SENTENCE) if each.body)
        for text in (said, shown):
            assert "好的" in text
            assert "这里" in text
            for bad in ("think", "想一想", "*", "😊"):
                assert bad not in text
        assert "http" not in said
        [face] = [each.body for each in device.of(LLM)]
        assert face is not None
        assert face["emotion"] in ("happy", "laughing", "loving")


async def test_an_empty_answer_still_ends() -> None:
    """Checklist: an answer without any audio: the device is not left speaking."""
    sets = {"scripted.replies": '["😊", "好。"]'}
    async with inside(sets) as daemon, talking(daemon.address) as device:
        await turn(device)
        assert not answers(device.told).speaking
        await turn(device)
        assert answers(device.told).played[-1] > 0
        assert not device.of(ALERT)
