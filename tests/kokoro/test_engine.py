"""Every utterance is spoken whole, starts within 20 ms, and its marks cover its text."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from tts_engine.engine import Mark, SpeechChunk
from tts_engine.errors import (
    AtCapacity,
    BadRequest,
    EngineFailed,
    ModelMissing,
    TimedOut,
    UnknownVoice,
)
from tts_engine.kokoro import engine as engine_module
from tts_engine.kokoro.engine import KokoroEngine

#: more than one run of the model; spoken fast, because that costs half
LONG = "，".join(["我们明天早上一起去公园散步", "然后回家吃饭", "下午再去图书馆看书"] * 3) + "。"
FAST = 2.0


async def collect(engine: KokoroEngine, text: str, **options: object) -> list[SpeechChunk]:
    return [chunk async for chunk in engine.synthesize(text, **options)]  # type: ignore[arg-type]


def samples(chunks: list[SpeechChunk]) -> np.ndarray:
    return np.frombuffer(b"".join(chunk.pcm for chunk in chunks), np.int16)


def check(text: str, chunks: list[SpeechChunk]) -> None:
    """The contract of marks and chunks."""
    marks = [mark for chunk in chunks for mark in chunk.marks]
    assert marks[-1].chars == len(text)
    for one, two in itertools.pairwise(marks):
        assert one.sample < two.sample
        assert one.chars < two.chars
    total = 0
    for chunk in chunks:
        first, total = total, total + len(chunk.pcm) // 2
        assert all(first <= mark.sample <= total for mark in chunk.marks)
    assert marks[-1].sample <= total


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(model_dir: Path) -> AsyncIterator[KokoroEngine]:
    engine = KokoroEngine(model_dir=model_dir, threads=1)
    await engine.start()
    yield engine
    await engine.close()


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.models
@pytest.mark.parametrize(
    "text",
    [
        "好",
        "你好呀，",
        "现在气温23.5℃。",
        "Sure, I can help.",
        "我用 GitHub 写代码！",
        "“好”（嗯）",
    ],
)
async def test_an_utterance(engine: KokoroEngine, text: str) -> None:
    chunks = await collect(engine, text)
    check(text, chunks)
    pcm = samples(chunks)
    loud = np.flatnonzero(np.abs(pcm) > 300)
    assert loud[0] < 0.02 * engine.sample_rate
    assert len(pcm) - loud[-1] < 0.45 * engine.sample_rate
    assert 0.1 < len(pcm) / engine.sample_rate < 4
    assert all(len(chunk.pcm) <= 2 * engine_module.CHUNK for chunk in chunks)


@pytest.mark.models
async def test_marks_of_hanzi_are_in_place(engine: KokoroEngine) -> None:
    text = "今天天气好，"
    chunks = await collect(engine, text)
    marks = [mark for chunk in chunks for mark in chunk.marks]
    assert [mark.chars for mark in marks] == [1, 2, 3, 4, 5, 6]
    steps = np.diff([0, *(mark.sample for mark in marks[:-1])]) / engine.sample_rate
    assert ((steps > 0.08) & (steps < 0.6)).all()


@pytest.mark.models
@pytest.mark.parametrize("text", ["", " ", "。", "🙂"])
async def test_nothing_to_say(engine: KokoroEngine, text: str) -> None:
    assert await collect(engine, text) == [SpeechChunk(pcm=b"", marks=(Mark(0, len(text)),))]


@pytest.mark.models
async def test_a_long_text_starts_early_and_stays_aligned(engine: KokoroEngine) -> None:
    started = time.monotonic()
    stamps: list[float] = []
    chunks: list[SpeechChunk] = []
    async for chunk in engine.synthesize(LONG, speed=FAST):
        stamps.append(time.monotonic() - started)
        chunks.append(chunk)
    check(LONG, chunks)
    assert stamps[0] < 0.5 * stamps[-1]
    # A third of the characters take about a third of the time.
    marks = [mark for chunk in chunks for mark in chunk.marks]
    total = len(samples(chunks))
    (third, *_) = [mark for mark in marks if mark.chars >= len(LONG) // 3]
    assert 0.2 < third.sample / total < 0.45


@pytest.mark.models
async def test_speed_and_voices(engine: KokoroEngine) -> None:
    text = "今天天气非常不错。"
    plain = samples(await collect(engine, text))
    fast = samples(await collect(engine, text, speed=1.6))
    other = samples(await collect(engine, text, voice="zf_xiaoxiao", style="cheerful"))
    assert len(fast) < 0.8 * len(plain)
    assert len(other) != len(plain)
    assert engine.voices == ("zf_xiaobei", "zf_xiaoxiao")


@pytest.mark.models
async def test_bad_arguments(engine: KokoroEngine) -> None:
    jobs = engine.stats.jobs
    with pytest.raises(UnknownVoice, match="zf_xiaobei"):
        await collect(engine, "好", voice="nobody")
    for speed in (0.4, 2.1, float("nan")):
        with pytest.raises(BadRequest):
            await collect(engine, "好", speed=speed)
    assert engine.stats.jobs == jobs
    assert engine.stats.errors["unknown_voice"] == 1
    assert engine.stats.errors["bad_request"] == 3
    assert engine.stats.depth == 0


@pytest.mark.models
async def test_closing_the_generator_stops_the_run(engine: KokoroEngine) -> None:
    started = time.monotonic()
    await collect(engine, LONG, speed=FAST)
    whole = time.monotonic() - started
    generator = engine.synthesize(LONG, speed=FAST)
    await anext(generator)
    asked = time.monotonic()
    await generator.aclose()
    assert engine.stats.depth == 0
    check("好的", await collect(engine, "好的"))  # the thread is free again
    assert time.monotonic() - asked < 0.6 * whole


@pytest.mark.models
async def test_cancelling_the_task_withdraws_the_job(engine: KokoroEngine) -> None:
    busy = asyncio.create_task(collect(engine, LONG, speed=FAST))
    waiting = asyncio.create_task(collect(engine, "你好"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert engine.stats.depth == 1
    check(LONG, await busy)
    assert engine.stats.depth == 0


@pytest.mark.models
async def test_a_short_utterance_does_not_wait_for_a_long_one(
    engine: KokoroEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(engine.stats, "on_wait", waits.append)
    long = asyncio.create_task(collect(engine, LONG, speed=FAST))
    await asyncio.sleep(0)
    check("你好", await collect(engine, "你好"))
    assert not long.done()
    assert waits[-1] > 0
    check(LONG, await long)


@pytest.mark.models
async def test_the_loop_stays_free(engine: KokoroEngine) -> None:
    speaking = asyncio.create_task(collect(engine, LONG, speed=FAST))
    late: list[float] = []
    while not speaking.done():
        asked = time.monotonic()
        await asyncio.sleep(0.01)
        late.append(time.monotonic() - asked - 0.01)
    await speaking
    assert np.percentile(late, 90) < 0.05


@pytest.mark.models
async def test_a_failing_utterance_fails_alone(
    engine: KokoroEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine._loaded is not None
    model = engine._loaded.model
    real = model.speak

    def broken(symbols: str, *args: object, **options: object):
        if symbols == "a":
            raise ValueError("bad phoneme")
        return real(symbols, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(model, "speak", broken)
    bad, good = await asyncio.gather(
        collect(engine, "啊"), collect(engine, "好"), return_exceptions=True
    )
    assert isinstance(bad, EngineFailed)
    assert "bad phoneme" in bad.message
    assert isinstance(good, list)
    assert engine.stats.errors["engine_failed"] == 1


@pytest.mark.models
async def test_time_limit(engine: KokoroEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_timeout_s", 0.001)
    with pytest.raises(TimedOut, match="did not answer"):
        await collect(engine, LONG, speed=FAST)
    monkeypatch.undo()
    check("好", await collect(engine, "好"))


class Slow(KokoroEngine):
    """An engine without a model, whose work waits for a gate."""

    gate: threading.Event

    def _load(self) -> engine_module._Loaded:
        self.gate = threading.Event()
        return engine_module._Loaded(None, None, {})  # type: ignore[arg-type]

    def _parts(self, _: object, text: str, *__: object) -> Iterator[engine_module._Part]:
        assert self.gate.wait(10)
        yield engine_module._Part(np.zeros(10, np.int16), 0, (Mark(10, len(text)),))


async def test_capacity_is_bounded(tmp_path: Path) -> None:
    engine = Slow(model_dir=tmp_path, threads=1, queue_limit=2)
    await engine.start()
    tasks = [asyncio.create_task(collect(engine, "好")) for _ in range(2)]
    await asyncio.sleep(0)
    assert engine.stats.depth == 2
    with pytest.raises(AtCapacity):
        await collect(engine, "好")
    engine.gate.set()
    for chunks in await asyncio.gather(*tasks):
        check("好", chunks)
    assert engine.stats.jobs == 2
    await engine.close()
    await engine.close()


async def test_close_ends_what_runs(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    engine = Slow(model_dir=tmp_path, threads=1)
    with pytest.raises(EngineFailed, match="not started"):
        await collect(engine, "好")
    await engine.start()
    speaking = asyncio.create_task(collect(engine, "好"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(engine.close())
    with pytest.raises(EngineFailed, match="closed"):
        await speaking
    engine.gate.set()
    await closing
    with pytest.raises(EngineFailed, match="is closed"):
        await collect(engine, "好")
    # The loop's own threads stay, and it may have made another one meanwhile.
    left = {each.name for each in threading.enumerate() if each not in before}
    assert not {name for name in left if not name.startswith("asyncio_")}


async def test_a_missing_model(tmp_path: Path) -> None:
    engine = KokoroEngine(model_dir=tmp_path, threads=1, voices_dir=tmp_path)
    with pytest.raises(ModelMissing):
        await engine.start()
    await engine.close()


async def test_what_cannot_run_fails_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, **_: object) -> None:
            self.vocabulary: dict[str, int] = {}

    monkeypatch.setattr(engine_module, "KokoroModel", Broken)
    engine = KokoroEngine(model_dir=tmp_path, threads=1)
    monkeypatch.setattr(engine_module, "MixedG2P", lambda **_: lambda _: 1 / 0)
    with pytest.raises(EngineFailed, match="does not run"):
        await engine.start()
    await engine.close()
