"""What is said in a talk: sound files, and texts in the embedded voice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tts_engine.errors import BadRequest, UnknownVoice
from tts_engine.text.stream import segment

if TYPE_CHECKING:
    from tts_engine.engine import SpeechEngine


def read_lines(path: Path) -> list[str]:
    """Reads texts, one a line; empty lines and lines that start with # are left out.

    Raises:
        BadRequest: the file cannot be read, or holds none.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(
            f"Cannot read {path}: {error}", mend="Give a text file in UTF-8, one utterance a line"
        ) from error
    texts = [line for line in lines if line and not line.startswith("#")]
    if not texts:
        raise BadRequest(f"{path} holds no utterance", mend="Write one a line")
    return texts


async def speak(
    engine: SpeechEngine, texts: Sequence[str], *, voice: str
) -> list[NDArray[np.int16]]:
    """Starts a voice, says texts and closes it.

    Returns:
        Mono int16 at the engine's rate, one array a text.

    Raises:
        BadRequest: the engine does not know the voice, or a text has no words.
        EngineFailed: synthesis failed.
    """
    try:
        await engine.start()
        return [await _say(engine, text, voice) for text in texts]
    finally:
        await engine.close()


async def _say(engine: SpeechEngine, text: str, voice: str) -> NDArray[np.int16]:
    spoken = "".join(clause.text for clause in segment(text))
    if not spoken:
        raise BadRequest(f"There is nothing to say in {text!r}")
    try:
        pcm = [chunk.pcm async for chunk in engine.synthesize(spoken, voice=voice)]
    except UnknownVoice as error:
        raise BadRequest(error.message, mend=error.mend) from error
    return np.frombuffer(b"".join(pcm), np.int16)
