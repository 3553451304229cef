from __future__ import annotations

from collections.abc import Iterator

import pytest
from loguru import logger

from tests.pipeline.conftest import plain_environment, run

__all__ = ["plain_environment", "run"]


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """Lines of the log at level error."""
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level="ERROR", format="{message}")
    yield lines
    logger.remove(sink)
