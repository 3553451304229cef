"""The log of the daemon: one, on standard error, also of what its libraries say.

Values of variables are never in it: those of a request hold keys, and those of a conversation what
was said.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from pipeline.config import Config

#: what uvicorn says of clients that send nonsense, which they may do as often as they like
_NONSENSE = ("Invalid HTTP request received.", "Unsupported upgrade request.")


def set_up_logging(config: Config) -> None:
    """Writes the log in the format that the configuration names."""
    logger.remove()
    level = config.log.level.upper()
    if config.log.format == "json":
        logger.add(sys.stderr, level=level, serialize=True, diagnose=False)
    else:
        form = "<dim>{time:HH:mm:ss.SSS}</dim> <level>{level: <7}</level> {message}"
        logger.add(sys.stderr, level=level, format=form, filter=_not_a_greeting, diagnose=False)
    logging.basicConfig(handlers=[_Bridge()], level=logging.WARNING, force=True)


class _Bridge(logging.Handler):
    """Takes what is said by way of the standard library into the one log."""

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        message = record.getMessage()
        level = "DEBUG" if message in _NONSENSE else _level(record)
        logger.opt(exception=record.exc_info).log(level, "{}: {}", record.name, message.strip())


def _level(record: logging.LogRecord) -> str | int:
    """Its name where loguru has one of the same."""
    try:
        return logger.level(record.levelname).name
    except ValueError:
        return record.levelno


def _not_a_greeting(record: object) -> bool:
    """Pipecat announces itself with a banner; a daemon's log does not need it."""
    return "ᓚᘏᗢ" not in record["message"]  # type: ignore[index]
