# pyright: strict
"""The clock of received audio, which every position in the protocol is told by."""

from __future__ import annotations

from dataclasses import dataclass

from services.realtime.formats import AudioFormat

#: ticks of a second: every rate on the wire divides it
_TICKS = 48_000


@dataclass(slots=True)
class AudioClock:
    """Counts audio, whatever its format."""

    _ticks: int = 0

    def add(self, data: bytes, audio_format: AudioFormat) -> None:
        """More was received."""
        self._ticks += len(data) // audio_format.width * (_TICKS // audio_format.rate)

    @property
    def ms(self) -> int:
        """Milliseconds of audio so far."""
        return self._ticks * 1000 // _TICKS
