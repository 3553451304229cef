"""Invariant: every page is whole: well-formed, and nothing on it is loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bench.plots import (
    Point,
    bars,
    cdf,
    heatmap,
    lines_plot,
    nice_ticks,
    scatter,
    waterfall,
)
from pipeline.bench.report import Report, table
from tts_engine.errors import BadRequest

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_cover_the_range_at_round_steps(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert 2 <= len(ticks) <= 9
    slack = 1e-6 * max(1.0, abs(low) + span)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= low + span - slack


def test_a_share_rises_to_one() -> None:
    svg = parsed(cdf({"a & b": [300.0, 100.0, 200.0], "none": []}))
    [path] = [each for each in svg.iter(f"{SVG}path") if "line" in each.attrib["class"]]
    points = re.findall(r"([\d.]+) ([\d.]+)", path.attrib["d"])
    xs, ys = [float(x) for x, _ in points], [float(y) for _, y in points]
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)  # SVG counts downwards
    assert "a & b" in [text.text for text in svg.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    "svg",
    [
        cdf({}),
        lines_plot({"a": [(1.0, 2.0)], "b": []}, x_label="x", y_label="y"),
        scatter(
            {"<a>": [Point(x=0.1, y=900.0, label="5 > 3")], "b": [Point(x=0.1, y=900.0)]},
            x_label="x",
            y_label="y",
        ),
        scatter({}, x_label="x", y_label="y", x_range=(0, 1), y_range=(0, 1)),
        bars({"one": {"asr": 60.0, "llm": 0.0}, "two": {"llm": 300.0}}),
        bars({}),
        waterfall({"asr": 60.0, "llm": 150.0}),
        heatmap(
            [[1.0, None], [2.0, 3.0]],
            rows=["a", "b"],
            columns=["c", "d"],
            row_label="rows",
            column_label="columns",
            digits=1,
        ),
        heatmap([[5.0]], rows=["a"], columns=["b"], row_label="", column_label=""),
    ],
)
def test_plots_are_well_formed_and_have_finite_places(svg: str) -> None:
    assert "nan" not in svg
    assert "inf" not in svg
    assert parsed(svg).attrib["viewBox"].startswith("0 0 720 ")


def test_bars_are_as_long_as_their_parts() -> None:
    svg = parsed(bars({"one": {"asr": 60.0, "llm": 120.0}}))
    widths = [
        float(rect.attrib["width"])
        for rect in svg.iter(f"{SVG}rect")
        if rect.find(f"{SVG}title") is not None
    ]
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.01)


def test_a_page_needs_nothing_beside_it(tmp_path: Path) -> None:
    report = Report("bench <v2v>", facts={"command": "run.py bench & co"})
    report.add("One", cdf({"a": [1.0]}), "What <it> shows.")
    report.add("Two", table(["name", "ms"], [["<b>", 1], [None, "x & y"]]))
    page = report.write(tmp_path / "new", "v2v")
    html = page.read_text(encoding="utf-8")
    assert page.name == "v2v.html"
    assert "<script" not in html
    assert not re.search(r'(src|href)="', html)
    assert "&lt;v2v&gt;" in html
    assert "<td>–</td><td>x &amp; y</td>" in html
    ElementTree.fromstring(
        html.replace("<!doctype html>", "")
        .replace('width">', 'width"/>')
        .replace('"utf-8">', '"utf-8"/>')
    )


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRequest, match="Cannot write"):
        Report("x").write(tmp_path / "file", "v2v")
