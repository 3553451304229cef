# pyright: strict
"""Pauses inside an utterance: CosyVoice 3's language model can fall silent for seconds, and then
go on. What it says in silence beyond a fifth of a second is not spoken. Pure.
"""

from __future__ import annotations

from collections.abc import Set

from tts_engine.cosyvoice.kind import Kind

#: speech tokens of each kind that are silence or breath, and nothing else
SILENT: dict[Kind, frozenset[int]] = {
    "cosyvoice2": frozenset(),
    "cosyvoice3": frozenset({1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323}),
}
#: most of them in a row that are spoken
LONGEST = 5


class Pauses:
    """The pauses of one utterance.

    Parameters:
        silent: speech tokens that are silence.
    """

    def __init__(self, silent: Set[int]) -> None:
        self._silent = silent
        self._row = 0

    def spoken(self, token: int) -> bool:
        """Whether the next token is to be spoken: it is sound, or its pause is not too long."""
        self._row = self._row + 1 if token in self._silent else 0
        return self._row <= LONGEST
