# pyright: strict
"""Formats of audio on the wire: 16-bit PCM at two rates, and G.711 as telephones speak it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from services.realtime.resampling import Resampler
from tts_engine.errors import BadAudio

#: samples per second of what a conversation hears
EAR_RATE = 16_000
#: samples per second of what a conversation says
MOUTH_RATE = 24_000

Encoding = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Mono audio on the wire.

    Parameters:
        encoding: signed 16-bit little-endian samples, or G.711 with the mu- or the A-law.
        rate: samples per second.
    """

    encoding: Encoding = "audio/pcm"
    rate: int = MOUTH_RATE

    @property
    def width(self) -> int:
        """Bytes of a sample."""
        return 2 if self.encoding == "audio/pcm" else 1

    def check(self, data: bytes) -> None:
        """Refuses what cannot be audio of this format.

        Raises:
            BadAudio: nothing, or half a sample.
        """
        if not data:
            raise BadAudio("The audio is empty")
        if len(data) % self.width:
            raise BadAudio(
                f"The audio has {len(data)} bytes, and samples have two",
                mend=f"Send mono signed 16-bit little-endian PCM at {self.rate // 1000} kHz",
            )

    def wire(self) -> dict[str, Any]:
        """The protocol's form."""
        if self.encoding == "audio/pcm":
            return {"type": self.encoding, "rate": self.rate}
        return {"type": self.encoding}


#: what is spoken and heard unless the client says otherwise
PCM = AudioFormat()


class EarFeed:
    """Turns a stream of one format into what a conversation hears: 16 kHz PCM."""

    def __init__(self, source: AudioFormat) -> None:
        self.format = source
        self._law = _DECODERS.get(source.encoding)
        self._resampler = Resampler(source.rate, EAR_RATE)

    def push(self, data: bytes) -> bytes:
        """The samples that are complete with this piece, which may be none.

        Args:
            data: whole samples, any number.
        """
        if self._law is not None:
            data = self._law[np.frombuffer(data, np.uint8)].tobytes()
        return self._resampler.push(data)


class MouthFeed:
    """Turns one answer, 24 kHz PCM, into a stream of a format."""

    def __init__(self, target: AudioFormat) -> None:
        self._law = _ENCODERS.get(target.encoding)
        self._resampler = Resampler(MOUTH_RATE, target.rate)

    def push(self, pcm: bytes) -> bytes:
        """What is complete with this piece, which may be nothing."""
        return self._encoded(self._resampler.push(pcm))

    def finish(self) -> bytes:
        """What the filter still holds of the answer's end."""
        return self._encoded(self._resampler.finish())

    def _encoded(self, pcm: bytes) -> bytes:
        if self._law is None:
            return pcm
        return self._law[np.frombuffer(pcm, "<i2").view(np.uint16)].tobytes()


def _decode_mu() -> NDArray[np.int16]:
    """The samples of the 256 codes of ITU-T G.711's mu-law, over 16 bits."""
    codes = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (codes >> 4) & 7, (codes & 15).astype(np.int32)
    size = (((mantissa << 3) + 0x84) << exponent) - 0x84
    return np.where(codes & 0x80, -size, size).astype("<i2")


def _decode_a() -> NDArray[np.int16]:
    """The samples of the 256 codes of its A-law, over 16 bits."""
    codes = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (codes >> 4) & 7, (codes & 15).astype(np.int32)
    size = (mantissa << 4) + 8
    size = np.where(exponent == 0, size, (size + 0x100) << (np.maximum(exponent, 1) - 1))
    return np.where(codes & 0x80, size, -size).astype("<i2")


def _encoder(decoder: NDArray[np.int16]) -> NDArray[np.uint8]:
    """The nearest code for every sample, indexed by the sample's bits.

    Of the two zeros of the mu-law the later code is taken: it is what silence is written as.
    """
    levels, last = np.unique(decoder[::-1], return_index=True)
    codes = (255 - last).astype(np.uint8)
    samples = np.arange(65_536, dtype=np.uint16).view(np.int16).astype(np.int32)
    between = (levels[1:].astype(np.int32) + levels[:-1]) / 2
    return codes[np.searchsorted(between, samples, side="right")]


_DECODERS = {"audio/pcmu": _decode_mu(), "audio/pcma": _decode_a()}
_ENCODERS = {name: _encoder(decoder) for name, decoder in _DECODERS.items()}
