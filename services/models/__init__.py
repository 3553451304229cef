"""Model weights: what there is, where it comes from, whether it is right."""

from services.models.manifest import Manifest, load_manifest
from services.models.store import (
    ModelState,
    ModelStore,
    Progress,
    default_root,
    fetch_options,
)

__all__ = [
    "Manifest",
    "ModelState",
    "ModelStore",
    "Progress",
    "default_root",
    "fetch_options",
    "load_manifest",
]
