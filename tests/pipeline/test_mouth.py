"""Invariants: what is sent of an answer is its audio from the first sample on, without a gap or a
repeat, whatever is paused and resumed; nothing of an answer is sent before it is committed or after
it died; an answer is over when the client has played it, never while it is paused; synthesis stays
a bounded time ahead of the play head.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from pipecat.frames.frames import (
    AggregatedTextFrame,
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    EndFrame,
    Frame,
    FunctionCallResultFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    OutputTransportMessageUrgentFrame,
    StartFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.utils.asyncio.task_manager import TaskManager
from pipecat.utils.text.base_text_aggregator import TextType
from pipecat.workers.base_worker import WorkerParams

from pipeline.mouth import KEPT_ANSWERS, Mouth
from services.answer import CLAUSE, MARKS, REVISION, TAIL
from services.face import PacingProfile, Sink
from services.revision import RevisionBoard
from tts_engine.engine import Mark
from tts_engine.text.clause import Clause

RATE = 8000
#: bytes of a millisecond
MS = RATE * 2 // 1000


class News:
    """Lets a test wait until something holds."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def tell(self) -> None:
        self._changed.set()

    async def until(self, holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


class Client:
    """What a mouth needs of a sink."""

    def __init__(self, profile: PacingProfile, news: News) -> None:
        self.profile = profile
        self.calls: list[tuple[Any, ...]] = []
        self.pcm: dict[int, bytes] = {}
        self.frames: list[tuple[float, int]] = []  # when, and how many bytes
        self.gone = False
        self.on_call: Callable[[str], None] = lambda _: None
        self._news = news

    async def audio(self, revision: int, pcm: bytes) -> None:
        if self.gone:
            raise ConnectionResetError("gone")
        if revision not in self.pcm:
            self.calls.append(("audio", revision))
        self.pcm[revision] = self.pcm.get(revision, b"") + pcm
        self.frames.append((time.monotonic(), len(pcm)))
        self._told("audio")

    async def text(self, revision: int, text: str) -> None:
        self.calls.append(("text", revision, text))
        self._told("text")

    def sent_ms(self, revision: int) -> float:
        return len(self.pcm.get(revision, b"")) / MS

    def _told(self, name: str) -> None:
        self.on_call(name)
        self._news.tell()


@dataclass
class Events:
    """Remembers what the mouth tells; ends an answer that was played, as `Answers` does."""

    board: RevisionBoard
    news: News
    stamps: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    playing: list[int] = field(default_factory=list[int])
    played: dict[int, str] = field(default_factory=dict[int, str])
    underruns: int = 0
    gone: list[ConnectionError] = field(default_factory=list[ConnectionError])

    def on_stamp(self, revision: int, name: str, at: float) -> None:
        self.stamps.setdefault((revision, name), at)

    def on_playing(self, revision: int) -> None:
        self.playing.append(revision)

    def on_played(self, revision: int, heard: str, *, underruns: int) -> None:
        self.board.revoke()
        self.played[revision] = heard
        self.underruns += underruns
        self.news.tell()

    def on_gone(self, error: ConnectionError) -> None:
        self.gone.append(error)
        self.news.tell()


class Collector(FrameProcessor):
    """Keeps what passes."""

    def __init__(self, news: News) -> None:
        super().__init__(enable_direct_mode=True)
        self.frames: list[Frame] = []
        self._news = news

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        self.frames.append(frame)
        self._news.tell()
        await self.push_frame(frame, direction)

    def of(self, *kinds: type[Frame]) -> list[str]:
        return [type(frame).__name__ for frame in self.frames if isinstance(frame, kinds)]


@dataclass
class Stage:
    """A mouth in a pipeline of its own, with everything around it."""

    mouth: Mouth
    board: RevisionBoard
    client: Client
    events: Events
    before: Collector
    after: Collector
    worker: PipelineWorker
    news: News

    async def push(self, *frames: Frame) -> None:
        for frame in frames:
            await self.worker.queue_frame(frame)

    async def sent(self, revision: int, ms: float) -> None:
        await self.news.until(lambda: self.client.sent_ms(revision) >= ms)

    async def over(self, revision: int) -> str:
        """Waits until an answer was played to its end; returns what was heard of it."""
        await self.news.until(lambda: revision in self.events.played)
        return self.events.played[revision]

    async def passed(self) -> None:
        """Returns when everything that was pushed has come to the mouth."""
        mark = OutputTransportMessageUrgentFrame(message={})
        await asyncio.sleep(0)
        await self.push(mark)
        await self.news.until(lambda: mark in self.after.frames)

    def stop(self) -> tuple[str, float] | None:
        """The answer is interrupted; what was heard, and where."""
        self.board.revoke()
        heard = self.mouth.stop()
        return None if heard is None else (heard.text, heard.played_ms)


async def reached(at: float) -> None:
    """Returns at a time of the monotonic clock."""
    await asyncio.sleep(max(0.0, at - time.monotonic()))


def profile(**kwargs: Any) -> PacingProfile:
    return PacingProfile(**{"sample_rate": RATE, "frame_ms": 20, "lead_ms": 100, **kwargs})


@asynccontextmanager
async def stage(
    pacing: PacingProfile | None = None,
    *,
    ahead_s: float = 4.0,
    pauses: bool = False,
    board: RevisionBoard | None = None,
) -> AsyncIterator[Stage]:
    news, board = News(), board or RevisionBoard()
    client, events = Client(pacing or profile(), news), Events(board, news)
    mouth = Mouth(sink=cast(Sink, client), board=board, events=events, ahead_s=ahead_s)
    mouth.client_pauses = pauses
    board.on_change = mouth.wake
    before, after = Collector(news), Collector(news)
    worker = PipelineWorker(
        Pipeline([before, mouth, after]),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
        enable_turn_tracking=False,
        idle_timeout_secs=None,
    )
    task_manager = TaskManager(loop=asyncio.get_running_loop())
    running = asyncio.create_task(worker.run(WorkerParams(task_manager=task_manager)))
    try:
        await news.until(lambda: bool(after.of(StartFrame)))
        yield Stage(mouth, board, client, events, before, after, worker, news)
    finally:
        await worker.cancel()
        async with asyncio.timeout(10):
            await running


def clause(text: str, raw: str | None = None) -> Clause:
    raw = text if raw is None else raw
    return Clause(text=text, raw=raw, ends=(*range(1, len(text)), len(raw)))


def ramp(ms: float, start: int = 0) -> bytes:
    """Audio of which every sample tells its place."""
    return ((np.arange(round(ms * RATE / 1000)) + start) % 30_000).astype("<i2").tobytes()


def audio(
    revision: int, what: Clause, pcm: bytes, *marks: tuple[float, int], rate: int = RATE
) -> TTSAudioRawFrame:
    """Audio of a clause; a mark is a time of the clause in ms, and characters."""
    frame = TTSAudioRawFrame(pcm, rate, 1)
    frame.metadata[REVISION], frame.metadata[CLAUSE] = revision, what
    frame.metadata[MARKS] = tuple(Mark(round(ms * rate / 1000), chars) for ms, chars in marks)
    return frame


def announced(revision: int, what: Clause, *, spoken: bool = True) -> AggregatedTextFrame:
    frame = AggregatedTextFrame(what.text, TextType.SENTENCE, raw_text=what.raw)
    frame.metadata[REVISION], frame.metadata[CLAUSE] = revision, what
    frame.skip_tts = not spoken
    return frame


def end(revision: int, tail: str = "") -> LLMFullResponseEndFrame:
    frame = LLMFullResponseEndFrame()
    frame.metadata[REVISION], frame.metadata[TAIL] = revision, tail
    return frame


def answer(revision: int, ms: float = 300, tail: str = "") -> list[Frame]:
    """An answer of three characters, each a third of it, and its audio in three chunks."""
    what, third = clause("一二三"), ms / 3
    start = LLMFullResponseStartFrame()
    start.metadata[REVISION] = revision
    chunks = [
        audio(revision, what, ramp(third, round(i * third * RATE / 1000)), ((i + 1) * third, i + 1))
        for i in range(3)
    ]
    return [start, announced(revision, what), *chunks, end(revision, tail)]


# --- an answer -------------------------------------------------------------------------------
async def test_an_answer_is_played_to_its_end() -> None:
    async with stage() as s:
        revision = s.board.open()
        began = time.monotonic()
        await s.push(*answer(revision, tail="\n"))
        assert await s.over(revision) == "一二三\n"
        assert time.monotonic() - began >= 0.3
        assert s.client.pcm[revision] == ramp(300)
        assert {size for _, size in s.client.frames} == {20 * MS}
        assert s.client.calls == [
            ("text", revision, "一二三"), ("audio", revision), ("text", revision, "\n"),
        ]  # fmt: skip
        assert s.events.playing == [revision]
        assert s.events.stamps[revision, "audible"] >= s.events.stamps[revision, "sent"] - 0.1
        await s.news.until(lambda: bool(s.after.of(LLMFullResponseEndFrame)))
        bots = (BotStartedSpeakingFrame, BotStoppedSpeakingFrame)
        assert s.before.of(*bots) == s.after.of(*bots)
        assert s.after.of(*bots) == ["BotStartedSpeakingFrame", "BotStoppedSpeakingFrame"]


async def test_frames_keep_their_deadlines_and_the_lead() -> None:
    async with stage() as s:
        revision = s.board.open()
        began = time.monotonic()
        await s.push(*answer(revision, 600))
        await s.over(revision)
        for number, (at, _) in enumerate(s.client.frames):
            assert at >= began + number * 0.02 - 0.1


async def test_the_gap_and_the_margin_of_a_face_are_kept() -> None:
    async with stage(profile(start_gap_ms=80, stop_margin_ms=70)) as s:
        revision = s.board.open()
        began = time.monotonic()
        await s.push(*answer(revision, 60))
        await s.over(revision)
        assert s.client.frames[0][0] - began >= 0.08
        assert time.monotonic() - began >= 0.08 + 0.06 + 0.07


async def test_a_second_answer_follows() -> None:
    async with stage() as s:
        for _ in range(2):
            revision = s.board.open()
            await s.push(*answer(revision, 60))
            await s.over(revision)
            assert s.client.pcm[revision] == ramp(60)


async def test_an_answer_to_be_read_is_over_at_once() -> None:
    async with stage() as s:
        revision = s.board.open()
        await s.push(announced(revision, clause("读", "**读**"), spoken=False), end(revision, "!"))
        assert await s.over(revision) == "**读**!"
        assert s.client.calls == [("text", revision, "**读**"), ("text", revision, "!")]
        assert s.events.playing == []


async def test_a_clause_that_the_voice_left_out_was_passed_over_and_is_not_shown() -> None:
    async with stage() as s:
        revision = s.board.open()
        left_out, said = clause("……"), clause("好")
        await s.push(
            announced(revision, left_out),
            announced(revision, said),
            audio(revision, said, ramp(20), (20, 1)),
            end(revision),
        )
        assert await s.over(revision) == "……好"
        assert s.client.calls[0] == ("text", revision, "好")


async def test_another_rate_is_resampled_in_whole_frames() -> None:
    async with stage(profile(sample_rate=16_000)) as s:
        revision, what = s.board.open(), clause("一")
        tone = (9000 * np.sin(np.arange(4800) * 0.1)).astype("<i2").tobytes()
        await s.push(
            *(audio(revision, what, tone[i : i + 960], rate=24_000) for i in range(0, 9600, 960)),
            audio(revision, what, b"", (200, 1), rate=24_000),
            end(revision),
        )
        assert await s.over(revision) == "一"
        assert abs(len(s.client.pcm[revision]) // 2 - 3200) <= 1
        assert all(size == 640 for _, size in s.client.frames[:-1])
        assert s.events.stamps[revision, "audible"] == pytest.approx(
            s.events.stamps[revision, "sent"], abs=0.1
        )


async def test_less_than_a_frame_goes_out_before_the_client_runs_dry() -> None:
    async with stage() as s:
        revision, what = s.board.open(), clause("一二")
        await s.push(audio(revision, what, ramp(50), (50, 1)))
        await s.sent(revision, 50)
        assert [size // MS for _, size in s.client.frames] == [20, 20, 10]
        started = s.client.frames[0][0]
        await reached(started + 0.15)  # it runs dry
        await s.push(audio(revision, what, ramp(50, 400), (100, 2)), end(revision))
        assert await s.over(revision) == "一二"
        assert s.events.underruns >= 1
        assert s.client.pcm[revision] == ramp(100)


async def test_a_sound_in_the_second_chunk_is_the_first_audible_one() -> None:
    async with stage(profile(lead_ms=500)) as s:
        revision, what = s.board.open(), clause("一")
        loud = np.full(80 * RATE // 1000, 9000, "<i2").tobytes()
        began = time.monotonic()
        await s.push(
            audio(revision, what, bytes(10 * MS)),
            audio(revision, what, bytes(90 * MS)),
            audio(revision, what, loud, (180, 1)),
            end(revision),
        )
        await s.over(revision)
        assert began <= s.events.stamps[revision, "audible"] - 0.1 <= s.client.frames[0][0]


# --- the gate --------------------------------------------------------------------------------
async def test_a_speculation_is_held_until_it_is_committed() -> None:
    async with stage() as s:
        revision = s.board.speculate()
        await s.push(*answer(revision))
        await s.passed()
        assert s.client.calls == []
        assert s.after.of(LLMFullResponseStartFrame) == []
        s.board.commit(revision)
        assert await s.over(revision) == "一二三"
        assert s.client.pcm[revision] == ramp(300)


async def test_nothing_of_a_revoked_answer_is_sent_and_nothing_lasting_is_lost() -> None:
    async with stage() as s:
        first = s.board.speculate()
        result = FunctionCallResultFrame("f", "id", {}, "result")
        result.metadata[REVISION] = first
        await s.push(*answer(first)[:3], result, *answer(first)[3:])
        await s.passed()
        s.board.revoke()
        assert s.mouth.stop() is None
        await s.push(InterruptionFrame())
        await s.news.until(lambda: result in s.after.frames)
        second = s.board.open()
        await s.push(*answer(first), *answer(second))
        assert await s.over(second) == "一二三"
        assert list(s.client.pcm) == [second]
        assert s.events.playing == [second]
        assert s.after.of(BotStoppedSpeakingFrame) in ([], ["BotStoppedSpeakingFrame"])


async def test_what_belongs_to_no_answer_passes_in_order() -> None:
    async with stage() as s:
        nobodys = audio(0, clause("一"), ramp(20))
        await s.push(nobodys, TTSTextFrame("一", TextType.SENTENCE), TTSStartedFrame())
        await s.news.until(lambda: nobodys in s.after.frames)
        await s.passed()
        assert s.client.calls == []
        assert s.after.of(TTSTextFrame, TTSStartedFrame) == []
        await s.after.push_frame(nobodys, FrameDirection.UPSTREAM)
        await s.news.until(lambda: nobodys in s.before.frames[1:])


async def test_an_interrupted_answer_stops_at_once() -> None:
    async with stage() as s:
        revision = s.board.open()
        await s.push(*answer(revision, 3000))
        await s.sent(revision, 200)
        heard = s.stop()
        sent = s.client.sent_ms(revision)
        assert heard is not None
        assert heard[0] == ""
        assert sent - 120 - 1 <= heard[1] <= sent
        await s.push(InterruptionFrame())
        await s.news.until(lambda: bool(s.before.of(BotStoppedSpeakingFrame)))
        await s.push(InterruptionFrame())
        await s.passed()
        assert s.client.sent_ms(revision) == sent
        assert s.before.of(BotStoppedSpeakingFrame) == ["BotStoppedSpeakingFrame"]
        assert s.events.played == {}
        assert s.mouth.stop() is None


@pytest.mark.parametrize("where", ["text", "audio"])
async def test_an_answer_may_be_stopped_while_the_client_is_told(where: str) -> None:
    async with stage() as s:
        revision = s.board.open()
        s.client.on_call = lambda name: cast(None, s.stop() if name == where else None)
        await s.push(*answer(revision))
        await s.news.until(lambda: not s.board.live)
        await s.passed()
        assert s.client.sent_ms(revision) == (0 if where == "text" else 20)
        assert s.events.playing == []
        assert s.after.of(BotStartedSpeakingFrame) == []
        assert s.events.played == {}


async def test_an_answer_may_be_stopped_while_it_is_played_out() -> None:
    async with stage(profile(lead_ms=2000)) as s:
        revision = s.board.open()
        await s.push(*answer(revision, 1500))
        await s.sent(revision, 1500)
        assert s.stop() is not None
        await s.passed()
        assert s.events.played == {}


async def test_an_answer_may_be_stopped_before_its_last_piece() -> None:
    async with stage(profile(frame_ms=1000, lead_ms=0)) as s:
        revision = s.board.open()
        await s.push(audio(revision, clause("一"), ramp(1010), (1010, 1)), end(revision))
        await s.sent(revision, 1000)
        await s.passed()
        s.stop()
        await s.passed()
        assert s.client.sent_ms(revision) == 1000
        assert s.events.played == {}


async def test_an_answer_may_be_stopped_at_its_very_end() -> None:
    async with stage() as s:
        revision = s.board.open()
        s.client.on_call = lambda name: cast(
            None, s.stop() if s.client.calls[-1][-1] == "end" else None
        )
        await s.push(*answer(revision, 30, tail="end"))
        await s.news.until(lambda: not s.board.live)
        await s.passed()
        assert s.events.played == {}


async def test_a_client_that_is_gone_is_told_of() -> None:
    async with stage() as s:
        revision = s.board.open()
        s.client.gone = True
        await s.push(*answer(revision))
        await s.news.until(lambda: bool(s.events.gone))
        s.mouth.wake()
        await s.news.until(lambda: len(s.events.gone) > 1)
        assert s.client.pcm == {}
        assert s.events.playing == []


async def test_the_end_of_the_pipeline_ends_the_pacer() -> None:
    async with stage() as s:
        revision = s.board.open()
        await s.push(*answer(revision, 3000))
        await s.sent(revision, 20)
        await s.push(EndFrame())
        await s.news.until(lambda: bool(s.after.of(EndFrame)))
        sent = s.client.sent_ms(revision)
        await asyncio.sleep(0.05)
        assert s.client.sent_ms(revision) == sent


async def test_the_last_answers_are_remembered_beside_their_audio() -> None:
    async with stage() as s:
        for _ in range(KEPT_ANSWERS + 1):
            revision = s.board.open()
            await s.push(*answer(revision, 3))
            await s.over(revision)
        assert s.mouth.heard_at(1, 3) is None
        assert [s.mouth.heard_at(2, ms) for ms in (0, 1, 2, 3)] == ["", "一", "一二", "一二三"]
        assert s.mouth.heard_at(99, 3) is None


# --- pauses ----------------------------------------------------------------------------------
@pytest.mark.parametrize("pauses", [True, False])
async def test_a_paused_answer_goes_on_with_the_exact_sample(pauses: bool) -> None:
    async with stage(pauses=pauses) as s:
        revision = s.board.open()
        await s.push(*answer(revision, 900))
        for ms in (100, 300, 500):
            await s.sent(revision, ms)
            s.mouth.pause()
            s.mouth.pause()
            sent = s.client.sent_ms(revision)
            await reached(time.monotonic() + 0.25)  # in which the client runs dry, if it plays on
            assert s.client.sent_ms(revision) == sent
            s.mouth.resume()
            s.mouth.resume()
        assert await s.over(revision) == "一二三"
        assert s.client.pcm[revision] == ramp(900)


async def test_a_client_that_keeps_what_it_has_is_not_sent_a_lead_again() -> None:
    async with stage(profile(lead_ms=1000), pauses=True) as s:
        revision, began = s.board.open(), time.monotonic()
        await s.push(*answer(revision, 3000))
        await s.sent(revision, 1000)
        pausing = time.monotonic()
        s.mouth.pause()
        await reached(pausing + 0.3)
        s.mouth.resume()
        resumed = time.monotonic()
        await s.sent(revision, s.client.sent_ms(revision) + 40)
        heard = s.stop()
        assert heard is not None
        played_s = heard[1] / 1000
        assert played_s <= time.monotonic() - began - 0.3
        assert played_s >= time.monotonic() - s.client.frames[0][0] - (resumed - pausing) - 0.05
        assert s.client.sent_ms(revision) <= heard[1] + 1000 + 20 + 1


async def test_an_answer_paused_before_its_first_frame_waits() -> None:
    async with stage() as s:
        revision = s.board.open()
        s.mouth.pause()
        await s.push(*answer(revision))
        await s.passed()
        assert s.client.calls == []
        s.mouth.resume()
        assert await s.over(revision) == "一二三"
        assert s.client.pcm[revision] == ramp(300)


@pytest.mark.parametrize("pauses", [True, False])
async def test_what_was_heard_when_a_paused_answer_is_stopped(pauses: bool) -> None:
    async with stage(profile(lead_ms=300), pauses=pauses) as s:
        revision, began = s.board.open(), time.monotonic()
        what = clause("".join(chr(0x4E00 + i) for i in range(100)))
        marks = [(20 * (i + 1), i + 1) for i in range(100)]
        await s.push(audio(revision, what, ramp(2000), *marks))
        await s.sent(revision, 400)
        pausing = time.monotonic()
        s.mouth.pause()
        paused, sent = time.monotonic(), s.client.sent_ms(revision)
        await reached(paused + 0.5)
        heard = s.stop()
        assert heard is not None
        if pauses:
            least = min(sent, (pausing - s.client.frames[0][0]) * 1000)
            assert least <= heard[1] <= (paused - began) * 1000
        else:
            assert heard[1] == sent
        assert heard[0] == what.raw[: int(heard[1] / 20)]


async def test_a_paused_answer_never_finishes() -> None:
    async with stage(profile(lead_ms=500)) as s:
        revision = s.board.open()
        s.client.on_call = lambda _: s.mouth.pause() if s.client.sent_ms(revision) == 100 else None
        await s.push(*answer(revision, 100, tail="\n"))
        await s.sent(revision, 100)
        await reached(time.monotonic() + 0.3)
        assert s.events.played == {}
        assert s.board.live == revision
        s.client.on_call = lambda _: None
        s.mouth.resume()
        assert await s.over(revision) == "一二三\n"


async def test_a_pause_at_the_very_end_holds_it_too() -> None:
    async with stage() as s:
        revision = s.board.open()
        s.client.on_call = lambda name: s.mouth.pause() if s.client.calls[-1][-1] == "!" else None
        await s.push(*answer(revision, 30, tail="!"))
        await s.news.until(lambda: s.client.calls[-1:] == [("text", revision, "!")])
        await s.passed()
        assert s.events.played == {}
        s.mouth.resume()
        await s.over(revision)
        assert s.client.calls[-1] == ("text", revision, "!")


async def test_a_pause_ends_with_its_answer() -> None:
    async with stage() as s:
        s.mouth.pause()  # of nothing
        s.mouth.resume()
        first = s.board.open()
        await s.push(*answer(first, 3000))
        await s.sent(first, 100)
        s.mouth.pause()
        s.stop()
        await s.push(InterruptionFrame())
        second = s.board.open()
        await s.push(*answer(second))
        assert await s.over(second) == "一二三"
        assert s.client.pcm[second] == ramp(300)


async def test_less_than_a_frame_is_held_by_a_pause_as_well() -> None:
    async with stage() as s:
        revision, what = s.board.open(), clause("一")
        s.client.on_call = lambda name: s.mouth.pause() if name == "audio" else None
        await s.push(audio(revision, what, ramp(30)))
        await s.sent(revision, 20)
        await reached(time.monotonic() + 0.1)
        assert s.client.sent_ms(revision) == 20
        s.mouth.resume()
        await s.sent(revision, 30)


# --- what is audible -------------------------------------------------------------------------
async def test_the_words_that_were_played_last_are_audible() -> None:
    async with stage(profile(lead_ms=600), pauses=True) as s:
        assert s.mouth.audible(1500.0) == ""
        revision = s.board.open()
        what = clause("一二三四五六七八九十", "raw")
        marks = [(100 * (i + 1), i + 1) for i in range(10)]
        await s.push(audio(revision, what, ramp(1000), *marks))
        await s.sent(revision, 600)
        await reached(s.client.frames[0][0] + 0.25)
        s.mouth.pause()
        played = s.mouth.audible(math.inf)
        assert what.text.startswith(played)
        assert len(played) >= 3
        assert s.mouth.audible(0.001) == played[-1]
        await asyncio.sleep(0.05)
        assert s.mouth.audible(1500.0) == played
        s.stop()
        ended = time.monotonic()
        assert s.mouth.audible(60_000) == played
        second = s.board.open()
        await s.push(*answer(second, 30_000))
        await s.sent(second, 100)
        assert s.mouth.audible(60_000) == f"{played} 一"
        await reached(ended + 0.11)
        assert s.mouth.audible(100) == "一"


async def test_a_finished_answer_is_audible_for_a_while() -> None:
    async with stage() as s:
        revision = s.board.open()
        await s.push(*answer(revision, 30))
        await s.over(revision)
        assert s.mouth.audible(60_000) == "一二三"
        await reached(time.monotonic() + 0.05)
        assert s.mouth.audible(40) == ""


# --- back-pressure ---------------------------------------------------------------------------
class CountingBoard(RevisionBoard):
    """Counts how often it is asked whether work is wanted."""

    asked = 0

    def alive(self, revision: int) -> bool:
        self.asked += 1
        return super().alive(revision)


async def synthesise(s: Stage, revision: int, made: list[int]) -> None:
    """A voice that makes 100 ms chunks as fast as it may."""
    what = clause("x" * 100)
    for number in range(100):
        await s.mouth.wait(revision)
        s.mouth.made(revision, 100)
        made.append(number)
        chunk = ramp(100, number * 100 * RATE // 1000)
        await s.push(audio(revision, what, chunk, ((number + 1) * 100, number + 1)))
        s.news.tell()


@pytest.mark.parametrize("pauses", [True, False])
async def test_synthesis_stays_ahead_by_so_much_also_in_a_pause(pauses: bool) -> None:
    async with stage(ahead_s=1.0, pauses=pauses) as s:
        revision, made, began = s.board.open(), list[int](), time.monotonic()
        voice = asyncio.create_task(synthesise(s, revision, made))
        await s.news.until(lambda: len(made) >= 13)
        s.mouth.pause()
        paused = time.monotonic()
        await reached(paused + 0.5)
        # 1 s ahead of where the client stands, a chunk that was begun, and what another plays out
        position = (paused - began) * 1000 + (0 if pauses else 120)
        assert len(made) * 100 <= position + 1000 + 100 + 5
        stood = len(made)
        s.mouth.resume()
        await s.news.until(lambda: len(made) >= stood + 3)
        voice.cancel()
        s.stop()


async def test_waiting_in_a_pause_costs_nothing() -> None:
    board = CountingBoard()
    async with stage(ahead_s=0.2, pauses=True, board=board) as s:
        revision = board.open()
        s.mouth.made(revision, 1000)
        waiting = asyncio.create_task(s.mouth.wait(revision))
        await s.passed()
        s.mouth.pause()
        await s.passed()
        asked = board.asked
        await asyncio.sleep(0.2)
        assert board.asked == asked
        assert not waiting.done()
        board.revoke()
        await waiting


async def test_a_held_speculation_makes_no_more_than_that() -> None:
    async with stage(ahead_s=0.5) as s:
        revision, made = s.board.speculate(), list[int]()
        voice = asyncio.create_task(synthesise(s, revision, made))
        await s.news.until(lambda: len(made) == 6)
        await s.passed()
        assert len(made) == 6
        s.board.commit(revision)
        await s.news.until(lambda: len(made) >= 8)
        s.stop()
        async with asyncio.timeout(10):
            await voice  # nobody waits for a dead answer's play head
        assert s.client.sent_ms(revision) > 0


async def test_a_client_that_ran_dry_is_waited_for() -> None:
    async with stage(ahead_s=0.1) as s:
        revision, what = s.board.open(), clause("一二")
        s.mouth.made(revision, 400)
        await s.push(audio(revision, what, ramp(100), (100, 1)))
        waiting = asyncio.create_task(s.mouth.wait(revision))
        await s.sent(revision, 100)
        await reached(s.client.frames[0][0] + 0.5)
        assert not waiting.done()
        await s.push(audio(revision, what, ramp(300, 800), (400, 2)))
        async with asyncio.timeout(10):
            await waiting
        s.stop()
