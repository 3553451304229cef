"""`run.py talk`: a conversation from the terminal, recorded and measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipeline.commands.failures import failures_as_json
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
from pipeline.commands.plain_help import PlainCommand

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from pipeline.config import Config
    from pipeline.config_server import Server
    from pipeline.device.client import DeviceClient, DeviceKind
    from pipeline.talk.client import TalkClient
    from pipeline.talk.endpoint import Endpoint
    from services.xiaozhi.events import Mode

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command(cls=PlainCommand, epilog="Example: run.py talk --say 今天天气怎么样？ --out talk.wav")
def talk(
    wav: Annotated[
        list[Path] | None,
        typer.Option("--wav", metavar="FILE", help="Say what a sound file says; repeatable."),
    ] = None,
    say: Annotated[
        list[str] | None,
        typer.Option("--say", metavar="TEXT", help="Say a text in the embedded voice; repeatable."),
    ] = None,
    say_file: Annotated[
        Path | None,
        typer.Option(
            "--say-file", metavar="FILE", help="Say every line of a text file; # is a comment."
        ),
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
            help="The daemon, also as https://HOST:PORT; otherwise the configured port's, or one "
            "of its own.",
        ),
    ] = None,
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="KEY",
            envvar="DUPLEXD_API_KEY",
            help="API key for the daemon. In the environment nobody else sees it.",
        ),
    ] = "",
    cacert: Annotated[
        Path | None,
        typer.Option(
            "--cacert",
            metavar="FILE",
            help="Trust this certificate and no other: what `serve --tls auto` made.",
        ),
    ] = None,
    own: Annotated[
        bool, typer.Option("--own", help="Start a daemon, also if one is running.")
    ] = False,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Log of a daemon of its own.")
    ] = None,
    xiaozhi: Annotated[
        bool,
        typer.Option(
            "--xiaozhi",
            help="Talk as a Xiaozhi device does, and tell what one would have lost of the answers.",
        ),
    ] = False,
    mode: Annotated[
        Literal["auto", "manual", "realtime"],
        typer.Option("--mode", help="How the device listens.", rich_help_panel="Xiaozhi"),
    ] = "auto",
    framing: Annotated[
        int,
        typer.Option("--framing", min=1, max=3, help="Of its audio.", rich_help_panel="Xiaozhi"),
    ] = 1,
    firmware: Annotated[
        str,
        typer.Option(
            "--firmware",
            metavar="VERSION",
            help="1.6.0 has a queue of 5 packets, 1.6.2 of 10, 1.7.0 of 40, which it drops at a "
            "stop; 2.2.2 plays it out.",
            rich_help_panel="Xiaozhi",
        ),
    ] = "2.2.2",
    device_id: Annotated[
        str,
        typer.Option("--device-id", metavar="MAC", help="Its address.", rich_help_panel="Xiaozhi"),
    ] = "02:00:00:00:00:01",
    wake_word: Annotated[
        str,
        typer.Option(
            "--wake-word",
            metavar="TEXT",
            help="Is detected first; otherwise a button was pressed.",
            rich_help_panel="Xiaozhi",
        ),
    ] = "",
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
    """Talk to the daemon: sound files or texts, one turn each; files first, then texts.

    If none runs at the configured address, or if configuration options are given, a daemon is
    started for the length of the talk. Prints transcript, answer and where the time went.
    """
    if not (wav or say or say_file):
        raise typer.BadParameter("give --wav FILE, --say TEXT or --say-file FILE")
    if own and (url or cacert):
        raise typer.BadParameter("give --url and --cacert, or --own, not both")
    kind = None
    if xiaozhi:
        kind = _kind(
            mode=mode,
            framing=framing,
            firmware=firmware,
            device_id=device_id,
            wake_word=wake_word,
        )
    from pipeline.commands.logs import log_warnings_only

    log_warnings_only()
    with failures_as_json(as_json):
        settings = configured(config, sets, asr=asr, llm=llm, tts=tts, engines=engines)
        chosen = own or any((config, sets, asr, llm, tts, engines))
        keys = overrides(sets, asr=asr, llm=llm, tts=tts, engines=engines)
        arguments = serve_options(config, keys)
        console, tell = _console(quiet=as_json), _progress(quiet=as_json)
        if out is not None:
            from pipeline.talk.stereo import check_writable

            check_writable(out)
        utterances = _utterances(
            settings, wav or [], say or [], say_file, voice=say_voice, tell=tell
        )
        with ExitStack() as stack:
            daemon = None
            if url or not chosen:
                daemon = _running(settings, tell, url=url, key=key, cacert=cacert)
            if daemon is None:
                tell("starting a daemon, and waiting until it is ready")
                daemon = stack.enter_context(_own(arguments, log))
            turns = _converse(daemon, utterances, out, timeout_s=turn_timeout_s, kind=kind)
        done = _report(console, turns, len(utterances), out, as_json=as_json)
    if not done:
        raise typer.Exit(1)


def result(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The one object that --json prints."""
    from pipeline.talk.summary import summarise

    return {
        "transcript": " ".join(t["transcript"] for t in turns if t["transcript"]),
        "answer": " ".join(t["answer"] for t in turns if t["answer"]),
        "turns": turns,
        "summary": summarise(turns),
    }


