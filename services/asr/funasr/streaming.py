"""Streaming Paraformer for many streams at once.

A stream holds its own caches. One step takes one chunk of each of the streams that it is given, in
one forward of the encoder and one of the decoder, and each stream gets what it would have got
alone: what FunASR's own `generate(chunk, cache=...)` gives.

A chunk is heard together with the half of the next one, so the text of a chunk covers the audio up
to half a chunk before its end; `finish` has the rest said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from services.asr.funasr.joining import text_of
from services.asr.funasr.loader import Model
from services.asr.funasr.streaming_cif import Carried, Firing
from services.asr.funasr.streaming_decoder import DecoderCache, StreamingDecoder
from services.asr.funasr.streaming_encoder import EncoderCache, StreamingEncoder
from tts_engine.errors import ConfigError, ModelCorrupt

#: samples, and milliseconds, of one frame of features
_FRAME_SAMPLES = 960
_FRAME_MS = 60


@dataclass(slots=True, kw_only=True)
class _State:
    """What a stream has of its audio so far."""

    frontend: dict[str, Any]
    encoder: EncoderCache
    carried: Carried
    decoder: DecoderCache

    def copy(self) -> _State:
        frontend = {
            name: list(value) if isinstance(value, list) else value
            for name, value in self.frontend.items()
        }
        return _State(
            frontend=frontend,
            encoder=self.encoder.copy(),
            carried=replace(self.carried),
            decoder=self.decoder.copy(),
        )


class Stream:
    """One stream of audio; opened by a `StreamingParaformer`."""

    def __init__(self, *, chunk: int, state: _State) -> None:
        self._chunk = chunk
        self._blocks: deque[NDArray[np.float32]] = deque()
        self._waiting = 0
        self._finished = False
        self._done = False
        #: samples that were taken by steps, from the start: where the text's audio ends
        self.samples = 0
        #: all tokens so far
        self.tokens: list[str] = []
        self.state = state

    def push(self, samples: NDArray[np.float32]) -> None:
        """Adds audio: mono float32 in [-1, 1] at 16 kHz, any length.

        Raises:
            ValueError: the stream was finished.
        """
        if self._finished:
            raise ValueError("the stream was finished")
        self._blocks.append(np.array(samples, np.float32))
        self._waiting += samples.size

    def finish(self) -> None:
        """Says that no audio follows: what waits, and what was held back, is due. Idempotent."""
        self._finished = True

    def fork(self) -> Stream:
        """A stream of its own that has heard the same: finish it, and this one can go on."""
        other = Stream(chunk=self._chunk, state=self.state.copy())
        other._blocks, other._waiting = self._blocks.copy(), self._waiting
        other.samples = self.samples
        other._finished, other._done = self._finished, self._done
        other.tokens = list(self.tokens)
        return other

    @property
    def due(self) -> bool:
        """A step of this stream can be made now."""
        if self._finished:
            return not self._done
        return self._waiting >= self._chunk

    @property
    def done(self) -> bool:
        """It was finished, and no step is left."""
        return self._done

    @property
    def waiting(self) -> int:
        """Samples that no step has taken."""
        return self._waiting

    @property
    def text(self) -> str:
        """The whole text so far."""
        return text_of(self.tokens)

    def take(self) -> tuple[NDArray[np.float32], bool]:
        """The audio of the next step, and whether it is the last; only a step takes it."""
        parts: list[NDArray[np.float32]] = [np.empty(0, np.float32)]
        missing = self._chunk
        while missing and self._blocks:
            block = self._blocks.popleft()
            if block.size > missing:
                self._blocks.appendleft(block[missing:])
            parts.append(block[:missing])
            missing -= parts[-1].size
        taken = np.concatenate(parts)
        self._waiting -= taken.size
        self.samples += taken.size
        self._done = taken.size < self._chunk
        return taken, self._done


class StreamingParaformer:
    """A loaded streaming Paraformer."""

    def __init__(self, model: Model, *, chunk_ms: int = 600, look_back: int = 4) -> None:
        """Takes a model of the kind paraformer-streaming.

        Args:
            model: the loaded one.
            chunk_ms: milliseconds of audio in a step; the model was trained for 600 and 480.
            look_back: chunks before its own that the encoder attends to; 0 or more.

        Raises:
            ConfigError: the model is of another kind, or a number cannot be.
            ModelCorrupt: it is not laid out as a streaming Paraformer.
        """
        if model.kind != "paraformer-streaming":
            raise ConfigError(
                f"the model in {model.model_dir} is a {model.kind}, which does not stream",
                mend="Name a streaming Paraformer.",
            )
        if chunk_ms < 2 * _FRAME_MS or chunk_ms % _FRAME_MS or look_back < 0:
            raise ConfigError(
                f"chunks of {chunk_ms} ms with a look-back of {look_back} cannot be",
                mend="Take a multiple of 60 ms, such as 600, and 0 or more chunks of look-back.",
            )
        self._model = model
        self._frames = chunk_ms // _FRAME_MS
        self._ahead = self._frames // 2
        try:
            self._encoder = StreamingEncoder(
                model.network.encoder,
                width=model.frontend.output_size(),
                frames=self._frames,
                ahead=self._ahead,
                look_back=look_back,
            )
            self._decoder = StreamingDecoder(model.network.decoder, frames=self._frames)
            self._firing = Firing(model.network.predictor)
        except (AttributeError, ValueError) as error:
            raise ModelCorrupt(
                f"the model in {model.model_dir} is not laid out as a streaming Paraformer: {error}"
            ) from error

    @property
    def chunk_samples(self) -> int:
        """Samples of audio that a step takes from a stream."""
        return self._frames * _FRAME_SAMPLES

    def open(self) -> Stream:
        """A new stream."""
        device, dtype = self._model.device, self._model.dtype
        state = _State(
            frontend=self._model.frontend.init_cache({}),
            encoder=self._encoder.cache(device, dtype),
            carried=self._firing.carried(device),
            decoder=self._decoder.cache(device, dtype),
        )
        return Stream(chunk=self.chunk_samples, state=state)

    def step(self, streams: Sequence[Stream]) -> list[str]:
        """Makes the next step of each stream, all of them in one forward.

        Args:
            streams: different ones, each due.

        Returns:
            The text of what each has newly heard; `Stream.text` is all of it.

        Raises:
            ValueError: a stream is not due, or was given twice.
        """
        if len({id(stream) for stream in streams}) != len(streams):
            raise ValueError("a stream was given twice")
        if not all(stream.due for stream in streams):
            raise ValueError("a stream is not due")
        if not streams:
            return []
        taken = [(stream, *stream.take()) for stream in streams]
        with torch.inference_mode(), self._model.autocast():
            heard = {
                stream: (features, last)
                for stream, samples, last in taken
                if (features := self._features(stream.state, samples, last)) is not None
            }
            tokens = self._tokens(heard) if heard else {}
        return [text_of(tokens.get(stream, [])) for stream in streams]

    def _features(
        self, state: _State, samples: NDArray[np.float32], last: bool
    ) -> torch.Tensor | None:
        """New features of a stream (frames, width); None when it has nothing to say any more.

        The last frames of a stream that ends within a frame are those that it held back.
        """
        if last and samples.size < _FRAME_SAMPLES:
            begun = state.encoder.position > 0
            return torch.empty((0, self._encoder.width)) if begun else None
        waveform = torch.from_numpy(np.ascontiguousarray(samples))[None]
        lengths = torch.tensor([samples.size])
        found, _ = self._model.frontend(waveform, lengths, cache=state.frontend, is_final=last)
        return found[0].float()

    def _tokens(self, heard: dict[Stream, tuple[torch.Tensor, bool]]) -> dict[Stream, list[str]]:
        network, states = self._model.network, [stream.state for stream in heard]
        last = [is_last for _, is_last in heard.values()]
        encoded, lengths = self._encoder.step(
            [features.to(self._model.device) for features, _ in heard.values()],
            [state.encoder for state in states],
        )
        with self._model.exact():
            embedded = self._firing.step(
                encoded.float(), lengths, [state.carried for state in states], last, self._frames
            )
        speaking = [row for row, each in enumerate(embedded) if len(each)]
        if not speaking:
            return {}
        rows = torch.tensor(speaking, device=encoded.device)
        found = self._decoder.step(
            encoded[rows],
            [lengths[row] for row in speaking],
            [embedded[row] for row in speaking],
            [states[row].decoder for row in speaking],
        )
        silent = {network.sos, network.eos, network.blank_id}
        streams = list(heard)
        out: dict[Stream, list[str]] = {}
        for row, ids in zip(speaking, found, strict=True):
            kept = [each for each in ids if each not in silent]
            out[streams[row]] = self._model.tokenizer.ids2tokens(kept)
            streams[row].tokens += out[streams[row]]
        return out
