# pyright: strict
"""Plots as SVG text: no library, no script, nothing to load. Pure.

Colours are classes, which the page of `pipeline.bench.report` defines for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

#: colours that the page has, c0 and on
COLOURS = 10
_WIDTH, _HEIGHT = 720, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 16, 48
_TICKS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One dot of a scatter plot.

    Parameters:
        x, y: where it is.
        label: beside it; may be empty.
    """

    x: float
    y: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class _Axis:
    """One direction of a plot, from values to pixels."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def nice_ticks(low: float, high: float, count: int = _TICKS) -> list[float]:
    """Round numbers that cover a range: steps of 1, 2 or 5 times a power of ten."""
    span = max(high - low, 1e-9)
    power = 10 ** math.floor(math.log10(span / count))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= span / count)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [each * step for each in range(first, max(last, first + 1) + 1)]


def cdf(series: Mapping[str, Sequence[float]], *, unit: str = "ms") -> str:
    """Cumulated shares: how many of the values are at most x.

    Args:
        series: values by name; those without any are left out.
        unit: of the values.
    """
    known = {name: np.sort(values) for name, values in series.items() if len(values)}
    lines = {
        name: [(float(v), (at + 1) / len(values)) for at, v in enumerate(values)]
        for name, values in known.items()
    }
    return lines_plot(lines, x_label=unit, y_label="share", steps=True, y_range=(0.0, 1.0))


def lines_plot(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_label: str,
    y_label: str,
    steps: bool = False,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Lines through points, with a legend.

    Args:
        series: points by name, in the order of x.
        x_label, y_label: what the axes are, with their unit.
        steps: level between two points, as cumulated shares are.
        x_range, y_range: None: as the points ask for, from zero where that is near.
    """
    points = [point for each in series.values() for point in each]
    x, y, frame = _frame(points, x_label, y_label, x_range, y_range)
    drawn: list[str] = []
    for number, (name, each) in enumerate(series.items()):
        path = [(x(a), y(b)) for a, b in each]
        if steps and path:
            path = [(path[0][0], y(y.low)), *_stepped(path)]
        d = " ".join(f"{'ML'[at > 0]}{a:.1f} {b:.1f}" for at, (a, b) in enumerate(path))
        drawn.append(
            f'<path class="line c{number % COLOURS}" d="{d}"><title>{escape(name)}</title></path>'
        )
    return _svg([*frame, *drawn, *_legend([*series])])


