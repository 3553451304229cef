"""The second pass: what FunASR gives, for several pieces at once as for each alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from services.asr.base import Word
from services.asr.funasr.joining import text_of, words_of
from services.asr.funasr.loader import Model, classes_of, load
from services.asr.funasr.make_random import Kind
from services.asr.funasr.modules import import_modules, quiet
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.second_pass import SecondPass
from services.asr.funasr.second_pass_punctuation import Punctuation
from services.asr.funasr.tags import parse
from tests.asr.funasr.conftest import Sound
from tts_engine.errors import ConfigError

OFFLINE: list[Kind] = ["sensevoice", "paraformer"]
LENGTHS = (64_000, 20_000, 39_999, 1000, 110_000, 16_000)
LANGUAGES = (None, ("zh",), ("zh", "en"), ("ja", "ko"), ("en",), ("xx",))
#: Hanzi of the tiny vocabulary, a word of it, one in pieces, and what it cannot write
HOTWORDS = ((), ("啊爱",), ("hello", "abe"), ("啊爱", "龘靐", ""))


@pytest.fixture(scope="module", params=OFFLINE)
def second_pass(request: pytest.FixtureRequest, tiny: Callable[[Kind], Model]) -> SecondPass:
    return SecondPass(tiny(request.param), tiny("ct-punc"))


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_pieces_that_share_a_forward_get_what_each_gets_alone(
    second_pass: SecondPass, sound: Sound, data: st.DataObject
) -> None:
    count = data.draw(st.integers(2, 6))
    audio = [sound(data.draw(st.sampled_from(LENGTHS)), number) for number in range(count)]
    languages = [data.draw(st.sampled_from(LANGUAGES)) for _ in audio]
    hotwords = [data.draw(st.sampled_from(HOTWORDS)) for _ in audio]

    together = second_pass.transcribe(audio, languages=languages, hotwords=hotwords)

    for place, found in enumerate(together):
        (alone,) = second_pass.transcribe(
            [audio[place]], languages=[languages[place]], hotwords=[hotwords[place]]
        )
        assert replace(found, log_prob=None) == replace(alone, log_prob=None)
        assert found.log_prob == pytest.approx(alone.log_prob, abs=1e-3)


def test_what_is_too_short_to_be_heard_says_nothing(second_pass: SecondPass, sound: Sound) -> None:
    found = second_pass.transcribe([sound(0), sound(16_000), sound(399)])

    assert (found[0], found[2]) == (Recognised(), Recognised())
    assert found[1].text
    assert second_pass.transcribe([]) == []
    assert second_pass.transcribe([sound(0)]) == [Recognised()]


def test_sensevoice_is_what_funasr_makes_of_it(tiny: Callable[[Kind], Model], sound: Sound) -> None:
    model = tiny("sensevoice")
    second_pass = SecondPass(model)
    for language in ("auto", "zh", "en"):
        expected = parse(
            model.auto.generate(input=sound(64_000), language=language, use_itn=True)[0]["text"]
        )
        asked = None if language == "auto" else (language,)
        (found,) = second_pass.transcribe([sound(64_000)], languages=[asked])

        assert (found.text, found.events) == (expected.text, expected.events)


@pytest.mark.parametrize("hotwords", HOTWORDS[:3])
def test_paraformer_is_what_funasr_makes_of_it(
    tiny: Callable[[Kind], Model],
    sound: Sound,
    hotwords: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny("paraformer")
    written: list[list[str]] = []
    kind = type(model.tokenizer)
    written_as = kind.ids2tokens

    def write(self: Any, ids: list[int]) -> list[str]:
        written.append(written_as(self, ids))
        return written[-1]

    # Its text leaves out the beginnings of words that have no end, so it is asked for its tokens.
    monkeypatch.setattr(kind, "ids2tokens", write)
    expected = model.auto.generate(input=sound(64_000), hotword=" ".join(hotwords) or None)[0]

    (found,) = SecondPass(model).transcribe([sound(64_000)], hotwords=[hotwords])

    assert written[0] == written[1]
    assert found.text == text_of(written[0])
    assert [word.text for word in found.words] == [each.text for each in words_of(written[0])]
    assert found.language == "zh"
    if len(expected["timestamp"]) == len(found.words):
        times = [[round(word.start_s * 1000), round(word.end_s * 1000)] for word in found.words]
        assert times == expected["timestamp"]
    else:
        assert hotwords


def test_hotwords_change_what_is_recognised(tiny: Callable[[Kind], Model], sound: Sound) -> None:
    second_pass = SecondPass(tiny("paraformer"))
    texts = [
        second_pass.transcribe([sound(64_000)], hotwords=[words])[0].text
        for words in ((), ("啊爱",), ("龘靐",))
    ]

    assert texts[0] != texts[1]
    assert texts[0] == texts[2]  # what the vocabulary cannot write is passed over


def test_a_long_list_of_hotwords_is_narrowed_down_for_each_piece(
    tiny: Callable[[Kind], Model], sound: Sound
) -> None:
    second_pass = SecondPass(tiny("paraformer"))
    tokens = [token for token in tiny("paraformer").tokenizer.token_list if len(token) == 1]
    words = tuple(first + second for first, second in pairwise(tokens[30:91]))
    audio = [sound(32_000, 1), sound(20_000, 2)]

    together = second_pass.transcribe(audio, hotwords=[words, words])

    for samples, found in zip(audio, together, strict=True):
        (alone,) = second_pass.transcribe([samples], hotwords=[words])
        assert found.text == alone.text


def test_punctuation_is_added_where_the_model_writes_none(
    tiny: Callable[[Kind], Model], sound: Sound
) -> None:
    audio = [sound(64_000)]
    (bare,) = SecondPass(tiny("paraformer")).transcribe(audio)
    (signed,) = SecondPass(tiny("paraformer"), tiny("ct-punc")).transcribe(audio)
    (own,) = SecondPass(tiny("sensevoice")).transcribe(audio)

    assert signed.text[-1] in "。？"
    assert [letter for letter in signed.text if letter.isalnum()] == list(bare.text)
    assert SecondPass(tiny("sensevoice"), tiny("ct-punc")).transcribe(audio) == [own]


@pytest.mark.parametrize("kind", OFFLINE)
def test_narrow_layers_recognise(
    tiny_dir: Callable[[Kind], Path], kind: Kind, sound: Sound
) -> None:
    second_pass = SecondPass(load(tiny_dir(kind), dtype="bf16"))

    found = second_pass.transcribe([sound(64_000), sound(20_000)], hotwords=[(), ("啊爱",)])

    assert all(each.text for each in found)


def test_a_model_that_does_not_recognise_whole_pieces_is_told(
    tiny: Callable[[Kind], Model],
) -> None:
    with pytest.raises(ConfigError, match="of the kind vad"):
        SecondPass(tiny("fsmn-vad"))
    with pytest.raises(ConfigError, match="no punctuation model"):
        SecondPass(tiny("paraformer"), tiny("sensevoice"))


class _Saying:
    """A network in the place of SenseVoice's: frames in which it says what it is told to."""

    def __init__(self, real: Any, pieces: Any) -> None:
        self.lid_dict, self.textnorm_dict = real.lid_dict, real.textnorm_dict
        self.blank_id, self.embed = real.blank_id, real.embed
        self.asked: list[list[int]] = []
        self._pieces = pieces
        self.says: Callable[[int], list[str]] = lambda language: []
        self.ctc = SimpleNamespace(log_softmax=lambda scores: scores)
        self.encoder = self._encode

    def _encode(self, speech: torch.Tensor, lengths: torch.Tensor) -> tuple[Any, Any]:
        queries = [int((self.embed.weight == row[0]).all(dim=1).nonzero()[0]) for row in speech]
        self.asked.append(queries)
        scores = torch.full((*speech.shape[:2], self._pieces.GetPieceSize()), -9.0)
        for row, query in enumerate(queries):
            for frame, piece in enumerate(self.says(query)):
                scores[row, frame, self._pieces.PieceToId(piece)] = -0.5
            scores[row, len(self.says(query)) :, self.blank_id] = -0.1
        # The second likeliest language of all is English.
        scores[:, 0, self._pieces.PieceToId("<|en|>")] += 1
        return scores, lengths


