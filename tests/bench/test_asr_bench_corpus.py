"""Lists of recordings and texts, as data sets have them; what is wrong with one names its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.bench.asr_corpus import read_corpus
from services.scripted.speech import synthetic_speech
from tts_engine.errors import BadAudio, BadRequest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings."""
    for name in ("a", "b"):
        soundfile.write(tmp_path / f"{name}.wav", synthetic_speech(seconds=0.3), 16_000)
    return tmp_path


def pairs(place: Path) -> list[tuple[str, str, str]]:
    return [(each.path.name, each.text, each.language) for each in read_corpus(place)]


BOTH = [("a.wav", "打开灯", "zh"), ("b.wav", "turn it on", "en")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.tsv", "a.wav\t打开灯\n\nb.wav\t turn it on \n"),
        ("list.tsv", "\ufeffa.wav\t打开灯\tzh-CN\r\nb.wav\tturn it on\ten_US\r\n"),
        ("cv.tsv", "client_id\tpath\tsentence\nx\ta.wav\t打开灯\ny\tb.wav\tturn it on\n"),
        (
            "list.jsonl",
            '{"audio": "a.wav", "text": "打开灯"}\n{"audio": "b.wav", "text": "turn it on"}\n',
        ),
        (
            "manifest.json",
            '{"audio_filepath": "a.wav", "text": "打开灯", "duration": 0.3}\n'
            '{"audio_filepath": "b.wav", "text": "turn it on", "lang": "en"}',
        ),
    ],
)
def test_lists(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    assert pairs(folder) == BOTH
    assert pairs(folder / name) == BOTH


def test_kaldi(folder: Path) -> None:
    data = folder / "data"
    data.mkdir()
    (data / "wav.scp").write_text(f"2 ../b.wav\n1 {folder}/a.wav\n", encoding="utf-8")
    (data / "text").write_text("1 打开灯\n2 turn it on\n", encoding="utf-8")
    for place in (data, data / "text", data / "wav.scp"):
        assert pairs(place) == BOTH


def test_the_first_so_many(folder: Path) -> None:
    (folder / "list.tsv").write_text("a.wav\tx\nb.wav\ty\nno.wav\tz\n")
    assert [each.text for each in read_corpus(folder, limit=2)] == ["x", "y"]


def test_noise_has_no_text_and_no_language(folder: Path) -> None:
    (folder / "list.tsv").write_text("a.wav\t\tzh\n")
    assert pairs(folder) == [("a.wav", "", "")]


def test_recordings_of_any_kind_are_heard_alike(folder: Path) -> None:
    speech = synthetic_speech(seconds=0.5, rate=48_000)
    soundfile.write(folder / "c.flac", np.stack([speech, speech], axis=1), 48_000)
    (folder / "list.tsv").write_text("c.flac\tx\n")
    [utterance] = read_corpus(folder)
    samples = utterance.samples()
    assert samples.dtype == np.float32
    assert abs(len(samples) - 8000) < 100


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("list.tsv", "a.wav\tx\nb.wav y\n", "list.tsv:2: there is no tab"),
        ("list.tsv", "a.wav\tx\n\tz\n", "list.tsv:2: there is no audio"),
        ("list.tsv", "a.wav\tx\tde\n", "list.tsv:1: 'de' is neither"),
        ("list.tsv", "file\ttext\n", "no utterance in"),
        ("list.jsonl", '{"audio": "a.wav", "text": "x"}\nnone\n', "list.jsonl:2: this line is no"),
        ("list.jsonl", "[1]\n", "list.jsonl:1: this line is no JSON object"),
        ("list.jsonl", '{"audio": "a.wav"}\n', "list.jsonl:1: there is no text"),
        ("list.jsonl", '{"audio": 1, "text": "x"}\n', "list.jsonl:1: there is no audio"),
    ],
)
def test_lines_that_cannot_be_read(folder: Path, name: str, text: str, why: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(BadRequest, match=why):
        read_corpus(folder)


@pytest.mark.parametrize(
    ("scp", "text", "why"),
    [
        ("1 a.wav\n2\n", "1 x\n", "wav.scp:2: there is no file"),
        ("1 sox a.wav -t wav - |\n", "1 x\n", "wav.scp:1: this is a command"),
        ("1 a.wav\n", "1 x\n2 y\n", "text:2: '2' is not in"),
        ("1 a.wav\n2 b.wav\n", "1 x\n", "no text of '2'"),
    ],
)
def test_what_kaldi_would_not_take(folder: Path, scp: str, text: str, why: str) -> None:
    (folder / "wav.scp").write_text(scp)
    (folder / "text").write_text(text)
    with pytest.raises(BadRequest, match=why):
        read_corpus(folder)


def test_recordings_that_are_none(folder: Path) -> None:
    (folder / "list.tsv").write_text("a.wav\tx\nno.wav\ty\n")
    with pytest.raises(BadAudio, match=r"list\.tsv:2: .*no\.wav: No such file"):
        read_corpus(folder)
    (folder / "no.wav").write_text("this is a text")
    with pytest.raises(BadAudio, match=r"list\.tsv:2: .*no\.wav: The file cannot be read"):
        read_corpus(folder)
    soundfile.write(folder / "no.wav", np.zeros(121 * 8000, np.int16), 8000)
    with pytest.raises(BadAudio, match=r"list\.tsv:2: .*more than 120 s"):
        read_corpus(folder)


def test_where_there_is_no_list(folder: Path) -> None:
    with pytest.raises(BadRequest, match="There is no list"):
        read_corpus(folder)
    with pytest.raises(BadRequest, match="There is no folder"):
        read_corpus(folder / "none")
    with pytest.raises(BadRequest, match="is no list that is known"):
        read_corpus(folder / "a.wav")
    (folder / "wav.scp").write_text("1 a.wav\n")
    with pytest.raises(BadRequest, match=r"Cannot read .*text"):
        read_corpus(folder)


def test_one_of_several_lists_has_to_be_named(folder: Path) -> None:
    for name in ("dev", "test"):
        (folder / f"{name}.tsv").write_text(f"a.wav\t{name}\n")
    with pytest.raises(BadRequest, match=r"dev\.tsv, test\.tsv"):
        read_corpus(folder)
    assert pairs(folder / "test.tsv") == [("a.wav", "test", "en")]


def test_a_list_is_text(folder: Path) -> None:
    (folder / "list.jsonl").write_bytes('{"text": "嗯"}'.encode("gbk"))
    with pytest.raises(BadRequest, match="is not UTF-8"):
        read_corpus(folder)
