"""`run.py bench`: the latency lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipeline.commands.bench_asr import asr
from pipeline.commands.bench_options import (
    BenchEngines,
    FaceName,
    FrameMs,
    Json,
    LogFile,
    Peer,
    Quick,
    ReportFolder,
    ScriptedEngines,
    bench_progress,
    numbers,
    ready,
    run_facts,
    show,
)
from pipeline.commands.options import (
    AsrName,
    ConfigFile,
    Engines,
    LlmName,
    Sets,
    TtsName,
    configured,
    overrides,
    serve_options,
)
from pipeline.commands.plain_help import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Measure latency, barge-in, sessions, speech and recognition, beside others' where they "
    "can be run.",
)

#: `--engines` of this name are those of the configuration
_REAL = "none"


@app.command(
    cls=PlainCommand, epilog="Example: run.py bench v2v --peer pipecat --report bench-report"
)
def v2v(
    engines: BenchEngines = "scripted:asr=60,llm=150@50,tts=150",
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, help="Say only the first so many utterances.")
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, help="Say everything so many times.")
    ] = 1,
    speculation: Annotated[
        bool,
        typer.Option(
            "--speculation/--no-speculation", help="Make answers before the turn is over, or not."
        ),
    ] = True,
    face: FaceName = "realtime",
    peer: Peer = None,
    speech: Annotated[
        Path | None,
        typer.Option(
            "--speech",
            metavar="DIR",
            help="Say these recordings; NAME.json beside NAME.wav may tell its true end, end_s.",
        ),
    ] = None,
    snr: Annotated[
        float | None,
        typer.Option("--snr", metavar="DB", help="Put noise under the speech, so far below it."),
    ] = None,
    asr_errors: Annotated[
        float,
        typer.Option(
            "--asr-errors",
            min=0,
            max=1,
            metavar="SHARE",
            help="Let the recogniser get this share of the characters wrong.",
        ),
    ] = 0.0,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Measure a grid of floors and ceilings too.")
    ] = False,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout-s", min=1, help="An answer that is not heard by then was missed."),
    ] = 10.0,
    frame_ms: FrameMs = None,
    as_json: Json = False,
    report: ReportFolder = None,
    log: LogFile = None,
    config: ConfigFile = None,
    sets: Sets = None,
    asr: AsrName = None,
    llm: LlmName = None,
    tts: TtsName = None,
) -> None:
    """Voice to voice: how long until the answer is heard, beside how often the user is cut off.

    Says the same speech, Mandarin and English, with and without pauses inside, to the daemon and to
    its peer. docs/benchmarks.md has the definitions.
    """
    with ready(as_json):
        from pipeline.bench.clips import clips_of, room
        from pipeline.bench.contest import Rules
        from pipeline.bench.v2v import V2vPlan, run_v2v
        from services.scripted.spec import parse_spec

        chosen = None if engines == _REAL else engines
        errors = [f"scripted.asr_errors={asr_errors}"] if asr_errors else []
        given = [*(sets or ()), *errors]
        settings = configured(config, given, asr=asr, llm=llm, tts=tts, engines=chosen)
        keys = overrides(given, asr=asr, llm=llm, tts=tts, engines=chosen)
        options = tuple(serve_options(config, keys))
        with bench_progress(as_json) as tell:
            tell(0.0, "making the speech")
            plan = V2vPlan(
                options=options,
                spec=parse_spec(chosen) if chosen else None,
                clips=tuple(clips_of(settings, turns=turns, folder=speech, snr_db=snr)),
                repeat=repeat,
                rules=Rules(
                    frame_ms=frame_ms or (60 if face == "xiaozhi" else 20),
                    timeout_s=timeout_s,
                    room=room(snr),
                ),
                speculation=speculation,
                face=face,
                peer=peer is not None,
                sweep=sweep,
                log=log,
            )
            result = run_v2v(plan, on_progress=tell)
        from pipeline.bench.v2v_report import write_report
        from pipeline.bench.v2v_text import v2v_table

        page = write_report(result, report, run_facts()) if report is not None else None
        show(result.to_json(), v2v_table(result), page, as_json=as_json)


@app.command(cls=PlainCommand, epilog="Example: run.py bench bargein --quick")
def bargein(
    engines: ScriptedEngines = "scripted:asr=60,llm=150@50,tts=150",
    sounds: Annotated[
        int,
        typer.Option(
            "--sounds",
            min=1,
            help="So many backchannels, so many coughs and knocks, so many interruptions.",
        ),
    ] = 200,
    clients: Annotated[int, typer.Option("--clients", min=1, help="Conversations at a time.")] = 12,
    face: FaceName = "realtime",
    quick: Quick = False,
    as_json: Json = False,
    report: ReportFolder = None,
    log: LogFile = None,
    config: ConfigFile = None,
    sets: Sets = None,
) -> None:
    """Barge-in: how soon an answer stops, and that coughs and words of agreement do not end it.

    Clients that honour a pause and clients that do not speak, agree, cough and knock while answers
    play. docs/benchmarks.md has the definitions.
    """
    with ready(as_json):
        from pipeline.bench.bargein import run_bargein
        from pipeline.bench.bargein_report import bargein_table, write_report
        from services.scripted.spec import parse_spec

        settings = configured(config, sets, engines=engines)
        with bench_progress(as_json) as tell:
            result = run_bargein(
                settings,
                options=serve_options(config, overrides(sets, engines=engines)),
                spec=parse_spec(engines),
                face=face,
                sounds=sounds,
                clients=clients,
                quick=quick,
                log=log,
                on_progress=tell,
            )
        page = write_report(result, report, run_facts()) if report is not None else None
        show(result.to_json(), bargein_table(result), page, as_json=as_json)


@app.command(cls=PlainCommand, epilog="Example: run.py bench sessions --counts 20,40,60")
def sessions(
    engines: ScriptedEngines = "scripted:instant",
    counts: Annotated[
        str | None,
        typer.Option(
            "--counts", metavar="N,N,...", help="Conversations at a time; otherwise searched for."
        ),
    ] = None,
    core: Annotated[
        int | None,
        typer.Option("--core", min=0, help="What the server runs on; the last one, unless set."),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory/--no-memory", help="Measure what conversations hold, or not.")
    ] = True,
    face: FaceName = "realtime",
    peer: Peer = None,
    quick: Quick = False,
    frame_ms: FrameMs = None,
    as_json: Json = False,
    report: ReportFolder = None,
    log: LogFile = None,
    config: ConfigFile = None,
    sets: Sets = None,
) -> None:
    """Sessions: how many conversations one core holds in real time, and what each costs.

    Each speaks for 3 s and hears an answer of 4 s in every 9 s; the clients run on the other cores.
    docs/benchmarks.md has the definitions.
    """
    with ready(as_json):
        from pipeline.bench.sessions import run_sessions
        from pipeline.bench.sessions_report import sessions_table, write_report

        settings = configured(config, sets, engines=engines)
        with bench_progress(as_json) as tell:
            result = run_sessions(
                settings,
                options=serve_options(config, overrides(sets, engines=engines)),
                face=face,
                frame_ms=frame_ms or 60,
                counts=numbers(counts),
                core=core,
                peer=peer is not None,
                memory=memory,
                quick=quick,
                log=log,
                on_progress=tell,
            )
        page = write_report(result, report, run_facts()) if report is not None else None
        show(result.to_json(), sessions_table(result), page, as_json=as_json)


@app.command(
    cls=PlainCommand, epilog="Example: run.py bench tts --peer upstream --report bench-report"
)
def tts(
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="HOST:PORT",
            help="A running `run.py tts`, also as https://HOST:PORT, in place of an engine here.",
        ),
    ] = None,
    key: Annotated[
        str,
        typer.Option("--key", metavar="KEY", envvar="DUPLEXD_API_KEY", help="API key for --url."),
    ] = "",
    cacert: Annotated[
        Path | None,
        typer.Option(
            "--cacert", metavar="FILE", help="Trust this certificate of --url and no other."
        ),
    ] = None,
    voice: Annotated[
        str | None,
        typer.Option("--voice", metavar="NAME", help="Who speaks; else the default."),
    ] = None,
    peer: Annotated[
        Literal["upstream"] | None,
        typer.Option(
            "--peer",
            metavar="upstream",
            help="Measure CosyVoice with random weights, and upstream's own loop beside it.",
        ),
    ] = None,
    size: Annotated[
        Literal["tiny", "full"] | None,
        typer.Option(
            "--size",
            metavar="tiny|full",
            help="Of the CosyVoice with random weights; full, as published, unless set.",
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            "--lengths",
            metavar="N,N,...",
            help="Characters of the texts: 20,50,100,200 unless set; with random weights none.",
        ),
    ] = None,
    counts: Annotated[
        str | None,
        typer.Option(
            "--counts",
            metavar="N,N,...",
            help="Requests at a time: 1,2,4,8,10 unless set; with random weights none.",
        ),
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat", min=1, help="Ask for everything so many times: 5, with random weights 1."
        ),
    ] = None,
    as_json: Json = False,
    report: ReportFolder = None,
    config: ConfigFile = None,
    sets: Sets = None,
    tts: TtsName = None,
    engines: Engines = None,
) -> None:
    """Speech: how soon it is heard, how fast it is made, and for how many at a time.

    Measures the configured voice, a service that runs, or CosyVoice with random weights beside its
    upstream. docs/benchmarks.md has the definitions.
    """
    with ready(as_json):
        from pipeline.bench.tts import TtsPlan, run_tts
        from pipeline.bench.tts_report import tts_table, write_report

        settings = configured(config, sets, tts=tts, engines=engines)
        plan = TtsPlan(
            size=size,
            peer=peer is not None,
            url=url,
            key=key,
            cacert=cacert,
            voice=voice,
            lengths=numbers(lengths),
            counts=numbers(counts),
            repeat=repeat,
        )
        if plan.engine:
            from pipeline.commands.weights import fetch_missing
            from pipeline.needs import needed_voice

            fetch_missing(settings, needed_voice(settings))
        with bench_progress(as_json) as tell:
            result = run_tts(settings, plan, on_progress=tell)
        page = write_report(result, report, run_facts()) if report is not None else None
        show(result.to_json(), tts_table(result), page, as_json=as_json)


app.command(
    cls=PlainCommand,
    epilog="Example: run.py bench asr recordings --provider funasr --html asr.html",
)(asr)


@app.command(hidden=True, cls=PlainCommand)
def peer(
    config: ConfigFile = None,
    sets: Sets = None,
    asr: AsrName = None,
    llm: LlmName = None,
    tts: TtsName = None,
    engines: Annotated[str | None, typer.Option("--engines")] = None,
) -> None:
    """Run the stock pipecat pipeline over our engines, as the benches do."""
    from pipeline.bench.peer import run

    run(configured(config, sets, asr=asr, llm=llm, tts=tts, engines=engines))
