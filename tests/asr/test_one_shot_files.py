"""Invariant: what libsndfile or ffmpeg read is read as it is, anything else is refused clearly, and
neither takes memory by its length.
"""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from tempfile import TemporaryFile
from typing import BinaryIO

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from services.asr.audio_file import BLOCK, AudioFile, AudioTooLong
from tests.audio_api.recordings import container, silent, sound
from tts_engine.errors import BadAudio

Keep = Callable[[bytes], BinaryIO]
SECONDS = 6.0


@pytest.fixture
def keep() -> Iterator[Keep]:
    files: list[BinaryIO] = []

    def kept(data: bytes) -> BinaryIO:
        file = TemporaryFile()  # noqa: SIM115 - closed below
        file.write(data)
        file.flush()
        files.append(file)
        return file

    yield kept
    for file in files:
        file.close()


def test_more_channels_and_samples_than_anybody_records_are_refused(keep: Keep) -> None:
    data = io.BytesIO()
    soundfile.write(data, np.zeros((100, 24), np.int16), 96_000, format="WAV")
    with pytest.raises(BadAudio, match="24 channels of 96000"):
        AudioFile(keep(data.getvalue()))


def tone(rate: int, seconds: float = SECONDS) -> NDArray[np.float32]:
    at = np.arange(int(rate * seconds)) / rate
    return (0.3 * np.sin(2 * np.pi * 440 * at)).astype(np.float32)


def read(file: BinaryIO, *, limit_s: float | None = None) -> NDArray[np.float32]:
    blocks: list[NDArray[np.float32]] = []
    with AudioFile(file, limit_s=limit_s) as audio:
        while len(block := audio.read()):
            assert block.dtype == np.float32
            assert len(block) <= BLOCK
            assert not blocks or len(blocks[-1]) == BLOCK
            blocks.append(block)
        assert not len(audio.read())
        audio.close()
    return np.concatenate(blocks)


def is_tone(samples: NDArray[np.float32], *, seconds: float = SECONDS) -> bool:
    """A tone of 440 Hz at about the level that it was made with."""
    middle = samples[8000:24000]
    spectrum = np.abs(np.fft.rfft(middle))
    loud = abs(np.sqrt(np.mean(middle**2)) * np.sqrt(2) - 0.3) < 0.03
    return loud and int(spectrum.argmax()) == 440 and abs(len(samples) / 16000 - seconds) < 0.1


@pytest.mark.parametrize(
    "form, subtype, rate",
    [
        ("WAV", "PCM_16", 16_000),
        ("WAV", "PCM_U8", 8_000),
        ("WAV", "FLOAT", 96_000),
        ("FLAC", "PCM_24", 44_100),
        ("OGG", "VORBIS", 22_050),
        ("OGG", "OPUS", 48_000),
        ("MP3", "MPEG_LAYER_III", 44_100),
        ("AIFF", "PCM_16", 48_000),
        ("CAF", "ALAC_16", 48_000),
    ],
)
def test_files_of_libsndfile(keep: Keep, form: str, subtype: str, rate: int):
    file = keep(sound(tone(rate), form=form, subtype=subtype, rate=rate))
    assert is_tone(read(file))
    assert is_tone(read(file)), "it can be read again"


@pytest.mark.parametrize(
    "form, codec, video",
    [
        ("mp4", "aac", False),
        ("mp4", "aac", True),
        ("mov", "pcm_s16le", True),
        ("matroska", "flac", True),
        ("webm", "libopus", False),
        ("adts", "aac", False),
        ("avi", "mp3", True),
        ("mpegts", "aac", True),
        ("wav", "adpcm_ima_wav", False),
    ],
)
def test_files_of_ffmpeg(keep: Keep, form: str, codec: str, video: bool):
    data = container(tone(48_000), form=form, codec=codec, video=video)
    assert is_tone(read(keep(data)))


def test_several_channels_become_one(keep: Keep):
    both = np.stack([tone(96_000) * 2, np.zeros(96_000 * 6, np.float32)], axis=1)
    assert is_tone(read(keep(sound(both, subtype="FLOAT", rate=96_000))))
    many = np.stack([tone(8_000)] * 40, axis=1)
    assert is_tone(read(keep(sound(many, rate=8_000))))


def test_what_is_no_number_is_silence_and_what_is_too_loud_is_clipped(keep: Keep):
    samples = tone(16_000)
    samples[100:200], samples[300], samples[400], samples[500] = np.nan, np.inf, -np.inf, 7.0
    heard = read(keep(sound(samples, subtype="FLOAT")))
    assert np.isfinite(heard).all()
    assert not heard[[150, 300, 400]].any()
    assert heard[500] == 1.0
    assert np.abs(heard).max() <= 1.0


@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize(
    "form, subtype",
    [("MP3", "MPEG_LAYER_III"), ("FLAC", "PCM_16"), ("WAV", "PCM_16"), ("OGG", "VORBIS")],
)
def test_of_a_file_that_is_cut_off_there_is_what_is_there(
    keep: Keep, form: str, subtype: str, share: float
):
    data = sound(tone(44_100, 20.0), form=form, subtype=subtype, rate=44_100)
    heard = read(keep(data[: int(len(data) * share)]))
    assert is_tone(heard, seconds=len(heard) / 16_000)
    assert abs(len(heard) / 16_000 - 20.0 * share) < 4


