"""The synthesis loop over the real parts of a tiny model: exact, shared, cancellable."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cosyvoice.conftest import Reference
from tests.cosyvoice.loop import Loop, as_wav, make_parts, same
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.parts import Parts
from tts_engine.cosyvoice.schedule import Limits
from tts_engine.cosyvoice.utterance import Utterance
from tts_engine.cosyvoice.voice_room import LINGER_S, VoiceRoom
from tts_engine.cosyvoice.voices import VoiceStore
from tts_engine.cosyvoice.wire import (
    Audio,
    Cancel,
    Done,
    Failed,
    Register,
    Registered,
    Remove,
    Removed,
    Speak,
    Started,
)
from tts_engine.errors import UnknownVoice

TEXT = "今天天气很好，我们出去走走。"
HOP = 960  # samples of a token


@pytest.fixture(scope="module")
def voices(
    tmp_path_factory: pytest.TempPathFactory, model: CosyVoice, reference: Reference
) -> Path:
    """A folder with two voices."""
    folder = tmp_path_factory.mktemp("voices")
    room = make_parts(model, folder).voices
    wav = as_wav(reference, folder / "reference.wav")
    for id, name in enumerate(("anna", "bert")):
        samples = wav if name == "anna" else wav[:-24_000]
        room.take(Register(id=id, name=name, text=reference.text, payload=samples))
    return folder


@pytest.fixture
def parts(model: CosyVoice, voices: Path) -> Parts:
    return make_parts(model, voices)


@pytest.fixture(scope="module")
def solo(model: CosyVoice, voices: Path) -> Callable[[Speak], np.ndarray]:
    """What an order gives when nobody else speaks; made once."""
    known: dict[str, np.ndarray] = {}

    def say(order: Speak) -> np.ndarray:
        key = repr(order)
        if key not in known:
            loop = Loop(make_parts(model, voices))
            loop.say(order)
            known[key] = loop.pcm(order.id)
        return known[key]

    return say


def order(id: int, voice: str = "anna", text: str = TEXT, **more: Any) -> Speak:
    return Speak(id=id, text=text, voice=voice, seed=id, **more)


def watched(loop: Loop) -> list[weakref.ref]:
    """Everything that an utterance holds on the device."""
    held: list[weakref.ref] = []
    for each in loop.loop._live.values():
        assert each.flow.cache
        held += map(weakref.ref, (each, each.tokens, each.flow, each.flow.cache, each._vocoder))
        held += [weakref.ref(mel) for mel in each._mel]
        held += [weakref.ref(store._own) for store in each.flow.cache.estimator]
        held += [weakref.ref(each._vocoder._source)]
    return held


def test_audio_comes_while_it_is_made(parts: Parts):
    loop = Loop(parts)
    loop.put(order(1))
    while not loop.of(Audio, 1):
        loop.loop.turn()
    [utterance] = loop.loop._live.values()
    pad = -len(parts.voices._one("anna").voice.features.flow_tokens) % 25
    assert 10 <= pad <= 15
    # The first block is complete with the prompt's tail, and looks three tokens ahead.
    assert len(utterance.tokens.tokens) == pad + 3
    [first] = loop.of(Audio, 1)
    # Six frames are held back, and a little silence may be.
    assert 0 < len(first.payload) // 2 <= (pad - 3) * HOP
    loop.until(1)
    done = loop.end(1)
    assert isinstance(done, Done)
    assert done.tokens == done.decoded == 40  # 1.6 s, where the test cuts it off
    assert 0.9 * 40 * HOP < len(loop.pcm(1)) <= 40 * HOP
    assert np.abs(loop.pcm(1)).max() > 100
    [started] = loop.of(Started, 1)
    assert started.waited_s >= 0
    assert parts.decoder.cache_bytes == 0


def test_marks_cover_the_text(parts: Parts):
    loop = Loop(parts)
    loop.say(order(1), order(2, text="Hi"))
    for id, length in ((1, len(TEXT)), (2, 2)):
        marks = [mark for audio in loop.of(Audio, id) for mark in audio.marks]
        for (sample, chars), (later, more) in itertools.pairwise(marks):
            assert sample < later
            assert chars < more
        assert marks[-1] == (len(loop.pcm(id)), length)
        first, total = 0, 0
        for audio in loop.of(Audio, id):
            first, total = total, total + len(audio.payload) // 2
            assert all(first <= sample <= total for sample, _ in audio.marks)


def test_two_voices_and_eight_at_once_are_each_as_if_alone(
    parts: Parts, solo: Callable[[Speak], np.ndarray]
):
    orders = [
        order(id, voice, text)
        for id, (voice, text) in enumerate(
            itertools.product(("anna", "bert"), (TEXT, "好的。", "Sure, why not?", "再说一遍，"))
        )
    ]
    loop = Loop(parts, limits=Limits(flow_rows=4))
    loop.say(*orders)
    for each in orders:
        same(loop.pcm(each.id), solo(each))
    decoded = max(loop.end(each.id).decoded for each in orders)  # type: ignore[union-attr]
    assert parts.decoder.steps / decoded <= 0.4
    other = solo(order(4, "bert"))[:20_000] - solo(order(0))[:20_000]
    assert np.abs(other).max() > 100  # the voices do differ


def test_speed_and_style_reach_the_audio(parts: Parts, solo: Callable[[Speak], np.ndarray]):
    loop = Loop(parts)
    loop.say(order(0, speed=2.0))
    assert len(loop.pcm(0)) == pytest.approx(len(solo(order(0))) / 2, rel=0.1)
    loop.say(Speak(id=9, text=TEXT, voice="anna", style="开心", seed=0))
    assert len(loop.pcm(9)) != len(solo(order(0))) or np.any(loop.pcm(9) != solo(order(0)))


def steps_until(stage: str) -> Callable[[Utterance], bool]:
    """Whether an utterance is about to go through a stage."""
    return {
        "prefill": lambda each: not each.tokens.tokens,
        "decode": lambda each: len(each.tokens.tokens) == 5,
        "flow": lambda each: each.flow.ready,
        "vocode": lambda each: bool(each._mel),
        "later": lambda each: each._samples > 0 and each.flow.ready,
    }[stage]


@pytest.mark.parametrize("stage", ["prefill", "decode", "flow", "vocode", "later"])
def test_cancelling_frees_everything(parts: Parts, stage: str):
    threads = threading.active_count()
    loop = Loop(parts)
    loop.put(order(1))
    about_to = steps_until(stage)
    loop.loop._listen()
    loop.loop._admit()
    while not about_to(loop.loop._live[1]):
        loop.loop.turn()
    held = watched(loop)
    told = len(loop.told)
    steps = parts.decoder.steps
    loop.put(Cancel(id=1), order(2, text="好"), Cancel(id=77))
    loop.loop.turn()
    assert parts.decoder.steps <= steps + 1
    gc.collect()
    assert not [each() for each in held if each() is not None]
    loop.until(2)
    assert not [each for each in loop.told[told:] if getattr(each, "id", 0) == 1]
    assert threading.active_count() == threads
    assert parts.decoder.cache_bytes == 0


def test_one_that_waits_is_cancelled(parts: Parts):
    loop = Loop(parts, limits=Limits(requests=1))
    loop.put(order(1), order(2), order(3))
    loop.loop.turn()
    loop.put(Cancel(id=2))
    loop.until(1, 3)
    assert not loop.of(Started, 2)


def test_the_end_of_the_loop_frees_everything(parts: Parts):
    loop = Loop(parts)
    loop.put(order(1), order(2))
    for _ in range(20):
        loop.loop.turn()
    held = watched(loop)
    loop.put(None)
    loop.loop.run()
    gc.collect()
    assert held
    assert not [each() for each in held if each() is not None]


class Raising:
    """A part that fails for one utterance."""

    def __init__(self, part: Any, culprit: Callable[[Any], bool], error: Exception) -> None:
        self._part = part
        self._culprit = culprit
        self._error = error
        self.tried: list[int] = []

    def step(self, streams: Any) -> Any:
        self.tried.append(len(streams))
        if any(map(self._culprit, streams)):
            raise self._error
        return self._part.step(streams)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


@pytest.mark.parametrize("stage", ["open", "decode", "flow", "vocode"])
def test_a_failure_ends_one_utterance(
    parts: Parts,
    solo: Callable[[Speak], np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
):
    loop = Loop(parts, limits=Limits(flow_rows=4))
    trouble = ValueError("too bad")

    def culprit(stream: Any) -> bool:
        utterance = loop.loop._live.get(1)
        return utterance is not None and stream in (utterance.tokens, utterance.flow)

    if stage == "decode":
        loop.replace(decoder=Raising(parts.decoder, culprit, trouble))
    elif stage == "flow":
        loop.replace(flow=Raising(parts.flow, culprit, trouble))
    elif stage == "vocode":
        plain = Utterance.vocode

        def vocode(self: Utterance, clock: float) -> Any:
            if self.id == 1:
                raise trouble
            return plain(self, clock)

        monkeypatch.setattr(Utterance, "vocode", vocode)
    else:
        opened = parts.decoder.open

        def open_tokens(*args: Any, seed: int, **more: Any) -> Any:
            if seed == 1:
                raise trouble
            return opened(*args, seed=seed, **more)

        monkeypatch.setattr(parts.decoder, "open", open_tokens)
    loop.say(order(0), order(1), order(2, "bert"))
    failure = loop.end(1)
    assert isinstance(failure, Failed)
    assert failure.code == "engine_failed"
    assert "too bad" in failure.message
    for each in (order(0), order(2, "bert")):
        same(loop.pcm(each.id), solo(each))
    assert parts.decoder.cache_bytes == 0
    assert not loop.loop._live


def test_a_failure_of_the_device_ends_the_loop(parts: Parts):
    loop = Loop(parts)
    loop.replace(decoder=Raising(parts.decoder, lambda _: True, MemoryError()))
    loop.put(order(1), order(2))
    with pytest.raises(MemoryError):
        loop.loop.run()
    assert not loop.loop._live


def test_an_expected_failure_stays_what_it_is(parts: Parts):
    loop = Loop(parts)
    loop.say(order(1, voice="nobody"))
    end = loop.end(1)
    assert isinstance(end, Failed)
    assert (end.code, "nobody" in end.message) == ("unknown_voice", True)


def test_places_are_given_in_order(parts: Parts):
    loop = Loop(parts, limits=Limits(requests=2))
    loop.say(*(order(id, text="好") for id in range(5)))
    told = [each for each in loop.told if isinstance(each, Started | Done)]
    assert [each.id for each in told if isinstance(each, Started)] == [0, 1, 2, 3, 4]
    live = most = 0
    for each in told:
        live += 1 if isinstance(each, Started) else -1
        most = max(most, live)
    assert most == 2


def test_speech_in_the_making_is_bounded_by_its_length(parts: Parts):
    loop = Loop(parts, limits=Limits(live_s=2.0))
    loop.put(order(1), order(2))
    loop.loop.turn()
    assert list(loop.loop._live) == [1]  # two of 1.6 seconds are too much
    loop.until(1, 2)


def test_a_voice_comes_and_goes(
    model: CosyVoice, reference: Reference, tmp_path: Path, solo: Callable[[Speak], np.ndarray]
):
    loop = Loop(make_parts(model, tmp_path, kept=1))
    wav = as_wav(reference, tmp_path / "reference.wav")
    names = ("anna", "bert")
    for id, name in enumerate(names):
        loop.put(Register(id=id, name=name, text=reference.text, payload=wav))
        loop.until(id)
        assert loop.of(Registered, id) == [Registered(id=id, name=name)]
    loop.put(Register(id=2, name="anna", text=reference.text, payload=wav))
    loop.put(Register(id=3, name="carl", text=reference.text, payload=b"no sound"))
    loop.until(2, 3)
    ends = [loop.end(id) for id in (2, 3)]
    assert [getattr(end, "code", "") for end in ends] == ["bad_request", "bad_audio"]
    # One voice is kept ready; the other is made ready again, and is the same.
    loop.say(Speak(id=4, text=TEXT, voice="anna", seed=0))
    same(loop.pcm(4), solo(order(0)))


def at(room: VoiceRoom) -> Callable[[float], None]:
    """Sets a room's clock."""
    return lambda now: setattr(room, "_clock", lambda: now)


