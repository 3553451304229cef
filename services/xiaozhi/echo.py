"""Echo cancellation for devices that leave it to the server.

Such a device (`features.aec` in its hello, framing 2) stamps each packet of its microphone with the
timestamp of the frame that its loudspeaker played meanwhile. The frames sent are kept by their
timestamps, and WebRTC's AEC3 takes away of the microphone what it finds of them.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property

import numpy as np
import soxr
from numpy.typing import NDArray
from pywebrtc_audio import EchoCanceller

from services.xiaozhi.opus import EAR_RATE

#: frames that are kept: a device has 40 packets at most, and plays them within 2.4 s
_KEPT = 64
#: AEC3 works on pieces of so many samples, 10 ms
_PIECE = EAR_RATE // 100


class EchoReference:
    """Takes the echo of what a device was sent out of what it hears.

    Args:
        rate: of the audio that is sent, samples per second.
    """

    def __init__(self, *, rate: int = 24_000) -> None:
        self._rate = rate
        self._sent: OrderedDict[int, bytes] = OrderedDict()

    @cached_property
    def _canceller(self) -> EchoCanceller:
        return EchoCanceller(sample_rate=EAR_RATE)

    def played(self, timestamp_ms: int, pcm: bytes) -> None:
        """A frame was sent, int16 mono; the oldest are forgotten."""
        self._sent[timestamp_ms] = pcm
        if len(self._sent) > _KEPT:
            self._sent.popitem(last=False)

    def cancel(self, pcm: bytes, *, timestamp_ms: int) -> bytes:
        """Microphone audio without the echo.

        Args:
            pcm: int16 mono at 16 kHz.
            timestamp_ms: of the frame that was played meanwhile; 0, or one that is not known any
                more: nothing was.

        Returns:
            As many samples.
        """
        near = np.frombuffer(pcm, np.int16)
        padded = np.pad(near, (0, -len(near) % _PIECE))
        cleaned = self._canceller.process(padded, self._far(timestamp_ms, len(padded)))
        return cleaned[: len(near)].tobytes()

    def _far(self, timestamp_ms: int, length: int) -> NDArray[np.int16]:
        far = np.zeros(length, np.int16)
        sent = self._sent.get(timestamp_ms)
        if sent:
            samples = soxr.resample(np.frombuffer(sent, np.int16), self._rate, EAR_RATE, "LQ")
            count = min(length, len(samples))
            far[:count] = samples[:count]
        return far
