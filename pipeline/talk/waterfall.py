"""The latency of a turn as a waterfall on the terminal: a bar a part, on one time axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

#: what each part is to somebody who reads it; short, so that a line fits 80 columns
MEANING = {
    "frame_in": "to the daemon",
    "vad_lag": "detector",
    "endpoint_wait": "silence ends the turn",
    "asr_final": "recognition",
    "llm_first_token": "language model",
    "first_clause": "first clause is whole",
    "tts_first_chunk": "voice, first audio",
    "gate_wait": "gate and pacer",
    "leading_silence": "silence before sound",
    "frame_out": "to the loudspeaker",
}
#: who did the work that a turn reports: it lay within the parts, beside them, or before them
WORK = {"asr_decode": "recogniser"}
#: stands for frame_in and frame_out where the daemon's clock is another machine's
_WAY = "both ways"
_NAME = max(map(len, MEANING))
_TEXT = max(map(len, MEANING.values()))
#: digits of a time that takes no more room
_DIGITS = 4
#: narrower bars say nothing: the meaning is left out before
_LEAST_BAR = 16
#: shorter parts have no bar
_VISIBLE_MS = 0.5


def waterfall(turn: dict[str, Any], *, width: int = 80) -> Text:
    """Draws a turn as `pipeline.talk.turn.measure` gives it; there must be an answer.

    Args:
        turn: with `v2v_ms`, `parts_ms`, `work_ms` and `underruns`.
        width: columns of the terminal.
    """
    total: float = turn["v2v_ms"]
    parts = [*_parts(turn, total)]
    digits = 1 + max(_DIGITS, *(len(f"{ms:.0f}") for ms in (total, *(ms for _, ms in parts))))
    rest = width - _NAME - digits - len(" ms") - 2
    shows_meaning = rest >= _LEAST_BAR + _TEXT + 1
    bar = max(rest - (_TEXT + 1 if shows_meaning else 0), 1)
    lines: list[Text] = []
    at = 0.0
    for part, length in parts:
        line = Text.assemble((f"{part:<{_NAME}}", "bold"), f"{length:>{digits}.0f} ms ")
        line.append(f" {_bar(at / total, (at + length) / total, bar, length)}", "cyan")
        if shows_meaning:
            line.append(f" {MEANING.get(part, '')}", "dim")
        line.rstrip()
        lines.append(line)
        at += length
    lines.append(Text(f"{'v2v':<{_NAME}}{total:>{digits}.0f} ms", "bold green"))
    if turn["work_ms"]:
        times = turn["work_ms"].items()
        work = (f"{WORK.get(name, name)} busy for {ms:.0f} ms" for name, ms in times)
        lines.append(Text(f"{', '.join(work)} in total (not added)", "dim"))
    if count := turn["underruns"]:
        often = "once" if count == 1 else f"{count} times"
        lines.append(Text(f"underruns {count} (the voice was late {often})", "yellow"))
    return Text("\n").join(lines)


def _parts(turn: dict[str, Any], total: float) -> Iterator[tuple[str, float]]:
    parts: dict[str, float] = turn["parts_ms"]
    yield from parts.items()
    if parts and "frame_in" not in parts:
        yield _WAY, max(0.0, total - sum(parts.values()))


def _bar(start: float, end: float, width: int, length_ms: float) -> str:
    """A bar from `start` to `end`, shares of the whole, drawn to half a column."""
    if length_ms < _VISIBLE_MS:
        return " " * width
    halves = 2 * width
    first = min(round(start * halves), halves - 1)
    last = min(max(round(end * halves), first + 1), halves)
    filled = [first <= half < last for half in range(halves)]
    cells = {(True, True): "█", (True, False): "▌", (False, True): "▐", (False, False): " "}
    return "".join(cells[pair] for pair in zip(filled[::2], filled[1::2], strict=True))
