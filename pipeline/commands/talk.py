"""`run.py talk`: a conversation from the terminal, recorded and measured."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.commands.options import (
    AsrName,
    ConfigFile,
    Engines,
    LlmName,
    Sets,
    TtsName,
    configured,
    overrides,
)
from tts_engine.errors import BadRequest, UnknownVoice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from pipeline.config import Config

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command(epilog="Example: run.py talk --say 今天天气怎么样？ --out talk.wav")
def talk(
    wav: Annotated[
        list[Path] | None,
        typer.Option("--wav", metavar="FILE", help="Say what a sound file says; repeatable."),
    ] = None,
    say: Annotated[
        list[str] | None,
        typer.Option("--say", metavar="TEXT", help="Say a text in the embedded voice; repeatable."),
    ] = None,
    say_voice: Annotated[
        str, typer.Option("--say-voice", metavar="NAME", help="The voice that says it.")
    ] = "zf_xiaoxiao",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write a stereo file: left what was sent, right what was heard.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="HOST:PORT",
            help="The daemon; otherwise the configured port's, or one of its own.",
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Log of a daemon of its own.")
    ] = None,
    turn_timeout_s: Annotated[
        float, typer.Option("--turn-timeout-s", min=1, help="Longest wait for an answer.")
    ] = 60.0,
    config: ConfigFile = None,
    sets: Sets = None,
    asr: AsrName = None,
    llm: LlmName = None,
    tts: TtsName = None,
    engines: Engines = None,
) -> None:
    """Talk to the daemon: sound files or texts, one turn each, files first.

    Without a daemon at the configured address one is started for the length of the talk, with the
    options given here. Prints transcript, answer and where the time went.
    """
    from rich.console import Console

    from pipeline.talk.client import TalkClient

    if not wav and not say:
        raise typer.BadParameter("give --wav FILE or --say TEXT")
    settings = configured(config, sets, asr=asr, llm=llm, tts=tts, engines=engines)
    chosen = bool(config or sets or asr or llm or tts or engines)
    console = Console(quiet=as_json)
    utterances = _utterances(settings, wav or [], say or [], voice=say_voice)
    arguments = [
        *(["--config", str(config)] if config else []),
        *(part for each in overrides(sets, asr=asr, llm=llm, tts=tts, engines=engines)
          for part in ("--set", each)),
    ]  # fmt: skip
    with ExitStack() as stack:
        address = url or _running(settings, only_plain=chosen)
        if address is None:
            from pipeline.talk.daemon import own_daemon

            console.print("[dim]no daemon is running: starting one[/dim]")
            address = stack.enter_context(own_daemon(arguments, log=log))
        client = TalkClient(f"ws://{address}/v1/realtime")
        turns = asyncio.run(client.talk(utterances, turn_timeout_s=turn_timeout_s))
    if out is not None:
        client.recording.write(out)
    if as_json:
        typer.echo(json.dumps(summary(turns), ensure_ascii=False))
    else:
        _show(console, turns, out)
    if not turns or any(turn["status"] != "completed" for turn in turns):
        raise typer.Exit(1)


def summary(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The one object that --json prints."""
    return {
        "transcript": " ".join(t["transcript"] for t in turns if t["transcript"]),
        "answer": " ".join(t["answer"] for t in turns if t["answer"]),
        "turns": turns,
    }


def _running(config: Config, *, only_plain: bool) -> str | None:
    """The configured daemon's address, if it runs and no options ask for another one."""
    from pipeline.talk.daemon import is_ready

    host, port = config.server.host, config.server.port
    if only_plain or not is_ready(host, port):
        return None
    return f"{host}:{port}"


def _utterances(
    config: Config, files: list[Path], texts: list[str], *, voice: str
) -> list[NDArray[np.int16]]:
    from pipeline.talk.stereo import read_mono

    spoken = [read_mono(path) for path in files]
    if texts:
        spoken += asyncio.run(_speak(config, texts, voice))
    return spoken


async def _speak(config: Config, texts: list[str], voice: str) -> list[NDArray[np.int16]]:
    """Says texts in the embedded voice, before the talk: its compute must not disturb the turns."""
    import numpy as np
    from tts_engine.kokoro.engine import KokoroEngine

    from pipeline.budget import available_cores
    from pipeline.commands.models import MANIFEST
    from services.models import ModelStore, default_root, load_manifest

    store = ModelStore(root=config.models.dir or default_root(), manifest=load_manifest(MANIFEST))
    engine = KokoroEngine(model_dir=store.path("kokoro"), threads=max(1, available_cores() // 2))
    await engine.start()
    try:
        result: list[NDArray[np.int16]] = []
        for text in texts:
            try:
                pcm = [chunk.pcm async for chunk in engine.synthesize(text, voice=voice)]
            except UnknownVoice as error:
                raise BadRequest(error.message, mend=error.mend) from error
            result.append(np.frombuffer(b"".join(pcm), np.int16))
        return result
    finally:
        await engine.close()


def _show(console: Console, turns: list[dict[str, Any]], out: Path | None) -> None:
    from rich.markup import escape

    from pipeline.talk.waterfall import waterfall

    if not turns:
        console.print("[yellow]The daemon heard nothing.[/yellow]")
    for turn in turns:
        console.print(f"[bold]you[/bold]     {escape(turn['transcript'] or '(nothing)')}")
        console.print(f"[bold]duplexd[/bold] {escape(turn['answer'] or '(nothing)')}")
        if turn["error"]:
            console.print(f"[red]error[/red]   {escape(turn['error'])}")
        if turn["v2v_ms"] is not None:
            console.print(waterfall(turn))
        console.print()
    if out is not None:
        console.print(f"[dim]recorded in {out}: left sent, right heard[/dim]")
