"""When a silence began: the detector tells it late.

Silero's probability trails off for 40 to 80 ms after the last sound. Windows that are far fainter
than the turn's voice, right before those that the detector calls silent, belong to the silence. In
noise none is that faint; then the detector's word is all there is.
"""
# pyright: strict

from __future__ import annotations

from dataclasses import dataclass

from pipeline.turns.loudness import FAINTEST_DB
from pipeline.turns.settings import WINDOW_MS

#: a window is faint so far below the loudest voice of the turn, decibels: a weak last syllable or
#: an "s" is closer
FAINT_DB = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading:
    """How a turn's sound fades away.

    Parameters:
        voice_db: the turn's loudest voiced window, decibels of full scale.
        ms: how long its last windows have been faint.
    """

    voice_db: float = FAINTEST_DB
    ms: float = 0.0


def faded(fading: Fading, level_db: float, *, voiced: bool) -> Fading:
    """What one more window tells."""
    if level_db < fading.voice_db - FAINT_DB:
        return Fading(voice_db=fading.voice_db, ms=fading.ms + WINDOW_MS)
    if voiced and level_db > fading.voice_db:
        return Fading(voice_db=level_db)
    return Fading(voice_db=fading.voice_db) if fading.ms else fading
