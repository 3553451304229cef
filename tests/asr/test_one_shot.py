"""Invariant: files of any length are heard piece by piece, one piece of all of them at a time, in
bounded memory, and nothing is left behind by one that is given up.
"""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import aclosing
from itertools import pairwise
from tempfile import TemporaryFile
from typing import BinaryIO

import numpy as np
import pytest
from numpy.typing import NDArray

from services.asr import one_shot
from services.asr.audio_file import AudioFile
from services.asr.base import Samples, Transcript
from services.asr.one_shot import Transcriber
from services.asr.recording import Segment, Wish
from services.scripted.asr import ScriptedAsr
from services.scripted.spec import ScriptedTexts
from services.vad.base import OnWindow, VadEngine, VadStream
from services.vad.energy import EnergyVad
from services.vad.silero import SileroVad
from tests.audio_api.hearing import ValveAsr, word
from tests.audio_api.recordings import silent, sound, spoken
from tests.daemon.inside import settled
from tts_engine.errors import AtCapacity, BadAudio, EngineFailed, NotReady, TimedOut


def kept(data: bytes) -> BinaryIO:
    file = TemporaryFile()  # noqa: SIM115 - whoever asked closes it
    file.write(data)
    file.flush()
    return file


@pytest.fixture
def three() -> Iterator[BinaryIO]:
    """Three voices of a second each, two seconds apart."""
    with kept(sound(spoken(gaps=(2.0, 2.0)))) as file:
        yield file


async def heard(
    transcriber: Transcriber, file: BinaryIO, wish: Wish | None = None
) -> list[Segment]:
    async with transcriber.open(file, wish or Wish()) as listening:
        return [segment async for segment in listening.segments()]


async def test_every_voice_is_a_segment_with_its_place(three: BinaryIO):
    asr, told = ValveAsr(), list[float]()
    asr.give(
        Transcript(text="one", language="en", words=(word("one", 0.1, 0.5), word("x", 1.0, 9.0))),
        "",
        Transcript(text="三", language="zh", log_prob=-0.5, emotion="sad", events=("cough",)),
    )
    transcriber = Transcriber(asr=asr, vad=EnergyVad())
    async with transcriber.open(three, Wish(languages=("en",), hotwords=("a", "b"))) as listening:
        assert listening.duration_s == 8.0
        assert (asr.languages, asr.hints) == ([("en",)], [("a", "b")])
    async with transcriber.open(three, Wish(), on_heard=told.append) as listening:
        first, second = [segment async for segment in listening.segments()]
        assert (listening.heard_s, told) == (8.0, [8.0])
    assert asr.open_handles == 0
    assert (first.text, first.language, first.start_s, first.end_s) == ("one", "en", 0.192, 1.792)
    times = [time for each in first.words for time in (each.start_s, each.end_s)]
    assert times == pytest.approx([0.292, 0.692, 1.192, 1.792])
    assert second.start_s == pytest.approx(6.208)
    assert (second.log_prob, second.emotion, second.events) == (-0.5, "sad", ("cough",))
    assert all(abs(length - 1.6) < 0.05 for length in asr.asked)


async def test_a_voice_at_the_very_end_is_heard():
    asr = ValveAsr()
    asr.give("end")
    samples = spoken()[: int(1.31 * 16_000)]
    with kept(sound(samples)) as file:
        [segment] = await heard(Transcriber(asr=asr, vad=EnergyVad()), file)
    assert segment.end_s == pytest.approx(1.31)
    assert asr.asked == pytest.approx([1.31 - 0.192])


async def test_a_voice_without_pauses_is_cut_and_no_sample_is_lost():
    voice = np.tile(spoken()[8_000:24_000], 60)
    asr = ScriptedAsr(texts=ScriptedTexts(transcripts=["a", "b"]))
    with kept(sound(voice)) as file:
        segments = await heard(Transcriber(asr=asr, vad=EnergyVad()), file)
    assert segments[0].start_s == 0.0
    assert segments[-1].end_s == 60.0
    for before, after in pairwise(segments):
        assert before.end_s == after.start_s
    assert all(segment.end_s - segment.start_s <= 15.01 for segment in segments)
    assert {segment.text for segment in segments} == {"a", "b"}


class CountingVad(EnergyVad):
    """Counts the windows that it was asked about."""

    answered = 0

    def open(self, on_window: OnWindow) -> VadStream:
        def count(probability: float) -> None:
            self.answered += 1
            on_window(probability)

        return super().open(count)


async def test_files_take_turns_piece_by_piece(three: BinaryIO):
    asr, vad = ValveAsr(), CountingVad()
    transcriber = Transcriber(asr=asr, vad=vad)
    asr.give(*"abc")
    await heard(transcriber, three)
    all_of_it = vad.answered
    with kept(sound(spoken(gaps=(2.0, 2.0)))) as other:
        both = [asyncio.create_task(heard(transcriber, file)) for file in (three, other)]
        await settled(lambda: vad.answered == 3 * all_of_it, "they were not listened to")
        for number in range(6):
            await settled(lambda n=number: len(asr.asked) == 3 + n + 1, "nothing was asked for")
            assert asr.ended == 3 + number, "one at a time"
            asr.give(str(number))
        texts = [
            "".join(each.text for each in segments) for segments in await asyncio.gather(*both)
        ]
    assert sorted(texts) == ["024", "135"]


