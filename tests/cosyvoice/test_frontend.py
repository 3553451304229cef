"""The spectrograms are the originals', by independent formulas; a recording becomes features of one
length; what is missing or broken in a model directory is named.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tts_engine.cosyvoice.frontend import Frontend
from tts_engine.cosyvoice.reference import read_reference
from tts_engine.cosyvoice.spectrum import log_mel, mel
from tts_engine.cosyvoice.voices import VoiceStore
from tts_engine.errors import EngineFailed, ModelCorrupt, ModelMissing

from .conftest import Reference
from .recordings import buzz, file_of, write_networks

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_networks(tmp_path_factory.mktemp("networks"))


@pytest.fixture
def frontend(networks: Path) -> Frontend:
    return Frontend(networks)


# --- the spectrograms -------------------------------------------------------------------------


def hz_to_mel(hz: float) -> float:
    return hz * 3 / 200 if hz < 1000 else 15 + 27 * np.log(hz / 1000) / np.log(6.4)


def mel_to_hz(value: float) -> float:
    return value * 200 / 3 if value < 15 else 1000 * 6.4 ** ((value - 15) / 27)


def plain_filters(rate: int, size: int, bands: int, top_hz: float) -> Array:
    """Triangle by triangle, bin by bin."""
    edges = [mel_to_hz(hz_to_mel(top_hz) * i / (bands + 1)) for i in range(bands + 2)]
    bank = np.zeros((bands, size // 2 + 1))
    for m in range(bands):
        low, top, high = edges[m : m + 3]
        for k in range(size // 2 + 1):
            hz = k * rate / size
            if low < hz <= top:
                bank[m, k] = (hz - low) / (top - low)
            elif top < hz < high:
                bank[m, k] = (high - hz) / (high - top)
        bank[m] *= 2 / (high - low)
    return bank


def plain_power(samples: NDArray[np.float32], size: int, hop: int, pad: int) -> Array:
    """Frame by frame with an explicit Fourier sum: [frames, bins]."""
    x = np.concatenate([samples[pad:0:-1], samples, samples[-2 : -pad - 2 : -1]]).astype(float)
    n = np.arange(size)
    window = np.sin(np.pi * n / size) ** 2
    kernel = np.exp(-2j * np.pi * np.outer(np.arange(size // 2 + 1), n) / size)
    starts = range(0, len(samples) // hop * hop, hop)
    return np.stack([np.abs(kernel @ (window * x[s : s + size])) ** 2 for s in starts])


def noise(count: int) -> NDArray[np.float32]:
    return (0.1 * np.random.default_rng(3).standard_normal(count)).astype(np.float32)


def test_what_the_tokenizer_reads() -> None:
    samples = noise(4_000)
    samples[2_000:] = 0  # the floor of 8 decades is reached
    power = plain_power(samples, 400, 160, 200)
    decades = np.log10(np.maximum(plain_filters(16_000, 400, 128, 8_000) @ power.T, 1e-10))
    expected = (np.maximum(decades, decades.max() - 8) + 4) / 4
    made = log_mel(samples)
    assert made.shape == (128, 25)
    assert made.dtype == np.float32
    assert np.abs(made - expected).max() < 1e-5


@pytest.mark.parametrize("top_hz", [8_000.0, 12_000.0])
def test_what_the_flow_continues(top_hz: float) -> None:
    samples = noise(9_700)
    samples[:4_000] = 0  # the floor is reached
    power = plain_power(samples, 1920, 480, 720)
    magnitudes = np.sqrt(power + 1e-9) @ plain_filters(24_000, 1920, 80, top_hz).T
    made = mel(samples, top_hz=top_hz)
    assert made.shape == (20, 80)
    assert made.dtype == np.float32
    assert np.abs(made - np.log(np.maximum(magnitudes, 1e-5))).max() < 1e-5


def test_the_embedder_hears_no_constant_level(frontend: Frontend) -> None:
    """Its bands are taken relative to their mean: a louder recording is the same speaker."""
    samples = noise(32_000)
    assert np.abs(frontend.embedding(samples) - frontend.embedding(samples / 4)).max() < 1e-3


# --- features ---------------------------------------------------------------------------------


def test_a_recording_becomes_features(
    frontend: Frontend, reference: Reference, tmp_path: Path
) -> None:
    store, stages = VoiceStore(tmp_path), []
    info = store.register(
        "a", file_of(reference.samples), reference.text, extractor=frontend, progress=stages.append
    )
    assert (info.kind, info.text) == ("cosyvoice2", reference.text)
    assert len(stages) == len(set(stages)) == 4
    made = store.read("a").features
    count = len(made.llm_tokens)
    recording = read_reference(file_of(reference.samples))
    assert count == len(recording.wav_24k) // 960
    assert made.llm_tokens.min() >= 0
    assert made.llm_tokens.max() < 6561
    cut = count - len(made.flow_tokens)
    assert 10 <= -len(made.flow_tokens) % 25 <= 15
    assert np.array_equal(made.flow_tokens, made.llm_tokens[cut:])
    assert np.array_equal(made.mel, frontend.mel(recording.wav_24k)[2 * cut : 2 * count])
    assert made.embedding.shape == (192,)
    assert all(np.isfinite(each).all() for each in (made.mel, made.embedding))


def test_who_speaks_and_what_differ(frontend: Frontend) -> None:
    one, two = (read_reference(file_of(buzz(2.0, pitch_hz=hz))) for hz in (110.0, 240.0))
    assert frontend.speech_tokens(one.wav_16k) != frontend.speech_tokens(two.wav_16k)
    distance = np.abs(frontend.embedding(one.wav_16k) - frontend.embedding(two.wav_16k))
    assert distance.max() > 0.1
    assert np.array_equal(frontend.embedding(one.wav_16k), frontend.embedding(one.wav_16k))


def test_text_ids(networks: Path) -> None:
    class Letters:
        def encode(self, text: str, **options: Any) -> list[int]:
            return [ord(char) for char in text]

    frontend = Frontend(networks, tokenizer=Letters())
    assert frontend.text_ids("ab") == [97, 98]
    assert frontend.text_ids("") == []


# --- directories ------------------------------------------------------------------------------


def test_the_kind_is_that_of_the_tokenizer(networks: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="no speech tokenizer"):
        Frontend(tmp_path)
    shutil.copy(networks / "speech_tokenizer_v2.onnx", tmp_path / "speech_tokenizer_v3.onnx")
    third = Frontend(tmp_path)
    assert third.kind == "cosyvoice3"
    samples = noise(24_000)
    assert np.array_equal(third.mel(samples), mel(samples, top_hz=12_000))
    assert len(third.speech_tokens(samples[:16_000])) == 25
    with pytest.raises(ModelMissing, match=r"campplus\.onnx is missing"):
        third.embedding(samples)
    (tmp_path / "campplus.onnx").write_bytes(b"no network")
    with pytest.raises(ModelCorrupt, match=r"campplus\.onnx is not a network"):
        third.embedding(samples)


def test_a_network_that_takes_something_else(networks: Path, tmp_path: Path) -> None:
    shutil.copy(networks / "speech_tokenizer_v2.onnx", tmp_path / "campplus.onnx")
    shutil.copy(networks / "campplus.onnx", tmp_path / "speech_tokenizer_v2.onnx")
    frontend = Frontend(tmp_path)
    for measure in (frontend.speech_tokens, frontend.embedding):
        with pytest.raises(EngineFailed, match="failed on the recording"):
            measure(noise(16_000))


def test_without_kaldi(frontend: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaldi_native_fbank", None)
    with pytest.raises(EngineFailed, match="kaldi-native-fbank") as caught:
        frontend.embedding(noise(16_000))
    assert caught.value.mend == "Run `make engines`"
