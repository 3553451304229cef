"""`run.py transcribe`: recordings as text, without a daemon.

Exit codes: 0 done, 1 a recording or the recogniser failed, 2 wrong usage or configuration.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from pipeline.commands.failures import complain
from pipeline.commands.options import AsrName, ConfigFile, Engines, Sets, configured
from pipeline.commands.plain_help import PlainCommand
from tts_engine.errors import BadRequest, DuplexdError

if TYPE_CHECKING:
    from pipeline.config import Config
    from services.asr.one_shot import Transcriber
    from services.asr.recording import Recording, Wish

app = typer.Typer(add_completion=False)

_Form = Literal["text", "json", "verbose_json", "srt", "vtt"]
_ENDINGS: dict[_Form, str] = {
    "text": ".txt",
    "json": ".json",
    "verbose_json": ".json",
    "srt": ".srt",
    "vtt": ".vtt",
}
#: standard input
_STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What is done with the recordings.

    Parameters:
        files: names, or `-`.
        form: of the texts.
        wish: how they are heard.
        folder: gets a file for each; None: standard output gets them.
        stdin: what `-` stands for, can be gone back in.
    """

    files: list[str]
    form: _Form
    wish: Wish
    folder: Path | None
    stdin: BinaryIO | None = None

    def target(self, file: str) -> Path | None:
        """Where the text of a recording goes; None: to standard output."""
        if self.folder is None:
            return None
        name = "stdin" if file == _STDIN else Path(file).stem
        return self.folder / f"{name}{_ENDINGS[self.form]}"


@app.command(
    cls=PlainCommand, epilog="Example: run.py transcribe talk.mp3 --format srt --output subtitles"
)
def transcribe(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="Sounds or videos: WAV, FLAC, MP3, M4A, MP4, ...; - is stdin."
        ),
    ],
    form: Annotated[
        _Form, typer.Option("--format", "-f", help="What to write.", show_choices=True)
    ] = "text",
    language: Annotated[
        str, typer.Option("--language", metavar="zh|en", help="What is spoken; else it is heard.")
    ] = "",
    hotwords: Annotated[
        str,
        typer.Option(
            "--hotwords",
            metavar="A,B",
            help="Names and terms that are likely, for engines that use them.",
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write NAME.txt, .json, .srt or .vtt there."
        ),
    ] = None,
    config: ConfigFile = None,
    sets: Sets = None,
    asr: AsrName = None,
    engines: Engines = None,
) -> None:
    """Transcribe recordings with the recogniser of the configuration; needs no daemon.

    One that cannot be read does not stop the others. Several to standard output: texts under their
    names, JSON one object a line.
    """
    from pipeline.commands.logs import log_warnings_only

    log_warnings_only()
    settings = configured(config, sets, asr=asr, engines=engines)
    job = _Job(files=files, form=form, wish=_wish(settings, language, hotwords), folder=output)
    _check(job)
    from pipeline.commands.weights import fetch_missing
    from pipeline.needs import needed_asr

    fetch_missing(settings, needed_asr(settings))
    # Before there is an event loop: a Ctrl-C ends the waiting for it.
    with _standard_input() if _STDIN in files else nullcontext() as stdin:
        if not asyncio.run(_transcribe(settings, replace(job, stdin=stdin))):
            raise typer.Exit(1)


def _wish(settings: Config, language: str, hotwords: str) -> Wish:
    from services.asr.recording import Wish, hotwords_of

    known = settings.asr.languages
    if language and language not in known:
        raise BadRequest(
            f"The language {language!r} is not recognised",
            mend=f"Choose one of {', '.join(known)}, see asr.languages",
        )
    return Wish(languages=(language,) if language else None, hotwords=hotwords_of(hotwords))


def _check(job: _Job) -> None:
    if job.files.count(_STDIN) > 1:
        raise BadRequest("Standard input can be read once only")
    if job.folder is None:
        if job.form in ("srt", "vtt") and len(job.files) > 1:
            raise BadRequest("Subtitles of several recordings need files", mend="Add --output DIR")
        return
    targets = [job.target(file) for file in job.files]
    for number, target in enumerate(targets):
        if target in targets[:number]:
            raise BadRequest(
                f"{target} would be written twice", mend="Transcribe those recordings one by one"
            )
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"{job.folder} cannot be made: {error.strerror}") from error


async def _transcribe(settings: Config, job: _Job) -> bool:
    """True: all of them were."""
    from pipeline.budget import ThreadBudget
    from pipeline.recognition import build_asr
    from pipeline.store import open_store
    from pipeline.transcription import build_vad
    from services.asr.one_shot import Transcriber

    vad = build_vad(settings)
    asr = build_asr(settings, open_store(settings), budget=ThreadBudget.of(settings.threads))
    transcriber = Transcriber(asr=asr, vad=vad, threshold=settings.vad.threshold)
    try:
        await vad.start()
        await asr.start()
        done = [await _one(transcriber, job, number) for number in range(len(job.files))]
        return all(done)
    finally:
        await asr.close()
        await vad.close()


async def _one(transcriber: Transcriber, job: _Job, number: int) -> bool:
    from pipeline.commands.progress import say_on_stderr

    file, began = job.files[number], time.monotonic()
    try:
        with nullcontext(job.stdin) if file == _STDIN else _opened(file) as stream:
            assert stream is not None, "standard input is read before"
            recording = await _heard(transcriber, job, number, stream)
        _write(job, file, recording)
    except (DuplexdError, OSError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else error.message
        mend = error.mend if isinstance(error, DuplexdError) else ""
        complain(DuplexdError(f"{file}: {why}", mend=mend))
        return False
    took_s = time.monotonic() - began
    say_on_stderr(f"{file}: {recording.audio_s:.1f} s of audio in {took_s:.1f} s")
    return True


@contextmanager
def _standard_input() -> Iterator[BinaryIO]:
    if sys.stdin is None:
        raise BadRequest("Standard input is closed", mend="Name a file, or pipe a recording in")
    with _seekable(sys.stdin.buffer) as stream:
        yield stream


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    with open(file, "rb") as raw, _seekable(raw) as stream:
        yield stream


@contextmanager
def _seekable(raw: BinaryIO) -> Iterator[BinaryIO]:
    """A file that can be gone back in; a pipe is copied to the disk first."""
    import shutil
    from tempfile import TemporaryFile

    if raw.seekable():
        yield raw
        return
    with TemporaryFile() as copy:
        shutil.copyfileobj(raw, copy)
        copy.flush()
        yield copy


async def _heard(transcriber: Transcriber, job: _Job, number: int, stream: BinaryIO) -> Recording:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from services.asr.recording import Recording

    name = job.files[number]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f} s"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(f"{number + 1} of {len(job.files)}  {Path(name).name}", total=None)
        heard = transcriber.open(
            stream, job.wish, name=name, on_heard=lambda s: bar.update(task, completed=s)
        )
        async with heard as listening:
            bar.update(task, total=listening.duration_s)
            async with aclosing(listening.segments()) as found:
                segments = tuple([segment async for segment in found])
        return Recording(segments=segments, audio_s=listening.heard_s)


def _write(job: _Job, file: str, recording: Recording) -> None:
    from services.asr.renderings import render

    text = render(recording, job.form, granularities=("word", "segment"))
    target = job.target(file)
    if target is not None:
        target.write_text(text, encoding="utf-8")
        return
    if job.form == "text" and len(job.files) > 1:
        typer.echo(f"==> {file} <==")
    typer.echo(text.rstrip("\n"))
