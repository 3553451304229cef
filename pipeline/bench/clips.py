"""What is said in a `bench v2v`: synthesised or recorded, in a quiet room or a noisy one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.bench.recordings import read_clips
from pipeline.bench.speech import Clip, Samples, room_noise, synthesise
from pipeline.bench.texts import lines

if TYPE_CHECKING:
    from pipeline.config import Config

#: the noise of the room goes round, seconds
_ROOM_S = 10.0


def clips_of(
    config: Config,
    *,
    turns: int | None = None,
    folder: Path | None = None,
    snr_db: float | None = None,
    advance: Callable[[], None] = lambda: None,
) -> list[Clip]:
    """The clips of a bench.

    Args:
        config: for the embedded voice.
        turns: the first so many; None: all.
        folder: recordings, see `pipeline.bench.recordings`; None: synthesised speech.
        snr_db: how far the noise lies below the speech; None: no noise.
        advance: called for each clip that is made.

    Raises:
        DuplexdError: a recording cannot be read, or the voice does not speak.
    """
    if folder is not None:
        clips = read_clips(folder)
    else:
        said = lines()[:turns]
        clips = synthesise(said, config, advance=lambda _: advance())
    clips = clips[:turns]
    if snr_db is None:
        return clips
    return [clip.noisy(snr_db, seed=number) for number, clip in enumerate(clips, start=1)]


def room(snr_db: float | None) -> Samples | None:
    """What is heard between the utterances; None: nothing."""
    return None if snr_db is None else room_noise(_ROOM_S, snr_db, seed=0)
