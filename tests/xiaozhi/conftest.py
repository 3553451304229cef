from __future__ import annotations

from tests.access.conftest import errors
from tests.pipeline.conftest import plain_environment, run

__all__ = ["errors", "plain_environment", "run"]
