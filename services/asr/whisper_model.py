"""Whisper on CTranslate2: the three steps of decoding, and nothing about when to take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from services.asr.mel import Mel
from tts_engine.errors import EngineFailed, ModelMissing

#: what a model directory must hold
FILES = ("model.bin", "config.json", "tokenizer.json", "vocabulary.txt")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The best text of a window.

    Parameters:
        text: as the model wrote it.
        log_prob: mean log probability per token.
    """

    text: str
    log_prob: float


class Decoder(Protocol):
    """The steps of decoding one window. Called in the worker's thread."""

    def encode(self, mel: Mel) -> Any:
        """Encodes a (80, frames) spectrogram; the result goes to the other two."""
        ...

    def detect(self, encoded: Any, languages: Sequence[str]) -> str:
        """The language spoken: the likeliest of these codes, like "zh"."""
        ...

    def generate(self, encoded: Any, *, language: str, beam: int, max_tokens: int) -> Hypothesis:
        """The text of an encoded window, of at most `max_tokens` tokens."""
        ...

    def close(self) -> None:
        """Releases the model."""
        ...


class CTranslate2Decoder:
    """A CTranslate2 conversion of a multilingual Whisper, on the CPU in int8.

    Blocks for about a second while it loads.

    Parameters:
        model_dir: holds FILES.
        threads: OpenMP threads of one decoding.
        languages: codes that `detect` and `generate` may be given.

    Raises:
        ModelMissing, EngineFailed
    """

    def __init__(self, *, model_dir: Path, threads: int, languages: Sequence[str]) -> None:
        missing = [name for name in FILES if not (model_dir / name).is_file()]
        if missing:
            raise ModelMissing(
                f"The recogniser's model lacks {', '.join(missing)} in {model_dir}",
                mend="Run `run.py models fetch`",
            )
        # Imported here, because it takes a second and start() runs this in a thread.
        import ctranslate2
        from tokenizers import Tokenizer

        self._to_storage = ctranslate2.StorageView.from_array
        try:
            self._model = ctranslate2.models.Whisper(
                str(model_dir),
                device="cpu",
                compute_type="int8",
                inter_threads=1,
                intra_threads=threads,
            )
            self._tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        # Both libraries raise bare RuntimeErrors and Exceptions of their own for a broken file.
        except Exception as error:
            raise EngineFailed(
                f"The recogniser's model in {model_dir} cannot be loaded: {error}",
                mend="Run `run.py models verify`",
            ) from error
        self._prompts = {code: self._prompt(code) for code in languages}

    def _prompt(self, language: str) -> list[int]:
        tokens = ("<|startoftranscript|>", f"<|{language}|>", "<|transcribe|>", "<|notimestamps|>")
        ids = [self._tokenizer.token_to_id(token) for token in tokens]
        known = [token_id for token_id in ids if token_id is not None]
        if len(known) < len(tokens):
            raise EngineFailed(
                f"The recogniser's model does not know the language {language!r}",
                mend="Choose among Whisper's language codes, as zh and en",
            )
        return known

    def encode(self, mel: Mel) -> Any:
        """See Decoder."""
        return self._model.encode(self._to_storage(mel[None]))

    def detect(self, encoded: Any, languages: Sequence[str]) -> str:
        """See Decoder."""
        if len(languages) == 1:
            return languages[0]
        ranked = [token[2:-2] for token, _ in self._model.detect_language(encoded)[0]]
        return min(languages, key=ranked.index)

    def generate(self, encoded: Any, *, language: str, beam: int, max_tokens: int) -> Hypothesis:
        """See Decoder."""
        prompt = self._prompts[language]
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=beam,
            max_length=len(prompt) + max_tokens,
            return_scores=True,
        )[0]
        text = self._tokenizer.decode(result.sequences_ids[0], skip_special_tokens=True)
        return Hypothesis(text, result.scores[0])

    def close(self) -> None:
        """See Decoder."""
        self._model.unload_model()
