# pyright: strict
"""What must not be said: a check that every text passes before it is spoken.

A check is any function that takes a text and raises `BlockedText`. Texts that come in pieces are
checked by the clause, so that a word is seen however it was cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from tts_engine.errors import BadRequest, ConfigError

#: takes a text, and raises BlockedText
TextCheck = Callable[[str], None]

_LATIN = re.compile(r"[0-9a-z]+")


class BlockedText(BadRequest):
    """A text that must not be said. Its message does not repeat why."""

    code = "blocked_text"

    def __init__(self) -> None:
        super().__init__("The text has words that this service does not say")


def allow_all(_: str) -> None:
    """The check of a service that says everything."""


class BlockedWords:
    """Refuses texts with words of a list, in any case and width. Words of Latin letters are whole
    words; others are found wherever they stand, spaces and marks in between or not.

    Parameters:
        words: in no order; those without letters and digits are left out.
    """

    def __init__(self, words: Iterable[str]) -> None:
        folded = [_fold(word) for word in words]
        self._latin = tuple(
            _latin(word) for word in folded if word.isascii() and _latin(word) != " "
        )
        self._others = tuple(
            plain for word in folded if not word.isascii() and (plain := _plain(word))
        )

    @classmethod
    def read(cls, path: Path) -> BlockedWords:
        """Reads a list: a word a line, UTF-8; empty lines and those with # say nothing.

        Raises:
            ConfigError: the file cannot be read.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(
                f"Cannot read the blocked words in {path}: {why}",
                mend="Set speech.blocked_words to a file with a word a line",
            ) from error
        return cls(line for line in lines if not line.startswith("#"))

    def __call__(self, text: str) -> None:
        """Raises BlockedText if the text has one."""
        folded = _fold(text)
        latin, plain = _latin(folded), _plain(folded)
        if any(word in latin for word in self._latin) or any(
            word in plain for word in self._others
        ):
            raise BlockedText


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _latin(folded: str) -> str:
    """Its Latin words, a space before and after each."""
    return f" {' '.join(_LATIN.findall(folded))} ".replace("  ", " ")


def _plain(folded: str) -> str:
    return "".join(filter(str.isalnum, folded))
