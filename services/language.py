"""The languages that duplexd speaks, told apart by their script."""

from __future__ import annotations

import re

_HANZI = re.compile(r"[\u3400-\u9fff]")


def language_of(text: str) -> str:
    """Language by script: "zh" with any Hanzi, "" without any letter, else "en"."""
    if _HANZI.search(text):
        return "zh"
    return "en" if any(char.isalnum() for char in text) else ""
