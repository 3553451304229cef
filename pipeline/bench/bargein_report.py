"""`bench bargein` on a page, and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.bench.bargein import BargeInResult
from pipeline.bench.bargein_measure import Outcome
from pipeline.bench.plots import cdf
from pipeline.bench.report import Report, table, write_both

_SOUNDS = {
    "backchannel": "backchannels",
    "noise": "coughs and knocks",
    "interruption": "interruptions",
}
_FATES = ("unnoticed", "resumed", "interrupted", "lost")


def write_report(result: BargeInResult, folder: Path, facts: Mapping[str, str]) -> Path:
    """Writes bargein.html, and bargein.json with every sound; returns the page's path.

    Raises:
        BadRequest: they cannot be written.
    """
    details = [each.to_json() for each in result.outcomes]
    found = {**result.to_json(), "details": details}
    return write_both(build(result, facts), folder, "bargein", found)


def build(result: BargeInResult, facts: Mapping[str, str]) -> Report:
    """Puts the page together."""
    found = result.to_json()
    report = Report("duplexd: sounds over an answer", facts=facts)
    report.add(
        "In figures",
        table(["", "", ""], [[*row] for row in _figures(found)]),
        "A backchannel, a cough or a knock must not end an answer; whatever else is said must.",
    )
    report.add(
        "What became of each sound",
        table(["", *_FATES], [[name, *counts] for name, *counts in _counts(found)]),
        "Unnoticed: the answer was not even paused. Lost: it was paused, and nothing followed.",
    )
    report.add(
        "How soon it falls silent",
        cdf(
            {
                "stops at a pause": _values(result.outcomes, "stop_ms", honours=True),
                "plays out its lead": _values(result.outcomes, "stop_ms", honours=False),
            }
        ),
        "From the first voiced sample of an interruption to the last sample of the answer that the "
        "client played, by what kind of client it is.",
    )
    report.add(
        "How soon it goes on",
        cdf({"after its end": _values(result.outcomes, "resume_ms")}),
        "From the end of a backchannel or noise that paused the answer to its next sample.",
    )
    report.add(
        "What the context holds",
        cdf({"more than was heard": _values(result.outcomes, "truncation")}, unit="characters"),
        "Characters of the interrupted answer in the next request to the language model, less "
        "those that the client had played.",
    )
    return report


def bargein_table(result: BargeInResult) -> Iterator[RenderableType]:
    """The figures, then what became of the sounds."""
    found = result.to_json()
    for words, p50, p95 in _figures(found):
        yield Text.assemble((f"{words:<52}", "dim"), f"{p50:>12}{p95:>12}")
    yield Text()
    counts = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("", *_FATES):
        counts.add_column(head, justify="right" if head else "left")
    for name, *numbers in _counts(found):
        counts.add_row(name, *map(str, numbers))
    yield counts


def _figures(found: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What is measured, with its median, or its share, and its 95th percentile."""
    spans = (
        ("stop, a client that honours pauses", "stop_ms"),
        ("stop, a client that does not", "stop_plain_ms"),
        ("the same from the decision, less the lead", "stop_plain_beyond_ms"),
        ("the same of a device, two decoded frames more", "stop_decoded_ms"),
        ("goes on after a backchannel or a noise", "resume_ms"),
    )
    for words, name in spans:
        yield words, _ms(found[name]["p50"], "p50"), _ms(found[name]["p95"], "p95")
    cut = found["truncation_chars"]
    yield (
        "context against what was heard, characters",
        f"p50 {_number(cut['median'])}",
        f"p95 {_number(cut['p95'])}",
    )
    shares = (
        ("went on, sample by sample", "resume_exact_rate"),
        ("went on, of those that were paused", "resumed_rate"),
        ("interrupted by a backchannel or a noise", "false_interruption_rate"),
        ("interruptions taken", "taken_rate"),
        ("contexts that begin as the answer did", "context_is_prefix_rate"),
    )
    for words, name in shares:
        yield words, _share(found[name]), ""


def _counts(found: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for kind, name in _SOUNDS.items():
        yield (name, *(found["sounds"][kind][fate] for fate in _FATES))


def _values(outcomes: Sequence[Outcome], name: str, *, honours: bool | None = None) -> list[float]:
    """A measure of all interruptions, or of all that it applies to."""
    some = [each for each in outcomes if honours is None or each.honours == honours]
    if honours is not None:
        some = [each for each in some if each.kind == "interruption"]
    found = (getattr(each, name) for each in some)
    return [float(value) for value in found if value is not None]


def _ms(value: float | None, name: str) -> str:
    return f"{name} -" if value is None else f"{name} {value:.0f} ms"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
