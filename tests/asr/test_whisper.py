"""The same audio gives the same text; what is cancelled costs nothing; failures stay in a call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from services.asr.base import Transcript
from services.asr.whisper import WhisperEngine, load_simplifier
from services.asr.whisper_model import Decoder, Hypothesis
from tts_engine.errors import AtCapacity, EngineFailed, ModelMissing, TimedOut

from .fakes import FakeDecoder, Gate, Say, always, noise

Start = Callable[..., Awaitable[WhisperEngine]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts an engine over a fake decoder; its gate is shut only after the warm-up."""
    engines: list[WhisperEngine] = []
    gates: list[Gate] = []

    async def begin(decoder: FakeDecoder, **options: object) -> WhisperEngine:
        gate, decoder.gate = decoder.gate, None
        engine = WhisperEngine(
            model_dir=Path(),
            threads=1,
            load=lambda: decoder,
            **{"partial_every_s": None, **options},  # pyright: ignore[reportArgumentType]
        )
        engines.append(engine)
        await engine.start()
        decoder.gate = gate
        decoder.beams.clear()
        decoder.mels.clear()
        if gate is not None:
            gates.append(gate)
        return engine

    yield begin
    for gate in gates:
        gate.opened.set()
    for engine in engines:
        await engine.close()
        await engine.close()
    assert all(thread.name != "whisper" for thread in threading.enumerate())


def counting(n: int) -> Hypothesis:
    return Hypothesis(f"第{n}", -0.2)


async def test_a_turn(start: Start) -> None:
    decoder = FakeDecoder(always("你是什麼模型"))
    engine = await start(decoder)
    recogniser = engine.open(session="s")
    for chunk in np.split(noise(2), 100):
        recogniser.feed(chunk)
    heard = await recogniser.finalise()
    assert (heard.text, heard.language, heard.final) == ("你是什么模型", "zh", True)
    assert heard.audio_s == 2.0
    assert engine.stats.jobs == 1
    assert decoder.beams == [5]


async def test_only_the_languages_that_the_user_speaks(start: Start) -> None:
    engine = await start(FakeDecoder(language="zh"), languages=("zh", "en"))
    recogniser, other = engine.open(session="s"), engine.open(session="t")
    recogniser.feed(noise(2))
    assert (await recogniser.finalise()).language == "zh"
    # What was recognised before is not taken for what is recognised now.
    recogniser.restrict(("en", "tlh"))
    assert (await recogniser.finalise()).language == "en"
    recogniser.restrict(("tlh",))
    assert (await recogniser.finalise()).language == "zh"
    recogniser.restrict(("en",))
    recogniser.restrict(None)
    assert (await recogniser.finalise()).language == "zh"
    jobs = engine.stats.jobs
    recogniser.restrict(("en", "zh"))
    await recogniser.finalise()
    assert engine.stats.jobs == jobs
    # It is the conversation's own affair.
    recogniser.restrict(("en",))
    other.feed(noise(2))
    assert (await other.finalise()).language == "zh"


async def test_a_text_on_its_way_is_of_the_languages_that_it_was_asked_in(start: Start) -> None:
    gate = Gate()
    engine = await start(FakeDecoder(language="zh", gate=gate), languages=("zh", "en"))
    recogniser = engine.open(session="s")
    recogniser.feed(noise(2))
    before = asyncio.create_task(recogniser.finalise())
    await gate.reached()
    recogniser.restrict(("en",))
    after = asyncio.create_task(recogniser.finalise())
    await asyncio.sleep(0)
    gate.opened.set()
    assert ((await before).language, (await after).language) == ("zh", "en")
    assert (await recogniser.finalise()).language == "en"


async def test_nothing_fed_is_nothing_said(start: Start) -> None:
    engine = await start(FakeDecoder())
    assert await engine.open(session="s").finalise() == Transcript(text="")
    assert engine.stats.jobs == 0


