"""Invariants: personas can be told apart, and a wrong one is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import load_config
from tts_engine.errors import ConfigError

MINE = """\
web:
  personas:
    - {id: pirate, name: {zh: 海盗, en: Pirate}, instructions: {zh: 说话像海盗, en: Talk so}}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "my.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_first_one_is_the_daemon_as_it_is():
    first, *others = load_config(None, environ={}).web.personas
    assert (first.id, first.instructions) == ("everyday", None)
    assert len(others) == 3
    assert all(persona.instructions for persona in others)


def test_ones_own(tmp_path: Path):
    (persona,) = load_config(written(tmp_path, MINE), environ={}).web.personas
    assert (persona.name.en, persona.name.zh) == ("Pirate", "海盗")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (MINE.replace("id: pirate", "id: Pirate!"), "3: web.personas[0].id: must match"),
        (MINE.replace("id: pirate, ", ""), "web.personas[0]: 'id' is missing"),
        (MINE.replace("name: {", "nmae: {"), "did you mean web.personas[0].name?"),
        (MINE.replace("en: Talk", "em: Talk"), "instructions.em: unknown key; known here: zh, en"),
        (MINE + MINE.splitlines()[2] + "\n", "two personas have the id pirate"),
        ("web: {personas: []}\n", "needs at least one persona"),
    ],
)
def test_a_wrong_one(tmp_path: Path, wrong: str, said: str):
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, wrong), environ={})
    assert said in str(caught.value)
