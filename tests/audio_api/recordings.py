"""Recordings of every kind, good and bad, of a voice whose every border is known."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import av
import numpy as np
import soundfile
from numpy.typing import NDArray

from services.scripted.speech import synthetic_speech

RATE = 16_000
#: a voice of 1 s, with half a second of silence before it and after it
LEAD_S, VOICE_S, TAIL_S = 0.5, 1.0, 0.5


def spoken(*, gaps: Sequence[float] = (), rate: int = RATE) -> NDArray[np.float32]:
    """Voices of one second, one more than there are gaps between them; gaps in seconds."""
    parts = [
        synthetic_speech(seconds=VOICE_S, rate=rate, lead_s=gap - TAIL_S, tail_s=TAIL_S)
        for gap in (LEAD_S + TAIL_S, *gaps)
    ]
    return np.concatenate(parts).astype(np.float32) / 32768


def sound(
    samples: NDArray[np.float32], *, form: str = "WAV", subtype: str = "PCM_16", rate: int = RATE
) -> bytes:
    """A file of libsndfile's."""
    data = io.BytesIO()
    soundfile.write(data, samples, rate, format=form, subtype=subtype)
    return data.getvalue()


def container(
    samples: NDArray[np.float32] | None,
    *,
    form: str,
    codec: str = "aac",
    rate: int = 48_000,
    video: bool = False,
) -> bytes:
    """A file of ffmpeg's.

    Args:
        samples: mono; None: there is no sound.
        form: of the container.
        codec: of the sound.
        rate: of the samples.
        video: there is a track of pictures too.
    """
    data = io.BytesIO()
    box: Any = av.open(data, "w", format=form)
    pictures: Any = box.add_stream("mpeg4", rate=5) if video else None
    if video:
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
    track: Any = box.add_stream(codec, rate=rate) if samples is not None else None
    if track is not None:
        track.codec_context.layout = "mono"
    if video:
        black = np.zeros((48, 64, 3), np.uint8)
        for _ in range(10):
            box.mux(pictures.encode(av.VideoFrame.from_ndarray(black, format="rgb24")))
        box.mux(pictures.encode(None))
    if track is not None:
        assert samples is not None
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = rate, 0
        box.mux(track.encode(frame))
        box.mux(track.encode(None))
    box.close()
    return data.getvalue()


def silent(seconds: int, *, rate: int = RATE) -> bytes:
    """A FLAC file of nothing: small, however long it is."""
    data = io.BytesIO()
    with soundfile.SoundFile(data, "w", rate, 1, format="FLAC", subtype="PCM_16") as file:
        minute = np.zeros(60 * rate, np.int16)
        for _ in range(seconds // 60):
            file.write(minute)
        file.write(minute[: seconds % 60 * rate])
    return data.getvalue()
