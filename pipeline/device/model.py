# pyright: strict
"""A Xiaozhi device's loudspeaker, as its firmware has it: what it plays, and what it loses.

            start                          switched
    QUIET --------> SWITCHING (50 ms) ----------------> SPEAKING
      ^                                                    |
      '------------------------- stop ---------------------'

Frames that come before it has switched are lost: switching empties the queue. So is what does not
fit into the queue, and what comes when it is quiet; it complains of none of this. Firmware before
2.2.2 throws away in auto mode what it has not played when it is told to stop. Two frames are in the
decoder and the sound card, and are played whatever happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from services.xiaozhi.events import Mode

#: from `tts start` to the emptied queue: a task of lower priority does it, seconds
SWITCH_S = 0.05
#: frames behind the queue that are heard whatever happens
DECODED = 2
#: what a timer or a network may be late without anybody hearing it, seconds
_LATE_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """What differs from release to release.

    Parameters:
        queue: packets that wait for the decoder, at most.
        drops: a stop in auto mode throws the queue away.
    """

    queue: int = 40
    drops: bool = True


#: by the first version that behaves so
FIRMWARES: dict[str, Firmware] = {
    "1.6.0": Firmware(queue=5),
    "1.6.2": Firmware(queue=10),
    "1.7.0": Firmware(),
    "2.2.2": Firmware(drops=False),
}
NEWEST = "2.2.2"


class Phase(StrEnum):
    """What the device does."""

    QUIET = "quiet"
    SWITCHING = "switching"
    SPEAKING = "speaking"


Fate = Literal["played", "outside", "lost_at_start", "overflowed"]


@dataclass(slots=True)
class Losses:
    """What went wrong in one answer, or in all of them.

    Parameters:
        frames: that came.
        outside: of them, when the device was not to speak.
        lost_at_start: before it had switched.
        overflowed: did not fit into its queue.
        starved_ms: silence in the middle of the answer, as nothing had come.
        cut_ms: thrown away by a stop.
    """

    frames: int = 0
    outside: int = 0
    lost_at_start: int = 0
    overflowed: int = 0
    starved_ms: float = 0.0
    cut_ms: float = 0.0

    @property
    def whole(self) -> bool:
        """All that came was heard, without a gap."""
        lost = self.outside + self.lost_at_start + self.overflowed
        return not lost and self.starved_ms == 0 and self.cut_ms == 0


@dataclass(slots=True, kw_only=True)
class Loudspeaker:
    """One device's. Times are seconds on any clock that does not go back.

    Parameters:
        firmware: of the device.
        mode: in which it listens.
        frame_s: length of a frame.
    """

    firmware: Firmware
    mode: Mode = "auto"
    frame_s: float = 0.06
    phase: Phase = Phase.QUIET
    losses: Losses = field(default_factory=Losses)
    #: when what it has will have been played
    plays_until: float = 0.0
    _switched: float = 0.0
    _played: bool = False

    def start(self, now: float) -> None:
        """It is told to speak; it does nothing if it does already."""
        if self.phase is Phase.QUIET:
            self.phase, self._switched, self._played = Phase.SWITCHING, now + SWITCH_S, False

    def frame(self, now: float) -> Fate:
        """A frame comes.

        Returns:
            What becomes of it; "played": from `plays_until - frame_s` on.
        """
        self._switch(now)
        losses = self.losses
        losses.frames += 1
        if self.phase is Phase.QUIET:
            losses.outside += 1
            return "outside"
        if self.phase is Phase.SWITCHING:
            losses.lost_at_start += 1
            return "lost_at_start"
        if self.waiting(now) >= self.firmware.queue + DECODED:
            losses.overflowed += 1
            return "overflowed"
        if self._played and now - self.plays_until > _LATE_S:
            losses.starved_ms += (now - self.plays_until) * 1000
        self.plays_until = max(now, self.plays_until) + self.frame_s
        self._played = True
        return "played"

    def waiting(self, now: float) -> int:
        """Frames that it has not begun to play."""
        return max(0, int((self.plays_until - now) / self.frame_s + 1e-6))

    def stop(self, now: float) -> bool:
        """It is told that the answer is over.

        Returns:
            It was speaking, and listens from now on: an auto device says so.
        """
        if self.phase is Phase.QUIET:
            return False
        self.phase = Phase.QUIET
        left = max(0.0, self.plays_until - now)
        if self.mode == "auto" and self.firmware.drops:
            kept = min(left, DECODED * self.frame_s)
            self.losses.cut_ms += (left - kept) * 1000
            self.plays_until = now + kept
        return self.mode == "auto"

    def _switch(self, now: float) -> None:
        if self.phase is Phase.SWITCHING and now >= self._switched:
            self.phase = Phase.SPEAKING
            self.plays_until = min(self.plays_until, now)
