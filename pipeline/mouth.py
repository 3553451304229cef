"""The mouth: the one gate to the speaker, the one pacer, and the playback clock.

Chunks come in as fast as the voice makes them, and leave frame by frame on absolute deadlines, a
little ahead of the client's play head. The revision board is asked before every send: there is no
other way to the speaker. The end of an answer is passed on when the play head reaches it, not when
its last frame was sent, so that the context never holds what is still to be heard.

A pause stops the pacer between two frames and nothing else: the answer goes on being made, at most
a few seconds ahead, and its next frame is the same whenever it is sent.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Protocol

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

from pipeline.alarm import Alarm
from pipeline.frames import TurnCommitFrame
from pipeline.gate import Gate, Piece
from pipeline.heard import SpokenText
from pipeline.playing import Heard, Playing
from services.answer import CLAUSE, MARKS, REVISION, TAIL
from services.face import Sink
from services.revision import RevisionBoard

#: how long before the client runs dry less than a frame is sent, seconds
LAST_CALL_S = 0.010
#: answers whose text is kept beside their audio, for a client's late word on what was heard
KEPT_ANSWERS = 32
#: room for synthesis that is not worth waiting for, milliseconds
_SLACK_MS = 1.0


class MouthEvents(Protocol):
    """What the mouth tells the conversation."""

    def on_stamp(self, revision: int, name: str, at: float) -> None:
        """A latency stamp."""
        ...

    def on_playing(self, revision: int) -> None:
        """The answer's first frame was sent: from now on it is audible."""
        ...

    def on_played(self, revision: int, heard: str, *, underruns: int) -> None:
        """The answer was played to its end."""
        ...

    def on_gone(self, error: ConnectionError) -> None:
        """The client cannot be reached any more."""
        ...


