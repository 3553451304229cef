"""The ear: microphone audio in, turn events out; audio goes no further down the pipeline.

It is pipecat's STTService as far as the pipeline can tell, and hosts the shared detector and the
shared recogniser for one conversation. Faces feed it directly: a frame of audio costs neither a
queue nor a task.
"""

from __future__ import annotations

import asyncio
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
from services.asr.base import AsrEngine, Recogniser, Transcript
from services.vad.base import SAMPLE_RATE, WINDOW, VadEngine

#: how far back the end of speech is looked for, windows: 1.5 s
_LOOK_BACK = 47
#: arrivals that are remembered: 1.5 s of the smallest packets in use, 10 ms
_PACKETS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class EarSettings:
    """How the ear listens.

    Parameters:
        preroll_ms: audio before the onset that the recogniser gets.
        starvation_ms: a client that sends nothing for so long is taken to be silent.
    """

    preroll_ms: int = 500
    starvation_ms: int = 300


@dataclass(frozen=True, slots=True)
class SpeechEnd:
    """Where the user's speech ended, monotonic seconds.

    Parameters:
        received: when the frame with the last voiced sample was read.
        seen: when the detector had seen it.
    """

    received: float
    seen: float


@dataclass(slots=True)
class _Heard:
    """A window, and when the detector had seen it."""

    samples: NDArray[np.float32]
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
        self._waiting: deque[_Heard] = deque()  # pushed to the detector, not yet answered
        self._past: deque[_Heard] = deque(maxlen=max(self._preroll, _LOOK_BACK))
        self._fresh = 0  # windows of the past that no turn has had
        self._windows = 0
        self._feeding = False
        self._arrived = 0.0
        self._samples = 0
        self._packets: deque[tuple[int, float]] = deque(maxlen=_PACKETS)
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def now_ms(self) -> float:
        """The audio clock: milliseconds of audio that the detector has seen."""
        return self._windows * WINDOW * 1000 / SAMPLE_RATE

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
                self._waiting.append(_Heard(window))
                self._detector.push(window)

    def open_turn(self) -> None:
        """The recogniser gets the pre-roll, as far as no earlier turn had it, and all from now."""
        self.recogniser.reset()
        fresh = min(self._fresh, self._preroll)
        if fresh:
            past = list(self._past)[-fresh:]
            self.recogniser.feed(np.concatenate([heard.samples for heard in past]))
        self._fresh = 0
        self._feeding = True
        self._arm()

    def close_turn(self) -> None:
        """The turn is over; what comes now belongs to the next one."""
        self._feeding = False
        self._fresh = 0
        self.recogniser.reset()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def speech_end(self) -> SpeechEnd:
        """Finds the last voiced sample by the energy rule, just after the turn core decided."""
        past = list(self._past)[-_LOOK_BACK:]
        if not past:
            now = time.monotonic()
            return SpeechEnd(now, now)
        at = last_sound(np.concatenate([heard.samples for heard in past]), SAMPLE_RATE) or 1
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

    def _on_probability(self, probability: float) -> None:
        heard = self._waiting.popleft()
        heard.seen = time.monotonic()
        self._past.append(heard)
        self._windows += 1
        if self._feeding:
            self.recogniser.feed(heard.samples)
        else:
            self._fresh += 1
        self._on_event(Window(self.now_ms, probability))

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
