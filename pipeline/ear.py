"""The ear: microphone audio in, turn events out; audio goes no further down the pipeline.

It is pipecat's STTService as far as the pipeline can tell, and hosts the shared detector and the
shared recogniser for one conversation. Faces feed it directly: a frame of audio costs neither a
queue nor a task.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pipecat.frames.frames import Frame, InputAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.settings import STTSettings
from pipecat.services.stt_service import STTService

from pipeline.latency import last_sound
from pipeline.turns.events import Event, Starved, Window
from pipeline.turns.settings import WINDOW_MS
from services.asr.base import AsrEngine, Recogniser, Transcript
from services.vad.base import SAMPLE_RATE, WINDOW, VadEngine

#: how far back the end of speech is looked for, windows: 1.5 s
_LOOK_BACK = 47
#: windows kept beside the pre-roll: the longest onset that may be configured
_LONGEST_ONSET = 30
#: arrivals that are remembered: 1.5 s of the smallest packets in use, 10 ms
_PACKETS = 150
#: most of a turn that an acoustic model is given, windows: 8 s
_TURN_AUDIO = 250

Step = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarSettings:
    """How the ear listens.

    Parameters:
        preroll_ms: audio before the onset that the recogniser gets.
        starvation_ms: a client that sends nothing for so long is taken to be silent.
        keeps_turn: `turn_audio` is wanted.
    """

    preroll_ms: int = 500
    starvation_ms: int = 300
    keeps_turn: bool = False


@dataclass(frozen=True, slots=True)
class SpeechEnd:
    """Where the user's speech ended, monotonic seconds.

    Parameters:
        received: when the frame with the last voiced sample was read.
        seen: when the detector had seen it.
    """

    received: float
    seen: float


_SILENCE: NDArray[np.float32] = np.zeros(WINDOW, np.float32)


@dataclass(slots=True)
class _Heard:
    """A window, when the detector had seen it, and before how many `discard`s it came."""

    samples: NDArray[np.float32]
    epoch: int
    seen: float = 0.0


class Ear(STTService):
    """Listens for one conversation."""

    def __init__(
        self,
        *,
        vad: VadEngine,
        asr: AsrEngine,
        session: str,
        settings: EarSettings,
        on_event: Callable[[Event], None],
        on_partial: Callable[[Transcript], None],
    ) -> None:
        super().__init__(
            audio_passthrough=False,
            sample_rate=SAMPLE_RATE,
            ttfs_p99_latency=0.0,
            settings=STTSettings(model="", language=None),
        )
        self._on_event = on_event
        self._detector = vad.open(self._on_probability)
        self.recogniser: Recogniser = asr.open(session=session, on_partial=on_partial)
        self._starvation_s = settings.starvation_ms / 1000
        self._preroll = max(1, settings.preroll_ms * SAMPLE_RATE // 1000 // WINDOW)
        self._part = np.zeros(WINDOW, np.float32)
        self._filled = 0
        #: windows that the detector has not answered, and what is to be done after them
        self._waiting: deque[_Heard | Step] = deque()
        #: what waits until the turn that was decided firmly has its text
        self._held: deque[Step] = deque()
        self._holding = self._releasing = False
        self._past: deque[_Heard] = deque(maxlen=_LOOK_BACK)
        self._end: SpeechEnd | None = None
        self._turn: deque[NDArray[np.float32]] | None = (
            deque(maxlen=_TURN_AUDIO) if settings.keeps_turn else None
        )
        #: windows that no turn has had, by their number
        self._unclaimed: deque[tuple[int, NDArray[np.float32]]] = deque()
        self._windows = 0
        self._epoch = 0
        self._feeding = False  # a turn is open, or decided and not closed
        self._ended = False  # it is decided
        self._arrived = 0.0
        self._samples = 0
        self._packets: deque[tuple[int, float]] = deque(maxlen=_PACKETS)
        self._opened_ms = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def now_ms(self) -> float:
        """The audio clock: milliseconds of audio that the detector has seen."""
        return self._windows * WINDOW_MS

    @property
    def open_ms(self) -> float:
        """How long has been listened to what is said, from its first voiced window on."""
        return self.now_ms - self._opened_ms if self._feeding else 0.0

    def turn_audio(self) -> NDArray[np.float32]:
        """What the recogniser has of the turn, at most its last 8 s, if `keeps_turn`."""
        return np.concatenate(self._turn) if self._turn else np.zeros(0, np.float32)

    def feed(self, pcm: bytes, *, arrived: float) -> None:
        """Takes microphone audio: int16 mono at 16 kHz, any length; `arrived` monotonic."""
        self._arrived = arrived
        samples = np.frombuffer(pcm, np.int16)
        self._samples += len(samples)
        self._packets.append((self._samples, arrived))
        position = 0
        while position < len(samples):
            take = min(WINDOW - self._filled, len(samples) - position)
            part = self._part[self._filled : self._filled + take]
            np.multiply(samples[position : position + take], 1 / 32768, out=part, casting="unsafe")
            self._filled += take
            position += take
            if self._filled == WINDOW:
                window, self._part, self._filled = self._part, np.empty(WINDOW, np.float32), 0
                self._waiting.append(_Heard(window, self._epoch))
                self._detector.push(window)

    def after(self, step: Step, *, lasting: bool = True) -> None:
        """Does something once all audio fed before was dealt with: commands keep their place.

        Args:
            step: what.
            lasting: False: a `discard` that comes first makes it void.
        """
        if not lasting:
            step = self._unless_discarded(step)
        if self._waiting:
            self._waiting.append(step)
        else:
            self._deliver(step)

    def discard(self) -> None:
        """What came before this and was not dealt with counts as silence, and commands do not."""
        self._epoch += 1

    def _unless_discarded(self, step: Step) -> Step:
        epoch = self._epoch

        def timely() -> None:
            if epoch == self._epoch:
                step()

        return timely

    def complete(self) -> None:
        """Fills the window that is not full with silence: no audio may wait for more to come."""
        if self._filled:
            self.feed(bytes(2 * (WINDOW - self._filled)), arrived=self._arrived)

    def open_turn(self, *, at_ms: float) -> None:
        """The recogniser gets the turn from `at_ms` on, with its pre-roll, and all from now.

        No window is ever given to two turns.
        """
        self.recogniser.reset()
        first = round(at_ms / WINDOW_MS) - self._preroll
        past = [samples for number, samples in self._unclaimed if number >= first]
        self._unclaimed.clear()
        self._opened_ms, self._end = at_ms, None
        if self._turn is not None:
            self._turn.clear()
            self._turn.extend(past)
        if past:
            self.recogniser.feed(np.concatenate(past))
        self._feeding, self._ended = True, False
        self._arm()

    def end_turn(self, *, firm: bool) -> None:
        """The turn is decided; the user may go on with it, unless it is `firm`.

        What comes after a firm end waits: neither the recogniser nor the turn core is told of it
        before `release`.
        """
        self._ended, self._holding = True, firm

    def resume_turn(self) -> None:
        """The user went on: the turn is open again, with all that came meanwhile."""
        self._ended = False
        self._unclaimed.clear()

    def close_turn(self) -> None:
        """The turn is over; what came after its end belongs to the next one."""
        self._feeding = self._ended = False
        self.recogniser.reset()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def release(self) -> None:
        """Goes on with what waited for the turn's text, up to the next firm end."""
        self._holding = False
        if self._releasing:
            return
        self._releasing = True
        try:
            while self._held and not self._holding:
                self._held.popleft()()
        finally:
            self._releasing = False

    def note_speech_end(self) -> None:
        """A silence has begun that may end the turn, and may last longer than is looked back."""
        self._end = self._find_end() or self._end

    def speech_end(self) -> SpeechEnd:
        """Where the last voiced sample is, by the energy rule; just after the turn was decided."""
        self.note_speech_end()
        now = time.monotonic()
        return self._end or SpeechEnd(now, now)

    def _find_end(self) -> SpeechEnd | None:
        past = list(self._past)
        if not past:
            return None
        at = last_sound(np.concatenate([heard.samples for heard in past]), SAMPLE_RATE)
        if at is None:
            return None
        sample = (self._windows - len(past)) * WINDOW + at
        seen = past[min(len(past) - 1, (at - 1) // WINDOW)].seen
        received = next((when for end, when in self._packets if end >= sample), seen)
        return SpeechEnd(received, seen)

    async def process_audio_frame(
        self, frame: InputAudioRawFrame, direction: FrameDirection
    ) -> None:
        """Audio that comes as a frame, from a stock transport."""
        self.feed(frame.audio, arrived=time.monotonic())

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        """Not used: the turn driver asks the recogniser, and pushes what it commits."""
        raise NotImplementedError
        yield None

    async def cleanup(self) -> None:
        """Gives the shared engines' handles back."""
        await super().cleanup()
        self.close_turn()
        self._detector.close()
        self.recogniser.close()
        for kept in (self._past, self._unclaimed, self._waiting, self._held):
            kept.clear()

    def _on_probability(self, probability: float) -> None:
        heard = self._waiting.popleft()
        assert isinstance(heard, _Heard)
        heard.seen = time.monotonic()
        self._deliver(lambda: self._take(heard, probability))
        while self._waiting and not isinstance(self._waiting[0], _Heard):
            step = self._waiting.popleft()
            assert not isinstance(step, _Heard)
            self._deliver(step)

    def _deliver(self, step: Step) -> None:
        if self._holding or self._held:
            self._held.append(step)
        else:
            step()

    def _take(self, heard: _Heard, probability: float) -> None:
        if heard.epoch != self._epoch:
            heard, probability = _Heard(_SILENCE, self._epoch, heard.seen), 0.0
        self._past.append(heard)
        if self._feeding:
            self.recogniser.feed(heard.samples)
            if self._turn is not None:
                self._turn.append(heard.samples)
        if self._ended or not self._feeding:
            self._unclaimed.append((self._windows, heard.samples))
        if not self._feeding and len(self._unclaimed) > self._preroll + _LONGEST_ONSET:
            self._unclaimed.popleft()
        self._windows += 1
        power = float(np.dot(heard.samples, heard.samples)) / WINDOW
        level_db = round(10 * math.log10(power + 1e-12), 1)
        self._on_event(Window(self.now_ms, probability, level_db))

    # --- a client that stops sending ---------------------------------------------------------
    def _arm(self) -> None:
        """One timer a turn, which looks when audio came last: not one a frame."""
        if self._alarm is None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._starvation_s, self._look)

    def _look(self) -> None:
        self._alarm = None
        if not self._feeding:
            return
        missing = time.monotonic() - self._arrived
        loop = asyncio.get_running_loop()
        if missing < self._starvation_s:
            self._alarm = loop.call_later(self._starvation_s - missing, self._look)
            return
        self._arrived += missing
        self._alarm = loop.call_later(self._starvation_s, self._look)
        self._on_event(Starved(missing * 1000))
