from __future__ import annotations

from tests.asr.conftest import models_dir, speak

__all__ = ["models_dir", "speak"]
