"""pipecat's own FunASR service, as `bench asr` runs it: its own code, frames and segments."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pipecat.audio.utils import pcm_to_wav
from pipecat.audio.vad.vad_analyzer import VADParams

from pipeline.bench.asr import AsrPlan, run_asr
from pipeline.bench.asr_peer import SILENCE_MS, PipecatFunAsr
from pipeline.bench.asr_wire import Settings
from pipeline.commands.options import configured
from pipeline.store import open_store
from services.asr.base import SAMPLE_RATE, Samples
from tests.asr.funasr.conftest import Sound, sound, tiny_dir
from tests.bench.test_asr_bench import folder
from tests.pipeline.conftest import plain_environment
from tts_engine.errors import EngineFailed, ModelMissing, NotReady, TimedOut

__all__ = ["folder", "plain_environment", "sound", "tiny_dir"]  # fixtures
#: importing torch and the model's modules takes minutes on a busy core
pytestmark = pytest.mark.timeout(600)

#: of the header that pipecat puts before a segment, 16-bit samples
HEADER = 22
#: that pipecat puts behind it
SILENCE = SAMPLE_RATE // 2

#: a process that hears nothing, ever
DEAF = "import sys; from tts_engine.frames import encode; from pipeline.bench.asr_wire import Ready"
DEAF += "; sys.stdout.buffer.write(encode(Ready())); sys.stdout.flush(); sys.stdin.buffer.read()"


def settings_of(model_dir: Path) -> Settings:
    return Settings(model_dir=str(model_dir), device="auto", threads=1)


@asynccontextmanager
async def peer(model_dir: Path, **options: Any) -> AsyncIterator[PipecatFunAsr]:
    engine = PipecatFunAsr(settings=settings_of(model_dir), **options)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


@pytest.fixture
def still(tiny_dir: Callable[..., Path], tmp_path: Path) -> Path:
    """The tiny SenseVoice without noise under the audio: as it is, its texts change each time."""
    model_dir = tmp_path / "still"
    shutil.copytree(tiny_dir("sensevoice"), model_dir)
    file = model_dir / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["frontend_conf"]["dither"] = 0.0
    file.write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    return model_dir


async def test_it_hears_what_pipecat_gives_it(still: Path, sound: Sound) -> None:
    one, two = sound(20_000, 1), sound(30_000, 2)
    async with peer(still) as engine:
        first, second = (engine.open(session=name) for name in "ab")
        first.feed(one[:5000])
        second.feed(two)
        first.feed(one[5000:])
        texts = await asyncio.gather(first.finalise(), second.finalise())
        first.reset()
        first.feed(two)
        again = await first.finalise()
        first.close()
        # Whoever comes next gets a service that is there.
        first = engine.open(session="c")
        first.restrict(("zh",))
        first.cancel()
        first.feed(one)
        assert await first.finalise() == texts[0]
    assert texts[0].text != texts[1].text
    assert again.text == texts[1].text
    assert texts[0].text == _by_hand(still, one)


def _by_hand(model_dir: Path, samples: Samples) -> str:
    """What the service makes of it: header and silence are audio to it, the language is open."""
    from services.asr.funasr.loader import load

    auto = load(model_dir).auto  # puts the package in place
    from funasr.utils.postprocess_utils import rich_transcription_postprocess

    pcm = (samples * 32767).astype(np.int16).tobytes() + bytes(2 * SILENCE)
    heard = np.frombuffer(pcm_to_wav(pcm, SAMPLE_RATE), np.int16).astype(np.float32) / 32768
    assert len(heard) == HEADER + len(samples) + SILENCE
    found = auto.generate(input=heard, cache={}, language="auto", use_itn=True)
    return rich_transcription_postprocess(found[0]["text"]).strip()


def test_its_segments_end_as_pipecats_detector_ends_them() -> None:
    assert VADParams().stop_secs * 1000 == SILENCE_MS


async def test_without_a_model_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="there is no directory"):
        async with peer(tmp_path / "none"):
            pass


async def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: SenseVoiceSmall\n")
    (tmp_path / "model.pt").write_text("no weights")
    async with peer(tmp_path) as engine:
        recogniser = engine.open(session="a")
        for _ in range(2):
            recogniser.feed(np.zeros(1000, np.float32))
            with pytest.raises(EngineFailed, match="FunASR service does not run here"):
                await recogniser.finalise()


async def test_its_death_is_told() -> None:
    engine = PipecatFunAsr(settings=settings_of(Path()), command=[sys.executable, "-c", DEAF])
    await engine.start()
    try:
        recogniser = engine.open(session="a")
        recogniser.feed(np.zeros(1000, np.float32))
        waiting = asyncio.create_task(recogniser.finalise())
        await asyncio.sleep(0)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed):
            await waiting
        with pytest.raises(NotReady):
            recogniser.feed(np.zeros(1000, np.float32))
    finally:
        await engine.close()


async def test_it_is_not_waited_for_for_ever() -> None:
    engine = PipecatFunAsr(
        settings=settings_of(Path()), command=[sys.executable, "-c", DEAF], timeout_s=0.1
    )
    await engine.start()
    try:
        with pytest.raises(TimedOut, match=r"within 0\.1 s"):
            await engine.open(session="a").finalise()
    finally:
        await engine.close()


@pytest.mark.usefixtures("plain_environment")
def test_both_in_one_run(folder: Path, tiny_dir: Callable[..., Path]) -> None:
    sets = {
        "provider": "funasr",
        "funasr.mode": "streaming+offline",
        "funasr.streaming_model": tiny_dir("paraformer-streaming"),
        "funasr.offline_model": tiny_dir("sensevoice"),
        "funasr.device": "cpu",
        "partials": "on",
    }
    config = configured(sets=[f"asr.{key}={value}" for key, value in sets.items()])
    plan = AsrPlan(place=folder, limit=1, counts=(2,), peer=True)
    found = run_asr(config, open_store(config), plan, on_progress=lambda *_: None).to_json()
    assert found["engine"].startswith("funasr, streaming+offline: ")
    assert found["peer"]["engine"] == "pipecat's FunASR service"
    for side in (found, found["peer"]):
        assert side["rtf"] > 0
        assert side["spoken_cpu_s_per_audio_s"] > 0
        assert side["memory_mb"] > 50
        assert side["final_ms"]["p50"] >= side["silence_ms"]
        assert side["by_concurrency"]["2"]["failures"] == {}
    assert (found["silence_ms"], found["peer"]["silence_ms"]) == (128, 200)
    assert found["peer"]["partials"] == 0
    assert found["ratio"]["rtf"] > 0