class Mouth(FrameProcessor):
    """Plays the live, open revision through a face's sink.

    Direct mode: what comes is put into the gate, which is queue enough.

    Args:
        sink: what the client is told through.
        board: of the conversation; its changes are told by `wake`.
        events: what is told of the answers.
        ahead_s: synthesis stays less than this ahead of the play head.

    Attributes:
        client_pauses: the client stops playing when it is told of a pause, and keeps what it has;
            another one plays that out.
    """

    def __init__(
        self, *, sink: Sink, board: RevisionBoard, events: MouthEvents, ahead_s: float = 4.0
    ) -> None:
        super().__init__(enable_direct_mode=True)
        self.client_pauses = False
        self._sink = sink
        self._profile = sink.profile
        self._board = board
        self._events = events
        self._ahead_ms = ahead_s * 1000
        self._gate: Gate[Frame] = Gate(board)
        self._made_revision = 0
        self._made_ms = 0.0
        self._answer: Playing | None = None
        self._paused = 0  # the revision that is paused
        self._past: Playing | None = None  # the last one that was over
        self._spoken: dict[int, SpokenText] = {}
        self._was_speaking = False  # an answer was stopped aloud, and pipecat is not told yet
        self._alarm = Alarm()  # of the pacer
        self._room = Alarm()  # of synthesis that waits
        self._pacer: asyncio.Task[None] | None = None

    # --- what the driver calls ---------------------------------------------------------------
    def wake(self) -> None:
        """The board changed or something was queued: look again."""
        self._alarm.ring()
        self._room.ring()

    def pause(self) -> None:
        """The live answer stops being sent at this moment, and keeps its place. Idempotent.

        It never finishes before `resume`; what ends it otherwise ends the pause.
        """
        if not self._is_paused():
            self._paused = self._board.live
            if self._answer is not None:
                self._answer.clock.pause(time.monotonic(), keeps=self.client_pauses)

    def resume(self) -> None:
        """A paused answer goes on with the sample that it stopped before. Idempotent."""
        if self._is_paused():
            self._paused = 0
            if self._answer is not None:
                self._answer.clock.resume(time.monotonic())
            self.wake()

    def stop(self) -> Heard | None:
        """Stops the answer at this moment; to be called just after its revision was revoked.

        Returns:
            How far it got, or None if nothing of it had come to be sent yet.
        """
        answer, self._answer = self._answer, None
        self._gate.drop_dead()
        if answer is None:
            return None
        self._past = answer
        self._was_speaking = self._was_speaking or answer.speaking
        self.wake()
        return answer.stop(time.monotonic())

    def heard_at(self, revision: int, played_ms: float) -> str | None:
        """What was heard at a position of one of the last answers, None if it is another's."""
        spoken = self._spoken.get(revision)
        return spoken.heard(played_ms) if spoken is not None else None

    def audible(self, within_ms: float) -> str:
        """The words, as they were spoken, that the client has just played: of what an echo of the
        answer that plays, or is paused, or is just over, would consist.

        Args:
            within_ms: how far back; a pause does not count, unless the client plays on.
        """
        now = time.monotonic()
        parts = [a.audible(within_ms, now) for a in (self._past, self._answer) if a is not None]
        return " ".join(part for part in parts if part)

    # --- back-pressure for synthesis: services.tts.service.LookAhead --------------------------
    def made(self, revision: int, length_ms: float) -> None:
        """Synthesis has made audio that may still be on its way here."""
        if revision != self._made_revision:
            self._made_revision, self._made_ms = revision, 0.0
        self._made_ms += length_ms

    async def wait(self, revision: int) -> None:
        """Returns when less than `ahead_s` is still to be played, or the revision is dead."""
        while self._board.alive(revision) and self._made_revision == revision:
            target = self._made_ms - self._ahead_ms - _SLACK_MS
            now, look = time.monotonic(), math.inf
            answer = self._answer
            played = 0.0
            if answer is not None and answer.revision == revision:
                played = answer.clock.played_ms(now)
                look = answer.clock.reaches(target, now)
            if played >= target:
                return
            await self._room.sleep(look)

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
        elif isinstance(frame, AggregatedTextFrame) and CLAUSE not in frame.metadata:
            # Texts of the voice say what was made; only the play head says what was heard.
            pass
        else:
            revision = frame.metadata.get(REVISION, 0)
            self._gate.put(Piece(frame, revision, lasting=not frame.interruptible))
            self._alarm.ring()

    async def cleanup(self) -> None:
        """Ends the pacer."""
        await super().cleanup()
        await self._stop_pacing()

    async def _interrupted(self) -> None:
        """Tells pipecat that the voice has stopped: the driver stopped it before this."""
        self._gate.drop_dead()
        speaking, self._was_speaking = self._was_speaking, False
        if speaking:
            await self.broadcast_frame(BotStoppedSpeakingFrame)

    async def _stop_pacing(self) -> None:
        if self._pacer is not None:
            await self.cancel_task(self._pacer)
            self._pacer = None

    # --- the pacer ---------------------------------------------------------------------------
    async def _pace(self) -> None:
        while True:
            piece = None if self._is_paused() else self._gate.take()
            if piece is None:
                await self._starve()
            elif not piece.revision:
                await self.push_frame(piece.item)
            else:
                await self._deliver(self._current(piece.revision), piece.item)

    async def _deliver(self, answer: Playing, frame: Frame) -> None:
        if isinstance(frame, TTSAudioRawFrame):
            await self._play(answer, frame)
        elif isinstance(frame, AggregatedTextFrame):
            await self._announce(answer, frame)
        elif isinstance(frame, LLMFullResponseEndFrame):
            await self._finish(answer, frame)
        else:
            await self.push_frame(frame)

    async def _starve(self) -> None:
        """Nothing may go on: what is less than a frame goes out just before the client runs dry."""
        answer = self._answer
        last_call = math.inf
        if answer is not None and answer.frames.rest and answer.clock.started:
            last_call = answer.clock.ends() - LAST_CALL_S
        if answer is None or last_call > time.monotonic():
            await self._alarm.sleep(last_call)
        else:
            await self._send(answer, answer.frames.take_rest())

    async def _announce(self, answer: Playing, frame: AggregatedTextFrame) -> None:
        """A clause whose audio follows, or one that is read and not spoken."""
        answer.enter(frame.metadata[CLAUSE])
        if frame.skip_tts:
            answer.read()
            await self._show(answer)

    async def _play(self, answer: Playing, frame: TTSAudioRawFrame) -> None:
        answer.enter(frame.metadata[CLAUSE])
        answer.add(frame.audio, frame.sample_rate, frame.metadata[MARKS])
        await self._show(answer)
        searched = False
        while (pcm := answer.frames.take()) is not None:
            if not await self._send(answer, pcm):
                return
            if not searched:  # after the first frame, which this must not keep back
                self._search(answer, frame)
                searched = True
        if not searched:
            self._search(answer, frame)

    def _current(self, revision: int) -> Playing:
        if self._answer is None or self._answer.revision != revision:
            self._answer = Playing(revision, self._profile, now=time.monotonic())
            self._spoken[revision] = self._answer.text
            if len(self._spoken) > KEPT_ANSWERS:
                del self._spoken[next(iter(self._spoken))]
        return self._answer

    async def _show(self, answer: Playing) -> None:
        """Tells the client the text of the clause at hand, once."""
        if text := answer.unshown():
            await self._sink.text(answer.revision, text)

    async def _send(self, answer: Playing, pcm: bytes) -> bool:
        """Sends one frame when it is due.

        Returns:
            False if its revision died meanwhile, or the client is gone.
        """
        while self._plays(answer):
            due, now = answer.clock.due(), time.monotonic()
            if now >= due:
                return await self._hand_over(answer, pcm, now)
            await self._alarm.sleep(due)
        return False

    async def _hand_over(self, answer: Playing, pcm: bytes, now: float) -> bool:
        clock = answer.clock
        first, anchored = not clock.started, clock.sending(now)
        try:
            await self._sink.audio(answer.revision, pcm)
        except ConnectionError as error:
            self._events.on_gone(error)
            await self._alarm.sleep()
            return False
        clock.sent(len(pcm) * 500 / self._profile.sample_rate)
        if anchored:
            self._room.ring()
        if first and self._plays(answer):
            answer.speaking = True
            self._events.on_stamp(answer.revision, "sent", time.monotonic())
            self._stamp_audible(answer)
            self._events.on_playing(answer.revision)
            await self.broadcast_frame(BotStartedSpeakingFrame)
        return True

    async def _finish(self, answer: Playing, frame: Frame) -> None:
        """The answer was made to its end: waits for the play head, then closes it."""
        answer.frames.finish()
        while answer.frames.rest:
            if not await self._send(answer, answer.frames.take() or answer.frames.take_rest()):
                return
        if not await self._play_out(answer):
            return
        tail: str = frame.metadata.get(TAIL, "")
        if tail:
            await self._sink.text(answer.revision, tail)
            if not await self._play_out(answer):
                return
        self._answer, self._past = None, answer
        whole = answer.finish(tail)
        self._events.on_played(answer.revision, whole.text, underruns=whole.underruns)
        if answer.speaking:
            await self.broadcast_frame(BotStoppedSpeakingFrame)
        await self.push_frame(frame)

    async def _play_out(self, answer: Playing) -> bool:
        """Waits until the client has played what was sent.

        Returns:
            False if the answer died meanwhile.
        """
        margin = self._profile.stop_margin_ms / 1000
        while self._plays(answer):
            until = answer.clock.ends() + margin
            if time.monotonic() >= until:
                return True
            await self._alarm.sleep(until)
        return False

    # --- helpers -----------------------------------------------------------------------------
    def _is_paused(self) -> bool:
        return self._board.alive(self._paused)

    def _plays(self, answer: Playing) -> bool:
        """The answer is still the one to be heard."""
        return self._answer is answer and self._board.alive(answer.revision)

    def _search(self, answer: Playing, frame: TTSAudioRawFrame) -> None:
        """Looks for the first audible sample of the answer."""
        if answer.audible_at() is None:
            answer.search(frame.audio, frame.sample_rate)
            self._stamp_audible(answer)

    def _stamp_audible(self, answer: Playing) -> None:
        at = answer.audible_at()
        if at is not None:
            self._events.on_stamp(answer.revision, "audible", at)