def scatter(
    groups: Mapping[str, Sequence[Point]],
    *,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Dots in groups, each with its label, and a legend below."""
    points = [(point.x, point.y) for each in groups.values() for point in each]
    x, y, frame = _frame(points, x_label, y_label, x_range, y_range)
    drawn: list[str] = []
    for number, (name, each) in enumerate(groups.items()):
        colour = f"c{number % COLOURS}"
        for point in each:
            a, b = x(point.x), y(point.y)
            told = escape(f"{name} {point.label}: {point.x:.4g}, {point.y:.4g}")
            drawn.append(
                f'<circle class="dot {colour}" cx="{a:.1f}" cy="{b:.1f}" r="5">'
                f"<title>{told}</title></circle>"
            )
            drawn.append(
                f'<text class="small" x="{a + 8:.1f}" y="{b - 6:.1f}">{escape(point.label)}</text>'
            )
    legend, rows = _rows_legend([*groups], _HEIGHT + 4)
    return _svg([*frame, *drawn, *legend], height=_HEIGHT + 20 * rows + 8)


def bars(rows: Mapping[str, Mapping[str, float]], *, unit: str = "ms") -> str:
    """Stacked bars, one a row, its parts one after the other: where the time goes.

    Args:
        rows: parts by name for each row; their colours are by name.
        unit: of the parts.
    """
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    total = max((sum(parts.values()) for parts in rows.values()), default=0.0)
    ticks = nice_ticks(0.0, max(total, 1.0))
    left, pitch, height = 150, 34, 22
    bottom = _TOP + pitch * len(rows)
    x = _Axis(0.0, ticks[-1], left, _WIDTH - _RIGHT)
    drawn: list[str] = []
    for tick in ticks:
        at = x(tick)
        drawn.append(f'<path class="grid" d="M{at:.1f} {_TOP} V{bottom}"/>')
        drawn.append(
            f'<text class="small middle" x="{at:.1f}" y="{bottom + 18}">{tick:g} {unit}</text>'
        )
    for row, (label, parts) in enumerate(rows.items()):
        top = _TOP + pitch * row + (pitch - height) / 2
        drawn.append(f'<text class="end" x="{left - 10}" y="{top + 16:.1f}">{escape(label)}</text>')
        at = 0.0
        for name, value in parts.items():
            width = x(at + value) - x(at)
            drawn.append(
                f'<rect class="c{names.index(name) % COLOURS}" x="{x(at):.1f}" y="{top:.1f}" '
                f'width="{max(width, 0.5):.1f}" height="{height}">'
                f"<title>{escape(name)}: {value:.0f} {unit}</title></rect>"
            )
            at += value
        drawn.append(f'<text class="small" x="{x(at) + 6:.1f}" y="{top + 15:.1f}">{at:.0f}</text>')
    height_all = bottom + 30
    legend, lines = _rows_legend(names, height_all + 8)
    return _svg([*drawn, *legend], height=height_all + 20 * lines + 8)


def waterfall(parts: Mapping[str, float], *, unit: str = "ms") -> str:
    """Parts one below the other, each where the one before it ends."""
    total = sum(parts.values())
    ticks = nice_ticks(0.0, max(total, 1.0))
    left, pitch, height = 150, 28, 18
    bottom = _TOP + pitch * len(parts)
    x = _Axis(0.0, ticks[-1], left, _WIDTH - _RIGHT - 60)
    drawn: list[str] = []
    for tick in ticks:
        drawn.append(f'<path class="grid" d="M{x(tick):.1f} {_TOP} V{bottom}"/>')
        drawn.append(
            f'<text class="small middle" x="{x(tick):.1f}" y="{bottom + 18}">{tick:g} {unit}</text>'
        )
    at = 0.0
    for row, (name, value) in enumerate(parts.items()):
        top = _TOP + pitch * row + (pitch - height) / 2
        drawn += [
            f'<text class="end" x="{left - 10}" y="{top + 13:.1f}">{escape(name)}</text>',
            f'<rect class="c0" x="{x(at):.1f}" y="{top:.1f}" '
            f'width="{max(x(at + value) - x(at), 1):.1f}" height="{height}"/>',
            f'<text class="small" x="{x(at + value) + 6:.1f}" y="{top + 13:.1f}">'
            f"{value:.0f} {unit}</text>",
        ]
        at += value
    return _svg(drawn, height=bottom + 30)


def heatmap(
    values: Sequence[Sequence[float | None]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_label: str,
    column_label: str,
    digits: int = 0,
) -> str:
    """A grid of numbers, the greater the darker.

    Args:
        values: by row, then by column; None leaves the cell empty.
        rows, columns: their names.
        row_label, column_label: what they are.
        digits: behind the point.
    """
    known = [value for row in values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    left, top, width, height = 150, 44, 96, 36
    drawn = [
        f'<text class="middle" x="{left + width * len(columns) / 2:.0f}" y="14">'
        f"{escape(column_label)}</text>",
        f'<text x="8" y="{top + height * len(rows) / 2:.0f}">{escape(row_label)}</text>',
    ]
    for at, name in enumerate(columns):
        drawn.append(
            f'<text class="small middle" x="{left + width * (at + 0.5):.0f}" y="{top - 10}">'
            f"{escape(name)}</text>"
        )
    for row, name in enumerate(rows):
        middle = top + height * (row + 0.5) + 5
        drawn.append(f'<text class="small end" x="{left - 10}" y="{middle}">{escape(name)}</text>')
        for column, value in enumerate(values[row]):
            if value is None:
                continue
            share = (value - low) / (high - low) if high > low else 0.0
            x = left + width * column
            drawn += [
                f'<rect class="c0" fill-opacity="{0.12 + 0.6 * share:.2f}" x="{x}" '
                f'y="{top + height * row}" width="{width - 2}" height="{height - 2}"/>',
                f'<text class="middle" x="{x + width / 2:.0f}" y="{middle}">'
                f"{value:.{digits}f}</text>",
            ]
    return _svg(drawn, height=top + height * len(rows) + 12)


# --- what plots share -------------------------------------------------------------------------
def _frame(
    points: Sequence[tuple[float, float]],
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] | None,
    y_range: tuple[float, float] | None,
) -> tuple[_Axis, _Axis, list[str]]:
    """Both axes, with their grid, numbers and names."""
    xs = nice_ticks(*(x_range or _range([x for x, _ in points])))
    ys = nice_ticks(*(y_range or _range([y for _, y in points])))
    x = _Axis(xs[0], xs[-1], _LEFT, _WIDTH - _RIGHT)
    y = _Axis(ys[0], ys[-1], _HEIGHT - _BOTTOM, _TOP)
    drawn: list[str] = []
    for tick in xs:
        drawn.append(f'<path class="grid" d="M{x(tick):.1f} {_TOP} V{y.start}"/>')
        drawn.append(
            f'<text class="small middle" x="{x(tick):.1f}" y="{y.start + 18}">{tick:g}</text>'
        )
    for tick in ys:
        drawn.append(f'<path class="grid" d="M{x.start} {y(tick):.1f} H{x.stop}"/>')
        drawn.append(
            f'<text class="small end" x="{x.start - 8}" y="{y(tick) + 4:.1f}">{tick:g}</text>'
        )
    middle_x, middle_y = (x.start + x.stop) / 2, (y.start + y.stop) / 2
    drawn += [
        f'<text class="middle" x="{middle_x}" y="{_HEIGHT - 8}">{escape(x_label)}</text>',
        f'<text class="middle" transform="translate(16 {middle_y}) rotate(-90)">'
        f"{escape(y_label)}</text>",
    ]
    return x, y, drawn


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From zero, unless all values are far from it."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    low = 0.0 if 0 <= low < 0.7 * high else low
    return (low, high) if high > low else (low, low + 1.0)


def _stepped(path: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    result = [path[0]]
    for a, b in path[1:]:
        result += [(a, result[-1][1]), (a, b)]
    return result


def _legend(names: Sequence[str]) -> list[str]:
    """In the lower right corner, where cumulated shares leave room."""
    drawn: list[str] = []
    for number, name in enumerate(names):
        y = _HEIGHT - _BOTTOM - 14 - 20 * (len(names) - 1 - number)
        x = _WIDTH - _RIGHT - 190
        drawn.append(
            f'<rect class="c{number % COLOURS}" x="{x}" y="{y - 10}" width="12" height="12"/>'
        )
        drawn.append(f'<text class="small" x="{x + 18}" y="{y}">{escape(name)}</text>')
    return drawn


def _rows_legend(names: Sequence[str], top: float) -> tuple[list[str], int]:
    """Below the plot, four names a line; and how many lines those are."""
    drawn: list[str] = []
    for number, name in enumerate(names):
        x, y = _LEFT + number % 4 * 165, top + number // 4 * 20
        drawn.append(f'<rect class="c{number % COLOURS}" x="{x}" y="{y}" width="12" height="12"/>')
        drawn.append(f'<text class="small" x="{x + 18}" y="{y + 10}">{escape(name)}</text>')
    return drawn, math.ceil(len(names) / 4)


def _svg(parts: Sequence[str], *, height: float = _HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
