"""The latency of a turn as a waterfall on the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

_WIDTH = 40
#: what each part is to somebody who reads it
MEANING = {
    "frame_in": "last voiced sample to the daemon",
    "vad_lag": "detector sees it",
    "endpoint_wait": "silence that ends the turn",
    "asr_final": "recognition",
    "llm_first_token": "language model, first token",
    "first_clause": "first clause complete",
    "tts_first_chunk": "voice, first audio",
    "gate_wait": "gate and pacer",
    "leading_silence": "silence before the first sound",
    "frame_out": "to the loudspeaker",
}


def waterfall(turn: dict[str, Any]) -> Table:
    """Draws the parts of a turn as `pipeline.talk.turn.measure` gives it."""
    total = turn["v2v_ms"] or 0.0
    table = Table(box=None, padding=(0, 1), show_header=False)
    at = 0.0
    for part, length in turn["parts_ms"].items():
        start = round(at / total * _WIDTH)
        at += length
        bar = " " * start + "█" * max(round(at / total * _WIDTH) - start, 1 if length >= 1 else 0)
        table.add_row(
            Text(part, style="bold"),
            Text(f"{length:7.0f} ms", justify="right"),
            Text(bar.ljust(_WIDTH), style="cyan"),
            Text(MEANING.get(part, ""), style="dim"),
        )
    table.add_row(Text("v2v", style="bold green"), Text(f"{total:7.0f} ms", style="bold green"))
    return table
