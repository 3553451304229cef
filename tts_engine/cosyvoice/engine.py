"""CosyVoice as a voice engine: the synthesis runs in a process of its own, this side is asyncio.

torch holds the GIL for longer than a conversation can wait, so nothing of it is imported here. What
the worker was making when it died fails; until a new one is up, everything fails at once.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from tts_engine.cosyvoice.marks import audible
from tts_engine.cosyvoice.pieces import pieces
from tts_engine.cosyvoice.process import CHILD, WorkerProcess
from tts_engine.cosyvoice.voices import VoiceInfo, VoiceStore
from tts_engine.cosyvoice.wire import (
    Audio,
    Cancel,
    Done,
    Failed,
    Ready,
    Register,
    Remove,
    Report,
    Settings,
    Speak,
    Started,
    error_of,
)
from tts_engine.engine import EngineStats, Mark, SpeechChunk, SpeechEngine
from tts_engine.errors import (
    AtCapacity,
    BadRequest,
    ConfigError,
    DuplexdError,
    EngineFailed,
    TimedOut,
    UnknownVoice,
)
from tts_engine.restart import RestartPolicy

MIN_SPEED, MAX_SPEED = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Decoding:
    """What the worker's decoder has done since it started.

    Parameters:
        steps: passes of the language model.
        tokens: speech tokens that they gave.
    """

    steps: int = 0
    tokens: int = 0


class CosyVoiceEngine(SpeechEngine):
    """A voice engine in a worker process, shared by all conversations; one life.

    Parameters:
        settings: of the worker.
        needs_voice: a folder without voices is an error at the start.
        queue_limit: utterances that may wait or be made.
        timeout_s: limit for each piece of an utterance, waiting included.
        register_timeout_s: limit for making a voice.
        start_timeout_s: limit for loading and warming, of restarts too.
        policy: when to start the worker again.
        command: the worker's program.
        grace_s: time between SIGTERM and SIGKILL when closing.
    """

    sample_rate = 24_000

    def __init__(
        self,
        *,
        settings: Settings,
        needs_voice: bool = True,
        queue_limit: int = 64,
        timeout_s: float = 30.0,
        register_timeout_s: float = 120.0,
        start_timeout_s: float = 600.0,
        policy: RestartPolicy | None = None,
        command: Sequence[str] = CHILD,
        grace_s: float = 3.0,
    ) -> None:
        self.stats = EngineStats()
        self.decoding = Decoding()
        self._needs_voice = needs_voice
        self._queue_limit = queue_limit
        self._timeout_s = timeout_s
        self._register_timeout_s = register_timeout_s
        self._store = VoiceStore(Path(settings.voices_dir))
        self._infos = {info.name: info for info in self._store.infos()}
        self._kind = ""
        self._jobs: dict[int, asyncio.Queue[Report | EngineFailed]] = {}
        self._last_id = 0
        self._heard = 0.0
        self.worker = WorkerProcess(
            settings=settings,
            on_report=self._on_report,
            on_death=self._fail_all,
            start_timeout_s=start_timeout_s,
            policy=policy,
            command=command,
            grace_s=grace_s,
        )

    @property
    def voices(self) -> tuple[str, ...]:
        """See SpeechEngine; empty where none is registered."""
        return tuple(self._infos)

    def infos(self) -> tuple[VoiceInfo, ...]:
        """What is known of the voices, by name."""
        return tuple(self._infos.values())

    async def start(self) -> None:
        """See SpeechEngine.

        Raises:
            ConfigError: there is no voice to speak with.
            ModelError, EngineFailed, TimedOut: the worker cannot be started.
        """
        started = time.monotonic()
        if self._needs_voice and not self._infos:
            raise self._voiceless("")
        await self.worker.start()
        await self._read_voices()
        if self._needs_voice and not self._infos:
            await self.worker.close()
            raise self._voiceless(f" for {self._kind}")
        logger.info("CosyVoice is ready after {:.1f} s", time.monotonic() - started)

    async def close(self) -> None:
        """See SpeechEngine."""
        self._fail_all(EngineFailed("CosyVoice is closed"))
        await self.worker.close()

    async def register(
        self, name: str, audio: bytes, text: str, *, consent: str = "", language: str = ""
    ) -> VoiceInfo:
        """Makes a voice of a recording; it can be used at once.

        Args:
            name: letters, digits, Hanzi, - and _; at most 64.
            audio: a sound file of 1 to 30 s of speech.
            text: what it says.
            consent: who agreed to it, and how.
            language: zh, en, ja, yue or ko; empty finds it out.

        Raises:
            BadRequest: the name is taken or none, or the text cannot be right.
            BadAudio: the recording cannot be used.
            AtCapacity, EngineFailed, TimedOut, ModelError
        """
        order = Register(
            id=self._new_id(),
            name=name,
            text=text,
            language=language,
            consent=consent,
            payload=audio,
        )
        await self._ask(order, self._register_timeout_s)
        await self._read_voices()
        return self._infos[name]

    async def remove(self, name: str) -> None:
        """Forgets a voice; who speaks in it at this moment goes on.

        Raises:
            UnknownVoice: there is none of this name.
            AtCapacity, EngineFailed, TimedOut
        """
        await self._ask(Remove(id=self._new_id(), name=name), self._timeout_s)
        self._infos.pop(name, None)

    async def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        """See SpeechEngine; raises when it is iterated. The same request gives the same audio.

        Raises:
            UnknownVoice, BadRequest, AtCapacity, TimedOut, EngineFailed
        """
        order: Speak | None = None
        try:
            name = self._checked(voice, speed)
            if not audible(text):
                yield SpeechChunk(pcm=b"", marks=(Mark(0, len(text)),))
                return
            seed = zlib.crc32("\0".join((text, name, style)).encode())
            order = Speak(
                id=self._new_id(), text=text, voice=name, speed=speed, style=style, seed=seed
            )
            reports = self._submit(order)
            start = 0
            while not isinstance(report := await self._next(reports, self._timeout_s), Done):
                if isinstance(report, Started):
                    self.stats.on_wait(report.waited_s)
                elif isinstance(report, Audio):
                    for chunk in pieces(report, start):
                        yield chunk
                    start += len(report.payload) // 2
            self.decoding = Decoding(report.decode_steps, report.decoded)
            self.stats.jobs += 1
        except DuplexdError as error:
            self._count(error)
            raise
        finally:
            if order is not None:
                self._settle(order)

    def _checked(self, voice: str | None, speed: float) -> str:
        """The voice's name, once the arguments are found good."""
        if not MIN_SPEED <= speed <= MAX_SPEED:
            raise BadRequest(f"The speed {speed:g} is not between {MIN_SPEED} and {MAX_SPEED}")
        name = voice if voice is not None else next(iter(self._infos), None)
        if name is None or name not in self._infos:
            raise UnknownVoice(
                "No voice is registered" if name is None else f"There is no voice {name!r}",
                mend=f"Choose among {', '.join(self._infos)}"
                if self._infos
                else "Register one with `run.py voices register`",
            )
        return name

    async def _ask(self, order: Register | Remove, timeout_s: float) -> None:
        """Has something done; returns when it is."""
        try:
            await self._next(self._submit(order), timeout_s)
        except DuplexdError as error:
            self._count(error)
            raise
        finally:
            self._settle(order)

    def _submit(self, order: Speak | Register | Remove) -> asyncio.Queue[Report | EngineFailed]:
        if len(self._jobs) >= self._queue_limit:
            raise AtCapacity(
                f"{self._queue_limit} utterances wait for CosyVoice",
                mend="Raise tts.cosyvoice.queue_limit, or serve fewer sessions",
            )
        self.worker.send(order)
        reports = self._jobs[order.id] = asyncio.Queue()
        self.stats.depth += 1
        return reports

    async def _next(
        self, reports: asyncio.Queue[Report | EngineFailed], timeout_s: float
    ) -> Report:
        try:
            async with asyncio.timeout(timeout_s):
                report = await reports.get()
        except TimeoutError as error:
            if time.monotonic() - self._heard >= timeout_s:  # it says nothing at all: it hangs
                self.worker.kill()
            raise TimedOut(
                f"CosyVoice did not answer within {timeout_s:g} s",
                mend="Give it a faster device, or serve fewer sessions",
            ) from error
        if isinstance(report, Failed):
            raise error_of(report)
        if isinstance(report, EngineFailed):
            raise EngineFailed(report.message, mend=report.mend)
        return report

    def _settle(self, order: Speak | Register | Remove) -> None:
        """Forgets an order that is over, or has to be."""
        if self._jobs.pop(order.id, None) is None:
            return
        self.stats.depth -= 1
        if isinstance(order, Speak) and self.worker.state == "ready":
            self.worker.send(Cancel(id=order.id))

    def _on_report(self, report: Report) -> None:
        self._heard = time.monotonic()
        if isinstance(report, Ready):
            self._kind = report.kind
        elif reports := self._jobs.get(report.id):
            reports.put_nowait(report)

    def _fail_all(self, error: EngineFailed) -> None:
        for reports in self._jobs.values():
            reports.put_nowait(error)

    async def _read_voices(self) -> None:
        infos = await asyncio.to_thread(self._store.infos)
        self._infos = {info.name: info for info in infos if info.kind == self._kind}

    def _voiceless(self, which: str) -> ConfigError:
        return ConfigError(
            f"CosyVoice has no voice of its own, and {self._store.root} has none{which}",
            mend="Register one with `run.py voices register NAME RECORDING --text TEXT`",
        )

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _count(self, error: DuplexdError) -> None:
        self.stats.errors[error.code] = self.stats.errors.get(error.code, 0) + 1