def _console(*, quiet: bool) -> Console:
    from rich.console import Console

    return Console(quiet=quiet, highlight=False)


def _progress(*, quiet: bool) -> Callable[[str], None]:
    """Says on standard error what is waited for."""
    from pipeline.commands.progress import say_on_stderr

    return (lambda _: None) if quiet else say_on_stderr


def _running(
    config: Config, tell: Callable[[str], None], *, url: str | None, key: str, cacert: Path | None
) -> Endpoint | None:
    """The daemon that was named, or the configured one if it runs; waits while it warms up."""
    from pipeline.talk.daemon import await_ready, state_of
    from pipeline.talk.endpoint import Endpoint

    if url is not None:
        daemon = Endpoint.of(url, key=key, cacert=cacert)
        state = state_of(daemon)
    else:
        daemon = _configured(config.server, key=key, cacert=cacert)
        state = state_of(daemon)
        if state == "alien" and not daemon.secure:
            # It was started with --tls, which the configuration does not know.
            server = config.server.model_copy(update={"tls": "auto"})
            daemon = _configured(server, key=key, cacert=cacert)
            state = state_of(daemon)
        if state in ("none", "alien"):
            return None
    if state == "warming":
        tell("waiting for the daemon to warm up")
        await_ready(daemon)
    return daemon  # why there is none at an address that was named, is found out by the talk


def _configured(server: Server, *, key: str, cacert: Path | None) -> Endpoint:
    """Where the configured daemon is, and whom it is to be trusted by."""
    from pipeline.talk.daemon import address_of
    from pipeline.talk.endpoint import Endpoint

    address = address_of(server.host, server.port)
    if server.tls == "auto" and cacert is None:
        from pipeline.access import tls_of

        tls = tls_of(server)
        cacert = tls and tls.authority
    elif server.tls != "off":
        address = f"https://{address}"
    return Endpoint.of(address, key=key, cacert=cacert)


@contextmanager
def _own(arguments: list[str], log: Path | None) -> Iterator[Endpoint]:
    """A daemon for the length of the talk, with a key of its own."""
    from pipeline.talk.daemon import own_daemon
    from pipeline.talk.endpoint import Endpoint
    from services.access.keys import new_key

    key = new_key()
    with own_daemon(arguments, key=key, log=log) as address:
        yield Endpoint.of(address, key=key)


