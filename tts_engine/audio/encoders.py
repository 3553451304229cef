"""PCM in, a stream of bytes in one of six formats out.

    format  Content-Type  what
    mp3     audio/mpeg    64 kbit/s
    opus    audio/ogg     Opus at 32 kbit/s in Ogg, a page every 200 ms
    aac     audio/aac     AAC-LC at 64 kbit/s in ADTS
    flac    audio/flac    without loss
    wav     audio/wav     a header that leaves the length open, then PCM
    pcm     audio/pcm     mono, signed 16 bits, little-endian, no header

All are mono, at 24 kHz unless another rate is asked for. Nothing is ever gone back to: the sink is
a socket.
"""

from __future__ import annotations

import struct
from typing import Any, Literal, Protocol

import av
import numpy as np
import soxr
from av.audio.codeccontext import AudioCodecContext

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]

CONTENT_TYPES: dict[Format, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
#: samples per second of every format where nothing else is asked for, as OpenAI's clients expect
RATE = 24_000
#: what else may be asked for
RATES = (8_000, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
#: the codec knows no others
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
#: a length that is not known yet
_OPEN = 0xFFFFFFFF
#: bytes of a WAV file before its samples
_WAV_HEAD = 44

#: by format: container and its options, codec and its options, sample format, bits per second
_CODECS: dict[str, tuple[str, dict[str, str], str, dict[str, str], str, int | None]] = {
    # neither of the two headers can be completed later, and both are optional
    "mp3": ("mp3", {"write_xing": "0", "id3v2_version": "0"}, "libmp3lame", {}, "s16p", 64_000),
    "opus": ("ogg", {"page_duration": "200000"}, "libopus", {"application": "voip"}, "s16", 32_000),
    "aac": ("adts", {}, "aac", {}, "fltp", 64_000),
    "flac": ("flac", {}, "flac", {}, "s16", None),
}


class Encoder(Protocol):
    """Encodes one stream."""

    def push(self, pcm: bytes) -> bytes:
        """The bytes that are complete with these samples, which may be none."""
        ...

    def finish(self) -> bytes:
        """The last bytes. Nothing follows."""
        ...

    def close(self) -> None:
        """Releases what the stream holds, finished or not. Idempotent."""
        ...


def rates_of(form: Format) -> tuple[int, ...]:
    """The rates that a format may have."""
    return _OPUS_RATES if form == "opus" else RATES


def make_encoder(form: Format, *, rate: float, out_rate: int = RATE) -> Encoder:
    """An encoder for a stream of mono int16 samples.

    Args:
        form: of the output.
        rate: samples per second of the input.
        out_rate: of the output, one of `rates_of(form)`.
    """
    if form in ("pcm", "wav"):
        encoder: Encoder = _Plain(_wav_head(out_rate) if form == "wav" else b"")
    else:
        encoder = _Coded(form, out_rate)
    return encoder if rate == out_rate else _Resampled(encoder, rate, out_rate)


def whole_wav(stream: bytes) -> bytes:
    """A finished WAV stream with the lengths that its header had left open."""
    size = len(stream) - _WAV_HEAD
    riff, data = struct.pack("<I", size + _WAV_HEAD - 8), struct.pack("<I", size)
    return stream[:4] + riff + stream[8 : _WAV_HEAD - 4] + data + stream[_WAV_HEAD:]


def _wav_head(rate: int) -> bytes:
    return (
        struct.pack("<4sI4s", b"RIFF", _OPEN, b"WAVE")
        + struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
        + struct.pack("<4sI", b"data", _OPEN)
    )


class _Resampled:
    """Brings samples of another rate to that of the output."""

    def __init__(self, encoder: Encoder, rate: float, out_rate: int) -> None:
        self._encoder = encoder
        self._stream = soxr.ResampleStream(rate, out_rate, 1, dtype="int16", quality="HQ")

    def push(self, pcm: bytes) -> bytes:
        return self._encoder.push(self._resample(pcm))

    def finish(self) -> bytes:
        return self._encoder.push(self._resample(b"", last=True)) + self._encoder.finish()

    def close(self) -> None:
        self._encoder.close()

    def _resample(self, pcm: bytes, *, last: bool = False) -> bytes:
        return self._stream.resample_chunk(np.frombuffer(pcm, np.int16), last=last).tobytes()


class _Plain:
    """Samples as they are, behind a header."""

    def __init__(self, header: bytes) -> None:
        self._header = header

    def push(self, pcm: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + pcm

    def finish(self) -> bytes:
        return self.push(b"")

    def close(self) -> None:
        pass


class _Pipe:
    """A file that can only be written to."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self._written)
        self._written.clear()
        return data


class _Coded:
    """A codec and its container, by ffmpeg's libraries."""

    def __init__(self, form: Format, rate: int) -> None:
        container, muxing, codec, coding, self._samples, bit_rate = _CODECS[form]
        self._rate = rate
        self._at = 0
        self._pipe = _Pipe()
        # each packet leaves at once instead of waiting for 32 KB
        options = {**muxing, "flush_packets": "1"}
        self._container: Any = av.open(self._pipe, "w", format=container, options=options)
        self._stream = self._container.add_stream(codec, rate=rate, options=coding)
        context: AudioCodecContext = self._stream.codec_context
        context.layout = "mono"
        context.format = self._samples
        if bit_rate is not None:
            context.bit_rate = bit_rate

    def push(self, pcm: bytes) -> bytes:
        samples = np.frombuffer(pcm, "<i2")
        if not len(samples):
            return b""
        if self._samples == "fltp":
            samples = samples.astype(np.float32) / 32768
        frame = av.AudioFrame.from_ndarray(
            samples.reshape(1, -1), format=self._samples, layout="mono"
        )
        frame.sample_rate = self._rate
        frame.pts = self._at
        self._at += len(samples)
        self._container.mux(self._stream.encode(frame))
        return self._pipe.take()

    def finish(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._pipe.take()

    def close(self) -> None:
        self._container.close()
