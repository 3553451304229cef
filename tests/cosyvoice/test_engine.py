"""The engine's side of the worker: the contract, failures, death and recovery."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.cosyvoice.conftest import Reference
from tests.cosyvoice.loop import as_wav
from tts_engine.cosyvoice.engine import CHILD, CosyVoiceEngine, Decoding
from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.voice import VoiceFeatures, VoiceInfo
from tts_engine.cosyvoice.voices import VoiceStore
from tts_engine.cosyvoice.wire import Settings
from tts_engine.engine import Mark, SpeechChunk
from tts_engine.errors import (
    AtCapacity,
    BadAudio,
    BadRequest,
    ConfigError,
    EngineFailed,
    ModelMissing,
    TimedOut,
    UnknownVoice,
)
from tts_engine.restart import RestartPolicy
from tts_engine.worker_side import start_failure

#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 120.0
AT_ONCE = RestartPolicy(first_s=0.01, longest_s=0.01, give_up_after=1_000)
FAKE = Path(__file__).with_name("fake_worker.py")


def fake(how: str) -> tuple[str, ...]:
    root = str(Path(__file__).parents[2])
    program = f"import sys, runpy; sys.path.insert(0, {root!r}); runpy.run_path({str(FAKE)!r})"
    return (sys.executable, "-c", program, how)


async def collect(engine: CosyVoiceEngine, text: str, **options: Any) -> list[SpeechChunk]:
    async with asyncio.timeout(PATIENCE_S):
        return [chunk async for chunk in engine.synthesize(text, **options)]


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what no event tells of."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


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
        assert len(chunk.pcm) <= 2 * 4_800
        assert all(first <= mark.sample <= total for mark in chunk.marks)


@pytest.fixture
def voices(tmp_path: Path) -> Path:
    """A folder with a voice of each kind of model."""
    store = VoiceStore(tmp_path / "voices")
    kinds: dict[str, Kind] = {"anna": "cosyvoice2", "bert": "cosyvoice2", "carl": "cosyvoice3"}
    for name, kind in kinds.items():
        info = VoiceInfo(
            name=name, kind=kind, text="好", language="zh", created="2026-01-01", duration_s=3.0
        )
        features = VoiceFeatures(
            llm_tokens=np.zeros(12, np.int32),
            flow_tokens=np.zeros(12, np.int32),
            mel=np.zeros((24, 80), np.float32),
            embedding=np.ones(192, np.float32),
        )
        store.add(info, features)
    return store.root


@asynccontextmanager
async def faked(voices: Path, how: str = "ready", **options: Any) -> AsyncIterator[CosyVoiceEngine]:
    """An engine whose worker has no model; not started."""
    engine = CosyVoiceEngine(
        settings=Settings(model_dir="none", voices_dir=str(voices)),
        command=fake(how),
        **{"policy": AT_ONCE, "timeout_s": PATIENCE_S, **options},
    )
    before = asyncio.all_tasks()
    try:
        yield engine
    finally:
        await engine.close()
        await engine.close()
    assert not asyncio.all_tasks() - before
    assert engine.worker.pid is None


async def test_an_utterance(voices: Path) -> None:
    async with faked(voices) as engine:
        assert engine.voices == ("anna", "bert", "carl")
        await engine.start()
        assert engine.voices == ("anna", "bert")  # of this kind
        assert [info.name for info in engine.infos()] == ["anna", "bert"]
        waits: list[float] = []
        engine.stats.on_wait = waits.append
        chunks = await collect(engine, "好的")
        check("好的", chunks)
        assert [len(chunk.pcm) // 2 for chunk in chunks] == [4_800, 4_800, 2_400, 500]
        assert waits == [0.5]
        assert (engine.stats.jobs, engine.stats.depth, engine.stats.errors) == (1, 0, {})
        assert engine.decoding == Decoding(13, 26)


@pytest.mark.parametrize("text", ["", " ", "。", "🙂"])
async def test_nothing_to_say(voices: Path, text: str) -> None:
    async with faked(voices) as engine:
        await engine.start()
        assert await collect(engine, text) == [SpeechChunk(pcm=b"", marks=(Mark(0, len(text)),))]


async def test_bad_arguments(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        with pytest.raises(UnknownVoice, match="anna, bert"):
            await collect(engine, "好", voice="carl")
        for speed in (0.4, 2.1, float("nan")):
            with pytest.raises(BadRequest):
                await collect(engine, "好", speed=speed)
        assert engine.stats.errors == {"unknown_voice": 1, "bad_request": 3}
        assert engine.stats.depth == 0


async def test_what_others_do_to_the_folder_is_seen(voices: Path) -> None:
    others = VoiceStore(voices)
    async with faked(voices) as engine:
        await engine.start()
        anna = others.read("anna")
        others.add(
            anna.info.model_copy(update={"name": "aaron", "created": "2026-01-02"}), anna.features
        )
        # The default stays, whatever the others' names are.
        assert engine.voices == ("anna", "bert", "aaron")
        assert [info.name for info in engine.infos()] == ["anna", "bert", "aaron"]
        check("好的", await collect(engine, "好的", voice="aaron"))
        others.remove("anna")
        assert engine.voices == ("bert", "aaron")
        check("好的", await collect(engine, "好的", voice="anna"))  # a text that had begun
        others.remove("bert")
        others.remove("aaron")
        assert engine.voices == ()
        with pytest.raises(UnknownVoice, match="No voice is registered"):
            await collect(engine, "好的")


async def test_a_voice_for_one_request_is_nobody_s_default(voices: Path) -> None:
    others = VoiceStore(voices)
    anna = others.read("anna")
    others.add(
        anna.info.model_copy(update={"name": "once-1", "created": "2025-01-01"}), anna.features
    )
    async with faked(voices) as engine:
        await engine.start()
        assert engine.voices[0] == "once-1"
        await collect(engine, "好的")
        with pytest.raises(UnknownVoice) as unknown:
            await collect(engine, "好的", voice="nobody")
        assert unknown.value.mend == "Choose among anna, bert"
        others.remove("once-1")
        with pytest.raises(UnknownVoice):
            await collect(engine, "好的", voice="once-1")


async def test_a_voice_that_is_removed_while_it_is_made(voices: Path) -> None:
    async with faked(voices) as engine:  # its worker says that it has made one
        await engine.start()
        with pytest.raises(UnknownVoice, match="dora"):
            await engine.register("dora", b"", "好的")
        assert (engine.voices, engine.stats.depth) == (("anna", "bert"), 0)


async def test_a_registration_that_is_given_up_is_cancelled(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        making = asyncio.create_task(engine.register("slow", b"", "好的"))
        await until(lambda: engine.stats.depth == 1)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        child = engine.worker._child
        assert child is not None
        await until(lambda: "cancelled 1" in child._kept)
        # It had been made when that arrived: it is taken back.
        await until(lambda: "removed slow" in child._kept)


async def test_a_voice_can_be_removed_whatever_waits(voices: Path) -> None:
    async with faked(voices, queue_limit=1) as engine:
        await engine.start()
        stalled = engine.synthesize("stall")
        await anext(stalled)
        with pytest.raises(AtCapacity):
            await engine.register("dora", b"", "好的")
        await engine.remove("anna")
        await stalled.aclose()


async def test_a_failure_comes_as_what_it_is(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        with pytest.raises(BadAudio) as failure:
            await collect(engine, "bad")
        assert (failure.value.message, failure.value.mend) == ("Not like that", "Do it otherwise")
        check("好的", await collect(engine, "好的"))


async def test_capacity_is_bounded(voices: Path) -> None:
    async with faked(voices, queue_limit=2) as engine:
        await engine.start()
        hanging = [engine.synthesize("stall") for _ in range(2)]
        for each in hanging:
            await anext(each)
        assert engine.stats.depth == 2
        with pytest.raises(AtCapacity, match="2 utterances"):
            await collect(engine, "好")
        for each in hanging:
            await each.aclose()
        assert engine.stats.depth == 0
        check("好的", await collect(engine, "好的"))


async def test_closing_the_generator_tells_the_worker(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        stalled = engine.synthesize("stall")
        await anext(stalled)
        await stalled.aclose()
        child = engine.worker._child
        assert child is not None
        await until(lambda: "cancelled 1" in child._kept)


async def test_a_worker_that_dies_is_started_again(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        first = engine.worker.pid
        other = engine.synthesize("stall")
        await anext(other)
        with pytest.raises(EngineFailed, match="killed by signal 9: the last words"):
            await collect(engine, "crash")
        with pytest.raises(EngineFailed, match="killed"):
            async for _ in other:
                pass
        await until(lambda: engine.worker.state == "ready")
        assert engine.worker.pid != first
        check("好的", await collect(engine, "好的"))
        assert engine.stats.depth == 0


async def test_while_it_is_away_everything_fails_at_once(voices: Path) -> None:
    slowly = RestartPolicy(first_s=3600, longest_s=3600)
    async with faked(voices, policy=slowly) as engine:
        with pytest.raises(EngineFailed, match="not running"):
            await collect(engine, "好")
        await engine.start()
        with pytest.raises(EngineFailed):
            await collect(engine, "crash")
        await until(lambda: engine.worker.state == "restarting")
        with pytest.raises(EngineFailed, match="restarting"):
            await collect(engine, "好")
        with pytest.raises(EngineFailed, match="restarting"):
            await engine.remove("anna")


async def test_a_worker_that_hangs_is_killed(voices: Path) -> None:
    async with faked(voices, timeout_s=1.0) as engine:
        await engine.start()
        first = engine.worker.pid
        with pytest.raises(TimedOut, match="1 s"):
            await collect(engine, "hang")
        await until(lambda: engine.worker.pid not in (first, None))
        await until(lambda: engine.worker.state == "ready")
        check("好的", await collect(engine, "好的"))


async def test_a_worker_that_says_nothing_more_is_ended(voices: Path) -> None:
    async with faked(voices, grace_s=0.2) as engine:
        await engine.start()
        first = engine.worker.pid
        with pytest.raises(EngineFailed, match="killed by signal 9"):
            await collect(engine, "deaf")
        await until(lambda: engine.worker.state == "ready" and engine.worker.pid != first)
        check("好的", await collect(engine, "好的"))


async def test_a_worker_that_does_not_come_up_again_is_tried_again(voices: Path) -> None:
    policy = RestartPolicy(first_s=0.01, longest_s=0.01, give_up_after=3)
    async with faked(voices, policy=policy) as engine:
        await engine.start()
        engine.worker._command = fake("die")
        with pytest.raises(EngineFailed):
            await collect(engine, "crash")
        await until(lambda: engine.worker.state == "failed")
        with pytest.raises(EngineFailed, match="not running: failed"):
            await collect(engine, "好")
        engine.worker._command = fake("ready")
        await until(lambda: engine.worker.state == "ready")
        check("好的", await collect(engine, "好的"))


def test_a_worker_without_a_parent_ends() -> None:
    done = subprocess.run(CHILD, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ImportError("no", name="torch"), "CosyVoice needs torch, which is not installed"),
        (ValueError("odd"), "CosyVoice does not run here: ValueError: odd"),
        (ConfigError("wrong"), "wrong"),
    ],
)
def test_why_a_worker_cannot_start(error: Exception, told: str) -> None:
    failure = start_failure("CosyVoice", error)
    assert failure.message == told
    assert bool(failure.mend) == isinstance(error, ImportError)


async def test_what_the_worker_cannot_do_is_told(voices: Path) -> None:
    async with faked(voices, "refuse") as engine:
        with pytest.raises(ModelMissing, match=r"No model\. Get one"):
            await engine.start()
    async with faked(voices, "die") as engine:
        with pytest.raises(EngineFailed, match="exit status 1 before it was ready: I cannot go on"):
            await engine.start()
    async with faked(voices, "mute", start_timeout_s=0.5) as engine:
        with pytest.raises(TimedOut, match="not ready after"):
            await engine.start()
    async with faked(voices, "mute") as engine:
        starting = asyncio.create_task(engine.start())
        await until(lambda: engine.worker.pid is not None)
        await engine.close()
        with pytest.raises(EngineFailed, match="closed while it was starting"):
            await starting
    async with faked(voices, "mute") as engine:
        starting = asyncio.create_task(engine.start())
        await until(lambda: engine.worker.pid is not None)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    engine = CosyVoiceEngine(
        settings=Settings(model_dir="", voices_dir=str(voices)), command=("/no/such/program",)
    )
    with pytest.raises(EngineFailed, match="could not be started"):
        await engine.start()


async def test_close_ends_what_runs(voices: Path) -> None:
    async with faked(voices) as engine:
        await engine.start()
        stalled = engine.synthesize("stall")
        await anext(stalled)
        await engine.close()
        with pytest.raises(EngineFailed, match="closed"):
            async for _ in stalled:
                pass
        with pytest.raises(EngineFailed, match="closed"):
            await collect(engine, "好")


async def test_without_a_voice(tmp_path: Path, voices: Path) -> None:
    async with faked(tmp_path / "none") as engine:
        with pytest.raises(ConfigError, match="voices register"):
            await engine.start()
        assert engine.worker.pid is None
    VoiceStore(voices).remove("carl")
    async with faked(voices, "voiceless") as engine:
        with pytest.raises(ConfigError, match="none for cosyvoice3"):
            await engine.start()
    async with faked(tmp_path / "none", needs_voice=False) as engine:
        await engine.start()
        assert engine.voices == ()
        with pytest.raises(UnknownVoice, match="No voice is registered"):
            await collect(engine, "好")


# --- the real worker, on the tiny model ---------------------------------------------------------


@asynccontextmanager
async def real(model_dir: Path, voices: Path, **settings: Any) -> AsyncIterator[CosyVoiceEngine]:
    engine = CosyVoiceEngine(
        settings=Settings(
            model_dir=str(model_dir),
            voices_dir=str(voices),
            device="cpu",
            **{"steps": 2, "longest_s": 1.6, **settings},
        ),
        needs_voice=False,
        timeout_s=PATIENCE_S,
        policy=AT_ONCE,
    )
    try:
        await engine.start()
        yield engine
    finally:
        await engine.close()


@pytest.mark.timeout(400)  # two processes, each with torch and the modules
async def test_a_real_worker(model_dir: Path, reference: Reference, tmp_path: Path) -> None:
    wav = as_wav(reference, tmp_path / "reference.wav")
    folder = tmp_path / "voices"
    text = "今天天气很好。"
    async with real(model_dir, folder) as engine:
        assert engine.voices == ()
        info = await engine.register("anna", wav, reference.text, consent="she said yes")
        assert (info.name, info.consent, info.language) == ("anna", "she said yes", "zh")
        with pytest.raises(BadAudio):
            await engine.register("bert", b"nothing", reference.text)
        with pytest.raises(BadRequest, match="already"):
            await engine.register("anna", wav, reference.text)
        assert engine.voices == ("anna",)
        together = await asyncio.gather(*(collect(engine, text) for _ in range(3)))
        for chunks in together:
            check(text, chunks)
        alone = await collect(engine, text)
        assert abs(sum(len(c.pcm) for c in alone) - sum(len(c.pcm) for c in together[0])) == 0
        assert engine.decoding.steps < engine.decoding.tokens
        # Dropped in the middle, by a barge-in.
        dropped = engine.synthesize(text)
        await anext(dropped)
        await dropped.aclose()
        pid = engine.worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: engine.worker.state == "ready" and engine.worker.pid != pid)
        again = await collect(engine, text)  # the voice is there after the restart
        assert [c.pcm for c in again] == [c.pcm for c in alone]
        await engine.remove("anna")
        assert engine.voices == ()
        with pytest.raises(UnknownVoice):
            await engine.remove("anna")
        last = await collect(engine, text, voice="anna")  # a clause of a text that had begun
        assert [c.pcm for c in last] == [c.pcm for c in alone]
        with pytest.raises(UnknownVoice):  # a text that begins
            await collect(engine, text)
        pid = engine.worker.pid
    assert pid is not None
    assert not psutil.pid_exists(pid)


@pytest.mark.timeout(400)
async def test_what_keeps_a_real_worker_from_starting(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="no CosyVoice model"):
        async with real(tmp_path / "nowhere", tmp_path):
            pass
