"""Tests that get a daemon of their own, in their own event loop."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.daemon.inside import inside

STORY = "从前有一座山，山里有一座庙。"


def served(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Gives a test its `daemon`: a fixture of an async generator is another task's, and would count
    as left behind.
    """

    @functools.wraps(test)
    async def run(**arguments: Any) -> None:
        sets = {"scripted.replies": json.dumps([STORY], ensure_ascii=False)}
        async with inside(sets) as daemon:
            await test(daemon=daemon, **arguments)

    parameters = inspect.signature(test).parameters.values()
    others = [each for each in parameters if each.name != "daemon"]
    run.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
    return run
