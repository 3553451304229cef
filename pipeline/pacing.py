"""When the frames of an answer are due, and how much of it was played. Pure: told the time."""

from __future__ import annotations

from services.face import PacingProfile


class PlaybackClock:
    """The client's playback of one answer, seen from the sender.

    The client is taken to start playing at the first frame's arrival and never to wait after that
    except for audio that has not come. Frames are due on absolute deadlines from the moment
    playback began, `lead_ms` ahead; when the client ran dry, playback is re-anchored at the next
    frame, so a lead is never sent twice.

    Times are seconds on a monotonic clock, lengths are milliseconds.
    """

    def __init__(self, profile: PacingProfile) -> None:
        self._lead_s = profile.lead_ms / 1000
        self._anchor = 0.0
        self._started = False
        self.sent_ms = 0.0
        #: times that the client ran dry before the answer's end
        self.underruns = 0

    @property
    def started(self) -> bool:
        """A frame has been sent."""
        return self._started

    def due(self) -> float:
        """When the next frame should be sent; in the past while the lead is filled."""
        return self._anchor + self.sent_ms / 1000 - self._lead_s if self._started else 0.0

    def plays_at(self, position_ms: float) -> float:
        """When the client plays a position of the answer, as things stand."""
        return self._anchor + position_ms / 1000

    def ends(self) -> float:
        """When the client will have played what was sent."""
        return self.plays_at(self.sent_ms)

    def sending(self, now: float) -> None:
        """A frame is about to be sent: anchors the playback at the first one, and after a gap."""
        if not self._started:
            self._started = True
            self._anchor = now
        elif now > self.ends():
            self.underruns += 1
            self._anchor = now - self.sent_ms / 1000

    def sent(self, length_ms: float) -> None:
        """The frame was handed to the socket."""
        self.sent_ms += length_ms

    def played_ms(self, now: float) -> float:
        """How much of the answer the client has played by `now`."""
        if not self._started:
            return 0.0
        return min(self.sent_ms, max(0.0, (now - self._anchor) * 1000))
