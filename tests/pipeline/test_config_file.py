"""Files are read as people mean them, every key with its line, and refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config_file import kind_of, parse_yaml, read_config_file
from tts_engine.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("12", 12),
        ("-7", -7),
        ("010", 10),
        ("0x1F", 31),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        (".inf", float("inf")),
        ("-.Inf", float("-inf")),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("|\n  12\n", "12\n"),
        ("[1, a]", [1, "a"]),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        ("<<: 1", {"<<": 1}),
        ("", None),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse_yaml(text, source="f") == value


def test_not_a_number_is_a_float() -> None:
    value = parse_yaml(".nan", source="f")
    assert isinstance(value, float)
    assert value != value


def test_lines_of_keys_and_items() -> None:
    lines: dict[tuple[str | int, ...], int] = {}
    parse_yaml("# head\na:\n  b: 1\n\n  c:\n  - x\n  - {d: 2}\n", source="f", lines=lines)
    assert lines == {
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "c"): 5,
        ("a", "c", 0): 6,
        ("a", "c", 1): 7,
        ("a", "c", 1, "d"): 7,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3", 'f:3: key "a" stands here twice (first on line 1)'),
        ("a:\n  b: 1\n  b: 1", 'f:3: key "a.b" stands here twice (first on line 2)'),
        ("a: [", "f:1: not valid YAML: while parsing a flow node"),
        ("a: 1\n\tb: 2", "f:2: not valid YAML"),
        ("a: 1\n---\nb: 1", "f:2: not valid YAML: expected a single document"),
        ("a: &x 1\nb: *x", "f:2: not valid YAML: aliases are not supported"),
        ("a: &x [*x]", "f:1: not valid YAML: aliases are not supported"),
        ("? [1]\n: 2", "f:1: a key must be text"),
        ("a: !!int 3", "f:1: the tag !!int is not supported"),
        ("a: !own {b: 1}", "f:1: the tag !own is not supported"),
        ('a: "\\ud800"', "f:1: text with half a character"),
        ('"\\udfff": 1', "f:1: text with half a character"),
        ("\x00", "f: not valid YAML: unacceptable character"),
        ("[" * 3000, "f: nested too deeply"),
        (f"a: {'9' * 5000}", "f:1: a number of 5000 digits"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, source="f")
    assert caught.value.message.startswith(said)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"- 1\n", ":1: a configuration file is a mapping of sections; found a list"),
        (b"hello", ":1: a configuration file is a mapping of sections; found text"),
        (b"a: \xff", ": not UTF-8 text (byte 3)"),
    ],
)
def test_refused_files(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_config_file(path)
    assert caught.value.message == f"{path}{said}"


def test_a_byte_order_mark_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_config_file(path).data == {"a": 1}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml does not exist"):
        read_config_file(tmp_path / "gone.yaml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_config_file(tmp_path)


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(ConfigError, match="cannot be read: embedded null"):
        read_config_file(Path("a\x00b"))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "nothing"),
        (True, "true or false"),
        (1, "a number"),
        (1.5, "a number"),
        ("x", "text"),
        ([], "a list"),
        ({}, "a section"),
    ],
)
def test_kinds_in_words(value: object, kind: str) -> None:
    assert kind_of(value) == kind
