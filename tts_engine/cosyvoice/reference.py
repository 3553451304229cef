"""Reference audio: the recording that a voice is taken from, checked, and at the models' rates."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from tts_engine.cosyvoice.spectrum import MEL_SAMPLE_RATE, TOKEN_SAMPLE_RATE
from tts_engine.errors import BadAudio

Samples = NDArray[np.float32]

MIN_S, MAX_S = 1.0, 30.0
#: what is recorded slower lacks what tells people apart
MIN_RATE, MAX_RATE = 16_000, 192_000
MAX_CHANNELS = 8

_FRAME_S = 0.02
#: below the loudest frame by so much is silence; a room's noise lies above a studio's
_SILENCE_DB = -40.0
#: a recording whose loudest frame lies below is empty, dBFS
_EMPTY_DBFS = -45.0
#: kept before the first and behind the last sound
_MARGIN_S = 0.06
#: Silence behind the speech: the model takes up after it, as after a breath, and not in a word.
_TAIL_S = 0.2
#: level that recordings are brought to
_PEAK = 0.8
#: samples at the peak that are alike within a 16-bit step and a half, so many in a row, are cut off
_FLAT_RUN, _FLAT_STEP, _FLAT_LEVEL = 4, 1.5 / 32768, 0.999
#: share of such samples from which the distortion is heard, and learned
_CLIPPED = 0.001
#: A channel that stays below is not clipped: the steps of a silent one are alike as well.
_LOUD = 0.1

_ADVICE = "Give 3 to 10 s of one person who speaks, without music or noise"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """A recording that can be used.

    Parameters:
        wav_16k: for speech tokens and speaker embedding: mono float32 in [-1, 1], silence at both
            ends cut off, then 0.2 s of silence; at most 30 s.
        wav_24k: the same for the mel.
        duration_s: from the first sound to the last.
        sha256: of the file, in hex.
    """

    wav_16k: Samples
    wav_24k: Samples
    duration_s: float
    sha256: str


def read_reference(audio: bytes) -> Reference:
    """Reads, checks and prepares a recording.

    Args:
        audio: a sound file in any of libsndfile's formats, 1 to 30 s.

    Raises:
        BadAudio: what is wrong with it, and what would be right.
    """
    channels, rate = _read(audio)
    _check_level(channels)
    speech, duration_s = _speech(channels.mean(axis=1), rate)
    ready = _with_tail(speech * (_PEAK / float(np.abs(speech).max())), rate)
    return Reference(
        wav_16k=soxr.resample(ready, rate, TOKEN_SAMPLE_RATE),
        wav_24k=soxr.resample(ready, rate, MEL_SAMPLE_RATE),
        duration_s=round(duration_s, 2),
        sha256=hashlib.sha256(audio).hexdigest(),
    )


def _read(audio: bytes) -> tuple[Samples, int]:
    """Samples [n, channels] and their rate."""
    try:
        with soundfile.SoundFile(io.BytesIO(audio)) as file:
            rate = file.samplerate
            _check_form(rate, file.channels)
            # No header is believed: what is longer is read no further.
            longest = int(MAX_S * rate) + 1
            samples = np.asarray(file.read(longest, dtype="float32", always_2d=True), np.float32)
    except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
        raise BadAudio(
            "This is no sound file that can be read", mend="Give a WAV, FLAC, MP3 or Ogg file"
        ) from error
    if len(samples) == longest:
        raise BadAudio(f"The recording is longer than {MAX_S:g} s", mend=_ADVICE)
    if len(samples) < MIN_S * rate:
        length = len(samples) / rate
        raise BadAudio(
            f"The recording is {length:.1f} s long, and at least {MIN_S:g} s are needed",
            mend=_ADVICE,
        )
    if not np.isfinite(samples).all():
        raise BadAudio(
            "The recording holds samples that are no numbers", mend="Export it as 16-bit WAV"
        )
    return samples, rate


def _check_form(rate: int, channels: int) -> None:
    if not MIN_RATE <= rate <= MAX_RATE:
        raise BadAudio(
            f"The recording has {rate} samples a second, and {MIN_RATE} to {MAX_RATE} are needed",
            mend="Record at 24000 or 48000 Hz; a telephone's sound is not enough",
        )
    if channels > MAX_CHANNELS:
        raise BadAudio(f"The recording has {channels} channels", mend="Export it in mono")


def _check_level(channels: Samples) -> None:
    """Refuses what is clipped in any channel."""
    clipped = max(map(_clipped, channels.T))
    if clipped > _CLIPPED:
        raise BadAudio(
            f"The recording is clipped: {clipped:.1%} of its samples are cut off at the peak",
            mend="Record it again, with the microphone's level turned down",
        )


def _clipped(samples: Samples) -> float:
    """The share of samples that lie in flat tops."""
    levels = np.abs(samples)
    peak = levels.max()
    if peak < _LOUD:
        return 0.0
    alike = np.abs(np.diff(samples)) <= _FLAT_STEP
    flat = alike & (levels[1:] >= _FLAT_LEVEL * peak)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8)))
    runs = edges[1::2] - edges[::2] + 1  # n steps that are alike join n + 1 samples
    return float(runs[runs >= _FLAT_RUN].sum() / samples.size)


def _speech(mono: Samples, rate: int) -> tuple[Samples, float]:
    """What lies between the silences at both ends, and its length in seconds."""
    frame = round(_FRAME_S * rate)
    count = len(mono) // frame
    squares = np.square(mono[: count * frame].reshape(count, frame), dtype=np.float64)
    levels = 10 * np.log10(squares.mean(axis=1) + 1e-12)
    loudest = levels.max()
    if loudest < _EMPTY_DBFS:
        raise BadAudio(
            f"The recording is silent, or far too quiet ({loudest:.0f} dB at its loudest)",
            mend="Record it again, nearer to the microphone",
        )
    sounding = np.flatnonzero(levels > loudest + _SILENCE_DB)
    first, end = int(sounding[0]) * frame, (int(sounding[-1]) + 1) * frame
    duration_s = (end - first) / rate
    if duration_s < MIN_S:
        raise BadAudio(
            f"The recording holds {duration_s:.1f} s of speech, and at least {MIN_S:g} s are "
            "needed",
            mend=_ADVICE,
        )
    margin = round(_MARGIN_S * rate)
    return mono[max(0, first - margin) : end + margin], duration_s


def _with_tail(speech: Samples, rate: int) -> Samples:
    """Appends silence, within the longest recording that the tokenizer takes."""
    return np.pad(speech, (0, round(_TAIL_S * rate)))[: int(MAX_S * rate)]
