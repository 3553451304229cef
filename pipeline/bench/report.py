# pyright: strict
"""What a bench found, for people: one HTML file that needs nothing beside it.

report = Report("bench v2v", facts={"machine": "2 cores"})
report.add("Voice to voice", cdf({"duplexd": values}), "Every turn counts.")
report.write(folder)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from tts_engine.errors import BadRequest

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #6b7686; --line: #e3e7ee; --paper: #fff;
  --card: #f7f8fb;
  --c0: #2f6fed; --c1: #e07a2c; --c2: #17986b; --c3: #b2459b; --c4: #8a6fd1; --c5: #97a1b0;
  --c6: #c9a227; --c7: #d6455d; --c8: #3aa6c4; --c9: #6d7f3c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf3; --dim: #98a3b5; --line: #2b3342;
  --paper: #12161d; --card: #1a202a;
  --c0: #6a9bff; --c1: #f0a05c; --c2: #46c496; --c3: #d97fc5; --c4: #b09cf0; --c5: #77839a;
  --c6: #e3c55a; --c7: #f0798b; --c8: #6cc7e0; --c9: #a3b56a; } }
body { margin: 0 auto; max-width: 860px; padding: 32px 20px 64px; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, "Noto Sans CJK SC", sans-serif; }
h1 { font-size: 28px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 36px 0 8px; }
p { margin: 0 0 12px; color: var(--dim); }
section { overflow-x: auto; } svg { width: 100%; background: var(--card); border-radius: 10px; }
svg text { fill: var(--ink); font-size: 13px; } svg .small { font-size: 12px; fill: var(--dim); }
svg .middle { text-anchor: middle; } svg .end { text-anchor: end; }
svg .grid { stroke: var(--line); fill: none; }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
svg .c0 { --c: var(--c0); } svg .c1 { --c: var(--c1); } svg .c2 { --c: var(--c2); }
svg .c3 { --c: var(--c3); } svg .c4 { --c: var(--c4); } svg .c5 { --c: var(--c5); }
svg .c6 { --c: var(--c6); } svg .c7 { --c: var(--c7); } svg .c8 { --c: var(--c8); }
svg .c9 { --c: var(--c9); }
svg rect, svg circle { fill: var(--c); } svg path.line { stroke: var(--c); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
td, th { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; }
td:first-child, th:first-child { text-align: left; } th { color: var(--dim); font-weight: 500; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; font-size: 14px; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
"""


@dataclass(slots=True)
class Report:
    """One page.

    Parameters:
        title: its heading.
        facts: date, machine, command and the like, by name.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    _sections: list[str] = field(default_factory=list[str], init=False)

    def add(self, title: str, body: str, text: str = "") -> None:
        """Adds a section.

        Args:
            title: its heading.
            body: HTML: a plot of `pipeline.bench.plots`, or a `table`.
            text: what it shows, a sentence or two.
        """
        said = f"<p>{escape(text)}</p>" if text else ""
        self._sections.append(f"<section><h2>{escape(title)}</h2>{said}{body}</section>")

    def html(self) -> str:
        """The page."""
        facts = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in self.facts.items()
        )
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{escape(self.title)}'
            f"</title><style>{_STYLE}</style></head><body><h1>{escape(self.title)}</h1>"
            f"<dl>{facts}</dl>{''.join(self._sections)}</body></html>\n"
        )

    def write(self, folder: Path, name: str) -> Path:
        """Writes `folder`/`name`.html; returns its path.

        Raises:
            BadRequest: it cannot be written.
        """
        path = folder / f"{name}.html"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise BadRequest(f"Cannot write {path}: {error.strerror or error}") from error
        return path


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; None is shown as a dash."""
    top = "".join(f"<th>{escape(each)}</th>" for each in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{'–' if cell is None else escape(str(cell))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def write_both(report: Report, folder: Path, name: str, found: Mapping[str, Any]) -> Path:
    """Writes the page, and NAME.json beside it with its facts and all that was found.

    Returns:
        The page's path.

    Raises:
        BadRequest: they cannot be written.
    """
    page = report.write(folder, name)
    try:
        page.with_suffix(".json").write_text(
            json.dumps({**report.facts, **found}, ensure_ascii=False, indent=1) + "\n",
            encoding="utf-8",
        )
    except OSError as error:
        raise BadRequest(f"Cannot write into {folder}: {error.strerror or error}") from error
    return page
