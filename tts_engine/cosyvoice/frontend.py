"""What the model needs of a recording: speech tokens, mel, speaker embedding. Needs no torch.

The two networks of a model directory run in ONNX Runtime on the CPU: a recording is measured once.
They are loaded by the first recording (half a gigabyte at full size), as most processes never
measure one.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tts_engine.cosyvoice.kind import SPEECH_TOKENIZERS, Kind
from tts_engine.cosyvoice.reference import Reference
from tts_engine.cosyvoice.spectrum import (
    MEL_BANDS,
    TOKEN_SAMPLE_RATE,
    Frames,
    Samples,
    log_mel,
    mel,
)
from tts_engine.cosyvoice.voice import VoiceFeatures, trimmed
from tts_engine.cosyvoice.voices import Progress
from tts_engine.errors import EngineFailed, ModelCorrupt, ModelMissing

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from tts_engine.cosyvoice.loader import Tokenizer

EMBEDDER = "campplus.onnx"
EMBEDDING = 192
#: upper edge of the mel that each kind was trained on
_TOP_HZ: dict[Kind, float] = {"cosyvoice2": 8_000.0, "cosyvoice3": 12_000.0}


class Frontend:
    """Measures recordings for one model. Any thread may use it.

    Parameters:
        model_dir: of a CosyVoice model; its two ONNX files are all that is read.
        tokenizer: of the text; None where only recordings are measured.
        threads: of computation.

    Raises:
        ModelMissing: the directory has no speech tokenizer.
    """

    def __init__(
        self, model_dir: Path, *, tokenizer: Tokenizer | None = None, threads: int = 1
    ) -> None:
        self.kind: Kind = _kind_of(model_dir)
        self._model_dir = model_dir
        self._tokenizer = tokenizer
        self._threads = threads
        self._sessions: dict[str, InferenceSession] = {}
        self._loading = threading.Lock()

    def features(self, reference: Reference, progress: Progress) -> VoiceFeatures:
        """Measures a recording: seconds.

        Args:
            reference: the recording.
            progress: told what is being done.

        Raises:
            ModelMissing, ModelCorrupt: of the two networks.
            EngineFailed: one of them failed, or a package is not installed.
        """
        progress("reading its speech tokens")
        tokens = self.speech_tokens(reference.wav_16k)
        progress("measuring the speaker")
        embedding = self.embedding(reference.wav_16k)
        progress("measuring its sound")
        frames = self.mel(reference.wav_24k)
        return trimmed(np.asarray(tokens, np.int32), frames, embedding)

    def speech_tokens(self, wav_16k: Samples) -> list[int]:
        """25 tokens a second of mono audio at 16 kHz, at most 30 s."""
        spectrum = log_mel(wav_16k)[None]
        length = np.array([spectrum.shape[2]], np.int32)
        tokens = self._run(SPEECH_TOKENIZERS[self.kind], spectrum, length)
        return [int(token) for token in tokens.ravel()]

    def embedding(self, wav_16k: Samples) -> NDArray[np.float32]:
        """The speaker of mono audio at 16 kHz: [192]."""
        bands = _fbank(wav_16k)
        return self._run(EMBEDDER, (bands - bands.mean(axis=0))[None]).ravel()

    def mel(self, wav_24k: Samples) -> Frames:
        """Log mel of mono audio at 24 kHz: [50 a second, 80]."""
        return mel(wav_24k, top_hz=_TOP_HZ[self.kind])

    def text_ids(self, text: str) -> list[int]:
        """A text as the language model reads it."""
        assert self._tokenizer is not None, "a frontend without a tokenizer"
        return list(self._tokenizer.encode(text, allowed_special="all"))

    def _run(self, file: str, *inputs: NDArray[Any]) -> NDArray[Any]:
        session = self._session(file)
        names = [each.name for each in session.get_inputs()]
        try:
            [output] = session.run(None, dict(zip(names, inputs, strict=True)))
        except Exception as error:  # ONNX Runtime's failures share no narrower class
            raise EngineFailed(f"{file} failed on the recording: {error}") from error
        return np.asarray(output)

    def _session(self, file: str) -> InferenceSession:
        with self._loading:
            if file not in self._sessions:
                self._sessions[file] = _open(self._model_dir / file, self._threads)
            return self._sessions[file]


def _kind_of(model_dir: Path) -> Kind:
    for kind, file in SPEECH_TOKENIZERS.items():
        if (model_dir / file).is_file():
            return kind
    raise ModelMissing(
        f"There is no speech tokenizer of CosyVoice in {model_dir}",
        mend="Name the directory of a model with tts.cosyvoice.model_dir",
    )


def _open(path: Path, threads: int) -> InferenceSession:
    import onnxruntime

    if not path.is_file():
        raise ModelMissing(f"{path} is missing", mend="Fetch the whole model directory again")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above
        raise ModelCorrupt(
            f"{path} is not a network that can be run: {error}",
            mend="Fetch the model directory again",
        ) from error


def _fbank(wav_16k: Samples) -> Frames:
    """Kaldi's filter bank without dither, [100 a second, 80]: what the embedder was trained on."""
    try:
        import kaldi_native_fbank
    except ImportError as error:
        raise EngineFailed(
            "Measuring a voice needs kaldi-native-fbank, which is not installed",
            mend="Run `make engines`",
        ) from error
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = TOKEN_SAMPLE_RATE
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = MEL_BANDS
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(TOKEN_SAMPLE_RATE, wav_16k.tolist())
    bank.input_finished()
    return np.stack([bank.get_frame(index) for index in range(bank.num_frames_ready)])
