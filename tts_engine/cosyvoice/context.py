# pyright: strict
"""What a clause carries on from: the one before it in its text, as a part of the voice's prompt.

The language model takes a prompt's text and speech, then a text, and goes on speaking. The clause
before is appended to both, so tone and pace go on as well. It is carried whole or not at all: where
a text has more than its speech, the model says what is missing.

In an instruction there is no speech to go on from, and so no clause before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Context = Literal["none", "clause"]

#: most speech tokens that are carried, 6 s
MOST = 150


@dataclass(frozen=True, slots=True)
class Before:
    """A clause that was said.

    Parameters:
        text: of it.
        tokens: its speech; none: there is nothing to carry on from.
    """

    text: str = ""
    tokens: Sequence[int] = ()


NOTHING = Before()


def worth_carrying(tokens: Sequence[int], *, cut: bool) -> bool:
    """A clause can be carried on from.

    Args:
        tokens: its speech.
        cut: it did not end by itself: nobody knows what was said.
    """
    return 0 < len(tokens) <= MOST and not cut
