"""Sound files of any kind as a stream of what recognisers are fed, a few seconds in memory.

libsndfile reads what it knows (WAV, FLAC, Ogg, ...), ffmpeg's libraries the rest: MP3, MP4, WebM,
AAC, and the sound of videos.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any, BinaryIO, Self, cast

import av
import numpy as np
import soundfile
import soxr
from av.audio.frame import AudioFrame
from av.error import FFmpegError
from numpy.typing import NDArray

from services.asr.base import SAMPLE_RATE, Samples
from tts_engine.errors import BadAudio

#: samples that are given at a time: 8.2 s, a whole number of the voice detector's windows
BLOCK = 256 * 512
#: rates that a file may have
_RATES = range(2_000, 768_001)
#: Values of all channels that are decoded at a time: 4 MB. And a second at most: where a file is
#: damaged libsndfile gives nothing of it.
_VALUES = 1 << 20
#: What ffmpeg may take a file for: containers of sound and video, none of those that name other
#: files or addresses, nor pictures and texts.
_CONTAINERS = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,caf,dsf,eac3,flac,flv,gsm,loas,matroska,mov,mp2,mp3,mpc,mpc8,"
    "mpeg,mpegts,nut,ogg,rm,tak,tta,voc,w64,wav,wv,xwma"
)
_OPTIONS = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "none"}
#: Values of all channels in a second that a file may have: eight channels of the highest rate that
#: anybody records with. A small file can claim a thousand times that, and be silence.
_DENSEST = 8 * 192_000
#: what a header says that does not know the length
_NO_LENGTH = 1 << 60
_MEND = "Send a whole sound file, or a video with sound: WAV, FLAC, MP3, Ogg, M4A, MP4, WebM, ..."

#: bytes of a container's packet: a second of what has the most channels and the highest rate
_PACKET = 8 << 20
_REMAKE = "Make it anew, as in `ffmpeg -i FILE recording.wav`"

#: rate, and mono samples in it
_Piece = tuple[int, NDArray[np.float32]]


class AudioTooLong(BadAudio):
    """There is more audio than is taken at once."""

    code = "audio_too_long"


class AudioFile:
    """A file that is being decoded; to be closed, in the thread that reads it or any other.

    Every method may block for as long as decoding takes.

    Parameters:
        file: has a descriptor, and can be gone back in; stays open.
        limit_s: seconds of audio that it may hold; None: any number.

    Attributes:
        duration_s: by its own account, which need not be true; None: it does not say.

    Raises:
        BadAudio: it is no sound file, or has no sound.
        AudioTooLong: by its own account.
    """

    def __init__(self, file: BinaryIO, *, limit_s: float | None = None) -> None:
        self._limit_s = limit_s
        self._given = 0
        self._waiting: deque[Samples] = deque()
        self._held = 0  # samples in it
        self._lock = threading.Lock()  # a decoder that is closed while it decodes is no more
        if os.fstat(file.fileno()).st_size == 0:
            raise BadAudio("The file is empty", mend=_MEND)
        self._source: _Sndfile | _Ffmpeg = _opened(file)
        try:
            self.duration_s = self._source.duration_s
            if self.duration_s is not None:
                self._check(self.duration_s)
        except BaseException:
            self._source.close()
            raise
        self._stream = self._resampled()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> Samples:
        """The next BLOCK samples: mono float32 in [-1, 1] at 16 kHz. Fewer are the last; none:
        there are no more.

        A file that is damaged, or cut off, ends there.

        Raises:
            BadAudio: there is none at all.
            AudioTooLong
        """
        with self._lock:
            while self._held < BLOCK and (piece := next(self._stream, None)) is not None:
                self._waiting.append(piece)
                self._held += len(piece)
            samples = self._taken(min(BLOCK, self._held))
            self._given += len(samples)
            if not self._given:
                raise BadAudio("There is no audio in the file", mend=_MEND)
            self._check(self._given / SAMPLE_RATE)
            return samples

    def close(self) -> None:
        """Releases the decoder. Idempotent."""
        with self._lock:
            self._stream.close()
            self._source.close()

    def _taken(self, count: int) -> Samples:
        """The first samples of those that wait."""
        parts = [_NONE]
        self._held -= count
        while count:
            part = self._waiting.popleft()
            if len(part) > count:
                self._waiting.appendleft(part[count:])
                part = part[:count]
            parts.append(part)
            count -= len(part)
        return np.concatenate(parts)

    def _check(self, seconds: float) -> None:
        if self._limit_s is not None and seconds > self._limit_s:
            raise AudioTooLong(
                f"There are more than {self._limit_s:g} s of audio in the file",
                mend="Send it in parts",
            )

    def _resampled(self) -> Generator[Samples, None, None]:
        rate, stream = SAMPLE_RATE, None
        for piece_rate, samples in self._source.pieces():
            if piece_rate != rate:
                if stream is not None:
                    yield stream.resample_chunk(_NONE, last=True)
                rate, stream = piece_rate, None
                if rate != SAMPLE_RATE:
                    stream = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
            yield samples if stream is None else stream.resample_chunk(samples)
        if stream is not None:
            yield stream.resample_chunk(_NONE, last=True)


_NONE: Samples = np.zeros(0, np.float32)


def _opened(file: BinaryIO) -> _Sndfile | _Ffmpeg:
    """Whoever can read it."""
    try:
        if not _is_mpeg(file):
            return _Sndfile(file)
    except soundfile.SoundFileError:
        pass
    try:
        return _Ffmpeg(file)
    except (FFmpegError, OSError, ValueError):
        raise BadAudio("The file cannot be read as audio", mend=_MEND) from None


def _is_mpeg(file: BinaryIO) -> bool:
    """Sounds like MP3: libsndfile reads it, and complains on standard error about many of them."""
    head = os.pread(file.fileno(), 3, 0)
    return head == b"ID3" or (head[:1] == b"\xff" and head[1:2] >= b"\xe0")


def _mono(samples: NDArray[np.float32], *, axis: int) -> NDArray[np.float32]:
    """One channel of several, in [-1, 1]; what is no number is silence."""
    one = samples.shape[axis] == 1
    mono = samples.ravel() if one else samples.mean(axis=axis, dtype=np.float32)
    if not np.isfinite(mono).all():
        mono = np.nan_to_num(mono, nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(mono, -1.0, 1.0)


def _checked(rate: int, channels: int) -> int:
    if rate not in _RATES:
        raise BadAudio(f"The file has {rate} samples a second, which cannot be right", mend=_MEND)
    if rate * channels > _DENSEST:
        raise BadAudio(
            f"The file has {channels} channels of {rate} samples a second, which is too much",
            mend="Make it anew with one channel, as in `ffmpeg -i FILE -ac 1 -ar 16000 it.wav`",
        )
    return rate


class _Sndfile:
    """What libsndfile reads."""

    def __init__(self, file: BinaryIO) -> None:
        descriptor = file.fileno()
        os.lseek(descriptor, 0, os.SEEK_SET)
        self._file = soundfile.SoundFile(descriptor, closefd=False)
        try:
            self._rate = _checked(self._file.samplerate, self._file.channels)
        except BadAudio:
            self._file.close()
            raise
        frames = self._file.frames
        self.duration_s = frames / self._rate if frames < _NO_LENGTH else None
        self._frames = max(1, min(self._rate, _VALUES // self._file.channels))

    def pieces(self) -> Iterator[_Piece]:
        while True:
            try:
                samples = self._file.read(self._frames, dtype="float32", always_2d=True)
            except soundfile.SoundFileError:
                return
            if not len(samples):
                return
            yield self._rate, _mono(cast("NDArray[np.float32]", samples), axis=1)

    def close(self) -> None:
        self._file.close()


class _Ffmpeg:
    """What ffmpeg's libraries read; of several tracks of sound, the one that they think best."""

    def __init__(self, file: BinaryIO) -> None:
        file.seek(0)
        self._container: Any = av.open(file, options=_OPTIONS, metadata_errors="replace")
        self._stream = self._container.streams.best("audio")
        if self._stream is None or self._stream.codec_context is None:
            self._container.close()
            raise BadAudio("There is no track of sound in the file", mend=_MEND)
        length = self._container.duration
        self.duration_s = length / av.time_base if length is not None and length >= 0 else None

    def pieces(self) -> Iterator[_Piece]:
        planes = _Planes()
        try:
            for packet in self._container.demux(self._stream):
                if packet.size > _PACKET:  # it is decoded as a whole
                    raise BadAudio(
                        f"The file has its sound in a packet of {packet.size >> 20} MB",
                        mend=_REMAKE,
                    )
                yield from planes.of(_decoded(packet))
        except FFmpegError:
            return

    def close(self) -> None:
        self._container.close()


def _decoded(packet: Any) -> list[AudioFrame]:
    try:
        return packet.decode()
    except FFmpegError:
        return []  # one that is damaged; the next may not be


class _Planes:
    """Frames of any sample format and layout, which may change, as mono samples."""

    def __init__(self) -> None:
        self._form: tuple[Any, ...] = ()
        self._converter: Any = None

    def of(self, frames: list[AudioFrame]) -> Iterator[_Piece]:
        for frame in frames:
            form = (frame.format.name, frame.layout.name, frame.sample_rate)
            if form != self._form:
                self._form = form
                self._converter = av.AudioResampler(format="fltp")
            for converted in self._converter.resample(frame):
                rate = _checked(converted.sample_rate, len(converted.layout.channels))
                yield rate, _mono(converted.to_ndarray(), axis=0)
