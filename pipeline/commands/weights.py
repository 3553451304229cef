"""Fetches what a configuration needs before its engines start, and shows how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.config import Config


def fetch_needed(config: Config, *, say: Callable[[str], None] | None = None) -> None:
    """Fetches the models that `config` needs and that are not here, if it allows that.

    Args:
        config: what is to run.
        say: gets lines for people; None is standard error.

    Raises:
        ModelError: one could not be fetched.
    """
    from pipeline.needs import needed_models

    fetch_missing(config, needed_models(config), say=say)


def fetch_missing(
    config: Config, names: Iterable[str], *, say: Callable[[str], None] | None = None
) -> None:
    """Fetches those of the models that are not here, if `config` allows that; else as
    `fetch_needed`.

    Raises:
        ModelError: one could not be fetched.
    """
    from pipeline.commands.progress import Job, progress_bar, say_on_stderr
    from pipeline.store import open_store
    from services.models import ModelState

    if not config.models.auto_fetch or config.models.offline:
        return
    store = open_store(config)
    say = say or say_on_stderr
    wanting = (ModelState.MISSING, ModelState.CORRUPT)
    missing = [name for name in names if store.status(name) in wanting]
    for number, name in enumerate(missing, start=1):
        size = store.manifest.model(name).bytes
        job = Job(name=name, bytes=size, number=number, count=len(missing))
        started = time.monotonic()
        with progress_bar(job, say=say) as progress:
            store.fetch(name, progress)
        say(f"{name} is here and verified ({time.monotonic() - started:.0f} s)")
