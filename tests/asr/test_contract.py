"""What every recogniser promises, whatever is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import numpy as np
import pytest

from services.asr.base import SAMPLE_RATE, AsrEngine, Recogniser, Samples, Transcript
from tests.conftest import Speech
from tts_engine.errors import AtCapacity, EngineFailed

from .contract import LINES, PATIENCE_S, Subject, funasr, remote, scripted, whisper
from .partials import Partials

FIRST, SECOND, THIRD = LINES
#: sizes of blocks: one sample, odd ones, a window of the ear's, more than a second
BLOCKS = (1, 7, 160, 512, 333, 20_000)

pytestmark = pytest.mark.timeout(300)

BUILT: dict[str, Callable[[Path], AbstractAsyncContextManager[Subject]]] = {
    "scripted": lambda _: scripted(),
    "funasr streaming": lambda folder: funasr("streaming", folder),
    "funasr offline": lambda folder: funasr("offline", folder),
    "funasr 2-pass": lambda folder: funasr("streaming+offline", folder),
    "remote 2-pass": lambda _: remote("2pass"),
    "remote streaming": lambda _: remote("online"),
    "remote offline": lambda _: remote("offline"),
}
WHISPER = pytest.param("whisper", marks=pytest.mark.models)
ALL = [*BUILT, WHISPER]
#: a script has no queue
QUEUED = [name for name in ALL if name != "scripted"]


@pytest.fixture(params=ALL)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    if request.param == "whisper":
        speech: Speech = request.getfixturevalue("speech")
        models_dir: Path = request.getfixturevalue("models_dir")
        built = whisper(models_dir, speech)
    else:
        built = BUILT[request.param](tmp_path)
    async with built as subject:
        yield subject


async def final(recogniser: Recogniser) -> Transcript:
    async with asyncio.timeout(PATIENCE_S):
        return await recogniser.finalise()


def feed(recogniser: Recogniser, samples: Samples, *, block: int = 512) -> None:
    for at in range(0, len(samples), block):
        recogniser.feed(samples[at : at + block])


def covers(transcript: Transcript, count: int) -> bool:
    """Whether a transcript accounts for so many samples, to the sample."""
    return transcript.audio_s * SAMPLE_RATE == pytest.approx(count, abs=1e-3)


async def test_a_final(subject: Subject) -> None:
    recogniser = subject.engine.open(session="s")
    audio = subject.speak(FIRST)
    feed(recogniser, audio)
    heard = await final(recogniser)
    assert subject.same(heard.text, FIRST)
    assert (heard.language, heard.final) == ("zh", True)
    assert covers(heard, len(audio))
    # The same audio, the same text.
    assert (await final(recogniser)).text == heard.text


async def test_partials(subject: Subject) -> None:
    partials = Partials()
    recogniser = subject.engine.open(session="s", on_partial=partials)
    feed(recogniser, subject.speak(FIRST))
    if subject.partials:
        await partials.until(lambda text: len(text) >= 2)
    first = await final(recogniser)
    count = len(partials)
    feed(recogniser, subject.speak(SECOND))
    if subject.partials:
        # The microphone goes on: an engine that was busy looks again when more comes.
        async with asyncio.timeout(PATIENCE_S):
            while len(partials) == count or len(partials[-1].text) <= len(first.text):
                recogniser.feed(np.zeros(512, np.float32))
                await asyncio.sleep(0.01)
    second = await final(recogniser)
    partials.check()
    assert bool(partials) == subject.partials
    assert all(second.audio_s >= partial.audio_s for partial in partials)
    assert subject.same(second.text, FIRST, SECOND)
    # Each holds the text from the start of the turn.
    for partial in partials[count:]:
        assert partial.text[:2] == first.text[:2]


async def test_the_audio_before_the_onset_is_kept(subject: Subject) -> None:
    # As the ear feeds a turn: what came before its onset at once, then window by window.
    recogniser = subject.engine.open(session="s")
    audio = np.concatenate((np.zeros(2048, np.float32), subject.speak(FIRST)))
    recogniser.feed(audio[:8192])
    feed(recogniser, audio[8192:])
    heard = await final(recogniser)
    assert subject.same(heard.text, FIRST)
    assert covers(heard, len(audio))


@pytest.mark.parametrize("block", BLOCKS)
async def test_any_blocks(subject: Subject, block: int) -> None:
    audio = subject.speak(SECOND)
    one, other = subject.engine.open(session="s"), subject.engine.open(session="t")
    one.feed(audio)
    feed(other, audio, block=block)
    # The scripted one tells the marks' place, the others recognise the same samples.
    heard = await final(one)
    again = await final(other)
    assert (again.text, again.audio_s) == (heard.text, heard.audio_s)
    assert covers(heard, len(audio))


async def test_nothing_is_lost_where_a_turn_was_asked_for(subject: Subject) -> None:
    recogniser = subject.engine.open(session="s")
    fed = 0
    for count, line in enumerate(LINES, 1):
        audio = subject.speak(line)
        feed(recogniser, audio, block=777)
        fed += len(audio)
        heard = await final(recogniser)
        assert subject.same(heard.text, *LINES[:count])
        assert covers(heard, fed)


async def test_the_audio_may_be_changed_after_it_was_fed(subject: Subject) -> None:
    recogniser = subject.engine.open(session="s")
    audio = subject.speak(FIRST)
    block = np.empty(512, np.float32)
    for at in range(0, len(audio), 512):
        part = block[: len(audio[at : at + 512])]
        part[:] = audio[at : at + 512]
        recogniser.feed(part)
        part[:] = 0
    assert subject.same((await final(recogniser)).text, FIRST)


async def test_conversations_never_mix(subject: Subject) -> None:
    lines = (FIRST, SECOND)
    handles = [subject.engine.open(session=line) for line in lines]
    audio = [subject.speak(line) for line in lines]
    for at in range(0, max(map(len, audio)), 512):
        for handle, samples in zip(handles, audio, strict=True):
            if at < len(samples):
                handle.feed(samples[at : at + 512])
    for handle, line in zip(handles, lines, strict=True):
        assert subject.same((await final(handle)).text, line)
    # Nor do they when one of them is over.
    handles[0].reset()
    feed(handles[0], subject.speak(THIRD))
    feed(handles[1], subject.speak(THIRD))
    assert subject.same((await final(handles[1])).text, SECOND, THIRD)
    assert subject.same((await final(handles[0])).text, THIRD)


async def test_nothing_said(subject: Subject) -> None:
    recogniser = subject.engine.open(session="s")
    assert await final(recogniser) == Transcript(text="")
    feed(recogniser, np.zeros(SAMPLE_RATE, np.float32))
    heard = await final(recogniser)
    assert (heard.text, heard.language) == ("", "")


async def asking(recogniser: Recogniser) -> asyncio.Task[Transcript]:
    """Asks for a final, which is on its way when this returns."""
    task = asyncio.create_task(final(recogniser))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("how", ["cancel", "reset", "close", "task"])
async def test_withdrawing(subject: Subject, how: str) -> None:
    recogniser = subject.engine.open(session="s")
    feed(recogniser, subject.speak(FIRST))
    with subject.held():
        task = await asking(recogniser)
        if how == "task":
            task.cancel()
        else:
            getattr(recogniser, how)()
        with pytest.raises(asyncio.CancelledError):
            await task
    if how == "close":
        recogniser.close()
        recogniser = subject.engine.open(session="s")
    if how in ("cancel", "task"):
        assert subject.same((await final(recogniser)).text, FIRST)
    else:
        feed(recogniser, subject.speak(SECOND))
        assert subject.same((await final(recogniser)).text, SECOND)
    assert subject.engine.stats.depth == 0


async def test_a_model_that_fails_fails_one_call(subject: Subject) -> None:
    recogniser, other = subject.engine.open(session="s"), subject.engine.open(session="t")
    feed(recogniser, subject.speak(FIRST))
    subject.fail()
    with pytest.raises(EngineFailed):
        await final(recogniser)
    assert subject.engine.stats.errors == {"engine_failed": 1}
    feed(other, subject.speak(SECOND))
    assert subject.same((await final(other)).text, SECOND)
    assert subject.same((await final(recogniser)).text, FIRST)
    assert subject.engine.stats.depth == 0


@pytest.mark.parametrize("subject", QUEUED, indirect=True)
async def test_at_capacity(subject: Subject) -> None:
    handles = [subject.engine.open(session=str(number)) for number in range(4)]
    for handle in handles:
        feed(handle, subject.speak(SECOND))
    with subject.held():
        tasks = [await asking(handle) for handle in handles]
        refused = [task for task in tasks if task.done()]
        assert refused, "one place, four who want it"
        for task in refused:
            with pytest.raises(AtCapacity):
                await task
    for handle, task in zip(handles, tasks, strict=True):
        # Who was refused may ask again; the audio is still there.
        heard = await (final(handle) if task in refused else task)
        assert subject.same(heard.text, SECOND)
    assert subject.engine.stats.errors == {"at_capacity": len(refused)}


async def test_an_engine_that_is_closed_leaves_nobody_waiting(subject: Subject) -> None:
    recogniser = subject.engine.open(session="s")
    feed(recogniser, subject.speak(FIRST))
    with subject.held():
        task = await asking(recogniser)
        closing = asyncio.create_task(close(subject.engine))
        await asyncio.wait((task,), timeout=PATIENCE_S)
        assert task.done()
        assert task.cancelled() or isinstance(task.exception(), EngineFailed)
    await closing
    recogniser.close()


async def close(engine: AsrEngine) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await engine.close()
        await engine.close()
