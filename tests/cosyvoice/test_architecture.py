"""A configuration describes modules of CosyVoice and nothing else; reading it runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tts_engine.cosyvoice.architecture import Recipe, build, read_architecture
from tts_engine.errors import ModelCorrupt, ModelMissing

PUBLISHED = """
__set_seed1: !apply:random.seed [1986]
rate: 24000
chunk: 25
ratio: 2
home: ''
llm: !new:cosyvoice.llm.llm.Qwen2LM
    size: !ref <rate>
    llm: !new:cosyvoice.llm.llm.Qwen2Encoder
        pretrain_path: !ref <home>
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: 0.8
estimator:
    chunk: !ref <chunk> * <ratio>
    sigma: 1e-06
    rates: [!ref <chunk>, 5]
    again: !ref <llm>
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cosyvoice2.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path: Path, text: str, **overrides: Any) -> dict[str, Any]:
    return read_architecture(written(tmp_path, text), **overrides)


def test_what_a_published_file_says(tmp_path: Path) -> None:
    found = read(tmp_path, PUBLISHED, home="/models/blank")
    assert found["estimator"]["chunk"] == 50
    assert found["estimator"]["sigma"] == 1e-6
    assert found["estimator"]["rates"] == [25, 5]
    assert found["__set_seed1"] is None
    llm = found["llm"]
    assert isinstance(llm, Recipe)
    assert (llm.target, llm.call, llm.arguments["size"]) == (
        "cosyvoice.llm.llm.Qwen2LM",
        True,
        24000,
    )
    assert llm.arguments["llm"].arguments == {"pretrain_path": "/models/blank"}
    assert not llm.arguments["sampling"].call
    assert found["estimator"]["again"] == llm


def test_building_calls_and_fills_in() -> None:
    inner = Recipe("cosyvoice.a", {"x": 1}, call=True)
    later = Recipe("cosyvoice.b", {"y": 2}, call=False)
    outer = Recipe("cosyvoice.c", {"parts": [inner, 7], "named": {"later": later}}, call=True)
    made = build(outer, {"cosyvoice.a": dict, "cosyvoice.b": dict, "cosyvoice.c": dict})
    assert made["parts"] == [{"x": 1}, 7]
    assert made["named"]["later"](z=3) == {"y": 2, "z": 3}


@pytest.mark.parametrize("target", ["os.system", "builtins.eval", "cosyvoicex.y", "subprocess.run"])
def test_nothing_else_may_be_named(target: str) -> None:
    with pytest.raises(ModelCorrupt, match=f"names {target}, which is no part of CosyVoice"):
        build(Recipe(target, {}, call=True), {})


@pytest.mark.usefixtures("model_dir")
@pytest.mark.parametrize("target", ["cosyvoice.no_such.Thing", "cosyvoice.llm.llm.NoSuchLM"])
def test_a_part_that_these_modules_lack(target: str) -> None:
    with pytest.raises(ModelCorrupt, match=f"{target}, which these modules do not have") as caught:
        build(Recipe(target, {}, call=True), {})
    assert "checkout" in caught.value.mend


def test_arguments_that_do_not_fit() -> None:
    def takes_nothing() -> None: ...

    with pytest.raises(ModelCorrupt, match=r"does not fit cosyvoice\.x: .*wrong"):
        build(Recipe("cosyvoice.x", {"wrong": 1}, call=True), {"cosyvoice.x": takes_nothing})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: !ref <b>", "leads nowhere: 'b'"),
        ("a: !ref <b>\nb: !ref <a>", "leads nowhere"),
        ("a: !ref b", "cannot be read: .*'b' is not understood"),
        ("a: !ref <b> + <b>\nb: 1", "is not understood"),
        ("a: [", "cannot be read"),
        ("- a", "holds no configuration"),
        ("a: !python/object/apply:os.getcwd []", "cannot be read"),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ModelCorrupt, match=why):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"cosyvoice2\.yaml is not there"):
        read_architecture(tmp_path / "cosyvoice2.yaml")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "cosyvoice2.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelCorrupt, match="cannot be read"):
        read_architecture(path)
