"""Texts, hotwords, subtitles and the forms of OpenAI's API."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.base import Word
from services.asr.recording import (
    MAX_HOTWORD,
    MAX_HOTWORDS,
    Recording,
    Segment,
    continued,
    hotwords_of,
)
from services.asr.renderings import render
from services.asr.subtitles import cues, srt, vtt

TEXTS = st.lists(
    st.text(st.sampled_from("ab Z9,.!?。，你好 '"), min_size=1, max_size=60).filter(str.strip),
    max_size=8,
)


def segment(text: str, start: float = 0.0, end: float = 4.0, **more: object) -> Segment:
    return Segment(start_s=start, end_s=end, text=text, **more)  # type: ignore[arg-type]


def recording(*segments: Segment, audio_s: float = 10.0) -> Recording:
    return Recording(segments=segments, audio_s=audio_s)


# --- texts --------------------------------------------------------------------------------------


@given(TEXTS)
def test_what_is_added_piece_by_piece_is_the_whole(texts: list[str]):
    said = ""
    for text in texts:
        said += continued(said, text)
    assert said == recording(*[segment(text) for text in texts]).text


def test_the_end_of_a_text_is_enough_to_go_on():
    assert continued("Hello", "there.") == " there."
    assert continued("o", "there.") == " there."
    assert continued("你好", "世界") == "世界"
    assert continued("", "a") == "a"


def test_the_language_is_that_of_most_of_the_text():
    said = recording(segment("hi", language="en"), segment("今天天气很好", language="zh"))
    assert said.language == "zh"
    assert recording().language == recording().text == ""


@pytest.mark.parametrize(
    "texts, words",
    [
        (
            ("通义千问, Sam  Altman、DeepSeek\nKubernetes",),
            "通义千问|Sam Altman|DeepSeek|Kubernetes",
        ),
        (("a,a", "b,,a"), "a|b"),
        ((" , ", ""), ""),
        (("x" * (MAX_HOTWORD + 1),), ""),
    ],
)
def test_hotwords(texts: tuple[str, ...], words: str):
    assert hotwords_of(*texts) == tuple(words.split("|") if words else ())


def test_no_more_hotwords_than_are_of_use():
    assert len(hotwords_of(",".join(map(str, range(1000))))) == MAX_HOTWORDS


# --- subtitles ----------------------------------------------------------------------------------

LONG = "This is a sentence. And this is another one, which goes on for a while; it ends here."


def test_a_short_segment_is_one_subtitle():
    assert srt([segment("你好。", 3661.5, 3662.0)]) == (
        "1\n01:01:01,500 --> 01:01:02,000\n你好。\n\n"
    )
    assert vtt([segment("a < b & c", 0, 1)]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na &lt; b &amp; c\n"
    )
    assert (srt([]), vtt([])) == ("", "WEBVTT\n")


def test_a_long_one_is_broken_behind_a_sentence_at_a_time_by_its_length():
    first, second = cues([segment(LONG, 10.0, 20.0)])
    assert first.text == "This is a sentence. And this is another one,"
    assert second.text == "which goes on for a while; it ends here."
    assert (first.start_s, second.end_s) == (10.0, 20.0)
    assert first.end_s == second.start_s == pytest.approx(10 + 10 * 45 / len(LONG))


def test_the_times_of_words_are_used():
    words = (
        Word(text="this", start_s=11.0, end_s=11.2),
        Word(text="nowhere", start_s=11.3, end_s=11.4),
        Word(text="one", start_s=13.0, end_s=13.5),
        Word(text="which", start_s=15.0, end_s=15.5),
        Word(text="here", start_s=18.0, end_s=19.0),
    )
    first, second = cues([segment(LONG, 10.0, 20.0, words=words)])
    assert first.start_s == 11.0
    assert 13.5 <= first.end_s <= 15.0
    assert second.start_s == 15.0
    assert 19.0 <= second.end_s <= 20.0


def test_letters_that_become_two_do_not_shift_the_words():
    shown = cues([segment("Straße İ", 0, 1, words=(Word(text="x", start_s=5, end_s=6),))])
    assert [(cue.start_s, cue.end_s) for cue in shown] == [(0, 1)]


@pytest.mark.parametrize("text", ["字" * 100, "x" * 200, "a " * 100, "字，" * 50, "e\u0301" * 100])
def test_nothing_is_lost_and_nothing_is_too_wide(text: str):
    shown = list(cues([segment(text, 0, 9)]))
    assert "".join(cue.text for cue in shown).replace(" ", "") == text.replace(" ", "")
    assert all(len(cue.text) <= (32 if "字" in text else 64 * 2) for cue in shown)
    assert len(shown) > 1


def test_there_is_no_subtitle_of_spaces():
    shown = list(cues([segment("a" + " " * 300 + "b", 0, 9)]))
    assert [cue.text for cue in shown] == ["a", "b"]


@given(st.text(max_size=300).filter(str.strip), st.lists(st.text(min_size=1, max_size=5)))
def test_subtitles_follow_each_other(text: str, words: list[str]):
    said = tuple(
        Word(text=word, start_s=float(at), end_s=at + 0.5) for at, word in enumerate(words)
    )
    end = max(9.0, len(words))
    before = 0.0
    for cue in cues([segment(text, 0.0, end, words=said)]):
        assert before <= cue.start_s <= cue.end_s <= end
        assert cue.text.strip() == cue.text != ""
        before = cue.start_s


# --- forms --------------------------------------------------------------------------------------

SAID = recording(
    segment(
        "你好。", 0.5, 1.5, language="zh", log_prob=-0.25, emotion="happy", events=("laughter",)
    ),
    segment(
        "Good day.",
        2.0,
        3.0,
        language="en",
        words=(Word(text="Good", start_s=2.0, end_s=2.2), Word(text="day", start_s=2.3, end_s=2.6)),
    ),
)


def test_json_and_text():
    assert json.loads(render(SAID, "json")) == {
        "text": "你好。Good day.",
        "usage": {"type": "duration", "seconds": 10},
    }
    assert render(SAID, "text") == "你好。Good day.\n"
    assert render(SAID, "srt") == srt(SAID.segments)
    assert render(SAID, "vtt") == vtt(SAID.segments)


def test_verbose_json_has_what_is_asked_for():
    plain = json.loads(render(SAID, "verbose_json"))
    assert plain["language"] == "english"
    assert (plain["task"], plain["duration"]) == ("transcribe", 10.0)
    assert "words" not in plain
    first, second = plain["segments"]
    assert (first["id"], first["start"], first["end"], first["text"]) == (0, 0.5, 1.5, "你好。")
    assert (first["avg_logprob"], first["emotion"], first["events"]) == (
        -0.25,
        "happy",
        ["laughter"],
    )
    assert second["avg_logprob"] == 0.0
    assert not {"emotion", "events"} & set(second)
    words = json.loads(render(SAID, "verbose_json", granularities=("word",)))
    assert "segments" not in words
    assert words["words"] == [
        {"word": "Good", "start": 2.0, "end": 2.2},
        {"word": "day", "start": 2.3, "end": 2.6},
    ]


def test_a_language_without_a_name_keeps_its_code():
    said = recording(segment("x", language="fr"))
    assert json.loads(render(said, "verbose_json"))["language"] == "fr"
    assert re.search(r"^\{", render(recording(), "verbose_json"))