@pytest.fixture
def saying(tiny: Callable[[Kind], Model]) -> tuple[SecondPass, _Saying]:
    model = tiny("sensevoice")
    network = _Saying(model.network, model.tokenizer.sp)
    return SecondPass(replace(model, network=network)), network


def _tagged(*said: str, language: str = "zh") -> list[str]:
    return [f"<|{language}|>", "<|HAPPY|>", "<|Laughter|>", "<|withitn|>", *said]


def test_sensevoice_tells_language_emotion_events_and_words(
    saying: tuple[SecondPass, _Saying], sound: Sound
) -> None:
    second_pass, network = saying
    network.says = lambda _: _tagged("啊", "啊", "▁hello", "ing", "爱", "。")

    (found,) = second_pass.transcribe([sound(32_000)])

    assert replace(found, log_prob=None) == Recognised(
        text="啊 helloing爱。",
        language="zh",
        emotion="happy",
        events=("laughter",),
        words=(
            Word(text="啊", start_s=0.0, end_s=0.12),
            Word(text="helloing", start_s=0.12, end_s=0.24),
            Word(text="爱", start_s=0.24, end_s=0.3),
        ),
    )
    assert found.log_prob == pytest.approx(-0.5)


def test_what_nobody_said_has_no_text_but_its_events(
    saying: tuple[SecondPass, _Saying], sound: Sound
) -> None:
    second_pass, network = saying
    network.says = lambda _: _tagged("▁the", "。", language="nospeech")

    for languages in (None, ("zh", "en")):
        assert second_pass.transcribe([sound(32_000)], languages=[languages]) == [
            Recognised(emotion="happy", events=("laughter",))
        ]
    assert len(network.asked) == 2


