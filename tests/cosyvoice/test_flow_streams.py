"""Streams of the flow: shared voices, batches, errors, and what they hold."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cosyvoice.flow_case import drain, far, prompt, say, speech
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_cache import Snapshot
from tts_engine.cosyvoice.flow_stream import FlowStream, FlowVoice
from tts_engine.errors import BadRequest, EngineFailed

SAME = 2e-5


@pytest.fixture(scope="module", params=[("kv", True), ("hidden", False)], ids=str)
def flow(module: Any, request: pytest.FixtureRequest) -> IncrementalFlow:
    cache, pad = request.param
    return IncrementalFlow(module, cache=cache, pad=pad)


def _tensors(state: Snapshot) -> list[Tensor]:
    return [
        *state.encoder_contexts,
        state.contexts,
        *state.encoder,
        *state.estimator,
    ]


def _voice_bytes(voice: FlowVoice) -> int:
    return sum(each.nbytes for each in (*_tensors(voice.start), voice.mel))


def _stream_bytes(stream: FlowStream) -> int:
    """What its stores hold beyond the voice's, spare room included."""
    stores = (*stream.cache.encoder, *stream.cache.estimator)
    return sum(store.with_next(0).untyped_storage().nbytes() for store in stores)


def test_two_streams_share_one_voice_and_leave_it_as_it_was(flow: IncrementalFlow) -> None:
    voice = prompt(62).voice(flow)
    before = [each.clone() for each in _tensors(voice.start)]
    texts = [speech(90, seed=1), speech(70, seed=2)]
    expected = [say(flow, voice, text) for text in texts]
    streams, heard = [flow.open(voice) for _ in texts], [[], []]
    for start in range(0, 90, 10):
        for stream, text, mine in zip(streams, texts, heard, strict=True):
            stream.push(text[start : start + 10])
            mine += drain(flow, stream)
    for stream, mine in zip(streams, heard, strict=True):
        stream.finish()
        mine += drain(flow, stream)
    for stream, mine, alone in zip(streams, heard, expected, strict=True):
        assert torch.equal(torch.cat(mine, -1), alone)
        for store, shared in zip(stream.cache.estimator, voice.start.estimator, strict=True):
            assert store.prefix is shared
    assert all(map(torch.equal, before, _tensors(voice.start)))


def test_a_batch_gives_each_stream_what_it_gets_alone(flow: IncrementalFlow) -> None:
    """Two voices, three utterances at different positions; they join and leave between blocks."""
    voices = [prompt(87, seed=1).voice(flow), prompt(65, seed=2).voice(flow)]
    jobs = [(voices[0], speech(84, seed=3)), (voices[0], speech(31, seed=4))]
    jobs.append((voices[1], speech(61, seed=5)))
    streams: list[FlowStream] = []
    heard: list[list[Tensor]] = [[] for _ in jobs]
    for voice, text in jobs:
        stream = flow.open(voice)
        stream.push(text)
        stream.finish()
        streams.append(stream)
        if len(streams) == 1:
            heard[0] += flow.step(streams)
    blocks = 0
    while live := [row for row, stream in enumerate(streams) if stream.ready]:
        for row, mel in zip(live, flow.step([streams[row] for row in live]), strict=True):
            heard[row].append(mel)
        blocks += 1
    assert blocks == max(len(mine) for mine in heard[1:])
    for (voice, text), mine in zip(jobs, heard, strict=True):
        assert far(torch.cat(mine, -1), say(flow, voice, text)) < SAME


def test_eight_at_once_give_what_each_gets_alone(flow: IncrementalFlow) -> None:
    voices = [prompt(tokens, seed=tokens).voice(flow) for tokens in (12, 50, 62)]
    jobs = [(voices[row % 3], speech(28 + 5 * row, seed=row)) for row in range(8)]
    streams = [flow.open(voice) for voice, _ in jobs]
    for stream, (_, text) in zip(streams, jobs, strict=True):
        stream.push(text)
        stream.finish()
    heard: list[list[Tensor]] = [[] for _ in jobs]
    while live := [row for row, stream in enumerate(streams) if stream.ready]:
        for row, mel in zip(live, flow.step([streams[row] for row in live]), strict=True):
            heard[row].append(mel)
    for (voice, text), mine in zip(jobs, heard, strict=True):
        assert far(torch.cat(mine, -1), say(flow, voice, text)) < SAME


