"""A Realtime client with a microphone made of samples and a loudspeaker that is a recording.

It sends in real time, a frame when its last sample would have been recorded, and silence when
there is nothing to say, as an open microphone does.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from pipeline.talk.stereo import RATE, StereoRecording
from pipeline.talk.turn import ClientTurn, measure
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut

FRAME_MS = 20
_FRAME = RATE * FRAME_MS // 1000
#: silence before the first words, seconds
_LEAD_S = 0.3
#: nothing more is expected when the daemon has been quiet for so long after the speech, seconds
_QUIET_S = 2.0

OnEvent = Callable[[dict[str, Any]], None]


class TalkClient:
    """Holds one conversation and records it."""

    def __init__(self, url: str, *, on_event: OnEvent = lambda _: None) -> None:
        self._url = url
        self._on_event = on_event
        self._began = 0.0
        self._speech: NDArray[np.int16] = np.zeros(0, np.int16)
        self._said = asyncio.Event()
        self._over = asyncio.Event()
        self._last_event = 0.0
        self._pending = 0  # user turns and answers that are not over
        self._turn: ClientTurn | None = None
        self.recording = StereoRecording()
        self.turns: list[ClientTurn] = []

    async def talk(
        self, utterances: list[NDArray[np.int16]], *, turn_timeout_s: float = 60.0
    ) -> list[dict[str, Any]]:
        """Says each utterance after the answer to the one before, and waits for the last answer.

        Args:
            utterances: mono int16 at RATE.
            turn_timeout_s: longest wait for the answer to an utterance.

        Returns:
            The turns as `pipeline.talk.turn.measure` gives them.

        Raises:
            EngineFailed: the daemon cannot be reached, refuses, or ends the connection.
            TimedOut: an answer is not over in time.
        """
        try:
            async with connect(self._url, compression=None, max_size=None) as socket:
                await self._converse(socket, utterances, turn_timeout_s)
        except (OSError, WebSocketException) as error:
            raise EngineFailed(
                f"The conversation with {self._url} failed: {error}", mend="Is the daemon running?"
            ) from error
        return [measure(t, self.recording, began=self._began) for t in self.turns]

    async def _converse(
        self, socket: ClientConnection, utterances: list[NDArray[np.int16]], timeout_s: float
    ) -> None:
        self._began = time.monotonic()
        microphone = asyncio.create_task(self._microphone(socket))
        ears = asyncio.create_task(self._listen(socket))
        script = asyncio.create_task(self._script(utterances, timeout_s))
        tasks = {microphone, ears, script}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if script not in done:
                raise EngineFailed("The daemon ended the connection")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _script(self, utterances: list[NDArray[np.int16]], timeout_s: float) -> None:
        await asyncio.sleep(_LEAD_S)
        for samples in utterances:
            self._over.clear()
            self._said.clear()
            self._speech = samples
            await self._said.wait()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_quiet()
            except TimeoutError:
                raise TimedOut(f"The answer was not over after {timeout_s:g} s") from None

    async def _until_quiet(self) -> None:
        """The answer has been played, or nothing came at all."""
        said_at = time.monotonic()
        while True:
            quiet_since = max(said_at, self._last_event)
            played_at = self._began + self.recording.heard.end / RATE
            due = max(quiet_since + _QUIET_S, played_at + 0.1) if not self._pending else None
            if due is not None and time.monotonic() >= due:
                return
            self._over.clear()
            wait_s = None if due is None else due - time.monotonic()
            try:
                async with asyncio.timeout(wait_s):
                    await self._over.wait()
            except TimeoutError:
                continue

    async def _microphone(self, socket: ClientConnection) -> None:
        silence = np.zeros(_FRAME, np.int16)
        count = 0
        while True:
            count += 1
            due = self._began + count * FRAME_MS / 1000
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            frame, self._speech = self._speech[:_FRAME], self._speech[_FRAME:]
            if not len(frame):
                frame = silence
                self._said.set()
            elif len(frame) < _FRAME:
                frame = np.concatenate((frame, silence[len(frame) :]))
            self.recording.sent.append(frame)
            audio = base64.b64encode(frame.tobytes()).decode()
            message = {"type": "input_audio_buffer.append", "audio": audio}
            try:
                await socket.send(json.dumps(message))
            except ConnectionClosed:
                return

    async def _listen(self, socket: ClientConnection) -> None:
        async for message in socket:
            arrived = time.monotonic()
            event: dict[str, Any] = json.loads(message)
            self._take(event, round((arrived - self._began) * RATE))
            self._on_event(event)

    def _take(self, event: dict[str, Any], position: int) -> None:
        """Follows the conversation; `position` is now, on the recording."""
        kind: str = event["type"]
        turn = self._turn
        self._last_event = time.monotonic()
        if kind == "input_audio_buffer.speech_started":
            self.recording.heard.flush(position)
            self._pending = 1
        elif kind.endswith("input_audio_transcription.completed"):
            self._turn = ClientTurn(transcript=event["transcript"])
            self.turns.append(self._turn)
            self._pending = 0
        elif kind == "response.created":
            self._pending = 1
        elif kind == "response.output_audio.delta" and turn is not None:
            samples = np.frombuffer(base64.b64decode(event["delta"]), np.int16)
            start = self.recording.heard.arrive(position, samples)
            turn.audio_at = start if turn.audio_at is None else turn.audio_at
            turn.audio_end = start + len(samples)
        elif kind == "response.output_audio_transcript.delta" and turn is not None:
            turn.answer += event["delta"]
        elif kind == "response.done" and turn is not None:
            response = event["response"]
            turn.status = response["status"]
            details = response.get("status_details") or {}
            turn.error = (details.get("error") or {}).get("message") or ""
            self._pending = 0
        elif kind == "duplexd.turn" and self.turns:
            self._report(event)
        elif kind == "error":
            self._fail(event["error"])
        self._over.set()

    def _report(self, event: dict[str, Any]) -> None:
        report = event["report"]
        turn = self.turns[-1]
        turn.report = report
        boot = event.get("clock", {}).get("boot_id")
        turn.same_clock = bool(boot) and boot == boot_id()

    def _fail(self, error: dict[str, Any]) -> None:
        if self._turn is None and not self.turns:
            raise DuplexdError(f"The daemon refused: {error.get('message')}")
        self.turns[-1].error = error.get("message") or ""


def boot_id() -> str:
    """Names the boot whose monotonic clock this is; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
