"""`run.py voices`: voices that were cloned from recordings, and what the voices say.

Exit codes: 0 done, 1 a voice or a file cannot be made or used, 2 wrong usage or no such voice.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.commands.options import ConfigFile, Engines, Sets, TtsName, configured
from pipeline.commands.plain_help import PlainCommand, PlainGroup
from tts_engine.errors import BadAudio, BadRequest, DuplexdError, UnknownVoice, not_installed

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    from pipeline.config import Config
    from tts_engine.cosyvoice.spk2info import Tokenizer
    from tts_engine.cosyvoice.voices import VoiceStore
    from tts_engine.engine import SpeechEngine

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    help="Voices cloned from recordings: list, register, remove; and say something.",
    epilog="Example: run.py voices register amy amy.wav --text 'What she says in it.'",
)

#: half a minute at the highest rate, with eight channels
_MAX_FILE = 200 << 20
_SEEN = "a daemon that runs with --tts cosyvoice has it from now on"

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="As `run.py voices list` shows it.")]


@app.command("list", cls=PlainCommand, epilog="Example: run.py voices list --json")
def list_(
    config: ConfigFile = None, sets: Sets = None, tts: TtsName = None, as_json: _Json = False
) -> None:
    """Show the registered voices, and those that the configured engine has of its own."""
    settings = _settings(config, sets, tts)
    store = _store(settings)
    registered = [info.model_dump(exclude={"sha256"}) for info in store.infos()]
    own = [{"name": name, "kind": settings.tts.provider} for name in _own(settings)]
    if as_json:
        typer.echo(json.dumps([*own, *registered], indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "for", "language", "seconds", "made", "says")
    for row in own:
        table.add_row(row["name"], row["kind"], "", "", "", "")
    for row in registered:
        seconds = f"{row['duration_s']:.1f}"
        day = row["created"][:10]
        table.add_row(row["name"], row["kind"], row["language"], seconds, day, row["text"])
    Console().print(table)
    typer.echo(f"registered voices are in {store.root}")


@app.command(
    cls=PlainCommand,
    epilog="Example: run.py voices register amy amy.wav --text 'What she says in it.'",
)
def register(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Letters, digits, Hanzi, - and _; at most 64.")
    ],
    recording: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="1 to 30 s of one speaker, 3 to 10 are best: WAV, FLAC, MP3, Ogg."
        ),
    ],
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="Exactly what is said in it.")
    ],
    language: Annotated[
        str, typer.Option("--language", metavar="zh|en|ja|yue|ko", help="Of the text.")
    ] = "",
    consent: Annotated[
        str,
        typer.Option("--consent", metavar="NOTE", help="Who agreed to it, and how; is kept."),
    ] = "",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: _Json = False,
) -> None:
    """Make a voice of a recording, for CosyVoice; needs the model's directory, and no daemon."""
    settings = _settings(config, sets)
    audio = _read(recording)
    from pipeline.commands.progress import say_on_stderr
    from tts_engine.cosyvoice.frontend import Frontend

    frontend = Frontend(_model_dir(settings), threads=_threads(settings))
    started = time.monotonic()
    info = _store(settings).register(
        name,
        audio,
        text,
        extractor=frontend,
        language=language,
        consent=consent,
        progress=say_on_stderr,
    )
    if as_json:
        typer.echo(info.model_dump_json())
        return
    took = time.monotonic() - started
    typer.echo(f"registered {name}: {info.duration_s:.1f} s of {info.language} ({took:.1f} s)")
    typer.echo(_SEEN, err=True)


@app.command(cls=PlainCommand, epilog="Example: run.py voices remove amy")
def remove(name: _Name, config: ConfigFile = None, sets: Sets = None) -> None:
    """Remove a registered voice."""
    try:
        _store(_settings(config, sets)).remove(name)
    except UnknownVoice as error:
        raise BadRequest(error.message, mend=error.mend) from error
    typer.echo(f"removed {name}")


@app.command(
    cls=PlainCommand, epilog="Example: run.py voices say 今天天气怎么样？ --out weather.wav"
)
def say(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Markdown, numbers and [tags] are understood.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.wav", help="Where to write it.")],
    voice: Annotated[
        str | None,
        typer.Option("--voice", metavar="NAME", help="A voice of the engine; else its default."),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", min=0.5, max=2.0, help="Pace; 1 is the voice's own."),
    ] = None,
    style: Annotated[
        str,
        typer.Option("--style", metavar="HOW", help="How to say it, for engines with styles."),
    ] = "",
    config: ConfigFile = None,
    sets: Sets = None,
    tts: TtsName = None,
    engines: Engines = None,
    as_json: _Json = False,
) -> None:
    """Say a text in a voice of the configured engine, and write a sound file."""
    settings = _settings(config, sets, tts, engines)
    said = asyncio.run(
        _say(_engine(settings), text, voice or settings.tts.voice, speed, style, settings)
    )
    _write(out, said)
    seconds = len(said.samples) / said.rate
    if as_json:
        row = {"voice": said.voice, "seconds": seconds, "first_audio_ms": said.first_ms}
        typer.echo(json.dumps({**row, "file": str(out)}, ensure_ascii=False))
        return
    typer.echo(f"{out}: {seconds:.1f} s of {said.voice}, first audio after {said.first_ms:.0f} ms")


