from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from loguru import logger

from tests.realtime.fakes import Face, serving


@pytest.fixture
async def face() -> AsyncIterator[Face]:
    async with serving(Face()) as served:
        yield served


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """Messages logged as warnings or worse while the test runs."""
    lines: list[str] = []
    handler = logger.add(lambda line: lines.append(str(line)), level="WARNING", format="{message}")
    yield lines
    logger.remove(handler)
