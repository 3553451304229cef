"""The registered voices on disk: what was measured of a recording, once, and what it is.

    NAME.json           who and what, when, and the hash of the other file
    NAME.safetensors    speech tokens, mel and embedding

Both are written under another name and renamed, the json last: a voice is there when its json is.
Several processes may use a folder at a time. Nothing here needs torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Literal, Protocol, TypeAlias

from loguru import logger
from pydantic import BaseModel, ConfigDict, ValidationError

from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.marks import audible
from tts_engine.cosyvoice.reference import Reference, read_reference
from tts_engine.cosyvoice.voice import (
    LANGUAGES,
    MEL_RATIO,
    NAME_LENGTH,
    Language,
    Voice,
    VoiceFeatures,
    VoiceInfo,
    check_name,
    is_name,
    language_of,
    now,
)
from tts_engine.errors import BadRequest, EngineFailed, ModelCorrupt, UnknownVoice
from tts_engine.files import Stamp, locked, replace_file, stamp_of
from tts_engine.service.cloner import CONSENT_LENGTH, ONCE, TEXT_LENGTH
from tts_engine.text.stream import segment

_LOCK = ".lock"
#: of the two files of a voice
_Stamps: TypeAlias = tuple[Stamp | None, Stamp | None]
_TENSORS = ("llm_tokens", "flow_tokens", "mel", "embedding")


class _Record(BaseModel):
    """A NAME.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    voice: VoiceInfo
    features_sha256: str


#: told what is being done, in words
Progress = Callable[[str], None]


class Extractor(Protocol):
    """Measures recordings; see `frontend.Frontend`."""

    @property
    def kind(self) -> Kind:
        """Of the model that it measures for."""
        ...

    def features(self, reference: Reference, progress: Progress) -> VoiceFeatures:
        """Takes seconds."""
        ...


def _unwatched(_: str) -> None:
    """Nobody watches."""


def by_age(infos: Iterable[VoiceInfo]) -> tuple[VoiceInfo, ...]:
    """The first registered first: it is the default, and stays it when others come."""
    return tuple(sorted(infos, key=lambda info: (info.created, info.name)))


def choose_among(names: Iterable[str]) -> str:
    """What mends a wrong name: the voices that there are for everybody."""
    known = ", ".join(name for name in names if not name.startswith(ONCE))
    return f"Choose among {known}" if known else "Register one with `run.py voices register`"


