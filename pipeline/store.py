"""Opens the model store that a configuration names."""

from __future__ import annotations

from pathlib import Path

from pipeline.config_schema import Config
from pipeline.config_section import CONFIGS
from services.models import ModelStore, default_root, load_manifest

#: what models there are, and where they come from
MANIFEST = CONFIGS / "models.yaml"


def models_root(config: Config) -> Path:
    """Where the models lie."""
    return config.models.dir or default_root()


def open_store(config: Config, *, manifest: Path | None = None) -> ModelStore:
    """Opens the store; nothing is read but the manifest.

    Args:
        config: names the directory, and whether the network may be used.
        manifest: another manifest than MANIFEST.

    Raises:
        ConfigError: the manifest is wrong.
    """
    return ModelStore(
        root=models_root(config),
        manifest=load_manifest(manifest or MANIFEST),
        offline=config.models.offline,
    )