@app.command(
    "import", cls=PlainCommand, epilog="Example: run.py voices import CosyVoice2-0.5B/spk2info.pt"
)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A spk2info.pt of CosyVoice's.")],
    config: ConfigFile = None,
    sets: Sets = None,
) -> None:
    """Take over the voices that CosyVoice's own `save_spkinfo` wrote."""
    settings = _settings(config, sets)
    spk2info, tokenizer = _upstream(settings)
    kind = _kind(settings)
    found = spk2info.read_spk2info(file, kind=kind, tokenizer=tokenizer)
    store, refused = _store(settings), dict(found.refused)
    for voice in found.voices:
        try:
            store.add(voice.info, voice.features)
            typer.echo(f"imported {voice.info.name}")
        except BadRequest as error:
            refused[voice.info.name] = error.message
    for name, why in refused.items():
        typer.echo(f"left out {name}: {why}", err=True)
    if refused:
        raise typer.Exit(1)


@app.command(cls=PlainCommand, epilog="Example: run.py voices export spk2info.pt")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")],
    config: ConfigFile = None,
    sets: Sets = None,
) -> None:
    """Write the registered voices as a spk2info.pt for CosyVoice's own programs."""
    settings = _settings(config, sets)
    spk2info, tokenizer = _upstream(settings)
    store = _store(settings, kind=_kind(settings))
    voices = [store.read(info.name) for info in store.infos()]
    spk2info.write_spk2info(file, voices, tokenizer=tokenizer)
    typer.echo(f"{file}: {len(voices)} voices")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What came of a text.

    Parameters:
        samples: mono int16.
        rate: samples per second.
        voice: whose.
        first_ms: from asking to the first audio.
    """

    samples: NDArray[np.int16]
    rate: int
    voice: str
    first_ms: float


async def _say(
    engine: SpeechEngine,
    text: str,
    voice: str | None,
    speed: float | None,
    style: str,
    settings: Config,
) -> _Said:
    import numpy as np

    from services.voices import resolve_voice
    from tts_engine.text.stream import segment

    clauses = segment(text)
    if not clauses:
        raise BadRequest("There is nothing to say in the text")
    try:
        await engine.start()
        name = resolve_voice(voice, engine.voices) if voice else engine.voices[0]
        pcm, first, asked = bytearray(), None, time.monotonic()
        for clause in clauses:
            job = engine.synthesize(
                clause.text,
                voice=name,
                speed=speed or settings.tts.speed,
                style=clause.style or style,
            )
            async with aclosing(job):
                async for chunk in job:
                    if first is None and chunk.pcm:
                        first = time.monotonic() - asked
                    pcm += chunk.pcm
    except UnknownVoice as error:
        raise BadRequest(error.message, mend=error.mend) from error
    finally:
        await engine.close()
    if first is None:
        raise BadRequest("There is nothing in the text that can be spoken")
    samples = np.frombuffer(bytes(pcm), np.int16)
    return _Said(samples=samples, rate=engine.sample_rate, voice=name, first_ms=1000 * first)


def _write(path: Path, said: _Said) -> None:
    import soundfile

    try:
        soundfile.write(path, said.samples, said.rate, format="WAV", subtype="PCM_16")
    except (OSError, soundfile.SoundFileError) as error:
        raise DuplexdError(f"{path} cannot be written: {error}") from error


def _read(recording: Path) -> bytes:
    try:
        if recording.stat().st_size > _MAX_FILE:
            raise BadAudio(
                f"{recording} is larger than {_MAX_FILE >> 20} MB",
                mend="Give 3 to 10 s of one person who speaks",
            )
        return recording.read_bytes()
    except OSError as error:
        raise BadRequest(f"{recording} cannot be read: {error.strerror}") from error


def _settings(
    config: Path | None,
    sets: list[str] | None,
    tts: str | None = None,
    engines: str | None = None,
) -> Config:
    from pipeline.commands.logs import log_warnings_only

    log_warnings_only()
    return configured(config, sets, tts=tts, engines=engines)


def _store(settings: Config, **options: Any) -> VoiceStore:
    from pipeline.cosyvoice import voices_dir
    from tts_engine.cosyvoice.voices import VoiceStore

    return VoiceStore(voices_dir(settings), **options)


def _own(settings: Config) -> tuple[str, ...]:
    """The voices that the engine has without anybody's registering them."""
    from tts_engine.kokoro.voices import BUNDLED, find_voices

    return tuple(find_voices(BUNDLED)) if settings.tts.provider == "kokoro" else ()


def _engine(settings: Config) -> SpeechEngine:
    from pipeline.commands.weights import fetch_missing
    from pipeline.needs import needed_voice
    from pipeline.store import open_store
    from pipeline.voice import build_voice

    fetch_missing(settings, needed_voice(settings))
    return build_voice(settings, open_store(settings), threads=_threads(settings))


def _threads(settings: Config) -> int:
    from pipeline.budget import ThreadBudget

    return ThreadBudget.of(settings.threads).tts


def _model_dir(settings: Config) -> Path:
    from pipeline.cosyvoice import model_dir
    from pipeline.store import open_store

    return model_dir(settings, open_store(settings))


def _kind(settings: Config) -> Any:
    from tts_engine.cosyvoice.kind import kind_of

    return kind_of(_model_dir(settings))


def _upstream(settings: Config) -> tuple[ModuleType, Tokenizer]:
    """What reads upstream's file, and the tokenizer that it needs."""
    try:
        from tts_engine.cosyvoice import spk2info
    except ModuleNotFoundError as error:
        raise not_installed("Upstream's file", error) from error
    home = settings.tts.cosyvoice.home
    return spk2info, spk2info.load_tokenizer(_model_dir(settings), home=home)
