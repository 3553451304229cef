"""Fetches what a configuration needs before its engines start, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.config import Config


def fetch_needed(config: Config) -> None:
    """Fetches the models that `config` needs and that are not here, if it allows that.

    Raises:
        ModelError: one could not be fetched.
    """
    from pipeline.needs import needed_models

    fetch_missing(config, needed_models(config))


def fetch_missing(config: Config, names: Iterable[str]) -> None:
    """Fetches those of the models that are not here, if `config` allows that.

    Raises:
        ModelError: one could not be fetched.
    """
    from pipeline.commands.progress import progress_bar
    from pipeline.store import open_store
    from services.models import ModelState

    if not config.models.auto_fetch or config.models.offline:
        return
    store = open_store(config)
    for name in names:
        if store.status(name) in (ModelState.MISSING, ModelState.CORRUPT):
            with progress_bar(name) as progress:
                store.fetch(name, progress)
