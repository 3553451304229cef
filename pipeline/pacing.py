# pyright: strict
"""When the frames of an answer are due, and how much of it was played. Pure: told the time."""

from __future__ import annotations

import math

from services.face import PacingProfile

#: a frame that comes less than this after the client ran dry was late by a timer's whim, seconds
_LATE_S = 0.010


class PlaybackClock:
    """The client's playback of one answer, seen from the sender.

    The client is taken to start playing at the first frame's arrival and never to wait after that
    except for audio that has not come, and during a pause, if it is one that keeps what it has.
    Frames are due on absolute deadlines from the moment playback began, `lead_ms` ahead. When the
    client ran dry, playback is anchored anew at the next frame, so a lead is never sent twice.

    Times are seconds on a monotonic clock, lengths are milliseconds.

    Args:
        profile: of the face.
        starts: the first frame is not due before this.
    """

    def __init__(self, profile: PacingProfile, *, starts: float = 0.0) -> None:
        self._lead_s = profile.lead_ms / 1000
        self._starts = starts
        self._anchor = 0.0  # when the first sample was played, had nothing stopped since
        self._started = False
        self._paused = False
        self._kept_ms: float | None = None  # where a client stands that keeps what it has
        self._was_dry = False  # the client had run dry before the pause
        self._excused = False  # it ran dry because of the pause
        self.sent_ms = 0.0
        #: times that the client ran dry before the answer's end, not counting pauses
        self.underruns = 0

    @property
    def started(self) -> bool:
        """A frame has been sent."""
        return self._started

    @property
    def paused(self) -> bool:
        """Between `pause` and `resume`."""
        return self._paused

    def due(self) -> float:
        """When the next frame should be sent; in the past while the lead is filled, and infinity
        during a pause.
        """
        if self._paused:
            return math.inf
        return self.plays_at(self.sent_ms) - self._lead_s if self._started else self._starts

    def ends(self) -> float:
        """When the client will have played what was sent; infinity during a pause."""
        return math.inf if self._paused else self.plays_at(self.sent_ms)

    def plays_at(self, position_ms: float) -> float:
        """When the client plays a position of the answer, if nothing stops it any more."""
        return self._anchor + position_ms / 1000

    def reaches(self, position_ms: float, now: float) -> float:
        """When to look whether a position was played.

        Returns:
            Infinity if something else has to happen before: a frame, or the end of the pause.
        """
        if not self._started or self._kept_ms is not None:
            return math.inf
        coming = position_ms <= self.sent_ms or not (self._paused or self._dry(now))
        return self.plays_at(position_ms) if coming else math.inf

    def sending(self, now: float) -> bool:
        """A frame is about to be sent: anchors the playback at the first one, and after a gap.

        Returns:
            It is anchored here; False: it goes on.
        """
        anchored = not self._started or self._dry(now)
        if anchored:
            if self._started and not self._excused and now - self.ends() > _LATE_S:
                self.underruns += 1
            self._anchor = now - self.sent_ms / 1000
        self._started, self._excused = True, False
        return anchored

    def sent(self, length_ms: float) -> None:
        """The frame was handed to the socket."""
        self.sent_ms += length_ms

    def played_ms(self, now: float) -> float:
        """How much of the answer the client has played by `now`."""
        if not self._started:
            return 0.0
        if self._kept_ms is not None:
            return self._kept_ms
        return min(self.sent_ms, max(0.0, (now - self._anchor) * 1000))

    def pause(self, now: float, *, keeps: bool) -> None:
        """No frame is due until `resume`. Idempotent.

        Args:
            now: when.
            keeps: the client stops playing and keeps what it has; False: it plays that out.
        """
        if self._paused:
            return
        self._was_dry = self._dry(now) and not self._excused
        self._kept_ms = self.played_ms(now) if keeps else None
        self._paused = True

    def resume(self, now: float) -> None:
        """Playback goes on from where it is; a lead that was played out is filled again.
        Idempotent.
        """
        if not self._paused:
            return
        self._paused = False
        if self._kept_ms is not None:
            self._anchor, self._kept_ms = now - self._kept_ms / 1000, None
        self._excused = self._dry(now) and not self._was_dry

    def _dry(self, now: float) -> bool:
        return self._started and now > self.plays_at(self.sent_ms)