def taken(room: VoiceRoom, folder: Path, reference: Reference, name: str = "anna") -> None:
    """Registers a voice."""
    wav = as_wav(reference, folder / "reference.wav")
    room.take(Register(id=0, name=name, text=reference.text, payload=wav))


def test_a_text_goes_on_in_a_voice_that_is_removed(
    model: CosyVoice, reference: Reference, tmp_path: Path, solo: Callable[[Speak], np.ndarray]
):
    parts = make_parts(model, tmp_path)
    clock = at(parts.voices)
    clock(0.0)
    taken(parts.voices, tmp_path, reference)
    loop = Loop(parts)
    loop.put(Speak(id=1, text=TEXT, voice="anna", seed=0))
    loop.loop.turn()
    loop.put(Remove(id=2, name="anna"), Remove(id=3, name="anna"))
    loop.until(1, 2, 3)
    same(loop.pcm(1), solo(order(0)))
    assert loop.of(Removed, 2) == [Removed(id=2, name="anna")]
    assert getattr(loop.end(3), "code", "") == "unknown_voice"
    # Its next clauses, as long as they follow one another.
    for id, now in ((4, LINGER_S - 1), (5, 2 * LINGER_S - 2)):
        clock(now)
        loop.say(Speak(id=id, text=TEXT, voice="anna", seed=0))
        same(loop.pcm(id), solo(order(0)))
    clock(3 * LINGER_S)
    loop.say(order(6))
    assert getattr(loop.end(6), "code", "") == "unknown_voice"
    assert not parts.voices._ready


