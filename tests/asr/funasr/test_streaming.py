"""Streaming Paraformer: what FunASR gives, however the audio comes and whoever else speaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.asr.funasr.loader import Model, load
from services.asr.funasr.make_random import Kind
from services.asr.funasr.streaming import Stream, StreamingParaformer
from tests.asr.funasr.conftest import Sound
from tts_engine.errors import ConfigError, ModelCorrupt

CHUNK = 9600
#: whole chunks, a rest of less than a frame, of more, almost a chunk, less than a chunk, nothing
LENGTHS = (64_000, 3 * CHUNK, 3 * CHUNK + 500, 2 * CHUNK + 970, 8 * CHUNK - 1, 5000, 961, 300, 0)


@pytest.fixture(scope="module")
def model(tiny: Callable[[Kind], Model]) -> Model:
    return tiny("paraformer-streaming")


@pytest.fixture(scope="module")
def paraformer(model: Model) -> StreamingParaformer:
    return StreamingParaformer(model)


@pytest.fixture(scope="module")
def recordings(sound: Sound) -> list[NDArray[np.float32]]:
    return [sound(length, number) for number, length in enumerate(LENGTHS)]


@pytest.fixture(scope="module")
def alone(
    paraformer: StreamingParaformer, recordings: Sequence[NDArray[np.float32]]
) -> list[list[str]]:
    """The tokens of each recording that is pushed at once, each alone."""
    return [_finished(paraformer, each).tokens for each in recordings]


def _finished(paraformer: StreamingParaformer, samples: NDArray[np.float32]) -> Stream:
    stream = paraformer.open()
    stream.push(samples)
    stream.finish()
    while stream.due:
        paraformer.step([stream])
    return stream


def _by_funasr(
    model: Model, samples: NDArray[np.float32], *, frames: int, look_back: int
) -> list[list[str]]:
    """The tokens of each chunk as FunASR's own `generate` gives them, a chunk at a time."""
    network, tokens, cache = model.network, [], {}
    generate = network.generate_chunk

    def listening(*args: Any, **options: Any) -> list[str]:
        tokens.append(generate(*args, **options))
        return tokens[-1]

    size = frames * 960
    whole = samples.size // size
    network.generate_chunk = listening
    try:
        for number in range(whole + 1):
            model.auto.generate(
                input=samples[number * size : (number + 1) * size],
                cache=cache,
                is_final=number == whole,
                chunk_size=[0, frames, frames // 2],
                encoder_chunk_look_back=look_back,
                decoder_chunk_look_back=1,
            )
    finally:
        del network.generate_chunk
    return tokens


@pytest.mark.parametrize(("frames", "look_back"), [(10, 4), (8, 4), (10, 1), (10, 0)])
@pytest.mark.parametrize("length", [length for length in LENGTHS if length > 1000])
def test_every_chunk_is_what_funasr_makes_of_it(
    model: Model, sound: Sound, frames: int, look_back: int, length: int
) -> None:
    paraformer = StreamingParaformer(model, chunk_ms=60 * frames, look_back=look_back)
    stream, found = paraformer.open(), []
    stream.push(sound(length))
    stream.finish()
    while stream.due:
        before = len(stream.tokens)
        paraformer.step([stream])
        found.append(stream.tokens[before:])

    assert found == _by_funasr(model, sound(length), frames=frames, look_back=look_back)
    assert sum(map(len, found)) > length // 16_000


@given(
    number=st.integers(0, len(LENGTHS) - 1),
    sizes=st.lists(st.integers(1, 2 * CHUNK), max_size=30),
    eager=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_it_does_not_matter_how_the_audio_comes(
    paraformer: StreamingParaformer,
    recordings: Sequence[NDArray[np.float32]],
    alone: Sequence[list[str]],
    number: int,
    sizes: list[int],
    eager: bool,
) -> None:
    samples, stream, at = recordings[number], paraformer.open(), 0
    for size in (*sizes, samples.size):
        stream.push(samples[at : at + size])
        at += size
        while eager and stream.due:
            paraformer.step([stream])
    stream.finish()
    while stream.due:
        paraformer.step([stream])

    assert stream.tokens == alone[number]
    assert (stream.samples, stream.waiting, stream.done) == (samples.size, 0, True)


@given(
    numbers=st.lists(st.integers(0, len(LENGTHS) - 1), min_size=2, max_size=8),
    sizes=st.lists(st.sampled_from([3000, CHUNK, 15_000]), min_size=8, max_size=8),
)
@settings(max_examples=15, deadline=None)
def test_streams_that_share_steps_get_what_each_gets_alone(
    paraformer: StreamingParaformer,
    recordings: Sequence[NDArray[np.float32]],
    alone: Sequence[list[str]],
    numbers: list[int],
    sizes: list[int],
) -> None:
    streams = [paraformer.open() for _ in numbers]
    at = [0] * len(numbers)
    while not all(stream.done for stream in streams):
        for place, (stream, number) in enumerate(zip(streams, numbers, strict=True)):
            samples = recordings[number]
            if at[place] < samples.size:
                stream.push(samples[at[place] : at[place] + sizes[place]])
                at[place] += sizes[place]
            else:
                stream.finish()
        paraformer.step([stream for stream in streams if stream.due])

    assert [stream.tokens for stream in streams] == [alone[number] for number in numbers]


def test_a_step_tells_the_new_text_of_each_stream(
    paraformer: StreamingParaformer, recordings: Sequence[NDArray[np.float32]]
) -> None:
    streams = [paraformer.open(), paraformer.open()]
    texts = ["", ""]
    for _ in range(3):
        for stream, samples in zip(streams, recordings, strict=False):
            stream.push(samples[stream.samples : stream.samples + CHUNK])
        for place, text in enumerate(paraformer.step(streams)):
            texts[place] += text

    spoken = [stream.text.replace(" ", "") for stream in streams]
    assert spoken == [text.replace(" ", "") for text in texts]
    assert all(spoken)
    assert [stream.samples for stream in streams] == [3 * CHUNK] * 2


def test_a_fork_is_finished_and_the_stream_goes_on(
    paraformer: StreamingParaformer,
    recordings: Sequence[NDArray[np.float32]],
    alone: Sequence[list[str]],
) -> None:
    samples, stream = recordings[0], paraformer.open()
    for at in range(0, samples.size, 7000):
        stream.push(samples[at : at + 7000])
        while stream.due:
            paraformer.step([stream])
        fork = stream.fork()
        fork.finish()
        while fork.due:
            paraformer.step([fork])
        assert fork.tokens == _finished(paraformer, samples[: at + 7000]).tokens
    stream.finish()
    while stream.due:
        paraformer.step([stream])

    assert stream.tokens == alone[0]


def test_a_stream_is_due_with_a_whole_chunk_or_at_its_end(paraformer: StreamingParaformer) -> None:
    stream = paraformer.open()
    assert not stream.due
    stream.push(np.zeros(CHUNK - 1, np.float32))
    assert (stream.due, stream.waiting) == (False, CHUNK - 1)
    stream.push(np.zeros(1, np.float32))
    assert stream.due
    paraformer.step([stream])
    assert (stream.due, stream.samples) == (False, CHUNK)
    stream.finish()
    stream.finish()
    assert (stream.due, stream.done) == (True, False)
    paraformer.step([stream])
    assert (stream.due, stream.done) == (False, True)
    with pytest.raises(ValueError, match="was finished"):
        stream.push(np.zeros(1, np.float32))


def test_steps_are_for_different_streams_that_are_due(paraformer: StreamingParaformer) -> None:
    stream = paraformer.open()
    assert paraformer.step([]) == []
    with pytest.raises(ValueError, match="not due"):
        paraformer.step([stream])
    stream.push(np.zeros(CHUNK, np.float32))
    with pytest.raises(ValueError, match="twice"):
        paraformer.step([stream, stream])


def test_a_long_stream_keeps_no_more_than_a_short_one(
    paraformer: StreamingParaformer, sound: Sound
) -> None:
    def kept(stream: Stream) -> int:
        encoder, decoder = stream.state.encoder, stream.state.decoder
        tensors = (encoder.held, encoder.attended, decoder.attended, decoder.tokens)
        return sum(each.untyped_storage().nbytes() for each in tensors)

    short, long = _finished(paraformer, sound(CHUNK)), _finished(paraformer, sound(30 * CHUNK))

    assert kept(long) <= kept(short) * 1.1


def test_narrow_layers_say_much_the_same(
    tiny_dir: Callable[[Kind], Path], recordings: Sequence[NDArray[np.float32]]
) -> None:
    paraformer = StreamingParaformer(load(tiny_dir("paraformer-streaming"), dtype="bf16"))

    both = [_finished(paraformer, each) for each in recordings]
    streams = [paraformer.open() for _ in recordings]
    for stream, samples in zip(streams, recordings, strict=True):
        stream.push(samples)
        stream.finish()
    while due := [stream for stream in streams if stream.due]:
        paraformer.step(due)

    # How many tokens there are hangs on sums, which stay exact; what they are, on rounding.
    assert [len(each.tokens) for each in both] == [len(each.tokens) for each in streams]
    assert sum(len(each.tokens) for each in both) > 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_ms": 500}, "chunks of 500 ms"),
        ({"chunk_ms": 60}, "chunks of 60 ms"),
        ({"look_back": -1}, "look-back of -1"),
    ],
)
def test_numbers_that_cannot_be_are_told(
    model: Model, options: dict[str, int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamingParaformer(model, **options)


def test_a_model_that_does_not_stream_is_told(tiny: Callable[[Kind], Model]) -> None:
    with pytest.raises(ConfigError, match="a sensevoice, which does not stream"):
        StreamingParaformer(tiny("sensevoice"))


def _looking_ahead(network: Any) -> None:
    network.decoder.decoders[0].self_attn.pad_fn = torch.nn.ConstantPad1d((5, 5), 0.0)


def _with_another_input(network: Any) -> None:
    network.encoder.embed = None


def _with_more_decoders(network: Any) -> None:
    network.decoder.decoders2 = network.decoder.decoders3


def _without_predictor(network: Any) -> None:
    network.predictor = None


@pytest.mark.parametrize(
    "change", [_looking_ahead, _with_another_input, _with_more_decoders, _without_predictor]
)
def test_another_layout_is_told(
    tiny_dir: Callable[[Kind], Path], change: Callable[[Any], None]
) -> None:
    model = load(tiny_dir("paraformer-streaming"))
    change(model.network)

    with pytest.raises(ModelCorrupt, match="not laid out as a streaming Paraformer"):
        StreamingParaformer(model)


def test_audio_in_which_no_token_fires_says_nothing(
    tiny_dir: Callable[[Kind], Path], sound: Sound
) -> None:
    model = load(tiny_dir("paraformer-streaming"))
    model.network.predictor.cif_output.bias.fill_(-50.0)

    stream = _finished(StreamingParaformer(model), sound(2 * CHUNK + 2000))

    assert (stream.text, stream.samples, stream.done) == ("", 2 * CHUNK + 2000, True)
