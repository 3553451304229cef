"""A conversation on scripted engines, with a sink that remembers and a microphone in real time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from openai import AsyncOpenAI

from pipeline.answers import Guessed
from pipeline.ear import EarSettings
from pipeline.latency import TurnReport
from pipeline.options import SessionSettings
from pipeline.session import Engines, Session
from pipeline.turn_log import TurnLog
from pipeline.turns.actions import Reason
from pipeline.turns.settings import TurnSettings
from services.asr.base import OnPartial, Transcript
from services.face import (
    AnswerOptions,
    Cut,
    Ending,
    PacingProfile,
    SessionOptions,
    Sink,
    Usage,
)
from services.items import FunctionCall, Message, item_ref
from services.llm.service import AnswerSettings
from services.scripted.asr import ScriptedAsr, ScriptedRecogniser
from services.scripted.llm import ScriptedOpenAI, scripted_client
from services.scripted.spec import ScriptedTexts
from services.scripted.speech import synthetic_speech
from services.scripted.tts import ScriptedVoice
from services.turn_end.base import TurnEndEngine
from services.vad.base import WINDOW
from services.vad.energy import EnergyVad
from tts_engine.engine import SpeechChunk
from tts_engine.errors import DuplexdError

#: samples of a microphone frame: 20 ms at 16 kHz
FRAME = 320


class RecordingSink(Sink):
    """Remembers everything in order; `wait` wakes when something new satisfies a condition."""

    def __init__(self, profile: PacingProfile | None = None) -> None:
        self.profile = profile or PacingProfile()
        self.calls: list[tuple[Any, ...]] = []
        self.pcm: dict[int, bytearray] = {}
        self.sent_at: dict[int, list[float]] = {}
        self.usage: dict[int, Usage | None] = {}
        self.cut: dict[int, Cut | None] = {}
        self.turns: list[int] = []
        self.gone = False
        self.fail_on = ""
        self._news = asyncio.Condition()

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    async def wait(self, name: str, count: int = 1, timeout_s: float = 20.0) -> tuple[Any, ...]:
        """Waits for the count-th call of a method; returns its arguments."""
        async with asyncio.timeout(timeout_s), self._news:
            await self._news.wait_for(lambda: len(self.of(name)) >= count)
        return self.of(name)[count - 1]

    async def news(self) -> None:
        """Waits for the next call of any method."""
        async with self._news:
            await self._news.wait()

    async def wait_audio(self, revision: int, ms: float, timeout_s: float = 20.0) -> None:
        size = int(ms * self.profile.sample_rate / 1000) * 2
        async with asyncio.timeout(timeout_s), self._news:
            await self._news.wait_for(lambda: len(self.pcm.get(revision, b"")) >= size)

    async def _note(self, *call: Any) -> None:
        if call[0] == self.fail_on:
            raise RuntimeError("a face failed")
        self.calls.append(call)
        async with self._news:
            self._news.notify_all()

    async def begin(self, revision: int, *, ask: int | None = None) -> None:
        await self._note("begin", revision, ask)

    async def dropped(self, ask: int) -> None:
        await self._note("dropped", ask)

    async def call_begun(self, revision: int, call_id: str, name: str) -> None:
        await self._note("call_begun", revision, call_id, name)

    async def call_arguments(self, revision: int, call_id: str, delta: str) -> None:
        await self._note("call_arguments", revision, call_id, delta)

    async def call_done(self, revision: int, call: FunctionCall) -> None:
        await self._note("call_done", revision, call)

    async def audio(self, revision: int, pcm: bytes) -> None:
        if self.gone:
            raise ConnectionResetError("gone")
        self.pcm.setdefault(revision, bytearray()).extend(pcm)
        self.sent_at.setdefault(revision, []).append(time.monotonic())
        async with self._news:
            self._news.notify_all()

    async def text(self, revision: int, text: str) -> None:
        await self._note("text", revision, text)

    async def pause(self, revision: int) -> None:
        await self._note("pause", revision)

    async def resume(self, revision: int) -> None:
        await self._note("resume", revision)

    async def flush(self, revision: int, *, heard_ms: int) -> None:
        await self._note("flush", revision, heard_ms)

    async def end(self, revision: int, ending: Ending) -> None:
        self.usage[revision], self.cut[revision] = ending.usage, ending.cut
        await self._note("end", revision, ending.outcome, ending.heard, ending.error)

    async def turn_opened(self, *, at_ms: int) -> None:
        await self._note("turn_opened", at_ms)

    async def turn_ended(self, *, at_ms: int) -> None:
        await self._note("turn_ended", at_ms)

    async def partial(self, text: str) -> None:
        await self._note("partial", text)

    async def final(self, text: str, language: str, *, turn: int) -> None:
        self.turns.append(turn)
        await self._note("final", text, language)

    async def idle(self, *, since_ms: int, at_ms: int) -> None:
        await self._note("idle", since_ms, at_ms)

    async def turn_report(self, report: dict[str, Any]) -> None:
        await self._note("turn_report", report)

    async def error(self, error: DuplexdError) -> None:
        await self._note("error", error)


@dataclass
class Books:
    """Accounts that remember."""

    turns: list[TurnReport] = field(default_factory=list[TurnReport])
    errors: list[DuplexdError] = field(default_factory=list[DuplexdError])
    dismissals: list[tuple[Reason, str]] = field(default_factory=list[tuple[Reason, str]])
    guesses: list[Guessed] = field(default_factory=list[Guessed])

    def turn(self, session: str, report: TurnReport) -> None:
        self.turns.append(report)

    def error(self, session: str, error: DuplexdError) -> None:
        self.errors.append(error)

    def dismissed(self, session: str, reason: Reason, text: str) -> None:
        self.dismissals.append((reason, text))

    def guessed(self, outcome: Guessed) -> None:
        self.guesses.append(outcome)


class NotingAsr(ScriptedAsr):
    """A scripted recogniser that notes what each of its finals was made of."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fed_s: list[float] = []
        self.voiced_s: list[float] = []

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> ScriptedRecogniser:
        handle = super().open(session=session, on_partial=on_partial)
        finalise = handle.finalise

        async def noted() -> Transcript:
            self.voiced_s.append(handle.voiced_s)
            result = await finalise()
            self.fed_s.append(result.audio_s)
            return result

        handle.finalise = noted  # type: ignore[method-assign]
        return handle


