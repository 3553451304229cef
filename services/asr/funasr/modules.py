"""Brings in the code of FunASR's models, only of those that are wanted.

`import funasr` imports every model that it has: four thousand modules, some of which print or fail.
An empty package over the same files takes its place, and what a model's configuration names is
imported from there; it registers itself in FunASR's tables, as always.

Only whoever runs the models imports this: it loads torch, which takes seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from tts_engine.errors import EngineFailed, ModelCorrupt
from tts_engine.foreign import EmptyModule, contained, stand_ins

#: what mends an installation without torch or FunASR
INSTALL = "Run `make engines`"

#: where the classes are that a config.yaml names
_HOMES = {
    "BiCifParaformer": "models.bicif_paraformer.model",
    "ContextualParaformer": "models.contextual_paraformer.model",
    "CTTransformer": "models.ct_transformer.model",
    "FsmnVADStreaming": "models.fsmn_vad_streaming.model",
    "FunASRNano": "models.fun_asr_nano.model",
    "Paraformer": "models.paraformer.model",
    "ParaformerStreaming": "models.paraformer_streaming.model",
    "SeacoParaformer": "models.seaco_paraformer.model",
    "SenseVoiceSmall": "models.sense_voice.model",
    "WhisperWarp": "models.whisper.model",
    "FSMN": "models.fsmn_vad_streaming.encoder",
    "SANMEncoder": "models.sanm.encoder",
    "SANMEncoderChunkOpt": "models.scama.encoder",
    "SenseVoiceEncoderSmall": "models.sense_voice.model",
    "ContextualParaformerDecoder": "models.contextual_paraformer.decoder",
    "ParaformerSANMDecoder": "models.paraformer.decoder",
    "CifPredictorV2": "models.paraformer.cif_predictor",
    "CifPredictorV3": "models.bicif_paraformer.cif_predictor",
    "Transformer": "models.llm_asr.adaptor",
    "WavFrontend": "frontends.wav_frontend",
    "WavFrontendOnline": "frontends.wav_frontend",
    "WhisperFrontend": "frontends.whisper_frontend",
    "CharTokenizer": "tokenizer.char_tokenizer",
    "HuggingfaceTokenizer": "tokenizer.hf_tokenizer",
    "SentencepiecesTokenizer": "tokenizer.sentencepiece_tokenizer",
    "SenseVoiceTokenizer": "tokenizer.whisper_tokenizer",
    "WhisperTokenizer": "tokenizer.whisper_tokenizer",
    "SpecAug": "models.specaug.specaug",
    "SpecAugLFR": "models.specaug.specaug",
}
_AUTO_MODEL = "funasr.auto.auto_model"

# Imported by its files to read recordings and to score, which is done elsewhere here.
_UNUSED: dict[str, dict[str, tuple[str, ...]]] = {
    "librosa": {"librosa": ()},
    "hydra": {"hydra": ()},
}

_lock = threading.Lock()


def import_modules(classes: Iterable[str] = ()) -> None:
    """Imports AutoModel, and the modules of the classes that a model's configuration names.

    What they do to the process while they are imported is undone. Idempotent.

    Args:
        classes: names in FunASR's tables, such as "SenseVoiceSmall" and "WavFrontend".

    Raises:
        ModelCorrupt: a class is not known here.
        EngineFailed: FunASR, or what it needs, is not installed.
    """
    wanted = [_AUTO_MODEL]
    for name in classes:
        if name not in _HOMES:
            raise ModelCorrupt(f"the configuration names {name!r}, which is no class known here")
        wanted.append(f"funasr.{_HOMES[name]}")
    with _lock:
        if all(name in sys.modules for name in wanted):
            return
        try:
            import torch  # noqa: F401  # before the stand-ins are there

            _stand_in_for_package()
            with quiet(), stand_ins(_UNUSED):
                for name in wanted:
                    importlib.import_module(name)
        except ImportError as error:
            raise EngineFailed(
                f"FunASR's modules cannot be imported: {error}", mend=f"{INSTALL}."
            ) from error
        package = sys.modules["funasr"]
        package.AutoModel = sys.modules[_AUTO_MODEL].AutoModel  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def quiet() -> Iterator[None]:
    """`contained`, and besides nothing is printed and no information logged.

    FunASR logs a line for every tensor that it loads, and prints its warnings.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contained(), redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


def _stand_in_for_package() -> None:
    """Puts an empty package over FunASR's files, unless FunASR itself has been imported."""
    if "funasr" in sys.modules:
        return
    spec = importlib.util.find_spec("funasr")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise EngineFailed("FunASR is not installed", mend=f"{INSTALL}.")
    package = EmptyModule("funasr")
    package.__path__ = places
    package.__version__ = (Path(places[0]) / "version.txt").read_text().strip()  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules["funasr"] = package
