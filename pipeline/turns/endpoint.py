"""How long a silence ends a turn."""
# pyright: strict

from __future__ import annotations

from pipeline.turns.completeness import completeness
from pipeline.turns.levels import LIKELY
from pipeline.turns.settings import TurnSettings

#: how far the acoustic opinion can move the wait, as a share of the range from floor to ceiling
_AGAINST_TEXT = 0.1
_IN_DOUBT = 0.3


def wait_ms(settings: TurnSettings, *, text: str, probability: float | None) -> float:
    """Silence after which the turn is over.

    With c the completeness of the text, and p the acoustic probability that the user is done:

        lack  = max(0, 0.9 - c) / 0.9                      what the text lacks: 0 to 1
        shift = (1 - 2p) (0.1 + 0.2 (1 - |2 lack - 1|))    0 without an opinion
        wait  = floor + (ceiling - floor) clamp(lack + shift, 0, 1)

    - An ordinary utterance (c = 0.9) ends at the floor with or without a full stop: every turn pays
      this wait, so only signs of going on may lengthen it.
    - Only the ceiling is certain: text that cannot end gets all of it, and no more, for a user may
      just have given up.
    - The model of sound is weak where the text is short, and calls complete commands unfinished. So
      where the text is clear it moves the wait by a tenth of the range; where the text is in doubt,
      by three tenths. The wait falls with c and with p everywhere.

    Args:
        settings: floor_ms and ceiling_ms; a client's floor above the ceiling is obeyed.
        text: the turn so far.
        probability: of an acoustic model; None: it has no opinion.

    Returns:
        floor_ms to ceiling_ms; floor_ms for a text without words.
    """
    if not any(c.isalnum() for c in text):
        return settings.floor_ms
    lack = max(0.0, LIKELY - completeness(text)) / LIKELY
    if probability is not None:
        doubt = 1.0 - abs(2.0 * lack - 1.0)
        shift = _AGAINST_TEXT + (_IN_DOUBT - _AGAINST_TEXT) * doubt
        lack += shift * (1.0 - 2.0 * min(1.0, max(0.0, probability)))
    span = max(0.0, settings.ceiling_ms - settings.floor_ms)
    return settings.floor_ms + span * min(1.0, max(0.0, lack))