@pytest.mark.parametrize(("name", "idle_s"), [("anna", LINGER_S), ("once-1", 0.0)])
def test_nothing_is_kept_of_a_voice_that_nobody_speaks_in(
    model: CosyVoice, reference: Reference, tmp_path: Path, name: str, idle_s: float
):
    room = make_parts(model, tmp_path).voices
    clock = at(room)
    clock(0.0)
    taken(room, tmp_path, reference, name)
    room.prepare(name)
    clock(idle_s)
    room.remove(name)
    assert not room._ready
    with pytest.raises(UnknownVoice):
        room.prepare(name)


def test_what_another_process_makes_of_a_voice_is_seen(
    model: CosyVoice, reference: Reference, tmp_path: Path
):
    room, other = make_parts(model, tmp_path).voices, VoiceStore(tmp_path)
    clock = at(room)
    clock(0.0)
    taken(room, tmp_path, reference)
    room.prepare("anna")
    voice = other.read("anna")
    other.remove("anna")
    other.add(voice.info.model_copy(update={"text": "另一个。"}), voice.features)
    assert room._one("anna").voice.info.text == "另一个。"
    other.remove("anna")
    assert room._one("anna").voice.info.text == "另一个。"  # a text goes on
    clock(LINGER_S)
    with pytest.raises(UnknownVoice):
        room.prepare("anna")


