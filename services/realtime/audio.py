"""Audio of the protocol: base64 of 24 kHz PCM on the wire, 16 kHz PCM for the conversation."""

from __future__ import annotations

import binascii

import numpy as np
from numpy.typing import NDArray

from tts_engine.errors import BadAudio

#: samples per second on the wire
WIRE_RATE = 24_000
#: samples per second of what a conversation hears
EAR_RATE = 16_000
#: coefficients of the low-pass, counted at the 48 kHz between the two rates; the delay is half of
#: them, 1 ms, and what folds from above 9 kHz lies 60 dB down
_TAPS = 96
#: delay of `Downsampler`, seconds; it counts in v2v
DELAY_S = (_TAPS - 1) / 2 / 48_000
#: samples of input under one position of the filter
_SPAN = _TAPS // 2 + 1


def decode_audio(text: str) -> bytes:
    """Samples out of an append event.

    Raises:
        BadAudio: not base64, nothing in it, or half a sample.
    """
    try:
        pcm = binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error, or characters outside ASCII
        raise BadAudio(f"The audio is not base64: {error}") from None
    if not pcm:
        raise BadAudio("The audio is empty")
    if len(pcm) % 2:
        raise BadAudio(
            f"The audio has {len(pcm)} bytes, and samples have two",
            mend="Send mono signed 16-bit little-endian PCM at 24 kHz",
        )
    return pcm


def encode_audio(pcm: bytes) -> str:
    """Samples as base64."""
    return binascii.b2a_base64(pcm, newline=False).decode("ascii")


def _polyphase() -> NDArray[np.float32]:
    """The low-pass as two columns, one for each of the two outputs that three inputs give."""
    places = np.arange(_TAPS) - (_TAPS - 1) / 2
    low_pass = np.sinc(places / 3) * np.kaiser(_TAPS, 5.65)
    low_pass *= 2 / low_pass.sum()
    columns = np.zeros((_SPAN, 2), np.float32)
    for phase in range(2):
        # between the rates, input i lies at 2i and output phase at 3 * phase; the row of input 1,
        # the newest that a pair of outputs needs, is the last one
        for tap in range(phase % 2, _TAPS, 2):
            columns[(3 * phase - tap) // 2 + _SPAN - 2, phase] = low_pass[tap]
    return columns


_FILTER = _polyphase()


class Downsampler:
    """Turns a stream of 24 kHz PCM into 16 kHz PCM, holding nothing back.

    Written out because the delay counts in v2v: a streaming soxr at any quality with a low-pass
    gives its output in bursts and holds up to 37 ms of it, 21 ms on average; without one ("QQ") it
    folds everything above 8 kHz, which is where sibilants are, into what is recognised.
    """

    def __init__(self) -> None:
        self._held = np.zeros(_SPAN - 2, np.float32)

    def push(self, pcm: bytes) -> bytes:
        """The 16 kHz samples that are complete with this piece, which may be none.

        Args:
            pcm: whole int16 samples, any number.
        """
        samples = np.concatenate((self._held, np.frombuffer(pcm, "<i2").astype(np.float32)))
        pairs = (len(samples) - _SPAN) // 3 + 1
        if pairs <= 0:
            self._held = samples
            return b""
        # overlapping windows three samples apart; contiguous, because BLAS takes them only so
        windows = np.ndarray((pairs, _SPAN), np.float32, samples, 0, (12, 4)).copy()
        self._held = samples[3 * pairs :].copy()
        output = np.rint(windows @ _FILTER).clip(-32768, 32767)
        return output.astype("<i2").tobytes()
