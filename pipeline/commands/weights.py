"""Fetches what a configuration needs before its engines start, with a progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.config import Config


def fetch_needed(config: Config) -> None:
    """Fetches the models that `config` needs and that are not here, if it allows that.

    Raises:
        ModelError: one could not be fetched.
    """
    from pipeline.commands.models import MANIFEST, _progress
    from pipeline.needs import needed_models
    from services.models import ModelState, ModelStore, default_root, load_manifest

    names = needed_models(config)
    if not names or not config.models.auto_fetch or config.models.offline:
        return
    store = ModelStore(root=config.models.dir or default_root(), manifest=load_manifest(MANIFEST))
    for name in names:
        if store.status(name) in (ModelState.MISSING, ModelState.CORRUPT):
            with _progress(f"{name}: ") as progress:
                store.fetch(name, progress)