def test_a_registration_that_is_cancelled_leaves_no_voice(
    model: CosyVoice, reference: Reference, tmp_path: Path
):
    loop = Loop(make_parts(model, tmp_path))
    wav = as_wav(reference, tmp_path / "reference.wav")
    loop.put(Register(id=1, name="anna", text=reference.text, payload=wav), Cancel(id=1))
    loop.put(order(2))
    loop.until(2)
    assert not loop.of(Registered, 1)
    assert VoiceStore(tmp_path).infos() == ()
    loop.put(Register(id=3, name="anna", text=reference.text, payload=wav))
    loop.until(3)
    assert loop.of(Registered, 3)


def test_audio_is_due_when_playback_ends(parts: Parts):
    loop = Loop(parts)
    now = 100.0
    loop.loop._clock = lambda: now
    loop.put(order(1))
    loop.loop.turn()
    [utterance] = loop.loop._live.values()
    assert utterance.due == now
    while not loop.of(Audio, 1):
        now += 0.01
        loop.loop.turn()
    [first] = loop.of(Audio, 1)
    assert utterance.due == pytest.approx(now + len(first.payload) / 2 / 24_000)


class Scripted:
    """A decoder that gives these tokens."""

    def __init__(self, decoder: Any, tokens: list[int | None]) -> None:
        self._decoder = decoder
        self._tokens = tokens

    def step(self, streams: list[Any]) -> list[int | None]:
        [stream] = streams
        token = self._tokens.pop(0)
        if token is not None:
            stream.tokens.append(token)
        else:
            stream.close()
        return [token]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


def test_speech_that_ends_at_once_is_silence(parts: Parts):
    loop = Loop(parts)
    loop.replace(decoder=Scripted(parts.decoder, [None]))
    loop.say(order(1))
    [audio] = loop.of(Audio, 1)
    assert (audio.payload, audio.marks) == (b"", [(0, len(TEXT))])
    assert isinstance(loop.end(1), Done)


def test_very_little_speech_is_spoken_at_its_end(parts: Parts):
    loop = Loop(parts)
    loop.replace(decoder=Scripted(parts.decoder, [1, 2, None]))
    loop.say(order(1))
    [audio] = loop.of(Audio, 1)
    assert 0 < len(audio.payload) // 2 <= 2 * HOP
    assert audio.marks[-1] == (len(audio.payload) // 2, len(TEXT))


def test_a_first_block_too_short_to_be_heard_waits_for_the_next(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    # A prompt that nobody trimmed: three tokens complete its block, and all six frames are held.
    flow = parts.flow.voice([0] * 22, torch.zeros(44, 80), torch.ones(192))
    prompt = parts.voices.prompt("anna", TEXT, "")
    short = dataclasses.replace(prompt, flow=flow)
    monkeypatch.setattr(type(parts.voices), "prompt", lambda *_: short)
    loop = Loop(parts)
    loop.say(order(1))
    [first, *_] = loop.of(Audio, 1)
    assert len(first.payload) // 2 > 3 * HOP
    assert isinstance(loop.end(1), Done)


def test_a_token_that_is_none_ends_its_utterance(parts: Parts):
    loop = Loop(parts)
    loop.replace(decoder=Scripted(parts.decoder, [10**6]))
    loop.say(order(1))
    end = loop.end(1)
    assert isinstance(end, Failed)
    assert end.code == "bad_request"
    assert not loop.loop._live