def test_a_prompt_at_a_blocks_end_costs_a_block_without_frames(flow: IncrementalFlow) -> None:
    stream = flow.open(prompt(50).voice(flow))
    assert stream.need == 3
    stream.push(speech(2))
    assert (stream.need, stream.ready) == (1, False)
    stream.push(speech(1))
    (mel,) = flow.step([stream])
    assert mel.shape == (80, 0)
    assert not stream.done


def test_an_utterance_without_tokens_is_done_when_it_is_finished(flow: IncrementalFlow) -> None:
    stream = flow.open(prompt(37).voice(flow))
    assert not stream.done
    stream.finish()
    assert stream.done
    assert not stream.ready


def test_a_step_without_streams_does_nothing(flow: IncrementalFlow) -> None:
    assert flow.step([]) == []


def test_a_block_before_its_time_is_refused(flow: IncrementalFlow) -> None:
    stream = flow.open(prompt(37).voice(flow))
    stream.push(speech(15))
    with pytest.raises(EngineFailed, match="before its tokens"):
        flow.step([stream])


def test_a_failing_block_changes_nothing(
    flow: IncrementalFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice, tokens = prompt(37).voice(flow), speech(64)
    stream = flow.open(voice)
    stream.push(tokens)
    stream.finish()
    heard = flow.step([stream])
    estimator, calls = flow.estimator, iter(range(100))

    def failing(*args: object) -> object:
        if next(calls) == 4:
            raise RuntimeError("out of memory")
        return estimator(*args)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patched:
        patched.setattr(flow, "estimator", failing)
        with pytest.raises(RuntimeError, match="out of memory"):
            flow.step([stream])
    heard += drain(flow, stream)
    assert torch.equal(torch.cat(heard, -1), say(flow, voice, tokens))


def test_tokens_that_cannot_be_are_refused_and_nothing_is_kept(flow: IncrementalFlow) -> None:
    voice = prompt(37).voice(flow)
    stream = flow.open(voice)
    with pytest.raises(BadRequest, match="0 to 6560"):
        stream.push([5, 6561])
    with pytest.raises(BadRequest, match="0 to 6560"):
        stream.push([-1])
    with pytest.raises(BadRequest, match="7500"):
        stream.push([1] * (7500 - 36))
    stream.push([1] * (7500 - 37))
    stream.close()
    stream = flow.open(voice)
    stream.push([1])
    stream.finish()
    stream.finish()
    with pytest.raises(BadRequest, match="finished"):
        stream.push([1])
    assert sum(mel.shape[1] for mel in drain(flow, stream)) == 2


def test_a_mel_that_does_not_fit_its_tokens_is_refused(flow: IncrementalFlow) -> None:
    one = prompt(37)
    with pytest.raises(BadRequest, match="74 mel frames, not 73"):
        flow.voice(one.tokens, one.mel[:-1], one.embedding)


def test_a_closed_stream_holds_nothing_and_takes_nothing(flow: IncrementalFlow) -> None:
    voice = prompt(62).voice(flow)
    stream = flow.open(voice)
    stream.push(speech(40))
    flow.step([stream])
    held = [weakref.ref(stream.cache), *(weakref.ref(each) for each in stream.cache.estimator)]
    assert _stream_bytes(stream) > 0
    stream.close()
    stream.close()
    gc.collect()
    assert all(each() is None for each in held)
    assert (stream.done, stream.ready, stream.need) == (True, False, 0)
    with pytest.raises(EngineFailed, match="closed"):
        stream.push([1])


def test_what_a_second_takes_is_told_beforehand(flow: IncrementalFlow) -> None:
    short, long = prompt(53).voice(flow), prompt(78).voice(flow)
    mel = 25 * 2 * 80 * 4
    assert _voice_bytes(long) - _voice_bytes(short) == flow.bytes_per_second() + mel
    stream = flow.open(short)
    stream.push(speech(150))
    stream.finish()
    drain(flow, stream)
    assert 6 * flow.bytes_per_second() <= _stream_bytes(stream) <= 8.5 * flow.bytes_per_second()
