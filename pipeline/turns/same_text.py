"""Whether two texts of the recogniser say the same, so that the answer to one answers the other."""
# pyright: strict

from __future__ import annotations

from pipeline.turns.plain import plain


def same_text(a: str, b: str) -> bool:
    """Equal apart from case, punctuation, spaces, and full-width or half-width writing.

    A recogniser that is asked twice about the same words writes another comma or mark, as the
    silence after them grows; a language model would answer the same.
    """
    return plain(a).replace(" ", "") == plain(b).replace(" ", "")