class VoiceStore:
    """A folder of voices.

    Parameters:
        root: the folder; made when the first voice is.
        kind: of the model that is to speak; what was measured for another one is left out.
    """

    def __init__(self, root: Path, *, kind: Kind | None = None) -> None:
        self.root = root
        self._kind = kind
        self._warned: dict[str, _Stamps] = {}
        self._known: dict[str, tuple[_Stamps, VoiceInfo]] = {}

    def infos(self) -> tuple[VoiceInfo, ...]:
        """All voices that are whole, by name; of each other one a warning is logged, once.

        Only those are read that are not as they were at the last time.
        """
        known, self._known = self._known, {}
        for path in sorted(self.root.glob("*.json")):
            name, stamps = path.stem, self._stamps(path.stem)
            try:
                found = known.get(name)
                if found is None or found[0] != stamps:
                    found = stamps, self._load(name)[0].voice
                self._known[name] = found
            except FileNotFoundError:
                continue  # removed since it was seen
            except (OSError, _Broken) as error:
                self._warn(name, error)
        return tuple(info for _, info in self._known.values())

    def stamp(self, name: str = "") -> Stamp | None:
        """Tells whether a voice is as it was, without reading it; None: there is none.

        Args:
            name: of the voice; empty: whether the folder is as it was.
        """
        if not name:
            return stamp_of(self.root)
        return stamp_of(self._path(name, ".json")) if is_name(name) else None

    def read(self, name: str) -> Voice:
        """A voice with what the model needs of it.

        Raises:
            UnknownVoice: there is none of this name.
            ModelCorrupt: its files are damaged, or it was measured for another kind of model.
            EngineFailed: safetensors is not installed.
        """
        if not is_name(name):
            raise self._unknown(name)
        try:
            record, content = self._load(name)
            return Voice(info=record.voice, features=_unpacked(content))
        except FileNotFoundError:
            raise self._unknown(name) from None
        except (OSError, _Broken) as error:
            raise ModelCorrupt(
                f"The voice {name!r} cannot be used: {error}", mend=self._mend(name)
            ) from error

    def register(
        self,
        name: str,
        audio: bytes,
        text: str,
        *,
        extractor: Extractor,
        language: str = "",
        consent: str = "",
        progress: Progress = _unwatched,
    ) -> VoiceInfo:
        """Checks a recording, measures it and keeps the voice. Takes seconds.

        Args:
            name: letters, digits, Hanzi, - and _; at most 64.
            audio: a sound file, see `read_reference`.
            text: what it says.
            extractor: measures it.
            language: of LANGUAGES; empty finds it out.
            consent: who agreed to it, and how.
            progress: told what is being done.

        Raises:
            BadRequest: the name is taken or none, the text is empty or too long, ...
            BadAudio: the recording cannot be used.
            ModelError, EngineFailed: it cannot be measured, or the voice cannot be written.
        """
        check_name(name)
        if self._path(name, ".json").exists():
            raise _taken(name)
        spoken = _spoken(text)
        told, note = _language(language, spoken), _consent(consent)
        progress("checking the recording")
        reference = read_reference(audio)
        features = extractor.features(reference, progress)
        voice = VoiceInfo(
            name=name,
            kind=extractor.kind,
            text=spoken,
            language=told,
            created=now(),
            consent=note,
            duration_s=reference.duration_s,
            sha256=reference.sha256,
        )
        self.add(voice, features)
        return voice

    def add(self, info: VoiceInfo, features: VoiceFeatures) -> None:
        """Keeps a voice that was measured.

        Raises:
            BadRequest: the name is taken or none.
            EngineFailed: it cannot be written, or safetensors is not installed.
        """
        check_name(info.name)
        content = _packed(features)
        record = _Record(voice=info, features_sha256=hashlib.sha256(content).hexdigest())
        with self._changing():
            if self._path(info.name, ".json").exists():
                raise _taken(info.name)
            replace_file(self._path(info.name, ".safetensors"), content, mode=0o600)
            written = record.model_dump_json(indent=2).encode()
            replace_file(self._path(info.name, ".json"), written, mode=0o600)

    def remove(self, name: str) -> None:
        """Forgets a voice, damaged or not.

        Raises:
            UnknownVoice: there is none of this name.
            EngineFailed: its files cannot be removed.
        """
        paths = [self._path(name, suffix) for suffix in (".json", ".safetensors")]
        if not is_name(name) or not any(path.exists() for path in paths):
            raise self._unknown(name)
        with self._changing():
            for path in paths:
                path.unlink(missing_ok=True)

    def _load(self, name: str) -> tuple[_Record, bytes]:
        """A whole voice: its record, and the content of its other file.

        Raises:
            FileNotFoundError: there is none.
            OSError, _Broken: it is damaged.
        """
        path = self._path(name, ".json")
        while True:
            written = path.read_bytes()
            try:
                return self._whole(name, written)
            except _Broken:
                if path.read_bytes() == written:
                    raise
                # The pair was replaced between the reading of the two: look again.

    def _whole(self, name: str, written: bytes) -> tuple[_Record, bytes]:
        try:
            record = _Record.model_validate_json(written)
        except ValidationError:
            raise _Broken("its .json is not one of a voice") from None
        voice = record.voice
        if voice.name != name:
            raise _Broken(f"its .json is of the voice {voice.name[:NAME_LENGTH]!r}")
        if self._kind not in (None, voice.kind):
            raise _Broken(f"it was measured for {voice.kind}, and the model is {self._kind}")
        try:
            content = self._path(name, ".safetensors").read_bytes()
        except FileNotFoundError:
            raise _Broken("its .safetensors is missing") from None
        if hashlib.sha256(content).hexdigest() != record.features_sha256:
            raise _Broken("its .safetensors is damaged")
        return record, content

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with locked(self.root / _LOCK):
                yield
        except OSError as error:
            raise EngineFailed(
                f"The voices in {self.root} cannot be changed: {error.strerror}",
                mend="Give this user the folder, or free space on its disk",
            ) from error

    def _warn(self, name: str, error: Exception) -> None:
        stamps = self._stamps(name)
        if self._warned.get(name) != stamps:
            self._warned[name] = stamps
            logger.warning("The voice {!r} is left out: {}. {}", name, error, self._mend(name))

    def _stamps(self, name: str) -> _Stamps:
        return stamp_of(self._path(name, ".json")), stamp_of(self._path(name, ".safetensors"))

    def _mend(self, name: str) -> str:
        if not is_name(name):
            return f"Take {self._path(name, '.json')} out of the folder"
        return f"Remove it with `run.py voices remove {name}` and register it again"

    def _unknown(self, name: str) -> UnknownVoice:
        # By the files' names alone: whoever asked for it waits.
        names = sorted(path.stem for path in self.root.glob("*.json") if is_name(path.stem))
        return UnknownVoice(f"There is no voice {name!r}", mend=choose_among(names))

    def _path(self, name: str, suffix: str) -> Path:
        return self.root / f"{name}{suffix}"


