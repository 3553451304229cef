"""Invariants: nothing is held back on the way between rates, pieces do not matter, nothing folds;
G.711 is that of everybody else.
"""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from services.realtime.audio import decode_audio, encode_audio
from services.realtime.formats import PCM, AudioFormat, EarFeed, Encoding, MouthFeed
from services.realtime.resampling import Resampler, delay_s
from tts_engine.errors import BadAudio

#: what goes over the wire: source, target, the edges of what passes and of what does not
WAYS = [(24_000, 16_000, 7000, 9000), (8_000, 16_000, 3400, 4600), (24_000, 8_000, 3400, 4600)]


def tone(hertz: float, seconds: float = 1.0, rate: int = 24_000) -> np.ndarray:
    return 10_000 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def resample(
    samples: np.ndarray, pieces: list[int], source: int = 24_000, target: int = 16_000
) -> np.ndarray:
    resampler, pcm, out = Resampler(source, target), samples.astype("<i2").tobytes(), b""
    at = 0
    for piece in [*pieces, len(samples)]:
        out += resampler.push(pcm[2 * at : 2 * (at + piece)])
        at += piece
    return np.frombuffer(out, "<i2").astype(np.float64)


def level_db(samples: np.ndarray) -> float:
    return 20 * np.log10((np.sqrt((samples**2).mean()) + 1e-3) / (10_000 / np.sqrt(2)))


@pytest.mark.parametrize("ms", [10, 20, 60])
@pytest.mark.parametrize(("source", "target"), [way[:2] for way in WAYS])
def test_every_frame_comes_out_whole_and_at_once(source: int, target: int, ms: int):
    resampler = Resampler(source, target)
    for _ in range(5):
        assert len(resampler.push(bytes(2 * source * ms // 1000))) == 2 * target * ms // 1000


@pytest.mark.parametrize("hertz", [100, 1000, 3400, 4000, 7000])
@pytest.mark.parametrize(("source", "target", "passes", "_"), WAYS)
def test_speech_band_passes(source: int, target: int, passes: int, _: int, hertz: int):
    if hertz <= passes:
        out = resample(tone(hertz, rate=source), [source // 50] * 50, source, target)
        assert abs(level_db(out[500:])) < 0.2


@pytest.mark.parametrize("hertz", [4600, 6000, 9000, 10_000, 11_500])
@pytest.mark.parametrize(("source", "target", "_", "stops"), [WAYS[0], WAYS[2]])
def test_what_would_fold_is_gone(source: int, target: int, _: int, stops: int, hertz: int):
    if hertz >= stops:
        assert level_db(resample(tone(hertz), [480] * 50, source, target)[500:]) < -55


def test_a_telephone_has_no_mirror_image():
    out = resample(tone(3000, rate=8_000), [160] * 50, 8_000, 16_000)[800:8800]
    spectrum = np.abs(np.fft.rfft(out * np.hanning(len(out))))
    hertz = np.fft.rfftfreq(len(out), 1 / 16_000)
    image = spectrum[hertz > 4000].max() / spectrum.max()
    assert 20 * np.log10(image) < -55


@pytest.mark.parametrize(("source", "target"), [way[:2] for way in WAYS])
def test_the_delay_is_at_most_two_milliseconds(source: int, target: int):
    out = resample(tone(300, rate=source), [source // 50] * 50, source, target)
    late = delay_s(source, target)
    expected = 10_000 * np.sin(2 * np.pi * 300 * (np.arange(len(out)) / target - late))
    assert late < 0.002
    assert np.abs(out - expected)[500:].max() < 10


def test_equal_rates_change_nothing():
    resampler = Resampler(24_000, 24_000)
    assert resampler.push(b"\1\2") == b"\1\2"
    assert resampler.finish() == b""
    assert delay_s(24_000, 24_000) == 0


def test_full_scale_is_clipped_not_wrapped():
    square = np.where(tone(500) > 0, 32_767, -32_768)
    out = resample(square, [480] * 50)
    assert out.max() == 32_767
    assert out.min() == -32_768
    plateau = np.abs(tone(500, rate=16_000)) > 7_000
    late = 16  # the filter's delay, in samples
    wrong = np.sign(out[late:]) != np.sign(tone(500, rate=16_000)[:-late])
    assert not (wrong & plateau[:-late])[500:].any()


@given(st.lists(st.integers(0, 900), max_size=30))
def test_pieces_do_not_matter(pieces):
    samples = np.random.default_rng(0).integers(-9000, 9000, 6000)
    pieces = pieces if sum(pieces) <= 6000 else []
    whole = resample(samples, [])
    cut = resample(samples, pieces)
    assert len(whole) == len(cut) == 4000
    assert np.abs(whole - cut).max() <= 1


def test_base64_round_trip():
    pcm = bytes(range(256))
    assert encode_audio(pcm) == base64.b64encode(pcm).decode()
    assert decode_audio(encode_audio(pcm)) == pcm


@pytest.mark.parametrize("text", ["AA", "AAA\n", "****", "音音音音"])
def test_what_is_not_base64_is_named(text: str):
    with pytest.raises(BadAudio, match="base64"):
        decode_audio(text)


def test_half_samples_are_named():
    with pytest.raises(BadAudio, match="empty"):
        PCM.check(b"")
    with pytest.raises(BadAudio, match=r"3 bytes.*24 kHz"):
        PCM.check(b"123")
    with pytest.raises(BadAudio, match="16 kHz"):
        AudioFormat("audio/pcm", 16_000).check(b"1")
    AudioFormat("audio/pcmu", 8_000).check(b"1")


LAWS: list[tuple[Encoding, str]] = [("audio/pcmu", "ULAW"), ("audio/pcma", "ALAW")]


@pytest.mark.parametrize(("encoding", "name"), LAWS)
def test_every_code_is_read_as_everybody_reads_it(encoding: Encoding, name: str):
    codes = bytes(range(256))
    read, _ = soundfile.read(
        io.BytesIO(codes),
        dtype="int16",
        channels=1,
        samplerate=8_000,
        format="RAW",
        subtype=name,
    )
    ours = EarFeed(AudioFormat(encoding, 8_000))
    theirs = EarFeed(AudioFormat("audio/pcm", 8_000))
    assert ours.push(codes) == theirs.push(read.astype("<i2").tobytes())


@pytest.mark.parametrize(("encoding", "name"), LAWS)
def test_an_answer_is_written_as_everybody_would_write_it(encoding: Encoding, name: str):
    pcm = tone(440, 0.2).astype("<i2").tobytes()
    plain = MouthFeed(AudioFormat("audio/pcm", 8_000))
    ours = MouthFeed(AudioFormat(encoding, 8_000))
    samples = np.frombuffer(plain.push(pcm) + plain.finish(), "<i2")
    read, _ = soundfile.read(
        io.BytesIO(ours.push(pcm) + ours.finish()),
        dtype="int16",
        channels=1,
        samplerate=8_000,
        format="RAW",
        subtype=name,
    )
    # a step of the law at this loudness is 512
    assert np.abs(read.astype(int) - samples).max() <= 256
    assert len(read) == 1612


def test_silence_is_written_as_silence():
    assert set(MouthFeed(AudioFormat("audio/pcmu", 8_000)).push(bytes(960))) == {0xFF}
    assert set(MouthFeed(AudioFormat("audio/pcma", 8_000)).push(bytes(960))) == {0xD5}
