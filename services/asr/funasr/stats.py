# pyright: strict
"""What the recogniser tells `/metrics` beside its queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tts_engine.engine import EngineStats


def _nobody(_: float) -> None:
    """Nobody watches."""


@dataclass(slots=True)
class RecognitionStats(EngineStats):
    """Updated in place by the engine, on the loop.

    Parameters:
        due: streams that could go on and had no part in the last step.
        stride_s: audio that a stream gathers before it goes on, seconds: grows at capacity.
        on_partial_wait: told each time that a stream goes on how long it had waited, seconds.
    """

    due: int = 0
    stride_s: float = 0.0
    on_partial_wait: Callable[[float], None] = _nobody
