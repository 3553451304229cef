from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.realtime.fakes import Face, serving


@pytest.fixture
async def face() -> AsyncIterator[Face]:
    async with serving(Face()) as served:
        yield served