async def test_hours_of_silence_are_passed_over_in_no_memory():
    asr = ValveAsr()
    # One block is gone through before, so that what is imported on the way does not count.
    with kept(silent(10)) as file:
        assert await heard(Transcriber(asr=asr, vad=EnergyVad()), file) == []
    with kept(silent(3600)) as file:
        tracemalloc.start()
        try:
            assert await heard(Transcriber(asr=asr, vad=EnergyVad()), file) == []
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert asr.asked == []
    assert peak < 16 << 20


# --- a recogniser that fails --------------------------------------------------------------------


async def test_a_full_recogniser_is_tried_again_but_for_the_first_piece(three: BinaryIO):
    asr = ValveAsr()
    transcriber = Transcriber(asr=asr, vad=EnergyVad(), again_s=(0.0, 0.01))
    asr.give(AtCapacity("full"))
    with pytest.raises(AtCapacity):
        await heard(transcriber, three)
    asr.give("one", AtCapacity("full"), TimedOut("slow"), "two", AtCapacity("full"), "three")
    assert [each.text for each in await heard(transcriber, three)] == ["one", "two", "three"]
    asr.give("one", *[AtCapacity("full")] * 3)
    with pytest.raises(AtCapacity):
        await heard(transcriber, three)
    asr.give("one", EngineFailed("broken"))
    with pytest.raises(EngineFailed):
        await heard(transcriber, three)
    assert asr.open_handles == 0
    assert not transcriber.lane.locked()


async def test_a_recogniser_that_is_started_again_is_waited_for(three: BinaryIO):
    asr = ValveAsr()
    transcriber = Transcriber(asr=asr, vad=EnergyVad(), restart_s=(0.0,) * 3)
    asr.restarting = True
    asr.give(EngineFailed("died"), NotReady("restarting"), "one", NotReady("again"), "two", "three")
    assert [each.text for each in await heard(transcriber, three)] == ["one", "two", "three"]
    asr.give(*[NotReady("for ever")] * 4)
    with pytest.raises(NotReady):
        await heard(transcriber, three)


async def test_a_detector_that_does_not_answer_is_not_waited_for(
    three: BinaryIO, monkeypatch: pytest.MonkeyPatch
):
    class Mute(VadStream):
        closed = 0

        def push(self, window: NDArray[np.float32]) -> None:
            pass

        def close(self) -> None:
            Mute.closed += 1

    class MuteVad(VadEngine):
        async def start(self) -> None:
            pass

        def open(self, on_window: OnWindow) -> VadStream:
            return Mute()

        async def close(self) -> None:
            pass

    monkeypatch.setattr(one_shot, "_DETECTOR_S", 0.05)
    with pytest.raises(EngineFailed, match="does not answer"):
        await heard(Transcriber(asr=ValveAsr(), vad=MuteVad()), three)
    assert Mute.closed == 1


async def test_engines_that_do_not_run_leave_no_handle_open(three: BinaryIO):
    asr = ValveAsr()
    with pytest.raises(EngineFailed, match="not running"):
        await heard(Transcriber(asr=asr, vad=SileroVad()), three)
    assert asr.open_handles == 0


# --- a file that is given up --------------------------------------------------------------------


async def test_giving_up_withdraws_the_piece_and_ends_everything(three: BinaryIO):
    asr = ValveAsr()
    transcriber = Transcriber(asr=asr, vad=EnergyVad())
    task = asyncio.create_task(heard(transcriber, three))
    await settled(lambda: len(asr.asked) == 1, "nothing was asked for")
    waiting = asyncio.create_task(heard(transcriber, three))
    await asyncio.sleep(0)
    for each in (task, waiting):
        each.cancel()
    await asyncio.gather(task, waiting, return_exceptions=True)
    assert (asr.ended, asr.open_handles) == (1, 0)
    assert not transcriber.lane.locked()


async def test_a_decoder_is_let_go_when_it_has_come_to_its_end(
    three: BinaryIO, monkeypatch: pytest.MonkeyPatch
):
    """Whoever leaves while a thread decodes waits for the thread."""
    events: list[str] = []
    entered, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Slow(AudioFile):
        def read(self) -> Samples:
            loop.call_soon_threadsafe(entered.set)
            assert let_go.wait(20)
            events.append("read")
            return super().read()

        def close(self) -> None:
            events.append("closed")
            super().close()

    monkeypatch.setattr(one_shot, "AudioFile", Slow)
    task = asyncio.create_task(heard(Transcriber(asr=ValveAsr(), vad=EnergyVad()), three))
    await entered.wait()
    task.cancel()
    loop.call_soon(let_go.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["read", "closed"]


async def test_a_reader_may_stop_in_the_middle(three: BinaryIO):
    asr = ValveAsr()
    asr.give("one")
    async with (
        Transcriber(asr=asr, vad=EnergyVad()).open(three, Wish()) as listening,
        aclosing(listening.segments()) as segments,
    ):
        assert (await anext(segments)).text == "one"
    assert asr.open_handles == 0


async def test_what_is_no_recording_opens_nothing():
    asr = ValveAsr()
    with kept(b"text") as file, pytest.raises(BadAudio):
        await heard(Transcriber(asr=asr, vad=EnergyVad()), file)
    assert (asr.open_handles, asr.languages) == (0, [])


async def test_the_true_detector_hears_no_speech_in_noise():
    rng = np.random.default_rng(0)
    noise = (rng.standard_normal(5 * 16_000) * 0.01).astype(np.float32)
    vad, asr = SileroVad(), ValveAsr()
    await vad.start()
    with kept(sound(noise)) as file:
        assert await heard(Transcriber(asr=asr, vad=vad), file) == []
    await vad.close()
    assert asr.asked == []