def test_of_a_video_that_is_cut_off_too(keep: Keep):
    data = container(tone(48_000, 20.0), form="matroska", video=True)
    heard = read(keep(data[: len(data) // 2]))
    assert 5 < len(heard) / 16_000 < 15


def test_a_damaged_packet_is_left_out(keep: Keep):
    data = bytearray(container(tone(48_000, 20.0), form="adts"))
    data[len(data) // 2 : len(data) // 2 + 2000] = bytes(range(200)) * 10
    heard = read(keep(bytes(data)))
    assert 17 < len(heard) / 16_000 < 21


def test_a_damaged_container_ends_where_it_cannot_be_read_on(keep: Keep):
    data = bytearray(container(tone(48_000, 20.0), form="nut"))
    half, quarter = len(data) // 2, len(data) // 4
    data[half : half + quarter] = np.random.default_rng(3).bytes(quarter)
    heard = read(keep(bytes(data[: -len(data) // 5])))
    assert 5 < len(heard) / 16_000 < 20


def test_a_file_whose_sound_is_one_packet_is_refused(keep: Keep):
    data = container(tone(48_000, 100.0), form="matroska", codec="pcm_f32le")
    with pytest.raises(BadAudio, match="packet of 18 MB"):
        read(keep(data))


def test_a_large_packet_is_read_block_by_block(keep: Keep):
    data = container(tone(48_000, 30.0), form="matroska", codec="pcm_s16le")
    assert is_tone(read(keep(data)), seconds=30.0)


def test_the_rate_may_change_on_the_way(keep: Keep):
    first = container(tone(48_000), form="adts")
    second = container(tone(16_000), form="adts", rate=16_000)
    heard = read(keep(first + second))
    assert abs(len(heard) / 16_000 - 2 * SECONDS) < 0.3
    assert is_tone(heard[-5 * 16_000 :], seconds=5.0)


def picture() -> bytes:
    data = io.BytesIO()
    box = av.open(data, "w", format="image2pipe")
    track = box.add_stream("png", rate=1)
    track.width, track.height, track.pix_fmt = 8, 8, "rgb24"
    box.mux(track.encode(av.VideoFrame.from_ndarray(np.zeros((8, 8, 3), np.uint8), "rgb24")))
    box.close()
    return data.getvalue()


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "is empty"),
        (b"This is a text, whatever its name is.\n" * 100, "cannot be read as audio"),
        (np.random.default_rng(1).bytes(100_000), "cannot be read as audio"),
        (b"#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:1/a.ts\n", "cannot be read as audio"),
        (b"ffconcat version 1.0\nfile /etc/hostname\n", "cannot be read as audio"),
        (picture(), "cannot be read as audio"),
        (sound(tone(16_000))[:44], "no audio in the file"),
        (container(None, form="mp4", video=True), "no track of sound"),
        (container(tone(48_000), form="mp4")[:-200], "cannot be read as audio"),
        (sound(tone(16_000), rate=100), "100 samples a second"),
    ],
)
def test_what_is_no_recording_is_refused(keep: Keep, data: bytes, why: str):
    file = keep(data)
    with pytest.raises(BadAudio, match=why):
        read(file)
    assert is_tone(read(keep(sound(tone(16_000)))))


def test_the_length_is_known_where_the_file_says_it(keep: Keep):
    for data in (
        sound(tone(16_000)),
        container(tone(48_000), form="mp4"),
        container(tone(48_000), form="matroska"),
    ):
        with AudioFile(keep(data)) as audio:
            assert audio.duration_s == pytest.approx(SECONDS, abs=0.1)


def test_more_than_is_taken_is_refused_at_once_where_the_file_says_it(keep: Keep):
    file = keep(silent(120))
    with pytest.raises(AudioTooLong, match="more than 60 s"):
        AudioFile(file, limit_s=60)
    assert len(read(file, limit_s=120)) == 120 * 16_000


def test_and_on_the_way_where_it_does_not(keep: Keep):
    # bytes of FLAC's header that say how many samples there are: 0 is "not known"
    data = bytearray(silent(120))
    assert struct.unpack(">Q", data[18:26])[0] & ((1 << 36) - 1) == 120 * 16_000
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    with AudioFile(keep(bytes(data)), limit_s=60) as audio:
        assert audio.duration_s is None
        given = 0
        with pytest.raises(AudioTooLong):  # noqa: PT012 - it comes when it comes
            while len(block := audio.read()):
                given += len(block)
        assert given <= 60 * 16_000


def test_a_long_file_takes_no_memory(keep: Keep):
    file = keep(silent(1800, rate=96_000))
    tracemalloc.start()
    try:
        seconds = 0.0
        with AudioFile(file) as audio:
            while len(block := audio.read()):
                seconds += len(block) / 16_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seconds == pytest.approx(1800, abs=0.1)
    assert peak < 16 << 20


def test_a_decoder_that_fails_on_the_way_ends_the_file(keep: Keep, monkeypatch: pytest.MonkeyPatch):
    class Failing(soundfile.SoundFile):
        reads = 0

        def read(self, *args: object, **kwargs: object) -> NDArray[np.float32]:
            self.reads += 1
            if self.reads > 4:
                raise soundfile.LibsndfileError(3)
            return super().read(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(soundfile, "SoundFile", Failing)
    assert len(read(keep(sound(tone(16_000))))) == 4 * 16_000
