"""Silero's detector: one ONNX session for all conversations, their windows in one batch.

This is the one inference that runs on the event loop: a hop to a thread and back costs more than
the 0.2 ms of a window, and a batch costs little more than a window (0.5 ms for 8).
"""

from __future__ import annotations

import asyncio
from collections import deque
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
from loguru import logger
from numpy.typing import NDArray

from services.vad.base import SAMPLE_RATE, WINDOW, OnWindow, VadEngine, VadStream
from services.vad.energy import check_window
from tts_engine.errors import EngineFailed

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: samples of the window before that the model sees with each window
CONTEXT = 64
#: (layers, stream, units) of the recurrent state
STATE = (2, 128)
#: Windows in one run of the model. The run itself would bear more (2 ms for 32), but what each
#: conversation makes of its window follows in the same go, and frames of answers wait meanwhile:
#: of 40 conversations' frames 0.54-0.80 % were late with 32 windows, 0.14-0.43 % with 10.
MAX_BATCH = 10
#: the wait for other streams' windows: for each open stream, and at most, seconds
WAIT_PER_STREAM_S, LONGEST_WAIT_S = 0.0004, 0.016

# Long silence, noise or music moves the recurrent state to where the model under-reports the
# speech that follows; a fresh state hears it. A reset inside speech would cost confidence, so one
# that is due waits for clear silence.
#: windows between resets: 2 s
RESET_EVERY = -(-2 * SAMPLE_RATE // WINDOW)
#: "clear" is this many windows in a row (224 ms, longer than pauses between words) below this
RESET_QUIET = 7
RESET_BELOW = 0.1

_RATE = np.array(SAMPLE_RATE, dtype=np.int64)


def _load() -> InferenceSession:
    # The import takes a while, and start() runs this in a thread.
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        model = resources.files("pipecat.audio.vad.data").joinpath("silero_vad.onnx").read_bytes()
        session = onnxruntime.InferenceSession(
            model, sess_options=options, providers=["CPUExecutionProvider"]
        )
        for batch in (1, 2, MAX_BATCH):
            _infer(
                session,
                np.zeros((batch, CONTEXT + WINDOW), dtype=np.float32),
                np.zeros((STATE[0], batch, STATE[1]), dtype=np.float32),
            )
    # onnxruntime raises a dozen classes of its own; any of them means the same here.
    except Exception as error:
        raise EngineFailed(
            f"The voice detector cannot be loaded: {error}", mend="Install pipecat-ai again"
        ) from error
    return session


def _infer(
    session: InferenceSession, windows: NDArray[np.float32], state: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Runs the model.

    Args:
        session: the model.
        windows: (streams, CONTEXT + WINDOW).
        state: (2, streams, 128).

    Returns:
        Probabilities (streams, 1) and the next state.
    """
    probabilities, after = session.run(None, {"input": windows, "state": state, "sr": _RATE})
    return np.asarray(probabilities), np.asarray(after)


class SileroVad(VadEngine):
    """The detector.

    Parameters:
        batch_window_s: how long the first window that is due waits for those of other streams. Many
            streams wait longer, as a window costs less in a large batch, and nobody waits more than
            half a window.
    """

    def __init__(self, *, batch_window_s: float = 0.004) -> None:
        self._batch_window_s = batch_window_s
        self._open = 0
        self._session: InferenceSession | None = None
        #: streams with windows to compute, each once, the one that waits longest first
        self._due: deque[SileroStream] = deque()
        self._scheduled: asyncio.Handle | None = None

    async def start(self) -> None:
        """See VadEngine."""
        self._session = await asyncio.to_thread(_load)

    def open(self, on_window: OnWindow) -> SileroStream:
        """See VadEngine.

        Raises:
            EngineFailed: the engine was not started, or is closed.
        """
        if self._session is None:
            raise EngineFailed("The voice detector is not running")
        self._open += 1
        return SileroStream(engine=self, on_window=on_window)

    async def close(self) -> None:
        """See VadEngine."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        self._due.clear()
        self._session = None

    def due(self, stream: SileroStream) -> None:
        """Called by a stream that got a window while it had none."""
        self._due.append(stream)
        if self._scheduled is None:
            wait_s = max(self._batch_window_s, min(LONGEST_WAIT_S, WAIT_PER_STREAM_S * self._open))
            self._scheduled = asyncio.get_running_loop().call_later(wait_s, self._run)

    def closed(self) -> None:
        """Called by a stream that ends."""
        self._open -= 1

    def _run(self) -> None:
        self._scheduled = None
        session = self._session
        batch: list[SileroStream] = []
        while self._due and len(batch) < MAX_BATCH:
            stream = self._due.popleft()
            if stream.waiting:
                batch.append(stream)
        if not batch or session is None:
            return
        windows = np.stack([np.concatenate((s.context, s.waiting.popleft())) for s in batch])
        state = np.stack([s.state for s in batch], axis=1)
        try:
            probabilities, after = _infer(session, windows, state)
        # Whatever it was: every window gets its answer, or conversations would lose count of time.
        except Exception as error:
            logger.error(f"The voice detector failed: {error}")
            probabilities = np.zeros((len(batch), 1), dtype=np.float32)
            after = np.zeros_like(state)
        # A stream's next window goes to the end of the queue: those of others come first.
        self._due.extend(stream for stream in batch if stream.waiting)
        if self._due:
            self._scheduled = asyncio.get_running_loop().call_soon(self._run)
        for i, stream in enumerate(batch):
            # Copies: a view would keep the arrays of the whole batch alive.
            stream.computed(
                float(probabilities[i, 0]),
                context=windows[i, -CONTEXT:].copy(),
                state=after[:, i].copy(),
            )


class SileroStream(VadStream):
    """A conversation's state in the detector; made by `SileroVad.open`."""

    def __init__(self, *, engine: SileroVad, on_window: OnWindow) -> None:
        self._engine = engine
        self._on_window: OnWindow | None = on_window
        self.waiting: deque[NDArray[np.float32]] = deque()
        self._clear()

    def _clear(self) -> None:
        self.context = np.zeros(CONTEXT, dtype=np.float32)
        self.state = np.zeros(STATE, dtype=np.float32)
        self._since_reset = 0
        self._quiet = 0

    def push(self, window: NDArray[np.float32]) -> None:
        """See VadStream."""
        check_window(window)
        if self._on_window is None:
            return
        self.waiting.append(np.array(window, dtype=np.float32))
        if len(self.waiting) == 1:
            self._engine.due(self)

    def close(self) -> None:
        """See VadStream."""
        if self._on_window is not None:
            self._engine.closed()
        self._on_window = None
        self.waiting.clear()

    def computed(
        self, probability: float, *, context: NDArray[np.float32], state: NDArray[np.float32]
    ) -> None:
        """Takes the result of the oldest window."""
        if self._on_window is None:
            return
        self.context, self.state = context, state
        self._since_reset += 1
        self._quiet = self._quiet + 1 if probability < RESET_BELOW else 0
        if self._since_reset >= RESET_EVERY and self._quiet >= RESET_QUIET:
            self._clear()
        try:
            self._on_window(probability)
        # One conversation's failure is not to be the others': they are in the same batch.
        except Exception:
            logger.exception("A conversation failed on a window of the voice detector")
