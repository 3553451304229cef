"""The bars lie end to end on one time axis, and no line is wider than the terminal."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from pipeline.latency import PARTS
from pipeline.talk.waterfall import MEANING, waterfall

LENGTHS = (11.0, 20.0, 220.0, 60.0, 161.0, 35.0, 150.0, 1.0, 0.2, 1.8)


def turn(lengths: dict[str, float] | None = None, **more: Any) -> dict[str, Any]:
    parts = dict(zip(PARTS, LENGTHS, strict=True)) if lengths is None else lengths
    return {"v2v_ms": sum(LENGTHS), "parts_ms": parts, "work_ms": {}, "underruns": 0} | more


def lines(row: dict[str, Any], width: int) -> list[str]:
    return waterfall(row, width=width).plain.split("\n")


def test_every_part_has_a_meaning() -> None:
    assert tuple(MEANING) == PARTS


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_line_fits(width: int) -> None:
    drawn = lines(turn(work_ms={"asr_decode": 60.0}), width)
    assert [line.split()[0] for line in drawn] == [*PARTS, "v2v", "recogniser"]
    assert max(len(line) for line in drawn[: len(PARTS)]) <= width
    console = Console(width=width)
    with console.capture() as capture:
        console.print(waterfall(turn(), width=width))
    assert len(capture.get().splitlines()) == len(PARTS) + 1
    assert any("language model" in line for line in drawn) == (width >= 80)


def test_bars_follow_each_other_in_proportion() -> None:
    drawn = lines(turn(), 80)[: len(PARTS)]
    bars = [line[25:58] for line in drawn]
    spans: list[tuple[float, float]] = []
    for bar in bars:
        if bar.strip():
            start = len(bar) - len(bar.lstrip()) + (0.5 if "▐" in bar else 0)
            end = len(bar.rstrip()) - (0.5 if "▌" in bar else 0)
            spans.append((start, end))
    assert len(spans) == len(PARTS) - 1  # 0.2 ms cannot be seen
    for (_, end), (start, _) in pairwise(spans):
        assert abs(start - end) <= 0.5
    assert (spans[0][0], spans[-1][1]) == (0, 33)
    wait = spans[PARTS.index("endpoint_wait")]
    assert wait[1] - wait[0] == pytest.approx(33 * 220 / sum(LENGTHS), abs=1)


def test_the_way_to_another_machine_is_one_bar() -> None:
    inner = dict(list(zip(PARTS, LENGTHS, strict=True))[1:-1])
    drawn = lines(turn(inner), 80)
    assert drawn[-2].split()[:3] == ["both", "ways", "13"]
    assert len(drawn) == len(PARTS)


def test_what_is_not_a_part_explains_itself() -> None:
    last = lines(turn(work_ms={"asr_decode": 60.0}, underruns=1), 80)[-2:]
    assert last == [
        "recogniser busy for 60 ms in total (not added)",
        "underruns 1 (the voice was late once)",
    ]
    assert lines(turn(underruns=2), 80)[-1] == "underruns 2 (the voice was late 2 times)"


@pytest.mark.parametrize("tts", [9_000.0, 12_260.0, 122_600.0])
@pytest.mark.parametrize("width", [40, 80])
def test_long_times_keep_their_column(tts: float, width: int) -> None:
    lengths = dict(zip(PARTS, LENGTHS, strict=True)) | {"tts_first_chunk": tts}
    row = turn(lengths, v2v_ms=sum(lengths.values()))
    drawn = lines(row, width)
    assert drawn[PARTS.index("tts_first_chunk")].split()[:2] == ["tts_first_chunk", f"{tts:.0f}"]
    assert {line.index(" ms") for line in drawn} == {drawn[-1].index(" ms")}
    assert max(map(len, drawn)) <= width


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_ends_in_a_blank(width: int) -> None:
    inner = dict(list(zip(PARTS, LENGTHS, strict=True))[1:-1])
    for row in (turn(), turn(inner)):
        assert [line for line in lines(row, width) if line != line.rstrip()] == []


def test_v2v_alone() -> None:
    assert lines(turn({}), 80) == ["v2v              660 ms"]
