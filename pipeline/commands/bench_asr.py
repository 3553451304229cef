"""`run.py bench asr`: registered by `pipeline.commands.bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipeline.commands.bench_options import (
    Json,
    bench_progress,
    numbers,
    ready,
    run_facts,
    show,
)
from pipeline.commands.options import ConfigFile, Engines, Sets, configured


def asr(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Recordings and a list of what is said in them: .tsv, .jsonl, or Kaldi's wav.scp "
            "and text. Or that list.",
        ),
    ],
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider",
            "--asr",
            metavar="NAME",
            help="Same as --set asr.provider=NAME.",
            rich_help_panel="Configuration",
        ),
    ] = None,
    peer: Annotated[
        Literal["pipecat-funasr"] | None,
        typer.Option(
            "--peer",
            metavar="pipecat-funasr",
            help="Measure pipecat's own FunASR service with the same model beside it.",
        ),
    ] = None,
    counts: Annotated[
        str | None,
        typer.Option(
            "--concurrency",
            metavar="N,N,...",
            help="Conversations at a time: 1,2,4,8 unless set.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The first so many utterances.")
    ] = None,
    paced: Annotated[
        bool,
        typer.Option(
            "--paced/--fast",
            help="Listen at the pace of speech, too, to see how soon texts come; or not.",
        ),
    ] = True,
    as_json: Json = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write a page with plots, and a .json beside it."
        ),
    ] = None,
    config: ConfigFile = None,
    sets: Sets = None,
    engines: Engines = None,
) -> None:
    """Recognition: how much is understood, how soon, and for how many at a time.

    Measures the recogniser of the configuration on recordings whose texts are known.
    docs/benchmarks.md has the definitions.
    """
    if html is not None and html.suffix != ".html":
        raise typer.BadParameter("the page's name ends in .html", param_hint="--html")
    with ready(as_json):
        from pipeline.bench.asr import AsrPlan, run_asr
        from pipeline.bench.asr_report import asr_table, write_report
        from pipeline.bench.asr_sides import check_peer
        from pipeline.commands.weights import fetch_missing
        from pipeline.needs import needed_asr
        from pipeline.store import open_store

        settings = configured(config, sets, asr=provider, engines=engines)
        chosen = numbers(counts)
        plan = AsrPlan(
            place=place,
            limit=limit,
            paced=paced,
            peer=peer is not None,
            **({} if chosen is None else {"counts": chosen}),
        )
        if plan.peer:
            check_peer(settings)
        fetch_missing(settings, needed_asr(settings))
        with bench_progress(as_json) as tell:
            result = run_asr(settings, open_store(settings), plan, on_progress=tell)
        page = write_report(result, html, run_facts()) if html is not None else None
        show(result.to_json(), asr_table(result), page, as_json=as_json)