async def test_the_same_audio_is_decoded_once(start: Start) -> None:
    decoder = FakeDecoder(counting)
    engine = await start(decoder)
    recogniser = engine.open(session="s")
    recogniser.feed(noise(1))
    first = await recogniser.finalise()
    assert await recogniser.finalise() is first
    assert len(decoder.beams) == 1
    recogniser.feed(noise(1))
    second = await recogniser.finalise()
    assert (second.audio_s, len(decoder.beams)) == (2.0, 2)


async def test_callers_of_the_same_audio_share_a_decoding(start: Start) -> None:
    gate = Gate()
    decoder = FakeDecoder(gate=gate)
    recogniser = (await start(decoder)).open(session="s")
    recogniser.feed(noise(1))
    callers = [asyncio.create_task(recogniser.finalise()) for _ in range(3)]
    await gate.reached()
    callers[0].cancel()
    gate.opened.set()
    with pytest.raises(asyncio.CancelledError):
        await callers[0]
    assert await callers[1] is await callers[2]
    assert len(decoder.beams) == 1


async def test_a_later_final_of_the_turn_wins_the_memory(start: Start) -> None:
    gate = Gate()
    recogniser = (await start(FakeDecoder(counting, gate=gate))).open(session="s")
    recogniser.feed(noise(1))
    early = asyncio.create_task(recogniser.finalise())
    await gate.reached()
    recogniser.feed(noise(1))
    late = asyncio.create_task(recogniser.finalise())
    gate.opened.set()
    first, second = await asyncio.gather(early, late)
    assert (first.audio_s, second.audio_s) == (1.0, 2.0)
    assert await recogniser.finalise() is second


@pytest.mark.parametrize("how", ["cancel", "reset", "close"])
async def test_what_runs_is_stopped_between_its_steps(start: Start, how: str) -> None:
    gate = Gate()
    decoder = FakeDecoder(gate=gate)
    engine = await start(decoder)
    recogniser = engine.open(session="s")
    recogniser.feed(noise(1))
    final = asyncio.create_task(recogniser.finalise())
    await gate.reached()
    getattr(recogniser, how)()
    with pytest.raises(asyncio.CancelledError):
        await final
    gate.opened.set()
    other = engine.open(session="t")
    other.feed(noise(1))
    assert (await other.finalise()).text == "你好"
    assert len(decoder.beams) == 1
    assert engine.stats.depth == 0


async def test_cancel_keeps_the_audio_and_reset_forgets_it(start: Start) -> None:
    recogniser = (await start(FakeDecoder())).open(session="s")
    recogniser.feed(noise(1))
    recogniser.cancel()
    assert (await recogniser.finalise()).audio_s == 1.0
    recogniser.reset()
    assert await recogniser.finalise() == Transcript(text="")
    recogniser.feed(noise(0.5))
    assert (await recogniser.finalise()).audio_s == 0.5


async def test_a_text_done_just_before_a_reset_is_not_told(start: Start) -> None:
    gate = Gate()
    engine = await start(FakeDecoder(gate=gate))
    recogniser = engine.open(session="s")
    recogniser.feed(noise(1))
    final = asyncio.create_task(recogniser.finalise())
    await gate.reached()
    # Runs in the tick in which the result arrives, before the task that waits for it.
    [asked] = recogniser._asked._asked.values()  # pyright: ignore[reportPrivateUsage]
    done = asyncio.get_running_loop().create_future()

    def reset(_: object) -> None:
        recogniser.reset()
        done.set_result(None)

    asked.answer.future.add_done_callback(reset)
    gate.opened.set()
    await done
    with pytest.raises(asyncio.CancelledError):
        await final
    assert await recogniser.finalise() == Transcript(text="")


