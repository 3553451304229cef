"""The recognisers that the contract is checked on, each with what holds it up and lets it fail."""

from __future__ import annotations

import difflib
import fcntl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from services.asr.base import AsrEngine, Samples
from services.asr.funasr.engine import FunAsrEngine
from services.asr.funasr.wire import Mode as FunAsrMode
from services.asr.funasr.wire import Settings
from services.asr.funasr_remote.engine import RemoteFunAsrEngine
from services.asr.funasr_remote.protocol import Mode as RemoteMode
from services.asr.mel import Mel
from services.asr.whisper import WhisperEngine
from services.asr.whisper_model import CTranslate2Decoder, Hypothesis
from services.scripted.asr import ScriptedAsr
from services.scripted.marks import mark_speech
from services.scripted.spec import ScriptedTexts
from services.scripted.speech import synthetic_speech
from tests.asr.fakes import Gate
from tests.asr.funasr_remote.runtime import running
from tests.asr.letters import plain, say
from tts_engine.errors import DuplexdError, EngineFailed
from tts_engine.worker_process import program

LINES = ("今天天气怎么样", "我想听音乐", "现在几点了")
#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 100.0


@dataclass(kw_only=True)
class Subject:
    """A recogniser under the contract.

    Parameters:
        engine: started.
        speak: one of LINES as audio.
        held: while in it, no final gets done.
        fail: the next final fails with its model.
        partials: it makes them.
        exact: its texts have every letter right, but for the punctuation.
    """

    engine: AsrEngine
    speak: Callable[[str], Samples]
    held: Callable[[], AbstractContextManager[None]]
    fail: Callable[[], None]
    partials: bool = True
    exact: bool = True

    def same(self, heard: str, *said: str) -> bool:
        """Whether a text is what was said."""
        text, expected = plain(heard), "".join(said)
        if self.exact:
            return text == expected
        return difflib.SequenceMatcher(None, text, expected).ratio() > 0.6


class _Once(dict[int, type[DuplexdError]]):
    """Failures that happen once."""

    def get(self, key: int, default: Any = None) -> Any:
        return self.pop(key, default)


@asynccontextmanager
async def scripted() -> AsyncIterator[Subject]:
    engine = ScriptedAsr(
        texts=ScriptedTexts(transcripts=[*LINES]), marked=True, partial_every_s=0.2
    )

    def speak(line: str) -> Samples:
        samples = synthetic_speech(seconds=1.0, tail_s=0.2)
        ends = (np.linspace(0, 1.0, len(line) + 1)[1:] * 16_000).astype(int)
        marked = mark_speech(samples, clip=LINES.index(line) + 1, ends=[int(end) for end in ends])
        return marked.astype(np.float32) * np.float32(1 / 32768)

    @contextmanager
    def held() -> Iterator[None]:
        engine.delay_s = 3600.0
        yield
        engine.delay_s = 0.0

    def fail() -> None:
        engine.fail_turns = _Once({1: EngineFailed})

    yield Subject(engine=engine, speak=speak, held=held, fail=fail)
    await engine.close()


class _HeldDecoder:
    """The embedded model, and a gate before it."""

    def __init__(self, model: CTranslate2Decoder) -> None:
        self._model = model
        self.gate: Gate | None = None
        self.fails = False

    def encode(self, mel: Mel) -> Any:
        if self.gate is not None:
            self.gate.pass_through()
        if self.fails:
            self.fails = False
            raise RuntimeError("the model failed")
        return self._model.encode(mel)

    def detect(self, encoded: Any, languages: Any) -> str:
        return self._model.detect(encoded, languages)

    def generate(self, encoded: Any, **options: Any) -> Hypothesis:
        return self._model.generate(encoded, **options)

    def close(self) -> None:
        """The model is shared by the tests."""


@lru_cache
def _model(folder: Path) -> CTranslate2Decoder:
    return CTranslate2Decoder(model_dir=folder, threads=1, languages=("zh", "en"))


@asynccontextmanager
async def whisper(models_dir: Path, speak: Callable[[str], Samples]) -> AsyncIterator[Subject]:
    decoder = _HeldDecoder(_model(models_dir / "whisper-base"))
    engine = WhisperEngine(
        model_dir=Path(),
        threads=1,
        queue_limit=1,
        timeout_s=PATIENCE_S,
        load=lambda: decoder,
    )
    await engine.start()

    @contextmanager
    def held() -> Iterator[None]:
        gate = decoder.gate = Gate()
        yield
        decoder.gate = None
        gate.opened.set()

    def fail() -> None:
        decoder.fails = True

    yield Subject(engine=engine, speak=speak, held=held, fail=fail, exact=False)
    await engine.close()


@asynccontextmanager
async def funasr(mode: FunAsrMode, folder: Path) -> AsyncIterator[Subject]:
    file = folder / "gate"
    file.touch()
    *command, root = program("tests.asr.contract_worker")
    engine = FunAsrEngine(
        settings=Settings(mode=mode),
        queue_limit=1,
        timeout_s=PATIENCE_S,
        start_timeout_s=PATIENCE_S,
        command=(*command, str(file), root),
    )
    await engine.start()

    @contextmanager
    def held() -> Iterator[None]:
        with file.open("r+") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            yield

    yield Subject(
        engine=engine,
        speak=say,
        held=held,
        fail=lambda: (file.write_text("fail"), None)[1],
        partials=mode != "offline",
    )
    await engine.close()


@asynccontextmanager
async def remote(mode: RemoteMode) -> AsyncIterator[Subject]:
    async with running("python") as runtime:
        engine = RemoteFunAsrEngine(url=runtime.url, mode=mode, queue_limit=1, timeout_s=PATIENCE_S)
        await engine.start()

        @contextmanager
        def held() -> Iterator[None]:
            runtime.open.clear()
            yield
            runtime.open.set()

        yield Subject(
            engine=engine,
            speak=say,
            held=held,
            fail=lambda: runtime.errors.append("the model failed"),
            partials=mode != "offline",
        )
        await engine.close()
