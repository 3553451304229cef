"""Against a runtime on a real socket: its dialects, and that nothing is lost."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from services.asr.base import SAMPLE_RATE, Transcript, Word

from ..letters import plain, say
from ..partials import Partials
from .client import FLAVOURS, NEVER, feed, final, pcm, remote
from .runtime import Flavour, running


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_turn_that_goes_on(flavour: Flavour) -> None:
    async with running(flavour) as runtime, remote(runtime, start=True) as engine:
        recogniser = engine.open(session="s")
        first, second = say("今天天气"), say("怎么样")
        feed(recogniser, first)
        heard = await final(recogniser)
        assert (heard.text, heard.language, heard.final) == ("今天天气。", "zh", True)
        assert heard.audio_s * SAMPLE_RATE == len(first)
        jobs = engine.stats.jobs
        assert await final(recogniser) == heard
        assert engine.stats.jobs == jobs
        feed(recogniser, second, block=777)
        heard = await final(recogniser)
        assert heard.text == "今天天气。怎么样。"
        assert heard.audio_s * SAMPLE_RATE == len(first) + len(second)
        # Every sample once, in the order it was fed, in the messages that the servers want.
        spoken = [each for each in runtime.heard if each.connection == 2]
        assert np.array_equal(
            np.concatenate([each.pcm for each in spoken]), pcm(np.concatenate((first, second)))
        )
        for each in spoken:
            assert set(each.messages[:-1]) == {960}
        assert [each.begin["is_speaking"] for each in spoken] == [True, True]
        # One connection to start with, one for the conversation.
        assert runtime.connections == 2


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_partials_hold_the_whole_turn(flavour: Flavour) -> None:
    async with running(flavour) as runtime, remote(runtime) as engine:
        partials = Partials()
        recogniser = engine.open(session="s", on_partial=partials)
        feed(recogniser, say("今天天气 怎么样 我想听音乐 "))
        # The second pass corrects the first.
        await partials.until(lambda text: text == "今天天气，怎么样，我想听音乐，")
        feed(recogniser, say("现在几点了"))
        heard = await final(recogniser)
        assert heard.text == "今天天气，怎么样，我想听音乐，现在几点了。"
        for partial in partials:
            assert plain(heard.text).startswith(plain(partial.text))
        count = len(partials)
        feed(recogniser, say("你好吗你好吗"))
        await partials.until(lambda text: text.endswith("好吗"))
        assert all(each.text.startswith(heard.text) for each in partials[count:])
        assert plain((await final(recogniser)).text).endswith("现在几点了你好吗你好吗")
        partials.check()


@pytest.mark.parametrize("flavour", ["runtime", "python", "old python", "offline"])
async def test_the_second_pass_alone(flavour: Flavour) -> None:
    async with running(flavour) as runtime, remote(runtime, mode="offline", start=True) as engine:
        partials = Partials()
        recogniser = engine.open(session="s", on_partial=partials)
        feed(recogniser, say("今天 天气"))
        assert plain((await final(recogniser)).text) == "今天天气"
        assert runtime.heard[-1].begin["mode"] == "offline"
        assert not partials


@pytest.mark.parametrize("flavour", ["runtime", "python"])
async def test_the_first_pass_alone(flavour: Flavour) -> None:
    async with running(flavour) as runtime, remote(runtime, mode="online", start=True) as engine:
        recogniser = engine.open(session="s")
        feed(recogniser, say("今天天气 怎么样"))
        assert (await final(recogniser)).text == "今天天气怎么样"


async def test_a_server_that_names_nothing() -> None:
    async with running("runtime") as runtime, remote(runtime) as engine:
        runtime.names = False
        recogniser = engine.open(session="s")
        feed(recogniser, say("今天"))
        assert (await final(recogniser)).text == "今天。"
        feed(recogniser, say("天气"))
        assert (await final(recogniser)).text == "今天。天气。"


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("when", ["at once", "late"])
async def test_a_server_that_ends_the_connection_with_the_utterance(
    flavour: Flavour, when: Literal["at once", "late"]
) -> None:
    async with running(flavour) as runtime, remote(runtime, retry=NEVER) as engine:
        runtime.hang_up = when
        recogniser = engine.open(session="s")
        for number, text in enumerate(("今", "天", "气", "怎", "么"), 1):
            feed(recogniser, say(text, letter_s=0.05))
            heard = await final(recogniser)
            assert plain(heard.text) == "今天气怎么"[:number]
        assert engine.stats.errors == {}


async def test_what_sense_voice_tells() -> None:
    async with running("runtime") as runtime, remote(runtime) as engine:
        runtime.prefix = "<|en|><|HAPPY|><|Laughter|><|withitn|>"
        recogniser = engine.open(session="s")
        feed(recogniser, say("abc"))
        heard = await final(recogniser)
        assert (heard.text, heard.language) == ("abc。", "en")
        assert (heard.emotion, heard.events) == ("happy", ("laughter",))
        runtime.prefix = "<|en|><|SAD|><|Speech|><|withitn|>"
        feed(recogniser, say("de"))
        heard = await final(recogniser)
        assert (heard.text, heard.emotion, heard.events) == ("abc。de。", "sad", ("laughter",))


async def test_words_are_timed_from_the_start_of_the_turn() -> None:
    async with running("runtime") as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        first = say("今天")
        feed(recogniser, first)
        assert [word.text for word in (await final(recogniser)).words] == ["今", "天"]
        feed(recogniser, say("气"))
        start = len(first) / SAMPLE_RATE
        [*_, word] = (await final(recogniser)).words
        assert word == Word(text="气", start_s=start, end_s=start + 0.2)


async def test_wishes_of_a_conversation() -> None:
    async with (
        running("runtime") as runtime,
        remote(runtime, hotwords=["通义 30"], itn=False) as engine,
    ):
        recogniser = engine.open(session="s")
        feed(recogniser, say("今天"))
        await final(recogniser)
        begin = runtime.heard[-1].begin
        assert begin["hotwords"] == '{"通义": 30}'
        assert (begin["itn"], begin["svs_lang"]) == (False, "auto")
        recogniser.restrict(("en", "tlh"))
        recogniser.hint(("小明",))
        feed(recogniser, say("天气"))
        assert (await final(recogniser)).text == "今天。天气。"
        begin = runtime.heard[-1].begin
        assert begin["hotwords"] == '{"小明": 20, "通义": 30}'
        assert begin["svs_lang"] == "en"
        # The runtime reads those of a connection's first message only.
        assert runtime.connections == 2
        recogniser.restrict(None)
        recogniser.hint(())
        feed(recogniser, say("了"))
        await final(recogniser)
        assert runtime.heard[-1].begin["svs_lang"] == "auto"
        assert runtime.heard[-1].begin["hotwords"] == '{"通义": 30}'


async def test_the_only_language() -> None:
    async with running() as runtime, remote(runtime, languages=("zh",), api_key="k") as engine:
        recogniser = engine.open(session="s")
        feed(recogniser, say("今"))
        await final(recogniser)
        assert runtime.heard[-1].begin["svs_lang"] == "zh"
        assert runtime.heard[-1].begin["hotwords"] == ""
        assert runtime.headers["Authorization"] == "Bearer k"


async def test_nothing_is_asked_for_silence() -> None:
    async with running() as runtime, remote(runtime) as engine:
        recogniser = engine.open(session="s")
        assert await final(recogniser) == Transcript(text="")
        feed(recogniser, np.zeros(8000, np.float32))
        assert await final(recogniser) == Transcript(text="", audio_s=0.5)
        feed(recogniser, say("今天"))
        heard = await final(recogniser)
        assert heard.text == "今天。"
        # The same text, with the silence after it.
        feed(recogniser, np.zeros(8000, np.float32))
        later = await final(recogniser)
        assert (later.text, later.audio_s) == (heard.text, heard.audio_s + 0.5)
        assert len(runtime.finished) == 1
