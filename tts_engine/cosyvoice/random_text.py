"""A text tokenizer of our own for models with random weights: bytes, and one token a Han character.

Its files have the names and formats of Qwen's, so the real tokenizer class reads them.
"""

from __future__ import annotations

import json
from pathlib import Path

#: ids at which Qwen's own tokenizer puts its first special token; CosyVoice's follow it
QWEN_TOKENS = 151_643

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def write_tokenizer(directory: Path, *, tokens: int | None = None) -> int:
    """Writes vocab.json, merges.txt and tokenizer_config.json.

    Args:
        directory: where; must exist.
        tokens: fill the vocabulary up to so many tokens with ones that no text has; None does not.

    Returns:
        Length of the vocabulary, without special tokens: the id of the first of these.
    """
    vocabulary, merges = _pieces()
    while tokens is not None and len(vocabulary) < tokens:
        vocabulary[f"unused {len(vocabulary)}"] = len(vocabulary)
    _write_json(directory / "vocab.json", vocabulary)
    lines = "\n".join(("#version: 0.2", *merges))
    (directory / "merges.txt").write_text(f"{lines}\n", encoding="utf-8")
    flags = {"special": True} | dict.fromkeys(
        ("lstrip", "rstrip", "normalized", "single_word"), False
    )
    added = {
        str(len(vocabulary) + place): {"content": content, **flags}
        for place, content in enumerate(_SPECIAL)
    }
    _write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "add_prefix_space": False,
            "added_tokens_decoder": added,
            "additional_special_tokens": list(_SPECIAL[1:]),
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": _SPECIAL[0],
            "errors": "replace",
            "model_max_length": 32768,
            "pad_token": _SPECIAL[0],
            "split_special_tokens": False,
            "unk_token": None,
        },
    )
    return len(vocabulary)


def _pieces() -> tuple[dict[str, int], list[str]]:
    """Every byte, and the 3755 commonest Han characters: tokens by piece, and how they merge."""
    signs = _signs()
    pieces = dict.fromkeys(signs)
    merges: dict[str, None] = {}
    for character in _common_han():
        first, second, third = (signs[byte] for byte in character.encode())
        for left, right in ((first, second), (first + second, third)):
            pieces[left + right] = None
            merges[f"{left} {right}"] = None
    return {piece: place for place, piece in enumerate(pieces)}, list(merges)


def _common_han() -> list[str]:
    """The first level of GB 2312, which holds the characters in everyday use."""
    rows = (bytes((row, column)) for row in range(0xB0, 0xD8) for column in range(0xA1, 0xFF))
    characters = (pair.decode("gb2312", errors="ignore") for pair in rows)
    return [character for character in characters if character]


def _signs() -> list[str]:
    """The printable sign that stands for each byte in a byte-level vocabulary."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(0x100)]


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")
