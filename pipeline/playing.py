"""The answer that is played: its audio in frames, its text, its clock. Pure: told the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.framing import Framer, SoundFinder
from pipeline.heard import SpokenText
from pipeline.pacing import PlaybackClock
from services.face import PacingProfile
from tts_engine.engine import Mark
from tts_engine.text.clause import Clause


@dataclass(frozen=True, slots=True)
class Heard:
    """How far an answer got."""

    text: str
    played_ms: float
    underruns: int


class Playing:
    """One answer on its way to the client.

    Args:
        revision: of the answer.
        profile: of the face.
        now: when its first piece passed the gate, which is after `Sink.begin`.
    """

    def __init__(self, revision: int, profile: PacingProfile, *, now: float) -> None:
        self.revision = revision
        self.clock = PlaybackClock(profile, starts=now + profile.start_gap_ms / 1000)
        self.frames = Framer(rate=profile.sample_rate, frame_ms=profile.frame_ms)
        self.text = SpokenText()
        #: pipecat was told that the voice is heard
        self.speaking = False
        self._sound = SoundFinder()
        self._clause: Clause | None = None
        self._shown = True
        self._taken_ms = 0.0
        self._over: tuple[float, float] | None = None  # how far it was played, and until when

    def enter(self, clause: Clause) -> None:
        """What comes next is of this clause."""
        if clause is not self._clause:
            self._clause, self._shown = clause, False
            self.text.begin(clause, at_ms=self._taken_ms)

    def add(self, pcm: bytes, rate: int, marks: tuple[Mark, ...]) -> None:
        """Audio of the clause at hand, int16 mono."""
        self.text.mark(marks, sample_rate=rate)
        self.frames.push(pcm, rate)
        self._taken_ms += len(pcm) * 500 / rate

    def read(self) -> None:
        """The clause at hand has no audio: it is read as soon as it is shown."""
        assert self._clause is not None
        self.text.mark((Mark(0, len(self._clause.text)),), sample_rate=1000)

    def unshown(self) -> str:
        """The text of the clause at hand, if it was not asked for before; otherwise nothing."""
        if self._clause is None or self._shown:
            return ""
        self._shown = True
        # An apology has no raw text, as it is no part of the answer; it is shown all the same.
        return self._clause.raw or self._clause.text

    def search(self, pcm: bytes, rate: int) -> None:
        """Looks in audio, piece by piece, for the first audible sample."""
        self._sound.push(pcm, rate)

    def audible_at(self) -> float | None:
        """When the client plays the first audible sample; None if it is not found, or not sent."""
        if self._sound.found_ms is None or not self.clock.started:
            return None
        return self.clock.plays_at(self._sound.found_ms)

    def stop(self, now: float) -> Heard:
        """It ends where it is."""
        played = self.clock.played_ms(now)
        self._over = played, now
        return Heard(self.text.heard(played), played, self.clock.underruns)

    def finish(self, tail: str) -> Heard:
        """It was played to its end, and `tail`, raw text that nobody speaks, follows."""
        played = self.clock.sent_ms
        self._over = played, self.clock.ends()
        self.text.finish(tail, at_ms=self._taken_ms)
        return Heard(self.text.heard(math.inf), played, self.clock.underruns)

    def audible(self, within_ms: float, now: float) -> str:
        """The words, as they were spoken, that the client has just played.

        Args:
            within_ms: how far back: of its audio, and once it is over, from now.
            now: the time.
        """
        played, ended = self._over or (self.clock.played_ms(now), now)
        return self.text.audible(played - within_ms + (now - ended) * 1000, played)
