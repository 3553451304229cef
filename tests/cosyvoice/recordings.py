"""Recordings as people send them, and the networks that measure them, made."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from tts_engine.cosyvoice.random_onnx import write_speaker_model, write_speech_tokenizer


def buzz(
    seconds: float = 3.0, *, rate: int = 24_000, peak: float = 0.5, pitch_hz: float = 130.0
) -> NDArray[np.float32]:
    """A voice's buzz that is never silent: mono."""
    time = np.arange(round(seconds * rate)) / rate
    wave = sum(np.sin(2 * np.pi * pitch_hz * k * time) / k for k in range(1, 12))
    wave = wave * (1.0 + 0.3 * np.sin(2 * np.pi * 3.0 * time))
    return (peak * wave / np.abs(wave).max()).astype(np.float32)


def silence(seconds: float, *, rate: int = 24_000) -> NDArray[np.float32]:
    return np.zeros(round(seconds * rate), np.float32)


def file_of(
    samples: NDArray[np.float32], *, rate: int = 24_000, form: str = "WAV", subtype: str = "PCM_16"
) -> bytes:
    """A sound file; `samples` are [n] or [n, channels]."""
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=form, subtype=subtype)
    return stream.getvalue()


def write_networks(folder: Path) -> Path:
    """What the frontend reads of a model directory, with random weights."""
    write_speaker_model(folder / "campplus.onnx", seed=0)
    write_speech_tokenizer(folder / "speech_tokenizer_v2.onnx")
    return folder
