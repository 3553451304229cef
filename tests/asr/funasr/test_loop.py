"""Every final covers its turn as it was fed when it was asked for, sample by sample.

The models write down which samples they were given; nothing of torch is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.base import Samples, Word
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.wire import Finished, Partial, Stepped
from tests.asr.funasr.fake_models import (
    CHUNK,
    Bench,
    FakeOffline,
    FakeStream,
    FakeStreaming,
    covered,
    spans,
)
from tts_engine.frames import Failed

MODES = ("streaming+offline", "offline", "streaming")


def bench(mode: str, **options: object) -> Bench:
    return Bench(
        streaming=None if mode == "offline" else FakeStreaming(),
        offline=None if mode == "streaming" else FakeOffline(),
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
def test_nothing_is_lost_or_mixed(mode: str, data: st.DataObject) -> None:
    """Whatever is fed, asked, withdrawn and forgotten between whichever steps."""
    fed = dict.fromkeys(range(1, 4), 0)
    asked: dict[int, tuple[int, int]] = {}
    gone: set[int] = set()
    b = bench(mode, segment_s=1.0, chunks=data.draw(st.integers(1, 3)))
    actions = st.sampled_from(["feed", "feed", "feed", "ask", "ask", "step", "cancel", "forget"])
    for action in data.draw(st.lists(actions, max_size=25)):
        turn = data.draw(st.integers(1, 3)) if fed else 0
        if action == "feed" and turn in fed:
            count = data.draw(st.sampled_from([400, 700, CHUNK, 20_000]))
            b.feed(turn, count)
            fed[turn] += count
        elif action == "ask" and fed.get(turn):
            id = 100 + len(asked)
            asked[id] = turn, fed[turn]
            b.ask(id, turn)
        elif action == "step" and (b.loop.busy or not b.loop.inbox.empty()):
            b.step()
        elif action == "cancel" and asked:
            id = data.draw(st.sampled_from(sorted(asked)))
            b.cancel(id)
            gone.add(id)
        elif action == "forget" and fed.pop(turn, None):
            b.forget(turn)
            gone |= {id for id, (of, _) in asked.items() if of == turn}
    b.settle()
    assert not b.of(Failed)
    finished = [each.id for each in b.of(Finished)]
    assert len(finished) == len({*finished})  # each once
    assert {*asked} - gone <= {*finished} <= {*asked}
    for id in finished:
        turn, end = asked[id]
        assert covered(b.final(id)) == (turn, 0, end)
    for turn in range(1, 4):
        ends = [each.end for each in b.partials(turn)]
        assert ends == sorted(ends)
        for each in b.partials(turn):
            assert covered(each.text) == (turn, 0, each.end)


@given(st.lists(st.integers(400, 4_000), min_size=1, max_size=12))
def test_any_cutting_of_the_audio_gives_the_same(cuts: list[int]) -> None:
    texts: list[str] = []
    for sizes in (cuts, [sum(cuts)]):
        b = bench("streaming")
        for size in sizes:
            b.feed(1, size)
            b.settle()
        b.ask(2, 1)
        b.settle()
        texts.append(b.final(2))
    assert texts[0] == texts[1]


def test_finals_go_ahead_of_partials() -> None:
    b = bench("streaming+offline", chunks=1)
    for turn in (1, 2, 3):
        b.feed(turn, 2 * CHUNK)
    b.step()
    b.ask(10, 3)
    b.step()
    kinds = [type(each) for each in b.told if not isinstance(each, Stepped)]
    assert kinds == [Partial, Finished]
    b.settle()
    assert len(b.of(Partial)) == 6


def test_a_streamed_final_goes_ahead_of_partials() -> None:
    b = bench("streaming", chunks=1)
    for turn in (1, 2):
        b.feed(turn, 3 * CHUNK)
    b.step()
    b.ask(10, 2)
    for _ in range(4):
        b.step()
    assert covered(b.final(10)) == (2, 0, 3 * CHUNK)
    assert len(b.partials(1)) == 1


def test_audio_that_comes_after_a_final_was_asked_for_is_not_in_it() -> None:
    b = bench("streaming")
    b.feed(1, 3 * CHUNK + 5)
    b.ask(10, 1)
    b.feed(1, CHUNK)
    b.ask(11, 1)
    b.feed(1, CHUNK)
    b.settle()
    assert covered(b.final(10)) == (1, 0, 3 * CHUNK + 5)
    assert covered(b.final(11)) == (1, 0, 4 * CHUNK + 5)
    assert b.partials(1)[-1].end == 5 * CHUNK


def test_a_final_that_is_withdrawn_while_it_waits_is_never_begun() -> None:
    b = bench("streaming+offline")
    offline = b.loop._parts.offline
    assert isinstance(offline, FakeOffline)
    b.feed(1, CHUNK, partials=False)
    b.ask(10, 1)
    b.cancel(10)
    assert b.settle() == []
    assert offline.steps == []
    b = bench("streaming")
    b.feed(1, 2 * CHUNK)
    b.ask(10, 1)
    b.feed(1, CHUNK)
    b.cancel(10)
    b.cancel(99)
    b.settle()
    assert not b.of(Finished)
    assert b.partials(1)[-1].end == 3 * CHUNK


def test_a_turn_without_partials_costs_no_stream() -> None:
    b = bench("streaming+offline")
    streaming = b.loop._parts.streaming
    assert isinstance(streaming, FakeStreaming)
    b.feed(1, 5 * CHUNK, partials=False)
    b.ask(10, 1)
    b.settle()
    assert streaming.opened == 0
    assert covered(b.final(10)) == (1, 0, 5 * CHUNK)


def test_streams_share_steps() -> None:
    b = bench("streaming", chunks=3)
    streaming = b.loop._parts.streaming
    assert isinstance(streaming, FakeStreaming)
    for turn in range(1, 6):
        b.feed(turn, CHUNK)
    b.settle()
    assert streaming.steps == [3, 2]
    assert [each.due for each in b.of(Stepped)] == [2, 0]


@pytest.mark.parametrize("mode", MODES)
def test_silence_gives_no_text_and_costs_nothing(mode: str) -> None:
    b = bench(mode)
    b.feed(1, 3 * CHUNK, partials=False, loud=False)
    b.ask(10, 1)
    b.step()
    assert b.of(Finished)[0].text == ""
    offline = b.loop._parts.offline
    assert offline is None or (isinstance(offline, FakeOffline) and not offline.steps)


def test_a_long_turn_is_recognised_in_pieces_each_once() -> None:
    b = bench("offline", segment_s=1.0, pieces=1)
    offline = b.loop._parts.offline
    assert isinstance(offline, FakeOffline)
    b.feed(1, 16_000 * 3)
    b.ask(10, 1)
    b.settle()
    first, before = spans(b.final(10)), len(offline.steps)
    assert len(first) > 2
    b.feed(1, 16_000)
    b.ask(11, 1)
    b.settle()
    assert covered(b.final(11)) == (1, 0, 16_000 * 4)
    assert spans(b.final(11))[: len(first) - 1] == first[:-1]
    assert len(offline.steps) - before == len(spans(b.final(11))) - len(first) + 1
    # In other languages it is another question.
    b.ask(12, 1, languages=["en"], hotwords=["duplexd"])
    b.settle()
    assert offline.asked[-1] == (("en",), ("duplexd",))
    assert b.final(12) == b.final(11)


def test_the_engine_hears_of_every_step_of_a_long_turn() -> None:
    b = bench("offline", segment_s=1.0, pieces=1)
    b.feed(1, 16_000 * 3)
    b.ask(10, 1)
    steps = 0
    while b.loop.busy or not b.loop.inbox.empty():
        told = len(b.told)
        b.step()
        assert len(b.told) > told
        steps += 1
    assert steps > 2
    assert covered(b.final(10)) == (1, 0, 16_000 * 3)


def test_what_the_pieces_say_is_put_together() -> None:
    def hear(samples: Samples) -> Recognised:
        number = int(float(samples[0]) - (1 << 20) > 0)
        return Recognised(
            text=("你好，", "what time")[number],
            language="zh" if number == 0 else "",
            emotion="happy" if number == 0 else "",
            events=("laughter", "cough")[: 1 + number],
            words=(Word(text="w", start_s=0.1, end_s=0.2),),
            log_prob=-0.1 * (1 + number),
        )

    b = Bench(offline=FakeOffline(hear), segment_s=1.0)
    b.feed(1, 16_000 * 2)
    b.ask(10, 1)
    b.settle()
    [finished] = b.of(Finished)
    assert finished.text.startswith("你好，what time")
    assert (finished.language, finished.emotion) == ("zh", "happy")
    assert [*finished.events] == ["laughter", "cough"]
    starts = [start for _, start, _ in finished.words]
    assert starts[0] == 0.1
    assert starts == sorted({*starts})
    assert finished.log_prob is not None


def test_a_text_that_is_noise_is_dropped() -> None:
    def hear(samples: Samples) -> Recognised:
        return Recognised(text="嗯", language="zh", events=("cough",), log_prob=-3.0)

    b = Bench(offline=FakeOffline(hear), min_log_prob=-2.5)
    b.feed(1, CHUNK)
    b.ask(10, 1)
    b.settle()
    [finished] = b.of(Finished)
    assert (finished.text, finished.language, finished.log_prob) == ("", "", None)
    assert [*finished.events] == ["cough"]


def test_the_language_is_told_by_the_text_where_the_model_does_not() -> None:
    b = Bench(offline=FakeOffline(lambda _: Recognised(text="hello")))
    b.feed(1, CHUNK)
    b.ask(10, 1)
    b.settle()
    assert b.of(Finished)[0].language == "en"


def test_a_streamed_final_is_punctuated() -> None:
    def punctuate(texts: Sequence[str]) -> list[str]:
        return [f"{text}。" for text in texts]

    b = Bench(streaming=FakeStreaming(), punctuate=punctuate)
    b.feed(1, CHUNK)
    b.ask(10, 1)
    b.settle()
    assert b.final(10).endswith("。")
    assert not b.partials(1)[-1].text.endswith("。")


def test_punctuation_that_fails_fails_that_final() -> None:
    def punctuate(texts: Sequence[str]) -> list[str]:
        raise RuntimeError("odd")

    b = Bench(streaming=FakeStreaming(), punctuate=punctuate)
    b.feed(1, CHUNK)
    b.ask(10, 1)
    b.settle()
    [failure] = b.of(Failed)
    assert (failure.id, failure.message) == (
        10,
        "FunASR failed at its punctuation: RuntimeError: odd",
    )


# --- at capacity --------------------------------------------------------------------------------


class SlowStreaming(FakeStreaming):
    """Takes its time, on the clock of the loop."""

    bench: Bench
    takes_s = 0.2

    def step(self, streams: Sequence[FakeStream]) -> None:
        super().step(streams)
        self.bench.clock.now += self.takes_s


def test_at_capacity_partials_come_more_rarely_and_nothing_is_lost() -> None:
    """Four turns in real time, and a model that manages two."""
    slow = SlowStreaming()
    b = slow.bench = Bench(streaming=slow, offline=FakeOffline(), chunks=1)
    strides: list[float] = []
    started = b.clock.now
    fed = 0
    while fed < 100 * CHUNK:
        due = int((b.clock.now - started) * 16_000) // CHUNK * CHUNK
        for turn in (1, 2, 3, 4):
            if due > fed:
                b.feed(turn, due - fed)
        fed = max(fed, due)
        if b.loop.busy or not b.loop.inbox.empty():
            b.step()
        else:
            b.clock.now += 0.1
        strides.append(b.of(Stepped)[-1].stride_s if b.of(Stepped) else 0.1)
    assert max(strides) >= 8 * 0.1
    # The text of a turn is asked for: it is there after the step at hand.
    b.ask(10, 1)
    b.step()
    assert covered(b.final(10)) == (1, 0, fed)
    b.settle()
    for turn in (1, 2, 3, 4):
        assert covered(b.partials(turn)[-1].text)[:2] == (turn, 0)
    # When the load is gone the stride shrinks again.
    for turn in (2, 3, 4):
        b.forget(turn)
    slow.takes_s = 0.01
    for _ in range(400):
        b.clock.now += 0.1
        b.feed(1, CHUNK)
        b.settle()
    assert b.of(Stepped)[-1].stride_s == pytest.approx(0.1)


@pytest.mark.parametrize("mode", ["streaming+offline", "streaming"])
def test_partials_end_when_more_waits_for_them_than_a_turn_may_have(mode: str) -> None:
    b = bench(mode, max_turn_s=1.0, segment_s=5.0)
    for _ in range(40):
        b.feed(1, 16_000)
    b.step()
    assert not b.loop.busy
    assert b.partials(1) == []
    b.ask(10, 1)
    b.settle()
    of, first, last = covered(b.final(10))
    assert (of, last) == (1, 40 * 16_000)
    assert 0 < first <= last - 16_000


def test_streamed_finals_are_not_put_off_by_strides() -> None:
    slow = SlowStreaming()
    b = slow.bench = Bench(streaming=slow, chunks=1)
    for turn in range(1, 9):
        b.feed(turn, 3 * CHUNK)
    b.settle()
    assert {each.stride_s for each in b.of(Stepped)} == {0.1}
    assert max(wait for each in b.of(Stepped) for wait in each.waits) > 1.0


# --- failures -----------------------------------------------------------------------------------


def bad(samples: Samples) -> bool:
    """The audio of turn 2 is what no model can take."""
    return bool(samples.size) and int(samples[0]) >> 20 == 2


def test_whoever_is_at_fault_fails_alone_offline() -> None:
    offline = FakeOffline(fails=lambda samples: ValueError("odd") if bad(samples) else None)
    b = Bench(offline=offline, segment_s=1.0)
    for turn in (1, 2, 3):
        b.feed(turn, 24_000)
        b.ask(10 + turn, turn)
    b.settle()
    [failure] = b.of(Failed)
    assert (failure.id, failure.code) == (12, "engine_failed")
    assert failure.message == "FunASR failed at its second pass: ValueError: odd"
    assert covered(b.final(11)) == (1, 0, 24_000)
    assert covered(b.final(13)) == (3, 0, 24_000)
    offline.fails = None  # the turn can be asked for once more
    b.ask(14, 2)
    b.settle()
    assert covered(b.final(14)) == (2, 0, 24_000)


@pytest.mark.parametrize("seed", range(6))
def test_whoever_is_at_fault_fails_alone_streaming(seed: int) -> None:
    """A step that fails spoils every stream in it: the others begin anew, and lose nothing."""
    random, asked = Random(seed), 0
    streaming = FakeStreaming()

    def fails(streams: Sequence[FakeStream]) -> Exception | None:
        spoilt = any(bad(each.pushed) and each.samples > 3 * CHUNK for each in streams)
        return ValueError() if spoilt else None

    streaming.fails = fails
    b = Bench(streaming=streaming)
    for _ in range(8):
        for turn in (1, 2, 3):
            b.feed(turn, random.randrange(CHUNK))
            if random.random() < 0.2:
                asked += 1
                b.ask(100 + asked, turn)
        if b.loop.busy or not b.loop.inbox.empty():
            b.step()
    for turn in (1, 3):
        b.ask(10 + turn, turn)
    b.settle()
    for turn in (1, 3):
        assert covered(b.final(10 + turn)) == (turn, 0, b._ends[turn])
        ends = [each.end for each in b.partials(turn)]
        assert all(covered(each.text) == (turn, 0, each.end) for each in b.partials(turn))
        assert ends
    assert all(each.message.endswith("streaming: ValueError") for each in b.of(Failed))


def test_partials_of_a_turn_end_where_its_stream_fails_and_its_final_does_not() -> None:
    streaming = FakeStreaming(lambda streams: ValueError("odd"))
    b = Bench(streaming=streaming, offline=FakeOffline())
    b.feed(1, 3 * CHUNK)
    b.settle()
    [failure] = b.of(Failed)
    assert failure.id == 1
    b.feed(1, 3 * CHUNK)
    b.ask(10, 1)
    b.settle()
    assert len(b.of(Failed)) == 1
    assert len(streaming.steps) == 1
    assert covered(b.final(10)) == (1, 0, 6 * CHUNK)


def test_a_streamed_final_is_tried_anew_after_its_stream_failed() -> None:
    failures = iter([ValueError("odd")])
    b = Bench(streaming=FakeStreaming(lambda _: next(failures, None)))
    b.feed(1, 3 * CHUNK)
    b.ask(10, 1)
    b.settle()
    assert [each.id for each in b.of(Failed)] == [10]
    b.feed(1, 7)
    b.ask(11, 1)
    b.settle()
    assert covered(b.final(11)) == (1, 0, 3 * CHUNK + 7)


def test_a_final_s_own_stream_that_fails_leaves_the_turn_as_it_is() -> None:
    def fails(streams: Sequence[FakeStream]) -> Exception | None:
        return ValueError("odd") if any(each.finished for each in streams) else None

    streaming = FakeStreaming(fails)
    b = Bench(streaming=streaming)
    b.feed(1, CHUNK + 7)
    b.ask(10, 1)
    b.settle()
    assert [each.id for each in b.of(Failed)] == [10]
    streaming.fails = None
    b.feed(1, CHUNK)
    b.ask(11, 1)
    b.settle()
    assert covered(b.final(11)) == (1, 0, 2 * CHUNK + 7)
    assert streaming.opened == 1


def test_a_failure_of_the_device_ends_the_process() -> None:
    b = Bench(offline=FakeOffline(fails=lambda _: MemoryError()))
    for turn in (1, 2):
        b.feed(turn, CHUNK)
        b.ask(10 + turn, turn)
    with pytest.raises(MemoryError):
        b.settle()
    b = Bench(streaming=FakeStreaming(lambda _: MemoryError()))
    for turn in (1, 2):
        b.feed(turn, CHUNK)
    with pytest.raises(MemoryError):
        b.settle()


def test_an_order_that_cannot_be_is_answered() -> None:
    b = bench("offline")
    b.ask(10, 99)  # no such turn
    b.feed(1, 0)
    b.loop.inbox.put(None)
    b.loop.run()
    assert [each.id for each in b.of(Failed)] == [10]


def test_a_turn_keeps_its_end_when_it_is_too_long() -> None:
    b = bench("streaming+offline", max_turn_s=1.0, segment_s=5.0)
    for _ in range(40):
        b.feed(1, 16_000)
        b.settle()
    b.ask(10, 1)
    b.settle()
    of, first, last = covered(b.final(10))
    assert (of, last) == (1, 40 * 16_000)
    assert 0 < first <= last - 16_000
    [finished] = b.of(Finished)
    assert finished.compute_s >= 0.0
    assert np.isclose(b.partials(1)[-1].end, last, atol=CHUNK)
