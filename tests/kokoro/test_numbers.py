"""Numbers are read in the language around them, and every digit is read."""

from __future__ import annotations

import re

import cn2an
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.kokoro.numbers import NUMBER, cardinal_zh, ordinal_en, say_en, say_zh, year_en

ZH = [
    ("0", "零"),
    ("2", "二"),
    ("10", "十"),
    ("15", "十五"),
    ("20", "二十"),
    ("100", "一百"),
    ("105", "一百零五"),
    ("110", "一百一十"),
    ("1001", "一千零一"),
    ("1010", "一千零一十"),
    ("10000", "一万"),
    ("100000", "十万"),
    ("10005", "一万零五"),
    ("120000000", "一亿二千万"),
    ("100000001", "一亿零一"),
    ("1000000000000", "一万亿"),
    ("1000100000000", "一万零一亿"),
    ("3.14", "三点一四"),
    ("0.05", "零点零五"),
    ("007", "零零七"),
    ("1234567890123456", "一二三四五六七八九零一二三四五六"),
    ("2024年", "二零二四年"),
    ("30年", "三十年"),
    ("2个", "两个"),
    ("2天", "两天"),
    ("第2个", "第二个"),
    ("12个", "十二个"),
]
EN = [
    ("0", "zero"),
    ("12", "twelve"),
    ("40", "forty"),
    ("99", "ninety nine"),
    ("100", "one hundred"),
    ("256", "two hundred fifty six"),
    ("1000", "one thousand"),
    ("5280 feet", "five thousand two hundred eighty feet"),
    ("1000000", "one million"),
    ("2500000", "two million five hundred thousand"),
    ("3.14", "three point one four"),
    ("0.5", "zero point five"),
    ("007", "zero zero seven"),
    ("in 1999,", "in nineteen ninety nine,"),
    ("in 2005", "in two thousand and five"),
    ("2024", "twenty twenty four"),
    ("2000", "two thousand"),
    ("1900", "nineteen hundred"),
    ("in 1066 and", "in one thousand sixty six and"),
    ("1500 people", "one thousand five hundred people"),
    ("in 1500 people", "in fifteen hundred people"),
    ("2019 people", "twenty nineteen people"),
    ("$2000", "$two thousand"),
    ("1990s", "nineteen nineties"),
    ("20s", "twenties"),
    ("10s", "tens"),
    ("1st", "first"),
    ("2nd", "second"),
    ("3rd", "third"),
    ("12th", "twelfth"),
    ("20th", "twentieth"),
    ("21st", "twenty first"),
    ("3.5th", "three point five th"),
    ("1907", "nineteen oh seven"),
]


@pytest.mark.parametrize("text,said", ZH)
def test_chinese(text: str, said: str) -> None:
    assert NUMBER.sub(say_zh, text) == said


@pytest.mark.parametrize("text,said", EN)
def test_english(text: str, said: str) -> None:
    assert NUMBER.sub(say_en, text) == said


@given(st.integers(0, 10**15 - 1))
def test_chinese_amounts_can_be_read_back(number: int) -> None:
    assert cn2an.cn2an(cardinal_zh(str(number)), "smart") == number


@given(st.integers(0, 10**18))
def test_english_amounts_have_no_digits_left(number: int) -> None:
    said = NUMBER.sub(say_en, str(number))
    assert re.fullmatch(r"[a-z ]+", said)
    assert ordinal_en(said) != said


@given(st.integers(1100, 2099))
def test_years_are_words(year: int) -> None:
    assert re.fullmatch(r"[a-z]+( [a-z]+){1,3}", year_en(str(year)))
