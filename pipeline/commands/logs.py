"""The log of commands that are no daemon."""

from __future__ import annotations

import sys

from loguru import logger


def log_warnings_only() -> None:
    """What is logged, other than warnings, is nothing to somebody who waits for a command."""

    def write(line: str) -> None:
        # Looked up each time: a progress bar puts itself in between, to stay the last line.
        sys.stderr.write(line)

    logger.remove()
    logger.add(write, level="WARNING", format="{level}: {message}")