@pytest.mark.parametrize(
    ("languages", "asked"),
    [
        (None, [["any"]]),
        (("zh",), [["zh"]]),
        (("zh", "en"), [["any"]]),
        (("en", "ko"), [["any"], ["en"]]),
        (("xx", "yy"), [["any"]]),
        (("xx", "ko"), [["ko"]]),
    ],
)
def test_a_language_that_is_not_allowed_is_asked_for_again(
    saying: tuple[SecondPass, _Saying],
    sound: Sound,
    languages: tuple[str, ...] | None,
    asked: Sequence[Sequence[str]],
) -> None:
    second_pass, network = saying
    names = {0: "any"} | {query: name for name, query in network.lid_dict.items() if name != "auto"}
    network.says = lambda query: _tagged("啊", language="zh" if query == 0 else names[query])

    (found,) = second_pass.transcribe([sound(16_000)], languages=[languages])

    assert [[names[query] for query in queries] for queries in network.asked] == asked
    assert found.language == ("zh" if asked[-1] == ["any"] else asked[-1][0])


@pytest.fixture(scope="module")
def punctuation(tiny: Callable[[Kind], Model]) -> Punctuation:
    return Punctuation(tiny("ct-punc"))


@pytest.mark.parametrize("text", ["啊爱" * 8, "hello 啊爱 world", "the world of hello 啊"])
def test_short_texts_are_punctuated_as_funasr_does(
    tiny: Callable[[Kind], Model], punctuation: Punctuation, text: str
) -> None:
    expected = tiny("ct-punc").auto.generate(input=text)[0]["text"]

    assert [each.lower() for each in punctuation.punctuate([text])] == [expected.strip().lower()]


def test_texts_are_punctuated_together_as_alone(punctuation: Punctuation) -> None:
    texts = ["啊爱啊", "", "hello world", "啊" * 450, " "]

    together = punctuation.punctuate(texts)

    assert together == [punctuation.punctuate([text])[0] for text in texts]
    assert (together[1], together[4]) == ("", "")
    assert together[3].count("啊") == 450
    assert punctuation.punctuate([]) == []


@pytest.mark.parametrize(
    ("signs", "text", "expected"),
    [
        (["_", "，", "_", "。"], "你好 再见", "你好，再见。"),
        (["_", "_", "_", "_"], "你好再见", "你好再见。"),
        (["_", "_", "_", "、"], "你好再见", "你好再见。"),
        (["。", "_", "，", "？"], "yes no maybe well", "Yes. No maybe, well?"),
        (["，", "_", "<unk>", "，"], "ok 你 好 fine", "Ok,你好fine."),
    ],
)
def test_signs_are_of_the_script_they_follow(
    tiny: Callable[[Kind], Model], signs: list[str], text: str, expected: str
) -> None:
    listed = ["<unk>", "_", "，", "。", "？", "、"]
    scores = torch.eye(len(listed))[[listed.index(sign) for sign in signs]][None]
    network = SimpleNamespace(
        jieba_usr_dict=None, punc_list=listed, punc_forward=lambda ids, lengths: (scores, None)
    )

    found = Punctuation(replace(tiny("ct-punc"), network=network)).punctuate([text])

    assert found == [expected]