class NotingVoice(ScriptedVoice):
    """A scripted voice that tells when it is asked to speak."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked = asyncio.Event()

    def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        self.asked.set()
        return super().synthesize(text, voice=voice, speed=speed, style=style)


class Microphone:
    """Streams in real time: silence, until there is something to say."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: NDArray[np.int16] = np.zeros(0, np.int16)
        self._empty = asyncio.Event()
        self.open = True

    async def say(
        self, seconds: float, pauses: tuple[tuple[float, float], ...] = (), *, paced: bool = False
    ) -> None:
        """Speaks, and returns when the last sample has been sent: at once, unless `paced`.

        The clock of the conversation counts samples, so speech that comes at once means the same.
        """
        speech = synthetic_speech(seconds=seconds, pauses=pauses, tail_s=0.0 if paced else 0.3)
        if not paced:
            self._session.audio(speech.tobytes(), arrived=time.monotonic())
            return
        self._left = speech
        self._empty.clear()
        await self._empty.wait()

    def click(self) -> None:
        """A single window of voice: too little for anybody who goes on."""
        self._session.ear.complete()
        click = synthetic_speech(seconds=0.03)[:WINDOW]
        self._session.audio(click.tobytes(), arrived=time.monotonic())
        self._session.ear.complete()

    async def run(self) -> None:
        due = time.monotonic()
        silence = np.zeros(FRAME, np.int16)
        while True:
            due += 0.02
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            frame, self._left = self._left[:FRAME], self._left[FRAME:]
            if not len(frame):
                self._empty.set()
                frame = silence
            if self.open:
                self._session.audio(frame.tobytes(), arrived=time.monotonic())


