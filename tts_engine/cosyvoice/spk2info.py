"""Voices from and to upstream's spk2info.pt, the file in which its `save_spkinfo` keeps them.

A dictionary of entries by name, each of tensors: `prompt_text` (token ids [1, n] of what the
recording says), `llm_prompt_speech_token` and `flow_prompt_speech_token` [1, P],
`prompt_speech_feat` [1, 2 P, 80], `llm_embedding` and `flow_embedding` [1, 192], and the lengths as
`..._len`. The recording itself is not in it, and neither is who agreed to its use.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from tts_engine.cosyvoice.architecture import read_architecture
from tts_engine.cosyvoice.frontend import EMBEDDING
from tts_engine.cosyvoice.kind import BACKBONE, Kind, kind_of
from tts_engine.cosyvoice.loader import build_tokenizer
from tts_engine.cosyvoice.marks import audible
from tts_engine.cosyvoice.modules import contained, import_modules
from tts_engine.cosyvoice.spectrum import MEL_BANDS
from tts_engine.cosyvoice.style import END_OF_PROMPT, word
from tts_engine.cosyvoice.voice import (
    MEL_RATIO,
    Voice,
    VoiceFeatures,
    VoiceInfo,
    is_name,
    language_of,
    now,
    trimmed,
)
from tts_engine.errors import BadRequest, EngineFailed
from tts_engine.files import replace_file

#: speech tokens per second
_TOKEN_RATE = 25


class Tokenizer(Protocol):
    """The model's tokenizer of texts."""

    def encode(self, text: str, **options: Any) -> list[int]:
        """A text as ids."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """Ids as a text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a file held.

    Parameters:
        voices: those that can be used.
        refused: why the others cannot, by name.
    """

    voices: tuple[Voice, ...]
    refused: dict[str, str]


def load_tokenizer(model_dir: Path, *, home: Path | None = None) -> Tokenizer:
    """The text tokenizer of a model, without the model.

    Args:
        model_dir: of the model.
        home: a git checkout of CosyVoice; None takes the installed modules.

    Raises:
        ModelMissing, ModelCorrupt, EngineFailed: see `loader.load`.
    """
    file = model_dir / f"{kind_of(model_dir)}.yaml"
    import_modules(home)
    with contained():
        architecture = read_architecture(file, qwen_pretrain_path=str(model_dir / BACKBONE))
        return cast("Tokenizer", build_tokenizer(architecture))


def read_spk2info(path: Path, *, kind: Kind, tokenizer: Tokenizer) -> Imported:
    """Reads voices of upstream's.

    Args:
        path: a spk2info.pt; nothing in it is executed.
        kind: of the model that measured them: the file does not tell.
        tokenizer: of that model.

    Raises:
        BadRequest: it is not such a file.
    """
    try:
        entries = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
        raise _no_such_file(path, str(error).splitlines()[0] if str(error) else "") from error
    if not isinstance(entries, dict):
        raise _no_such_file(path, f"it holds a {type(entries).__name__}")
    voices: list[Voice] = []
    refused: dict[str, str] = {}
    for name, entry in entries.items():
        try:
            voices.append(_voice(str(name), entry, kind, tokenizer))
        except _Unusable as why:
            refused[str(name)] = str(why)
    return Imported(voices=tuple(voices), refused=refused)


def write_spk2info(path: Path, voices: Iterable[Voice], *, tokenizer: Tokenizer) -> None:
    """Writes voices for upstream; replaces what is there.

    Args:
        path: of the new file.
        voices: of one kind of model.
        tokenizer: of that model.

    Raises:
        EngineFailed: it cannot be written.
    """
    entries = {voice.info.name: _entry(voice, tokenizer) for voice in voices}
    content = io.BytesIO()
    torch.save(entries, content)
    try:
        replace_file(path, content.getvalue(), mode=0o600)
    except OSError as error:
        raise EngineFailed(f"{path} cannot be written: {error.strerror}") from error


class _Unusable(Exception):
    """An entry that makes no voice; says why."""


def _voice(name: str, entry: Any, kind: Kind, tokenizer: Tokenizer) -> Voice:
    if not is_name(name):
        raise _Unusable("its name has other than letters, digits, Hanzi, - and _, or is too long")
    text = _text(_tensor(entry, "prompt_text").ravel().tolist(), tokenizer)
    if not audible(text):
        raise _Unusable("it has no text")
    tokens = _tensor(entry, "llm_prompt_speech_token").ravel().to(torch.int32).numpy()
    flow_tokens = _tensor(entry, "flow_prompt_speech_token").ravel().to(torch.int32).numpy()
    frames = _tensor(entry, "prompt_speech_feat").float().squeeze(0).numpy()
    embedding = _tensor(entry, "flow_embedding").float().ravel().numpy()
    if frames.ndim != 2 or frames.shape[1] != MEL_BANDS or embedding.shape != (EMBEDDING,):
        raise _Unusable("its tensors are not of CosyVoice 2 or 3")
    if len(flow_tokens) < _TOKEN_RATE or len(frames) < MEL_RATIO * _TOKEN_RATE:
        raise _Unusable("it holds less than a second of speech")
    flow = trimmed(flow_tokens, frames, embedding)
    features = VoiceFeatures(
        llm_tokens=np.ascontiguousarray(tokens),
        flow_tokens=flow.flow_tokens,
        mel=flow.mel,
        embedding=flow.embedding,
    )
    info = VoiceInfo(
        name=name,
        kind=kind,
        text=text,
        language=language_of(text),
        created=now(),
        duration_s=round(len(tokens) / _TOKEN_RATE, 2),
    )
    return Voice(info=info, features=features)


def _tensor(entry: Any, key: str) -> Tensor:
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, Tensor):
        raise _Unusable(f"it has no {key}: it is not of a recording")
    return value


def _text(ids: list[int], tokenizer: Tokenizer) -> str:
    """What the recording says, without a system prompt before it."""
    [mark] = tokenizer.encode(END_OF_PROMPT)
    if mark in ids:
        ids = ids[len(ids) - ids[::-1].index(mark) :]
    return tokenizer.decode(ids).strip()


def _entry(voice: Voice, tokenizer: Tokenizer) -> dict[str, Tensor]:
    info, features = voice.info, voice.features
    said = word("", style="", voice_text=info.text, kind=info.kind)
    embedding = torch.from_numpy(features.embedding)[None]
    llm_tokens = torch.from_numpy(features.llm_tokens)[None]
    flow_tokens = torch.from_numpy(features.flow_tokens)[None]
    mel = torch.from_numpy(features.mel)[None]
    ids = torch.tensor([list(tokenizer.encode(said.prompt_text))], dtype=torch.int32)
    return {
        "prompt_text": ids,
        "prompt_text_len": _length(ids),
        "llm_prompt_speech_token": llm_tokens,
        "llm_prompt_speech_token_len": _length(llm_tokens),
        "flow_prompt_speech_token": flow_tokens,
        "flow_prompt_speech_token_len": _length(flow_tokens),
        "prompt_speech_feat": mel,
        "prompt_speech_feat_len": _length(mel),
        "llm_embedding": embedding,
        "flow_embedding": embedding,
    }


def _length(tensor: Tensor) -> Tensor:
    return torch.tensor([tensor.shape[1]], dtype=torch.int32)


def _no_such_file(path: Path, why: str) -> BadRequest:
    return BadRequest(
        f"{path} is not a spk2info.pt{f': {why}' if why else ''}",
        mend="Give the file that CosyVoice's save_spkinfo wrote",
    )