class _Broken(Exception):
    """A pair of files that do not make a voice; says why."""


def _language(given: str, text: str) -> Language:
    if not given:
        return language_of(text)
    for language in LANGUAGES:
        if given == language:
            return language
    raise BadRequest(
        f"There is no language {given[:20]!r}", mend=f"Choose among {', '.join(LANGUAGES)}"
    )


def _spoken(text: str) -> str:
    """A recording's text as it is spoken: what the model reads must be what it hears."""
    if len(text) > TEXT_LENGTH:
        raise BadRequest(
            f"The recording's text is {len(text)} characters long, and {TEXT_LENGTH} are the most",
            mend="Give exactly the words that are spoken in the recording",
        )
    spoken = "".join(clause.text for clause in segment(text)).strip()
    if not audible(spoken):
        raise BadRequest(
            "The recording's text is missing",
            mend="Give exactly the words that are spoken in the recording",
        )
    return spoken


def _consent(note: str) -> str:
    if len(note) > CONSENT_LENGTH:
        raise BadRequest(f"The note on consent is longer than {CONSENT_LENGTH} characters")
    return note.strip()


def _taken(name: str) -> BadRequest:
    return BadRequest(
        f"There is a voice {name!r} already",
        mend=f"Remove it first with `run.py voices remove {name}`, or take another name",
    )


def _packed(features: VoiceFeatures) -> bytes:
    return _safetensors().save({name: getattr(features, name) for name in _TENSORS})


def _unpacked(content: bytes) -> VoiceFeatures:
    try:
        tensors = _safetensors().load(content)
        features = VoiceFeatures(**{name: tensors[name] for name in _TENSORS})
    except EngineFailed:
        raise
    except Exception as error:  # safetensors' failures share no narrower class
        raise _Broken(f"its .safetensors is not one of a voice ({error})") from error
    if len(features.mel) != MEL_RATIO * len(features.flow_tokens):
        raise _Broken("its mel and its speech tokens are not of one length")
    return features


def _safetensors() -> ModuleType:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise EngineFailed(
            "Voices are kept by safetensors, which is not installed", mend="Run `make engines`"
        ) from error
    return safetensors.numpy
