"""CosyVoice as a voice engine: the synthesis runs in a process of its own, this side is asyncio.

torch holds the GIL for longer than a conversation can wait, so nothing of it is imported here. What
the worker was making when it died fails; until a new one is up, everything fails at once.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path

from loguru import logger

from tts_engine.cosyvoice.context import NOTHING, Before, Context
from tts_engine.cosyvoice.marks import TOKEN_RATE, audible
from tts_engine.cosyvoice.pieces import pieces
from tts_engine.cosyvoice.reading import (
    FED,
    Carry,
    ClauseReading,
    Coming,
    Reports,
    feed,
    speak_pieces,
)
from tts_engine.cosyvoice.voices import VoiceInfo, VoiceStore, by_age, choose_among
from tts_engine.cosyvoice.wire import (
    REPORTS,
    Audio,
    Cancel,
    Decoding,
    Done,
    Ready,
    Register,
    Registered,
    Remove,
    Report,
    Settings,
    Speak,
    Started,
)
from tts_engine.engine import EngineStats, Mark, Reading, SpeechChunk, SpeechEngine, check_speed
from tts_engine.errors import (
    AtCapacity,
    ConfigError,
    DuplexdError,
    EngineFailed,
    TimedOut,
    UnknownVoice,
)
from tts_engine.files import Stamp
from tts_engine.frames import Failed, error_of
from tts_engine.restart import RestartPolicy
from tts_engine.service.cloner import ONCE
from tts_engine.worker_process import WorkerProcess, program

#: the worker's program
CHILD = program("tts_engine.cosyvoice.worker")
#: two changes of a folder within it may bear the same time, ns
_TICK_NS = 50_000_000


class CosyVoiceEngine(SpeechEngine):
    """A voice engine in a worker process, shared by all conversations; one life.

    Parameters:
        settings: of the worker.
        needs_voice: a folder without voices is an error at the start.
        queue_limit: utterances that may wait or be made.
        context: what a clause carries on from in a `reading`.
        text_stream: a text that still comes is to be spoken as one; see TextStreamer.
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
        context: Context = "clause",
        text_stream: bool = False,
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
        self._context = context
        self.streams_text = text_stream
        self._most = settings.longest_s / 2 * TOKEN_RATE  # so that it ends before it is cut off
        self._timeout_s = timeout_s
        self._register_timeout_s = register_timeout_s
        self._store = VoiceStore(Path(settings.voices_dir))
        self._infos: dict[str, VoiceInfo] = {}
        self._gone: set[str] = set()  # they were there, and texts may still be spoken in them
        self._seen: Stamp | None = None
        self._kind = ""
        self._look()
        self._jobs: dict[int, Reports] = {}
        self._last_id = 0
        self._heard = 0.0
        self.worker = WorkerProcess(
            name="CosyVoice worker",
            kinds=REPORTS,
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
        self._look()
        return tuple(self._infos)

    def identity(self, voice: str | None) -> str:
        """See SpeechEngine."""
        name = voice or next(iter(self.voices), "")
        self._look()
        info = self._infos.get(name)
        return name if info is None else f"{name} {info.created} {info.sha256}"

    @property
    def ready(self) -> bool:
        """See SpeechEngine; False while there is no worker."""
        return self.worker.state == "ready"

    def infos(self) -> tuple[VoiceInfo, ...]:
        """What is known of the voices, the first registered first."""
        self._look()
        return tuple(self._infos.values())

    async def start(self) -> None:
        """See SpeechEngine.

        Raises:
            ConfigError: there is no voice to speak with.
            ModelError, EngineFailed, TimedOut: the worker cannot be started.
        """
        started = time.monotonic()
        if self._needs_voice and not self.voices:
            raise self._voiceless("")
        await self.worker.start()
        if self._needs_voice and not self.voices:
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
            UnknownVoice: it was removed meanwhile.
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
        self._look()
        return self._infos.get(name) or self._store.read(name).info

    async def remove(self, name: str) -> None:
        """Forgets a voice: it is no longer among `voices`. Texts that are being spoken in it go on:
        their clauses may name it until none has for a minute, or the name is registered anew.

        Raises:
            UnknownVoice: there is none of this name.
            EngineFailed, TimedOut
        """
        await self._ask(Remove(id=self._new_id(), name=name), self._timeout_s)

    def reading(self) -> Reading:
        """See SpeechEngine: clauses carry on from each other, unless `context` is none."""
        return ClauseReading(self.speak) if self._context == "clause" else self

    def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        """See SpeechEngine; raises when it is iterated. The same request gives the same audio.

        Raises:
            UnknownVoice, BadRequest, AtCapacity, TimedOut, EngineFailed
        """
        return self.speak(text, voice=voice, speed=speed, style=style)

    def synthesize_pieces(
        self,
        texts: AsyncIterator[str],
        *,
        voice: str | None = None,
        speed: float = 1.0,
        style: str = "",
    ) -> AsyncGenerator[SpeechChunk, None]:
        """See TextStreamer. What it sounds like depends on when the pieces come.

        Raises:
            UnknownVoice, BadRequest, AtCapacity, TimedOut, EngineFailed
            DuplexdError: of `texts`.
        """
        return speak_pieces(
            self.speak, texts, most=self._most, voice=voice, speed=speed, style=style
        )

    async def speak(
        self,
        text: str,
        *,
        voice: str | None,
        speed: float,
        style: str,
        carry: Carry | None = None,
        coming: Coming | None = None,
    ) -> AsyncGenerator[SpeechChunk, None]:
        """Makes an utterance; see `reading.Speaks`."""
        order: Speak | None = None
        feeding: asyncio.Task[None] | None = None
        try:
            name = self._checked(voice, speed)
            if not audible(text):
                yield SpeechChunk(pcm=b"", marks=(Mark(0, len(text)),))
                return
            seed = zlib.crc32("\0".join((text, name, style)).encode())
            before = NOTHING if carry is None else carry.before
            order = Speak(
                id=self._new_id(),
                text=text,
                voice=name,
                speed=speed,
                style=style,
                seed=seed,
                more=coming is not None,
                carry=carry is not None,
                before_text=before.text,
                before_tokens=list(before.tokens),
            )
            reports = self._submit(order)
            if coming is not None:
                feeding = asyncio.create_task(feed(coming, order.id, self.worker.send, reports))
            start = 0
            # While it waits for text it says nothing; the text's sender sees to that.
            while not isinstance(
                report := await self._next(reports, None if feeding else self._timeout_s), Done
            ):
                if report is FED:
                    feeding = None
                elif isinstance(report, Started):
                    self.stats.on_wait(report.waited_s)
                elif isinstance(report, Audio):
                    for chunk in pieces(report, start):
                        yield chunk
                    start += len(report.payload) // 2
            self.decoding = Decoding(report.decode_steps, report.decoded)
            self.stats.jobs += 1
            if carry is not None:
                carry.before = Before(text, report.said) if report.said else NOTHING
            if coming is not None and feeding is not None:  # it was cut off
                coming.over = True
                await self._next(reports, None)
        except DuplexdError as error:
            self.stats.failed(error)
            raise
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
            if order is not None:
                self._settle(order)

    def _checked(self, voice: str | None, speed: float) -> str:
        """The voice's name, once the arguments are found good."""
        check_speed(speed)
        self._look()
        everybody_s = (known for known in self._infos if not known.startswith(ONCE))
        name = voice if voice is not None else next(everybody_s, None)
        if name is None or (name not in self._infos and name not in self._gone):
            raise UnknownVoice(
                "No voice is registered" if name is None else f"There is no voice {name!r}",
                mend=choose_among(self._infos),
            )
        return name

    async def _ask(self, order: Register | Remove, timeout_s: float) -> None:
        """Has something done; returns when it is."""
        try:
            await self._next(self._submit(order), timeout_s)
        except DuplexdError as error:
            self.stats.failed(error)
            raise
        finally:
            self._settle(order)

    def _submit(self, order: Speak | Register | Remove) -> Reports:
        if not isinstance(order, Remove) and len(self._jobs) >= self._queue_limit:
            raise AtCapacity(
                f"{self._queue_limit} utterances wait for CosyVoice",
                mend="Raise tts.cosyvoice.queue_limit, or serve fewer sessions",
            )
        self.worker.send(order)
        reports = self._jobs[order.id] = asyncio.Queue()
        self.stats.depth += 1
        return reports

    async def _next(self, reports: Reports, timeout_s: float | None) -> Report:
        try:
            async with asyncio.timeout(timeout_s):
                report = await reports.get()
        except TimeoutError as error:
            assert timeout_s is not None
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
        if isinstance(report, DuplexdError):
            raise report
        return report

    def _settle(self, order: Speak | Register | Remove) -> None:
        """Forgets an order that is over, or has to be."""
        if self._jobs.pop(order.id, None) is None:
            return
        self.stats.depth -= 1
        if not isinstance(order, Remove) and self.ready:
            self.worker.send(Cancel(id=order.id))

    def _on_report(self, report: Report) -> None:
        self._heard = time.monotonic()
        if isinstance(report, Ready):
            self._kind, self._seen = report.kind, None
        elif reports := self._jobs.get(report.id):
            reports.put_nowait(report)
        elif isinstance(report, Registered) and self.ready:
            # It and the order's end have crossed: it was made for somebody who is gone.
            self.worker.send(Remove(id=self._new_id(), name=report.name))

    def _fail_all(self, error: EngineFailed) -> None:
        for reports in self._jobs.values():
            reports.put_nowait(error)

    def _look(self) -> None:
        """Sees what has become of the folder, whoever has changed it; the default comes first."""
        stamp = self._store.stamp()
        if stamp is not None and stamp == self._seen:
            return
        settled = stamp is not None and time.time_ns() - stamp[1] > _TICK_NS
        self._seen = stamp if settled else None
        before, infos = self._infos, by_age(self._store.infos())
        self._infos = {info.name: info for info in infos if self._kind in ("", info.kind)}
        gone = before.keys() - {info.name for info in infos}
        self._gone |= {name for name in gone if not name.startswith(ONCE)}

    def _voiceless(self, which: str) -> ConfigError:
        return ConfigError(
            f"CosyVoice has no voice of its own, and {self._store.root} has none{which}",
            mend="Register one with `run.py voices register NAME RECORDING --text TEXT`",
        )

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id
