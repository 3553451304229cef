"""A batch answers as each stream alone; one answer a window, in order; none after close()."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import Any

import numpy as np
import pytest
from pipecat.audio.vad.silero import SileroOnnxModel

from services.vad import silero
from services.vad.base import WINDOW
from services.vad.silero import CONTEXT, MAX_BATCH, RESET_EVERY, SileroStream, SileroVad
from tts_engine.errors import BadAudio, EngineFailed


@pytest.fixture
async def vad() -> AsyncIterator[SileroVad]:
    vad = SileroVad()
    await vad.start()
    yield vad
    await vad.close()


def windows(count: int, *, level: float = 0.1, seed: int = 0) -> list[np.ndarray]:
    noise = np.random.default_rng(seed).standard_normal((count, WINDOW)) * level
    return list(noise.astype(np.float32))


def hum(count: int) -> list[np.ndarray]:
    """A vowel of sorts: harmonics of 140 Hz, swelling four times a second."""
    t = np.arange(count * WINDOW) / 16_000
    voice = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 20))
    wave = 0.2 * voice * (1 + np.sin(2 * np.pi * 4 * t)) / 2
    return list(np.asarray(wave, dtype=np.float32).reshape(count, WINDOW))


class Heard(list[Any]):
    """What callbacks told; `reach` waits until there are so many."""

    def __init__(self) -> None:
        super().__init__()
        self._told = asyncio.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        self._told.set()

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self) < count:
                self._told.clear()
                await self._told.wait()


async def test_answers_are_those_of_the_model(vad: SileroVad) -> None:
    path = resources.files("pipecat.audio.vad.data").joinpath("silero_vad.onnx")
    model = SileroOnnxModel(str(path))
    sound = windows(20, level=0.02) + hum(20)
    heard = Heard()
    stream = vad.open(heard.append)
    for each in sound:
        stream.push(each)
    await heard.reach(len(sound))
    assert heard == [float(model(each, 16_000)[0, 0]) for each in sound]


async def test_batch_equals_solo(vad: SileroVad) -> None:
    sounds = [windows(30, level=10 ** -(i % 4), seed=i) for i in range(11)] + [hum(30)]
    solo: list[list[float]] = []
    for sound in sounds:
        heard = Heard()
        stream = vad.open(heard.append)
        for each in sound:
            stream.push(each)
        await heard.reach(30)
        solo.append(heard)
    together = [Heard() for _ in sounds]
    streams = [vad.open(heard.append) for heard in together]
    for at in range(30):
        for stream, sound in zip(streams, sounds, strict=True):
            stream.push(sound[at])
    for heard in together:
        await heard.reach(30)
    assert together == solo


async def test_noise_and_silence_are_not_speech(vad: SileroVad) -> None:
    heard = Heard()
    stream = vad.open(heard.append)
    for each in [*windows(60, level=0.01), *windows(60, level=0.1), *windows(60, level=0.0)]:
        stream.push(each)
    await heard.reach(180)
    assert max(heard) < 0.5


async def test_the_caller_may_reuse_its_buffer(vad: SileroVad) -> None:
    heard = Heard()
    buffer = hum(1)[0]
    one = vad.open(lambda p: heard.append(("one", p)))
    two = vad.open(lambda p: heard.append(("two", p)))
    two.push(buffer.copy())
    one.push(buffer)
    buffer[:] = 0
    await heard.reach(2)
    assert dict(heard)["one"] == dict(heard)["two"]


async def test_the_state_is_fresh_after_two_seconds_of_quiet(vad: SileroVad) -> None:
    heard = Heard()
    stream = vad.open(heard.append)
    zeros = np.zeros((silero.STATE), dtype=np.float32)
    for count, each in enumerate(windows(RESET_EVERY, level=0.001), 1):
        stream.push(each)
        await heard.reach(count)
        assert np.array_equal(stream.state, zeros) is (count == RESET_EVERY)
    assert np.array_equal(stream.context, np.zeros(CONTEXT, dtype=np.float32))


async def test_speech_puts_the_reset_off(vad: SileroVad, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [0.05] * (RESET_EVERY - 3) + [0.9] * 6 + [0.05] * 7
    script = iter(said)

    def infer(session: object, batch: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.array([[next(script)]], dtype=np.float32), state + 1

    monkeypatch.setattr(silero, "_infer", infer)
    levels = Heard()
    stream = vad.open(lambda _: levels.append(float(stream.state[0, 0])))
    for each in windows(len(said)):
        stream.push(each)
    await levels.reach(len(said))
    assert levels == [*range(1, len(said)), 0]


async def test_a_stream_closed_while_it_waits_is_silent(vad: SileroVad) -> None:
    heard = Heard()
    streams: dict[str, SileroStream] = {}

    def on_window(name: str) -> Callable[[float], None]:
        def callback(_: float) -> None:
            heard.append(name)
            # In the same batch as itself: its answer is there, and must not be told.
            streams["later"].close()

        return callback

    for name in ("closed", "first", "later"):
        streams[name] = vad.open(on_window(name))
        streams[name].push(windows(1)[0])
    streams["first"].push(windows(1)[0])
    streams["closed"].close()
    streams["closed"].close()
    streams["closed"].push(windows(1)[0])
    await heard.reach(2)
    assert heard == ["first", "first"]


async def test_when_all_are_closed_nothing_runs(
    vad: SileroVad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silero, "_infer", lambda *_: pytest.fail("nothing is due"))
    stream = vad.open(lambda _: pytest.fail("closed"))
    stream.push(windows(1)[0])
    stream.close()
    heard = Heard()
    await asyncio.sleep(0.02)
    monkeypatch.undo()
    other = vad.open(heard.append)
    other.push(windows(1)[0])
    await heard.reach(1)


async def test_many_streams_are_bounded_and_fair(
    vad: SileroVad, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    held: list[float] = []
    infer = silero._infer  # pyright: ignore[reportPrivateUsage]

    def measured(
        session: object, batch: np.ndarray, state: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        sizes.append(len(batch))
        began = time.thread_time()
        result = infer(session, batch, state)  # pyright: ignore[reportArgumentType]
        held.append(time.thread_time() - began)
        return result

    monkeypatch.setattr(silero, "_infer", measured)
    order = Heard()
    streams = [vad.open(lambda _, i=i: order.append(i)) for i in range(40)]
    for _ in range(3):
        for stream in streams:
            stream.push(windows(1)[0])
    await order.reach(120)
    assert order == [*range(40)] * 3
    assert max(sizes) == MAX_BATCH
    assert sum(sizes) == 120
    # 1.8 ms measured for a full batch; the bound leaves room for a slow machine.
    assert sorted(held)[len(held) // 2] < 0.01


async def test_windows_that_are_due_together_share_a_batch(
    vad: SileroVad, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    infer = silero._infer  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        silero, "_infer", lambda *given: sizes.append(len(given[1])) or infer(*given)
    )
    heard = Heard()
    for _ in range(8):
        vad.open(heard.append).push(windows(1)[0])
        await asyncio.sleep(0)
    await heard.reach(8)
    assert sizes == [8]


async def test_a_conversation_that_fails_leaves_the_others_alone(vad: SileroVad) -> None:
    heard = Heard()

    def broken(_: float) -> None:
        raise RuntimeError("broken conversation")

    streams = [vad.open(broken), vad.open(heard.append)]
    for stream in streams * 2:
        stream.push(windows(1)[0])
    await heard.reach(2)


async def test_a_model_that_fails_still_answers_every_window(
    vad: SileroVad, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(silero, "_infer", broken)
    heard = Heard()
    stream = vad.open(heard.append)
    for each in windows(3):
        stream.push(each)
    await heard.reach(3)
    assert heard == [0.0, 0.0, 0.0]


async def test_what_is_not_a_window_is_refused(vad: SileroVad) -> None:
    with pytest.raises(BadAudio, match="512"):
        vad.open(lambda _: None).push(np.zeros(480, dtype=np.float32))


async def test_a_detector_that_is_not_running_opens_nothing() -> None:
    vad = SileroVad()
    with pytest.raises(EngineFailed, match="not running"):
        vad.open(lambda _: None)
    await vad.start()
    vad.open(lambda _: pytest.fail("closed")).push(windows(1)[0])
    await vad.close()
    await vad.close()
    with pytest.raises(EngineFailed, match="not running"):
        vad.open(lambda _: None)
    await asyncio.sleep(0.02)


async def test_a_model_that_cannot_be_loaded_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError("pipecat.audio.vad.data")

    monkeypatch.setattr(silero.resources, "files", missing)
    with pytest.raises(EngineFailed, match=r"pipecat\.audio\.vad\.data"):
        await SileroVad().start()
