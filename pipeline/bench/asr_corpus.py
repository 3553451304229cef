"""Recordings and what is said in them, as data sets have it: for `bench asr`.

A folder holds one list; its recordings may lie anywhere, relative paths count from the list.

*.tsv                   FILE<TAB>TEXT[<TAB>LANGUAGE], or under a first line with the columns' names
*.jsonl, manifest.json  {"audio": "a.wav", "text": "...", "language": "zh"}, one a line
wav.scp and text        Kaldi's: NAME FILE, NAME TEXT
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from services.asr.audio_file import AudioFile
from services.asr.base import Samples
from services.language import language_of
from tts_engine.errors import BadAudio, BadRequest

#: what the fields are called, in the order in which they are looked for
_AUDIO = ("audio", "audio_filepath", "file", "path", "wav", "filename")
_TEXT = ("text", "sentence", "transcript", "transcription")
_LANGUAGE = ("language", "lang", "locale")
#: languages by the first part of their tags, the others are not recognised here
_LANGUAGES = {"zh": "zh", "cmn": "zh", "zho": "zh", "chi": "zh", "en": "en", "eng": "en"}
#: A recogniser keeps the end of a longer turn only.
_LONGEST_S = 120.0
_FORMS = "Write FILE<TAB>TEXT lines into a .tsv, JSON lines into a .jsonl, or Kaldi's wav.scp, text"

#: what a line of a list says: where it stands, then audio, text, language as they are written
_Row: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A recording, and what is said in it.

    Parameters:
        name: as the list has it.
        path: of the sound file.
        text: what is said; empty for noise.
        language: "zh", "en", or "" where nothing is said.
        where: file and line of the list.
    """

    name: str
    path: Path
    text: str
    language: str
    where: str

    def samples(self) -> Samples:
        """Decodes it: mono float32 in [-1, 1] at 16 kHz.

        Raises:
            BadAudio: it cannot be read, or is longer than a turn may be.
        """
        with self._opened() as audio:
            return np.concatenate([*_blocks(audio)])

    def check(self) -> None:
        """Looks at the beginning of the file, which takes no time.

        Raises:
            BadAudio: it is no sound file, or longer by its own account than a turn may be.
        """
        with self._opened():
            pass

    @contextmanager
    def _opened(self) -> Iterator[AudioFile]:
        place = f"{self.where}: {self.path}"
        try:
            with self.path.open("rb") as file, AudioFile(file, limit_s=_LONGEST_S) as audio:
                yield audio
        except OSError as error:
            raise BadAudio(f"{place}: {error.strerror or error}") from error
        except BadAudio as error:
            raise BadAudio(f"{place}: {error.message}", mend=error.mend) from error


def read_corpus(place: Path, *, limit: int | None = None) -> list[Utterance]:
    """Reads a list, and looks whether its recordings are there.

    Args:
        place: the folder, or the list itself.
        limit: the first so many utterances; None: all.

    Raises:
        BadRequest: there is no list, more than one, or a line of it cannot be read.
        BadAudio: a recording is not there, or is no sound file.
    """
    found = _list_in(place)
    rows = _rows(found)
    utterances: list[Utterance] = []
    for where, audio, text, language in rows:
        if limit is not None and len(utterances) == limit:
            break
        utterance = Utterance(
            name=audio,
            path=found.parent / audio,
            text=text.strip(),
            language=_language(language, text, where),
            where=where,
        )
        utterance.check()
        utterances.append(utterance)
    if not utterances:
        raise BadRequest(f"There is no utterance in {found}", mend=f"{_FORMS}.")
    return utterances


# --- which list ---------------------------------------------------------------------------------
def _list_in(place: Path) -> Path:
    if place.is_file():
        return place.with_name("text") if place.name == "wav.scp" else place
    if not place.is_dir():
        raise BadRequest(f"There is no folder {place}")
    kaldi = [place / "text"] if (place / "wav.scp").is_file() else []
    manifest = place / "manifest.json"
    lists = [
        *sorted(place.glob("*.tsv")),
        *sorted(place.glob("*.jsonl")),
        *([manifest] if manifest.is_file() else []),
        *kaldi,
    ]
    if not lists:
        raise BadRequest(f"There is no list of recordings and texts in {place}", mend=f"{_FORMS}.")
    if len(lists) > 1:
        names = ", ".join(each.name for each in lists)
        raise BadRequest(
            f"There are several lists in {place}: {names}",
            mend="Name one of them in place of the folder.",
        )
    return lists[0]


def _rows(path: Path) -> Iterator[_Row]:
    if path.name == "text":
        return _kaldi(path)
    if path.suffix == ".tsv":
        return _tabs(path)
    if path.suffix in (".json", ".jsonl"):
        return _json_lines(path)
    raise BadRequest(f"{path} is no list that is known here", mend=f"{_FORMS}.")


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Place and words of all lines that are not empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadRequest(f"Cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line.rstrip("\r")


# --- its lines ----------------------------------------------------------------------------------
def _tabs(path: Path) -> Iterator[_Row]:
    columns: Sequence[str] = ("file", "text", "language")
    for number, (where, line) in enumerate(_lines(path)):
        cells = line.split("\t")
        heads = [cell.strip().lower() for cell in cells]
        if number == 0 and set(heads) & set(_AUDIO) and set(heads) & set(_TEXT):
            columns = heads
            continue
        if len(cells) < 2:
            raise BadRequest(f"{where}: there is no tab between a file and its text")
        yield _named(dict(zip(columns, cells, strict=False)), where)


def _json_lines(path: Path) -> Iterator[_Row]:
    for where, line in _lines(path):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise BadRequest(f"{where}: this line is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise BadRequest(f"{where}: this line is no JSON object")
        yield _named(found, where)


def _named(fields: Mapping[str, Any], where: str) -> _Row:
    audio, text = _field(fields, _AUDIO), _field(fields, _TEXT)
    for value, names, what in ((audio, _AUDIO, "audio"), (text, _TEXT, "text")):
        if not isinstance(value, str) or (what == "audio" and not value.strip()):
            raise BadRequest(f"{where}: there is no {what}", mend=f"It is called {names[0]}.")
    return where, audio.strip(), text, str(_field(fields, _LANGUAGE) or "")


def _field(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _kaldi(path: Path) -> Iterator[_Row]:
    files: dict[str, str] = {}
    for where, line in _lines(path.with_name("wav.scp")):
        name, _, file = line.strip().partition(" ")
        if not file.strip():
            raise BadRequest(f"{where}: there is no file behind {name!r}")
        if file.rstrip().endswith("|"):
            raise BadRequest(
                f"{where}: this is a command, not a file", mend="Write what it makes into files."
            )
        files[name] = file.strip()
    for where, line in _lines(path):
        name, _, text = line.strip().partition(" ")
        if name not in files:
            raise BadRequest(f"{where}: {name!r} is not in {path.with_name('wav.scp')}")
        yield where, files.pop(name), text, ""
    if files:
        raise BadRequest(f"{path}: there is no text of {next(iter(files))!r}")


def _language(told: str, text: str, where: str) -> str:
    if not text.strip():
        return ""
    if not told.strip():
        return language_of(text)
    first = told.strip().lower().replace("_", "-").partition("-")[0]
    if first not in _LANGUAGES:
        raise BadRequest(f"{where}: {told!r} is neither Chinese (zh) nor English (en)")
    return _LANGUAGES[first]


def _blocks(audio: AudioFile) -> Iterator[Samples]:
    """All of its samples, as they are decoded."""
    while len(samples := audio.read()):
        yield samples