@dataclass
class Talk:
    """A running conversation and everything around it."""

    session: Session
    sink: RecordingSink
    books: Books
    llm: ScriptedOpenAI
    voice: NotingVoice
    asr: NotingAsr
    microphone: Microphone
    running: asyncio.Task[None]
    _written: int = 0

    @property
    def context(self) -> list[tuple[str, str]]:
        return [(m["role"], m["content"]) for m in self.session.context.messages]  # type: ignore[index]

    def write(self, text: str, role: Literal["user", "assistant", "system"] = "user") -> str:
        """Adds a message; returns its name."""
        self._written += 1
        ref = item_ref(str(self._written))
        self.session.add(ref, Message(role=role, text=text))
        return ref

    async def ask(self, text: str, turn: int = 1, **options: Any) -> tuple[Any, ...]:
        """Writes a question and waits for the end of the `turn`-th answer."""
        self.write(text)
        self.session.respond(AnswerOptions(**options))
        return await self.sink.wait("end", turn)

    async def listened(self) -> None:
        """Waits until all audio was dealt with; a recogniser with a delay has no text by then."""
        passed = asyncio.Event()
        self.session.ear.after(passed.set)
        await passed.wait()

    async def settle(self) -> None:
        """Lets effects and frames in flight arrive."""
        for _ in range(50):
            await asyncio.sleep(0)


@asynccontextmanager
async def conversation(
    *,
    texts: ScriptedTexts | None = None,
    asr: dict[str, Any] | None = None,
    llm: dict[str, Any] | None = None,
    voice: dict[str, Any] | None = None,
    turns: TurnSettings | None = None,
    options: SessionOptions | None = None,
    profile: PacingProfile | None = None,
    answers: dict[str, Any] | None = None,
    ear: EarSettings | None = None,
    ahead_s: float = 4.0,
    clause_timeout_s: float = 20.0,
    client: AsyncOpenAI | None = None,
    speculate_when_busy: bool = False,
    turn_end: TurnEndEngine | None = None,
    log: TurnLog | None = None,
    recogniser: type[NotingAsr] = NotingAsr,
) -> AsyncIterator[Talk]:
    """Runs a conversation, and checks that it leaves no task behind.

    `client` takes the place of the scripted LLM's, and is closed at the end.
    """
    before = asyncio.all_tasks()
    texts = texts or ScriptedTexts(
        transcripts=["你好吗？", "再说一遍"], replies=["我今天很好，谢谢你。"]
    )
    vad = EnergyVad()
    listener = recogniser(texts=texts, **(asr or {}))
    client = cast(ScriptedOpenAI, client or scripted_client(texts=texts, **(llm or {})))
    speaker = NotingVoice(**(voice or {}))
    for engine in (vad, listener, speaker):
        await engine.start()
    sink, books = RecordingSink(profile), Books()
    session = Session(
        name="s1",
        sink=sink,
        engines=Engines(vad=vad, asr=listener, llm=client, voice=speaker, turn_end=turn_end),
        settings=SessionSettings(
            turns=turns or TurnSettings(),
            ear=ear or EarSettings(),
            answers=AnswerSettings(
                model="scripted",
                prompts={"zh": "请用中文回答。", "en": "Answer in English."},
                switches={"zh": "（请用中文回答。）", "en": "(Answer in English.)"},
                apologies={"zh": "抱歉。", "en": "Sorry."},
                **(answers or {}),
            ),
            apologies={"zh": "没听清。", "en": "Pardon?"},
            ahead_s=ahead_s,
            clause_timeout_s=clause_timeout_s,
            speculate_when_busy=speculate_when_busy,
        ),
        log=log,
        options=options or SessionOptions(),
        accounts=books,
    )
    running = asyncio.create_task(session.run())
    microphone = Microphone(session)
    streaming = asyncio.create_task(microphone.run())
    try:
        yield Talk(session, sink, books, client, speaker, listener, microphone, running)
    finally:
        streaming.cancel()
        session.close()
        async with asyncio.timeout(10):
            await running
        await asyncio.gather(streaming, return_exceptions=True)
        for engine in (speaker, listener, vad):
            await engine.close()
        await client.close()
    left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not left, f"tasks left behind: {left}"
