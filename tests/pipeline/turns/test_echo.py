"""The answer is known again through a loudspeaker, a room and a recogniser; what is new is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.echo import is_echo, similarity
from pipeline.turns.readings import reading

SKY = "天空是蓝色的,因为太阳的光线通过大气层折射,形成蓝色的光。"
PARIS = "The capital of France is Paris, which lies on the river Seine."
NUMBERS = "一共是三百二十五块,也就是百分之二十。"
PRESIDENT = "He was the first president of the United States."

ECHOES = [
    ("天空是蓝色的", SKY),
    ("天空是蓝色的。", SKY),
    ("因为太阳的光线", SKY),
    ("太阳的光线通过大气层", SKY),
    ("形成蓝色的光", SKY),
    # other characters of the same sound, and of nearly the same
    ("天空是兰色的", SKY),
    ("因为太阳的光现", SKY),
    ("应为太阳的光线", SKY),
    ("通过大气城折射", SKY),
    ("天空四蓝色的", SKY),
    # cut off at both ends
    ("空是蓝", SKY),
    ("空是", SKY),
    ("天空", SKY),
    ("光", SKY),
    ("线通过大", SKY),
    ("是蓝色的因为", SKY),
    # a character too many, or one lost
    ("嗯天空是蓝色的", SKY),
    ("天空是蓝的因为", SKY),
    ("the capital of france", PARIS),
    ("Capital of France is Paris.", PARIS),
    ("capitol of France", PARIS),
    ("which lies on the River", PARIS),
    ("apital of France is Par", PARIS),
    ("resident of the Uni", PRESIDENT),
    ("president of the united states", PRESIDENT),
    ("Paris", PARIS),
    # numbers, however they are written
    ("一共是325块", NUMBERS),
    ("也就是20%", NUMBERS),
    ("共是三百二十五", NUMBERS),
    ("it costs 325 dollars", "It costs three hundred twenty five dollars."),
    ("three hundred dollars", "That is 300 dollars"),
    ("三百二十五", NUMBERS),
]

NEW = [
    ("", SKY),
    ("天空是蓝色的", ""),
    ("今天天气怎么样", SKY),
    ("等一下我有个问题", SKY),
    ("换个话题吧", SKY),
    ("红色呢", SKY),
    ("我不想听这个", SKY),
    ("播放音乐", SKY),
    ("天空等一下换个话题", SKY),
    ("what is the weather like", PARIS),
    ("tell me about Germany", PARIS),
    ("what about Berlin", PARIS),
    ("London", PARIS),
    ("play some music", PARIS),
    ("can you stop please", PRESIDENT),
    ("what is the weather like", SKY),
    ("今天天气怎么样", PARIS),
    ("五百", NUMBERS),
    ("50", NUMBERS),
    ("多少钱", NUMBERS),
]


@pytest.mark.parametrize(("text", "audible"), ECHOES)
def test_echoes(text: str, audible: str) -> None:
    assert is_echo(text, audible)


@pytest.mark.parametrize(("text", "audible"), NEW)
def test_what_is_new(text: str, audible: str) -> None:
    assert not is_echo(text, audible)


def test_a_stretch_is_found_wherever_it_lies() -> None:
    assert similarity(SKY, SKY) == 1.0
    assert similarity("太阳的光线", SKY) == 1.0
    assert similarity("太阳的光线", SKY[::-1]) < 0.5


@pytest.mark.parametrize(
    ("character", "syllable"),
    [
        *[("啊", "a"), ("中", "zhong"), ("国", "guo"), ("女", "nv"), ("旅", "lv"), ("略", "lve")],
        *[("论", "lun"), ("路", "lu"), ("暖", "nuan"), ("诺", "nuo"), ("坐", "zuo"), ("做", "zuo")],
        *[("㐀", None), ("龘", None), ("a", None), ("，", None), ("亍", None), ("é", None)],
    ],
)
def test_readings(character: str, syllable: str | None) -> None:
    assert reading(character) == syllable


@given(st.text(max_size=60), st.text(max_size=60))
def test_total_and_bounded(text: str, audible: str) -> None:
    assert 0.0 <= similarity(text, audible) <= 1.0
    is_echo(text, audible)


CHINESE = st.text("天空是蓝色的因为太阳光线通过大气层折射形成", min_size=1, max_size=40)


@given(CHINESE, st.data())
def test_any_stretch_of_the_audible_words_is_an_echo(audible: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(audible) - 1))
    end = data.draw(st.integers(start + 1, len(audible)))
    assert similarity(audible[start:end], audible) == 1.0
    assert is_echo(audible[start:end], audible)


@given(CHINESE, CHINESE, CHINESE)
def test_more_audible_words_never_make_it_less_alike(text: str, audible: str, more: str) -> None:
    assert similarity(text, audible + more) >= similarity(text, audible)
