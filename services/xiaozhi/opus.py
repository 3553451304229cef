"""Opus packets, both ways, and the PCM of programs that pass for devices.

libopus comes with the package opuslib-next-bundled. A 60 ms frame of speech takes it 0.16 ms to
encode at complexity 5, and 0.15 ms to decode (one core of an EPYC; 0.76 ms at complexity 8): about
what handing it to a thread and back costs, so both stay on the event loop.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import opuslib_next
import soxr
from opuslib_next.api import decoder as native

from services.xiaozhi.events import AudioFormat

#: of the microphone, as the ear takes it, samples per second
EAR_RATE = 16_000
#: a packet holds no more, milliseconds
_LONGEST_MS = 120
_BITRATE, _COMPLEXITY = 24_000, 5


class Decoder(Protocol):
    """Packets of a microphone in, int16 mono at 16 kHz out."""

    @property
    def corrupt(self) -> int:
        """Packets that could not be decoded."""
        ...

    def decode(self, packet: bytes) -> bytes:
        """The audio of the next packet; never raises."""
        ...


class Encoder(Protocol):
    """Frames of the voice in, packets out."""

    def encode(self, pcm: bytes) -> bytes:
        """The packet of a frame, int16 mono; one that is too short is filled up with silence."""
        ...

    def reset(self) -> None:
        """Another answer begins."""
        ...


class OpusDecoder:
    """Decodes one stream: it keeps its state from packet to packet.

    A packet tells its own length. What is empty (the device had nothing to send for a packet's
    time) or corrupt is concealed, as long as the packet before it: the clock of received audio goes
    on whatever happens.

    Args:
        frame_ms: length of a packet before the first one told its own.
    """

    def __init__(self, *, frame_ms: int = 60) -> None:
        self._decoder = opuslib_next.Decoder(EAR_RATE, 1)
        self._state: Any = self._decoder.decoder_state
        # libopus conceals in steps of 2.5 ms
        self._samples = max(1, round(min(frame_ms, _LONGEST_MS) / 2.5)) * EAR_RATE // 400
        self.corrupt = 0

    def decode(self, packet: bytes) -> bytes:
        """See Decoder."""
        if packet:
            try:
                samples = native.get_nb_samples(self._state, packet, len(packet))
                pcm = self._decoder.decode(packet, samples)
            except opuslib_next.OpusError:
                self.corrupt += 1
            else:
                self._samples = samples
                return pcm
        return self._concealed()

    def _concealed(self) -> bytes:
        try:
            return self._decoder.decode(b"", self._samples)
        except opuslib_next.OpusError:  # a state that a corrupt packet left behind
            self._decoder.reset_state()
            return bytes(self._samples * 2)


class OpusEncoder:
    """Encodes the answers of one conversation.

    Args:
        sample_rate: of the voice: 8, 12, 16, 24 or 48 kHz.
        frame_ms: of every packet.
    """

    def __init__(self, *, sample_rate: int = 24_000, frame_ms: int = 60) -> None:
        self._encoder = opuslib_next.Encoder(sample_rate, 1, opuslib_next.APPLICATION_AUDIO)
        self._encoder.bitrate = _BITRATE
        self._encoder.complexity = _COMPLEXITY
        self._samples = sample_rate * frame_ms // 1000

    def encode(self, pcm: bytes) -> bytes:
        """See Encoder."""
        size = self._samples * 2
        return self._encoder.encode(pcm.ljust(size, b"\0")[:size], self._samples)

    def reset(self) -> None:
        """See Encoder."""
        self._encoder.reset_state()


class PcmDecoder:
    """Takes raw samples, and brings them to 16 kHz.

    Args:
        rate: samples per second.
    """

    def __init__(self, *, rate: int = EAR_RATE) -> None:
        self.corrupt = 0
        self._half = b""  # the first byte of a sample that was cut in two
        self._resampler = (
            None
            if rate == EAR_RATE
            else soxr.ResampleStream(rate, EAR_RATE, 1, dtype="int16", quality="LQ")
        )

    def decode(self, packet: bytes) -> bytes:
        """See Decoder."""
        pcm = self._half + packet
        whole = len(pcm) // 2 * 2
        pcm, self._half = pcm[:whole], pcm[whole:]
        if self._resampler is None or not pcm:
            return pcm
        return self._resampler.resample_chunk(np.frombuffer(pcm, np.int16)).tobytes()


class PcmEncoder:
    """Gives frames as they are.

    Args:
        sample_rate, frame_ms: as of OpusEncoder.
    """

    def __init__(self, *, sample_rate: int = 24_000, frame_ms: int = 60) -> None:
        self._size = sample_rate * frame_ms // 1000 * 2

    def encode(self, pcm: bytes) -> bytes:
        """See Encoder."""
        return pcm.ljust(self._size, b"\0")

    def reset(self) -> None:
        """See Encoder."""


def decoder_of(audio: AudioFormat) -> Decoder:
    """What reads a device's microphone."""
    if audio.format == "pcm":
        return PcmDecoder(rate=audio.sample_rate)
    return OpusDecoder(frame_ms=audio.frame_ms)


def encoder_of(audio: AudioFormat, *, sample_rate: int, frame_ms: int) -> Encoder:
    """What writes for a device's loudspeaker: in the format that its microphone has."""
    kind = PcmEncoder if audio.format == "pcm" else OpusEncoder
    return kind(sample_rate=sample_rate, frame_ms=frame_ms)
