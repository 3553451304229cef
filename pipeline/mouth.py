"""The mouth: the one gate to the speaker, the one pacer, and the playback clock.

Chunks come in as fast as the voice makes them, and leave frame by frame on absolute deadlines, a
little ahead of the client's play head. The revision board is asked before every send: there is no
other way to the speaker. The end of an answer is passed on when the play head reaches it, not when
its last frame was sent, so that the context never holds what is still to be heard.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import soxr
from pipecat.frames.frames import (
    AggregatedTextFrame,
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    CancelFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    StartFrame,
    SystemFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from pipeline.frames import TurnCommitFrame
from pipeline.heard import SpokenText
from pipeline.latency import first_sound
from pipeline.pacing import PlaybackClock
from services.answer import CLAUSE, MARKS, REVISION, TAIL
from services.face import Sink
from services.revision import RevisionBoard, Verdict
from tts_engine.engine import Mark
from tts_engine.text.clause import Clause

#: how long before the client runs dry less than a frame is sent, seconds
LAST_CALL_S = 0.010
#: answers whose text is kept beside their audio, for a client's late word on what was heard
KEPT_ANSWERS = 32


class MouthEvents(Protocol):
    """What the mouth tells the conversation."""

    def on_stamp(self, revision: int, name: str, at: float) -> None:
        """A latency stamp."""
        ...

    def on_played(self, revision: int, heard: str, *, underruns: int) -> None:
        """The answer was played to its end."""
        ...

    def on_gone(self, error: ConnectionError) -> None:
        """The client cannot be reached any more."""
        ...


@dataclass(frozen=True, slots=True)
class Heard:
    """How far an answer got when it was stopped."""

    text: str
    played_ms: float
    underruns: int


@dataclass(slots=True)
class _Answer:
    """The answer at the gate or on its way to the client."""

    revision: int
    clock: PlaybackClock
    text: SpokenText = field(default_factory=SpokenText)
    clause: Clause | None = None
    rest: bytearray = field(default_factory=bytearray)  # less than a frame
    taken_ms: float = 0.0  # audio taken from the queue, sent or in `rest`
    resampler: soxr.ResampleStream | None = None
    audible_ms: float | None = None  # where the first audible sample lies
    speaking: bool = False  # BotStartedSpeakingFrame went out


class Mouth(FrameProcessor):
    """Plays the live, open revision through a face's sink."""

    def __init__(
        self, *, sink: Sink, board: RevisionBoard, events: MouthEvents, ahead_s: float = 4.0
    ) -> None:
        super().__init__()
        self._sink = sink
        self._profile = sink.profile
        self._board = board
        self._events = events
        self._ahead_ms = ahead_s * 1000
        self._frame_bytes = self._profile.sample_rate * self._profile.frame_ms // 1000 * 2
        self._queue: deque[tuple[int, Frame]] = deque()
        self._made_revision = 0
        self._made_ms = 0.0
        self._answer: _Answer | None = None
        self._spoken: dict[int, SpokenText] = {}
        self._was_speaking = False  # an answer was stopped aloud, and pipecat is not told yet
        self._sleeper: asyncio.Future[None] | None = None
        self._playing: asyncio.Future[None] | None = None
        self._pacer: asyncio.Task[None] | None = None

    # --- what the driver calls ---------------------------------------------------------------
    def wake(self) -> None:
        """The board changed or something was queued: look again."""
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def stop(self) -> Heard | None:
        """Stops the answer at this moment; to be called just after its revision was revoked.

        Returns:
            How far it got, or None if no audio of it had come yet.
        """
        answer, self._answer = self._answer, None
        self._drop_dead()
        if answer is None:
            return None
        self._was_speaking = answer.speaking
        self.wake()
        return self._measure(answer)

    def heard_at(self, revision: int, played_ms: float) -> str | None:
        """What was heard at a position of one of the last answers, None if it is another's."""
        spoken = self._spoken.get(revision)
        return spoken.heard(played_ms) if spoken is not None else None

    def made(self, revision: int, length_ms: float) -> None:
        """Synthesis has made audio that may still be on its way here."""
        if revision != self._made_revision:
            self._made_revision, self._made_ms = revision, 0.0
        self._made_ms += length_ms

    async def wait(self, revision: int) -> None:
        """Back-pressure for synthesis: returns when less than `ahead_s` is still to be played."""
        while self._board.alive(revision) and self._made_revision == revision:
            answer = self._answer
            playing = answer is not None and answer.revision == revision and answer.clock.started
            played = answer.clock.played_ms(time.monotonic()) if answer and playing else 0.0
            excess = self._made_ms - played - self._ahead_ms
            if excess <= 0:
                return
            if playing:
                await asyncio.sleep(excess / 1000)
            else:
                self._playing = asyncio.get_running_loop().create_future()
                await self._playing

    # --- frames ------------------------------------------------------------------------------
    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Queues what belongs to an answer; system frames pass at once."""
        await super().process_frame(frame, direction)
        if direction is FrameDirection.UPSTREAM:
            await self.push_frame(frame, direction)
        elif isinstance(frame, StartFrame):
            await self.push_frame(frame, direction)
            self._pacer = self.create_task(self._pace(), "pacer")
        elif isinstance(frame, InterruptionFrame):
            await self._interrupted()
            await self.push_frame(frame, direction)
        elif isinstance(frame, CancelFrame | EndFrame):
            await self._stop_pacing()
            await self.push_frame(frame, direction)
        elif isinstance(frame, SystemFrame):
            await self.push_frame(frame, direction)
        elif isinstance(frame, TTSStartedFrame | TTSStoppedFrame | TurnCommitFrame):
            pass
        elif isinstance(frame, AggregatedTextFrame) and not frame.skip_tts:
            # Texts of the voice say what was made; only the play head says what was heard.
            pass
        else:
            self._put(frame)

    async def cleanup(self) -> None:
        """Ends the pacer."""
        await super().cleanup()
        await self._stop_pacing()

    def _put(self, frame: Frame) -> None:
        self._queue.append((frame.metadata.get(REVISION, 0), frame))
        self.wake()

    async def _interrupted(self) -> None:
        """Tells pipecat that the voice has stopped: the driver stopped it before this."""
        self._drop_dead()
        speaking, self._was_speaking = self._was_speaking, False
        if speaking:
            await self.broadcast_frame(BotStoppedSpeakingFrame)

    async def _stop_pacing(self) -> None:
        if self._pacer is not None:
            await self.cancel_task(self._pacer)
            self._pacer = None

    def _drop_dead(self) -> None:
        """Takes frames of dead revisions out of the queue; the others keep their order."""
        self._queue = deque((r, f) for r, f in self._queue if not r or self._board.alive(r))

    # --- the pacer ---------------------------------------------------------------------------
    async def _pace(self) -> None:
        while True:
            if not self._queue:
                await self._starve()
                continue
            revision, frame = self._queue[0]
            verdict = self._board.verdict(revision) if revision else Verdict.PASS
            if verdict is Verdict.HOLD:
                await self._sleep(None)
                continue
            self._queue.popleft()
            if isinstance(frame, TTSAudioRawFrame):
                if verdict is Verdict.PASS:
                    await self._play(revision, frame)
            elif isinstance(frame, AggregatedTextFrame):
                if verdict is Verdict.PASS:
                    await self._show(revision, frame)
            elif isinstance(frame, LLMFullResponseEndFrame):
                if verdict is Verdict.PASS:
                    await self._finish(revision, frame)
            elif verdict is Verdict.PASS or not frame.interruptible:
                await self.push_frame(frame)

    async def _starve(self) -> None:
        """Nothing queued: what is less than a frame goes out just before the client runs dry."""
        answer = self._answer
        if answer is None or not answer.rest or not answer.clock.started:
            await self._sleep(None)
            return
        last_call = answer.clock.ends() - LAST_CALL_S
        if last_call > time.monotonic():
            await self._sleep(last_call)
        elif await self._send(answer, bytes(answer.rest)):
            answer.rest.clear()

    async def _take(self, revision: int, frame: Frame) -> _Answer:
        """The answer that a frame belongs to; tells its text when a new clause begins."""
        answer = self._current(revision)
        clause: Clause = frame.metadata[CLAUSE]
        if clause is not answer.clause:
            answer.clause = clause
            answer.text.begin(clause, at_ms=answer.taken_ms)
            # An apology has no raw text, as it is no part of the answer; it is shown all the same.
            await self._sink.text(revision, clause.raw or clause.text)
        return answer

    def _current(self, revision: int) -> _Answer:
        if self._answer is None or self._answer.revision != revision:
            self._answer = answer = _Answer(revision, PlaybackClock(self._profile))
            self._spoken[revision] = answer.text
            if len(self._spoken) > KEPT_ANSWERS:
                del self._spoken[next(iter(self._spoken))]
        return self._answer

    async def _show(self, revision: int, frame: AggregatedTextFrame) -> None:
        """A clause that is read and not spoken."""
        answer = await self._take(revision, frame)
        answer.text.mark((Mark(0, len(frame.text)),), sample_rate=self._profile.sample_rate)

    async def _play(self, revision: int, frame: TTSAudioRawFrame) -> None:
        answer = await self._take(revision, frame)
        answer.text.mark(frame.metadata[MARKS], sample_rate=frame.sample_rate)
        answer.taken_ms += _length_ms(frame)
        answer.rest += self._resample(answer, frame)
        self._find_sound(answer)
        position, size = 0, self._frame_bytes
        while len(answer.rest) - position >= size:
            if not await self._send(answer, bytes(answer.rest[position : position + size])):
                return
            position += size
        del answer.rest[:position]

    async def _send(self, answer: _Answer, pcm: bytes) -> bool:
        """Sends one frame when it is due.

        Returns:
            False if its revision died meanwhile.
        """
        clock = answer.clock
        while self._board.alive(answer.revision) and self._answer is answer:
            due = clock.due()
            now = time.monotonic()
            if due > now:
                await self._sleep(due)
                continue
            first = not clock.started
            clock.sending(now)
            try:
                await self._sink.audio(answer.revision, pcm)
            except ConnectionError as error:
                self._events.on_gone(error)
                await self._sleep(None)
                return False
            clock.sent(len(pcm) * 500 / self._profile.sample_rate)
            if first:
                if self._playing is not None and not self._playing.done():
                    self._playing.set_result(None)
                self._events.on_stamp(answer.revision, "sent", time.monotonic())
                self._stamp_audible(answer)
                answer.speaking = True
                await self.broadcast_frame(BotStartedSpeakingFrame)
            return True
        return False

    async def _finish(self, revision: int, frame: Frame) -> None:
        """The answer was made to its end: waits for the play head, then closes it."""
        answer = self._current(revision)  # a new one, if nothing was to be heard
        if answer.resampler is not None:
            last = answer.resampler.resample_chunk(np.zeros(0, np.int16), last=True)
            answer.rest += last.tobytes()
        if answer.rest and not await self._send(answer, bytes(answer.rest)):
            return
        answer.rest.clear()
        until = answer.clock.ends() + self._profile.stop_margin_ms / 1000
        while self._board.alive(revision) and time.monotonic() < until:
            await self._sleep(until)
        tail: str = frame.metadata.get(TAIL, "")
        if tail and self._board.alive(revision):
            await self._sink.text(revision, tail)
        if not self._board.alive(revision):
            return
        self._answer = None
        answer.text.finish(tail, at_ms=answer.taken_ms)
        heard = answer.text.heard(float("inf"))
        self._events.on_played(revision, heard, underruns=answer.clock.underruns)
        if answer.speaking:
            await self.broadcast_frame(BotStoppedSpeakingFrame)
        await self.push_frame(frame)

    # --- measures ----------------------------------------------------------------------------
    def _measure(self, answer: _Answer) -> Heard:
        played = answer.clock.played_ms(time.monotonic())
        return Heard(answer.text.heard(played), played, answer.clock.underruns)

    def _find_sound(self, answer: _Answer) -> None:
        """Finds the first audible sample of the answer, once."""
        if answer.audible_ms is not None or not answer.rest:
            return
        at = first_sound(np.frombuffer(bytes(answer.rest), np.int16), self._profile.sample_rate)
        if at is not None:
            answer.audible_ms = answer.clock.sent_ms + at * 1000 / self._profile.sample_rate
            self._stamp_audible(answer)

    def _stamp_audible(self, answer: _Answer) -> None:
        if answer.audible_ms is not None and answer.clock.started:
            at = answer.clock.plays_at(answer.audible_ms)
            self._events.on_stamp(answer.revision, "audible", at)

    def _resample(self, answer: _Answer, frame: TTSAudioRawFrame) -> bytes:
        if frame.sample_rate == self._profile.sample_rate or not frame.audio:
            return frame.audio
        if answer.resampler is None:
            # LQ holds back 12 ms of audio, pipecat's default VHQ 75 ms.
            answer.resampler = soxr.ResampleStream(
                frame.sample_rate, self._profile.sample_rate, 1, dtype="int16", quality="LQ"
            )
        samples = np.frombuffer(frame.audio, np.int16)
        return answer.resampler.resample_chunk(samples).tobytes()

    async def _sleep(self, until: float | None) -> None:
        """Sleeps until a monotonic time or `wake`, whichever is first.

        A future and one timer handle: asyncio.wait_for would cost a task per frame.
        """
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        handle = None
        if until is not None:
            handle = loop.call_later(max(0.0, until - time.monotonic()), self.wake)
        try:
            await self._sleeper
        finally:
            if handle is not None:
                handle.cancel()
            self._sleeper = None


def _length_ms(frame: TTSAudioRawFrame) -> float:
    return len(frame.audio) * 500 / frame.sample_rate