async def test_a_caller_that_leaves_withdraws_what_waits(start: Start) -> None:
    gate = Gate()
    decoder = FakeDecoder(gate=gate)
    engine = await start(decoder)
    one, two = engine.open(session="1"), engine.open(session="2")
    one.feed(noise(1))
    two.feed(noise(1))
    first = asyncio.create_task(one.finalise())
    await gate.reached()
    second = asyncio.create_task(two.finalise())
    await asyncio.sleep(0)
    assert engine.stats.depth == 2
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert engine.stats.depth == 1
    gate.opened.set()
    await first
    assert len(decoder.mels) == 1


async def test_capacity(start: Start) -> None:
    gate = Gate()
    engine = await start(FakeDecoder(gate=gate), queue_limit=1)
    recognisers = [engine.open(session=str(i)) for i in range(3)]
    for recogniser in recognisers:
        recogniser.feed(noise(1))
    finals = [asyncio.create_task(recognisers[0].finalise())]
    await gate.reached()
    finals.append(asyncio.create_task(recognisers[1].finalise()))
    await asyncio.sleep(0)
    with pytest.raises(AtCapacity):
        await recognisers[2].finalise()
    gate.opened.set()
    assert [heard.text for heard in await asyncio.gather(*finals)] == ["你好", "你好"]
    assert (await recognisers[2].finalise()).text == "你好"


async def test_timeout(start: Start) -> None:
    gate = Gate()
    engine = await start(FakeDecoder(gate=gate), timeout_s=0.05)
    recogniser = engine.open(session="s")
    recogniser.feed(noise(1))
    with pytest.raises(TimedOut, match=r"more than 0\.05 s"):
        await recogniser.finalise()
    assert engine.stats.errors == {"timed_out": 1}
    gate.opened.set()
    engine.timeout_s = 20
    assert (await recogniser.finalise()).text == "你好"


async def test_a_failure_is_one_calls_own(start: Start) -> None:
    failing = True

    def say(_: int) -> Hypothesis | Exception:
        return RuntimeError("broken") if failing else Hypothesis("你好", -0.2)

    failing = False
    engine = await start(FakeDecoder(say))
    failing = True
    recogniser = engine.open(session="s")
    recogniser.feed(noise(1))
    with pytest.raises(EngineFailed, match="broken"):
        await recogniser.finalise()
    failing = False
    assert (await recogniser.finalise()).text == "你好"
    assert engine.stats.errors == {"engine_failed": 1}


async def test_closing_the_engine_fails_what_waits(start: Start) -> None:
    gate = Gate()
    decoder = FakeDecoder(gate=gate)
    engine = await start(decoder)
    recogniser = engine.open(session="s")
    recogniser.feed(noise(1))
    final = asyncio.create_task(recogniser.finalise())
    await gate.reached()
    closing = asyncio.create_task(engine.close())
    with pytest.raises(EngineFailed, match="closed"):
        await final
    gate.opened.set()
    await closing
    assert decoder.closed == 1
    with pytest.raises(EngineFailed, match="closed"):
        await recogniser.finalise()


async def test_a_closed_handle_says_so(start: Start) -> None:
    recogniser = (await start(FakeDecoder())).open(session="abc")
    recogniser.close()
    recogniser.close()
    with pytest.raises(EngineFailed, match="session abc is closed"):
        await recogniser.finalise()


async def test_an_engine_that_was_not_started(tmp_path: Path) -> None:
    engine = WhisperEngine(model_dir=tmp_path, threads=1)
    recogniser = engine.open(session="s", on_partial=lambda _: None)
    recogniser.feed(noise(1))
    with pytest.raises(EngineFailed, match="not started"):
        await recogniser.finalise()
    with pytest.raises(ModelMissing, match=r"model\.bin"):
        await engine.start()
    await engine.close()


async def test_a_model_that_cannot_decode_is_refused() -> None:
    decoder = FakeDecoder(lambda _: RuntimeError("illegal instruction"))

    def load() -> Decoder:
        return decoder

    engine = WhisperEngine(model_dir=Path(), threads=1, load=load)
    with pytest.raises(EngineFailed, match="illegal instruction"):
        await engine.start()
    assert decoder.closed == 1
    await engine.close()


