"""Invariants: what libraries say is in the one log, in its format; values of variables are not;
clients that send nonsense do not fill it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from loguru import logger

from pipeline.commands.daemon_log import set_up_logging
from pipeline.config import load_config

SECRET = "dx-a-secret-that-is-nobodys-business"


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log of the tests. uvicorn may have been given one of its own by others of them."""
    for name in ("uvicorn", "uvicorn.error"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    for handler in handlers:  # pytest's own would be closed
        root.removeHandler(handler)
    yield
    for handler in [*root.handlers]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logger.remove()


def set_up(*sets: str) -> None:
    set_up_logging(load_config(None, sets, environ={}))


def broken(key: str) -> None:
    raise RuntimeError(f"broken, {len(key)}")


def test_libraries_are_in_the_log(capsys: pytest.CaptureFixture[str]):
    set_up()
    logging.getLogger("uvicorn.error").error("Exception in ASGI application\n")
    logging.getLogger("other").warning("50 %s {braces}", "%")
    logging.getLogger("other").info("not interesting")
    logging.getLogger("other").log(35, "of a level of its own")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "ERROR   uvicorn.error: Exception in ASGI application",
        "WARNING other: 50 % {braces}",
        "Level 35 other: of a level of its own",
    ]


def test_as_json_all_of_it_is(capsys: pytest.CaptureFixture[str]):
    set_up("log.format=json")
    try:
        broken(SECRET)
    except RuntimeError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
        logger.exception("ours")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["record"]["message"] for line in lines] == [
        "uvicorn.error: Exception in ASGI application",
        "ours",
    ]
    assert SECRET not in json.dumps(lines)
    assert all("RuntimeError: broken, 36" in line["text"] for line in lines)


@pytest.mark.parametrize("level", ["info", "trace"])
def test_no_values_of_variables(capsys: pytest.CaptureFixture[str], level: str):
    set_up(f"log.level={level}")
    try:
        broken(SECRET)
    except RuntimeError:
        logger.exception("ours")
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    err = capsys.readouterr().err
    assert err.count("RuntimeError: broken, 36") == 2
    assert SECRET not in err


def test_nonsense_of_clients_is_not_interesting(capsys: pytest.CaptureFixture[str]):
    set_up()
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.error").warning("Unsupported upgrade request.")
    assert capsys.readouterr().err == ""