class _Generating:
    """An AutoModel in the place of one that is asked a piece at a time."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def generate(self, **asked: Any) -> list[dict[str, Any]]:
        self.asked.append(asked)
        return [self.answer]


def _asked_one_by_one(
    tiny: Callable[[Kind], Model], kind: str, auto: _Generating, dtype: torch.dtype = torch.float32
) -> SecondPass:
    model = replace(tiny("sensevoice"), kind=cast(Any, kind), auto=auto, dtype=dtype)
    return SecondPass(model)


def test_fun_asr_nano_is_asked_in_its_own_words(
    tiny: Callable[[Kind], Model], sound: Sound
) -> None:
    auto = _Generating(
        text=" 你好，iPhone。 ",
        timestamps=[
            {"token": token, "start_time": place * 0.06, "end_time": place * 0.06 + 0.06}
            for place, token in enumerate(["你", "好", "，", " i", "Phone"])
        ],
    )

    (found, _) = _asked_one_by_one(tiny, "fun-asr-nano", auto).transcribe(
        [sound(32_000), sound(16_000)],
        languages=[("zh",), ("zh", "en")],
        hotwords=[("a\n b", " "), ()],
    )

    assert (found.text, found.language) == ("你好，iPhone。", "zh")
    assert [word.text for word in found.words] == ["你", "好", "iPhone"]
    assert (found.words[2].start_s, found.words[2].end_s) == pytest.approx((0.18, 0.3))
    first, second = auto.asked
    assert (first["language"], first["hotwords"], first["itn"]) == ("中文", ["a b"], True)
    assert (second["language"], second["hotwords"]) == (None, [])
    assert isinstance(first["input"][0], torch.Tensor)
    assert first["max_length"] > second["max_length"]
    assert first["llm_dtype"] == "fp32"


def test_fun_asr_nano_says_nothing_of_signs_alone(
    tiny: Callable[[Kind], Model], sound: Sound
) -> None:
    auto = _Generating(text="。")

    assert _asked_one_by_one(tiny, "fun-asr-nano", auto).transcribe([sound(16_000)]) == [
        Recognised()
    ]


def test_whisper_is_asked_with_its_options(tiny: Callable[[Kind], Model], sound: Sound) -> None:
    auto = _Generating(text=" hello there ")
    second_pass = _asked_one_by_one(tiny, "whisper", auto, torch.float16)

    found = second_pass.transcribe(
        [sound(16_000), sound(16_000)], languages=[("en",), None], hotwords=[("iPhone", "爱"), ()]
    )

    assert found == [Recognised(text="hello there", language="en")] * 2
    options = [asked["DecodingOptions"] for asked in auto.asked]
    assert [each["language"] for each in options] == ["en", None]
    assert options[0]["prompt"] == "iPhone爱"
    assert "prompt" not in options[1]
    assert all(each["fp16"] for each in options)
    assert all(isinstance(asked["input"][0], np.ndarray) for asked in auto.asked)
    auto.answer = {"text": "今天天氣"}
    assert second_pass.transcribe([sound(16_000)])[0].text == "今天天气"
    auto.answer = {"text": " "}
    assert second_pass.transcribe([sound(16_000)]) == [Recognised()]


def _another(directory: Path, change: Callable[[dict[str, Any]], None], into: Path) -> Model:
    """A tiny Paraformer of another class, with random weights of its own."""
    from funasr.auto.auto_model import AutoModel

    shutil.copytree(directory, into)
    config = yaml.safe_load((into / "config.yaml").read_text(encoding="utf-8"))
    for key in ("seaco_decoder", "seaco_decoder_conf"):
        del config[key]
    change(config)
    (into / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    config["tokenizer_conf"]["token_list"] = str(into / "tokens.json")
    import_modules(classes_of(config))
    with quiet():
        network, _ = AutoModel.build_model(**config, device="cpu", ncpu=1)
    torch.save(network.state_dict(), into / "model.pt")
    return load(into)


def _plain(config: dict[str, Any]) -> None:
    config["model"], config["predictor"] = "Paraformer", "CifPredictorV2"
    kept = ("idim", "threshold", "l_order", "r_order", "tail_threshold")
    config["predictor_conf"] = {key: config["predictor_conf"][key] for key in kept}


def _timed(config: dict[str, Any]) -> None:
    config["model"] = "BiCifParaformer"


def _contextual(config: dict[str, Any]) -> None:
    _plain(config)
    config["model"], config["decoder"] = "ContextualParaformer", "ContextualParaformerDecoder"


@pytest.mark.parametrize("change", [_plain, _timed, _contextual])
def test_other_paraformers_are_what_funasr_makes_of_them(
    tiny_dir: Callable[[Kind], Path],
    change: Callable[[dict[str, Any]], None],
    tmp_path: Path,
    sound: Sound,
) -> None:
    model = _another(tiny_dir("paraformer"), change, tmp_path / "model")
    second_pass = SecondPass(model)
    audio, hotwords = [sound(64_000), sound(20_000, 1)], ("啊爱", "hello")

    for words in ((), hotwords):
        together = second_pass.transcribe(audio, hotwords=[words, words])
        for samples, found in zip(audio, together, strict=True):
            expected = model.auto.generate(input=samples, hotword=" ".join(words) or None)[0]
            assert _letters(found.text) == _letters(expected["text"])
            assert bool(found.words) == (change is _timed)


def test_audio_in_which_no_token_fires_says_nothing(
    tiny_dir: Callable[[Kind], Path], sound: Sound
) -> None:
    model = load(tiny_dir("paraformer"))
    model.network.predictor.cif_output.bias.fill_(-50.0)

    assert SecondPass(model).transcribe([sound(16_000), sound(20_000)]) == [Recognised()] * 2


def _letters(text: str) -> list[str]:
    """Without spaces, and without beginnings of words, which FunASR's own text leaves out."""
    return [letter for letter in text if letter.isalpha() and not letter.isascii()]
