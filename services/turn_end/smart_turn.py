"""Smart Turn v3.2: hears by intonation and rhythm whether somebody has finished.

The model comes with pipecat: Whisper's encoder, tiny, over the last 8 s, and a probability. A run
costs 20 to 150 ms of one core, so it has a thread of its own, one for all conversations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
from loguru import logger
from numpy.typing import NDArray

from services.asr.mel import log_mel
from services.asr.worker import Check, DecodeWorker, Job
from services.turn_end.base import SAMPLE_RATE, TurnEndEngine
from tts_engine.engine import EngineStats
from tts_engine.errors import DuplexdError, EngineFailed

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: samples that the model hears: the last 8 s, with silence before what is shorter
WINDOW = 8 * SAMPLE_RATE
#: keeps digital silence, which has no variance, from being divided by nothing
_VARIANCE_FLOOR = 1e-7

#: samples, mono float32 at 16 kHz, to a probability
Model = Callable[[NDArray[np.float32]], float]


def load_smart_turn() -> Model:
    """Loads the model that pipecat brings, with one thread.

    Raises:
        EngineFailed: it cannot be loaded.
    """
    # The import takes a while, and start() runs this in a thread.
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    data = resources.files("pipecat.audio.turn.smart_turn.data")
    try:
        session = onnxruntime.InferenceSession(
            data.joinpath("smart-turn-v3.2-cpu.onnx").read_bytes(),
            sess_options=options,
            providers=["CPUExecutionProvider"],
        )
    # onnxruntime raises a dozen classes of its own; any of them means the same here.
    except Exception as error:
        raise EngineFailed(
            f"The end-of-turn model cannot be loaded: {error}", mend="Install pipecat-ai again"
        ) from error
    return partial(_infer, session)


def _infer(session: InferenceSession, samples: NDArray[np.float32]) -> float:
    (probabilities,) = session.run(None, {"input_features": features(samples)[np.newaxis]})
    return float(np.asarray(probabilities).item())


def features(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the model sees: the window at zero mean and unit variance, as log-mel.

    Args:
        samples: mono float32 at 16 kHz, any length.

    Returns:
        (80, 800) float32.
    """
    heard = samples[-WINDOW:]
    window = np.zeros(WINDOW, dtype=np.float32)
    window[WINDOW - heard.size :] = heard
    scale = np.sqrt(window.var() + _VARIANCE_FLOOR)
    return log_mel((window - window.mean()) / scale)


class SmartTurn(TurnEndEngine):
    """The model, shared by all conversations.

    Parameters:
        queue_limit: requests that may wait; those beyond have no opinion. An opinion that comes
            after the ceiling of the endpoint is of no use, so this is short.
        load: makes the model, in a thread; for tests.
    """

    def __init__(
        self, *, queue_limit: int = 4, load: Callable[[], Model] = load_smart_turn
    ) -> None:
        self.stats = EngineStats()
        self._worker: DecodeWorker[float] = DecodeWorker(
            name="smart-turn", queue_limit=queue_limit, stats=self.stats
        )
        self._load = load
        self._model: Model | None = None
        self._asked: dict[str, Job[float]] = {}

    async def start(self) -> None:
        """See TurnEndEngine."""
        self._model = await asyncio.to_thread(self._prepare)
        self._worker.start()
        logger.info("smart-turn is ready")

    def _prepare(self) -> Model:
        model = self._load()
        noise = np.random.default_rng(0).standard_normal(WINDOW) * 0.05
        try:
            model(noise.astype(np.float32))
        except Exception as error:
            raise EngineFailed(f"smart-turn cannot compute here: {error}") from error
        return model

    async def probability(self, samples: NDArray[np.float32], *, session: str) -> float | None:
        """See TurnEndEngine."""
        before = self._asked.pop(session, None)
        if before is not None:
            self._worker.withdraw(before)
        # A copy: the caller's buffer goes on growing, and may be used again.
        heard = np.array(samples[-WINDOW:], dtype=np.float32)
        try:
            job = self._worker.submit(partial(self._compute, heard))
        except DuplexdError:
            return None  # too many wait, which the worker has counted and logged; or it is closed
        self._asked[session] = job
        try:
            return await self._opinion(job)
        finally:
            if self._asked.get(session) is job:
                del self._asked[session]

    async def _opinion(self, job: Job[float]) -> float | None:
        # Waiting does not cancel the future: only so does it tell who gave up, a later request of
        # the session or the caller.
        try:
            await asyncio.wait([job.future])
        except asyncio.CancelledError:
            self._worker.withdraw(job)
            raise
        if job.future.cancelled() or job.future.exception() is not None:
            return None
        return job.future.result()

    def _compute(self, samples: NDArray[np.float32], check: Check) -> float:
        """Runs in the worker's thread."""
        assert self._model is not None, "the worker runs from start() to close()"
        check()
        return self._model(samples)

    async def close(self) -> None:
        """See TurnEndEngine."""
        await self._worker.close()
        self._model = None