def _utterances(
    config: Config,
    files: list[Path],
    texts: list[str],
    text_file: Path | None,
    *,
    voice: str,
    tell: Callable[[str], None],
) -> list[NDArray[np.int16]]:
    """What will be said, made before the talk: its compute must not disturb the turns."""
    from pipeline.talk.say import read_lines
    from pipeline.talk.stereo import read_mono

    texts = [*texts, *(read_lines(text_file) if text_file else ())]
    spoken = [read_mono(path) for path in files]
    if texts:
        tell("loading the voice that says it")
        spoken += _spoken(config, texts, voice)
    return spoken


def _spoken(config: Config, texts: list[str], voice: str) -> list[NDArray[np.int16]]:
    from pipeline.budget import ThreadBudget
    from pipeline.commands.weights import fetch_missing
    from pipeline.store import open_store
    from pipeline.talk.say import speak
    from tts_engine.kokoro.engine import KokoroEngine

    fetch_missing(config, ["kokoro"])
    engine = KokoroEngine(
        model_dir=open_store(config).path("kokoro"), threads=ThreadBudget.of(config.threads).tts
    )
    return asyncio.run(speak(engine, texts, voice=voice))


def _kind(*, mode: Mode, framing: int, firmware: str, device_id: str, wake_word: str) -> DeviceKind:
    from pipeline.device.client import DeviceKind
    from pipeline.device.model import FIRMWARES

    if firmware not in FIRMWARES:
        raise typer.BadParameter(f"--firmware is one of {', '.join(FIRMWARES)}")
    return DeviceKind(
        mode=mode,
        framing=framing,
        firmware=firmware,
        device_id=device_id.lower(),
        wake_word=wake_word,
    )


def _converse(
    daemon: Endpoint,
    utterances: list[NDArray[np.int16]],
    out: Path | None,
    *,
    timeout_s: float,
    kind: DeviceKind | None,
) -> list[dict[str, Any]]:
    """Holds the conversation; what there is of it is recorded also when it fails."""
    client: TalkClient | DeviceClient
    if kind is None:
        from pipeline.talk.client import TalkClient

        client = TalkClient(daemon)
    else:
        from pipeline.device.client import DeviceClient

        client = DeviceClient(daemon, kind)
    try:
        return asyncio.run(client.talk(utterances, turn_timeout_s=timeout_s))
    finally:
        if out is not None and client.recording.sent:
            client.recording.write(out)


def _report(
    console: Console,
    turns: list[dict[str, Any]],
    utterances: int,
    out: Path | None,
    *,
    as_json: bool,
) -> bool:
    """Prints the talk; tells whether every utterance was answered."""
    from pipeline.talk.summary import answered

    if as_json:
        typer.echo(json.dumps(result(turns), ensure_ascii=False))
    else:
        _show(console, turns, out)
    return answered(turns, utterances)


def _show(console: Console, turns: list[dict[str, Any]], out: Path | None) -> None:
    from rich.markup import escape

    from pipeline.talk.summary import device_text, summarise, summary_text
    from pipeline.talk.waterfall import waterfall

    if not turns:
        console.print("[yellow]The daemon heard nothing.[/yellow]")
    for number, turn in enumerate(turns):
        if number:
            console.print()
        console.print(f"[bold]you[/bold]     {escape(turn['transcript'] or '(nothing)')}")
        cut = " [dim](interrupted)[/dim]" if turn["status"] == "cancelled" else ""
        console.print(f"[bold]duplexd[/bold] {escape(_answer(turn))}{cut}")
        if turn["error"]:
            console.print(f"[red]error[/red]   {escape(turn['error'])}")
        if "device" in turn:
            console.print(device_text(turn))
        elif turn["v2v_ms"] is not None:
            console.print(waterfall(turn, width=console.width))
    if len(turns) > 1:
        console.print()
        console.print(summary_text(summarise(turns)))
    if out is not None:
        console.print(f"[dim]recorded in {escape(str(out))}: left sent, right heard[/dim]")


def _answer(turn: dict[str, Any]) -> str:
    """The answer's text, or what there was in its place."""
    return turn["answer"] or ("(a voice, but no text came)" if turn["audio_s"] else "(nothing)")