class Partials:
    """Collects partials and lets a test wait for the next."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Transcript] = asyncio.Queue()

    def __call__(self, transcript: Transcript) -> None:
        self.queue.put_nowait(transcript)

    async def next(self) -> Transcript:
        return await asyncio.wait_for(self.queue.get(), 20)


async def test_partials_come_as_the_turn_grows(start: Start) -> None:
    decoder = FakeDecoder(counting)
    engine = await start(decoder, partial_every_s=0.5)
    heard = Partials()
    recogniser = engine.open(session="s", on_partial=heard)
    recogniser.feed(noise(0.4))
    assert engine.stats.depth == 0
    recogniser.feed(noise(0.2))
    first = await heard.next()
    assert (first.text, first.final, first.audio_s) == ("第0", False, 0.6)
    recogniser.feed(noise(0.3))
    assert engine.stats.depth == 0
    recogniser.feed(noise(0.3))
    assert (await heard.next()).audio_s == 1.2
    assert decoder.beams == [1, 1]
    assert (await recogniser.finalise()).final
    assert decoder.beams == [1, 1, 5]


@pytest.mark.parametrize(
    "say, told", [(always(""), 0), (always("一样"), 1), (lambda _: RuntimeError("broken"), 0)]
)
async def test_partials_without_news_are_not_told(start: Start, say: Say, told: int) -> None:
    decoder = FakeDecoder()
    engine = await start(decoder, partial_every_s=0.5)
    heard = Partials()
    recogniser = engine.open(session="s", on_partial=heard)
    for _ in range(2):
        decoder.gate, decoder.say = Gate(), say
        recogniser.feed(noise(0.5))
        await decoder.gate.reached()
        partial = recogniser._partial  # pyright: ignore[reportPrivateUsage]
        assert partial is not None
        decoder.gate.opened.set()
        await asyncio.wait([partial.future])
    assert decoder.beams == [1, 1]
    assert heard.queue.qsize() == told


@pytest.mark.parametrize("how", ["finalise", "cancel", "reset", "close"])
async def test_a_partial_that_is_overtaken_is_not_told(start: Start, how: str) -> None:
    gate = Gate()
    decoder = FakeDecoder(gate=gate)
    engine = await start(decoder, partial_every_s=0.5)
    recogniser = engine.open(session="s", on_partial=lambda _: pytest.fail("overtaken"))
    recogniser.feed(noise(1))
    await gate.reached()
    result = getattr(recogniser, how)()
    gate.opened.set()
    if how == "finalise":
        assert (await result).final
    other = engine.open(session="t")
    other.feed(noise(1))
    await other.finalise()
    assert 1 not in decoder.beams


async def test_a_partial_gives_way_to_others_and_is_tried_again(start: Start) -> None:
    gate = Gate()
    engine = await start(FakeDecoder(gate=gate), partial_every_s=0.5)
    heard = Partials()
    recogniser = engine.open(session="s", on_partial=heard)
    recogniser.feed(noise(0.5))
    await gate.reached()
    other = engine.open(session="t")
    other.feed(noise(1))
    final = asyncio.create_task(other.finalise())
    await asyncio.sleep(0)
    gate.opened.set()
    await final
    recogniser.feed(noise(0.5))
    assert (await heard.next()).audio_s == 1.0


async def test_partials_are_off(start: Start) -> None:
    engine = await start(FakeDecoder(), partial_every_s=None)
    recogniser = engine.open(session="s", on_partial=lambda _: pytest.fail("off"))
    recogniser.feed(noise(3))
    assert engine.stats.depth == 0


def test_chinese_is_made_simplified() -> None:
    assert load_simplifier()("你是什麼模型? 周結倫") == "你是什么模型? 周结伦"


def test_the_contract_imports_no_engine() -> None:
    code = (
        "import sys, services.asr.base, services.asr.whisper, services.vad.silero;"
        "print({'ctranslate2', 'tokenizers', 'onnxruntime', 'opencc'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
