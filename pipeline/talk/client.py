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

from pipeline.talk.endpoint import Endpoint
from pipeline.talk.refusals import ANOTHER, explain, not_a_daemon
from pipeline.talk.stereo import RATE, StereoRecording
from pipeline.talk.turn import ClientTurn, measure
from tts_engine.errors import EngineFailed, TimedOut

FRAME_MS = 20
_FRAME = RATE * FRAME_MS // 1000
#: silence before the first words, seconds
_LEAD_S = 0.3
#: silence after an answer was played, seconds
_GAP_S = 0.1
#: what this client is like: it falls silent in a pause, and its microphone is made of samples, in
#: which there is nothing of what it plays
_SESSION = {"type": "realtime", "duplexd": {"pauses": True, "echo_cancelled": True}}
#: nothing more is expected when the daemon has been quiet for so long after the speech, seconds
_QUIET_S = 2.0

OnEvent = Callable[[dict[str, Any]], None]


class TalkClient:
    """Holds one conversation and records it.

    Parameters:
        daemon: whom to talk to; text is read by `Endpoint.of`.
        on_event: gets every event of the daemon's.
    """

    def __init__(self, daemon: Endpoint | str, *, on_event: OnEvent = lambda _: None) -> None:
        self._daemon = Endpoint.of(daemon) if isinstance(daemon, str) else daemon
        self._on_event = on_event
        self._began = 0.0
        self._welcome = False
        self._speech: NDArray[np.int16] = np.zeros(0, np.int16)
        self._said = asyncio.Event()
        self._news = asyncio.Event()
        self._last_event = 0.0
        self._hearing = False  # the daemon says that a turn is open
        self._expected = False  # a transcript came that an answer will follow
        self._utterance = 0
        self._responses: dict[str, ClientTurn] = {}
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
            AtCapacity: the daemon is full or warming up, or this client asks too much of it.
            EngineFailed: it cannot be reached or trusted, refuses, or ends the connection.
            BadRequest: the certificate file cannot be read.
            TimedOut: an answer is not over in time.
        """
        tls = self._daemon.tls()
        try:
            # No proxy: what is measured is the way to the daemon.
            socket = await connect(
                self._daemon.url,
                additional_headers=self._daemon.headers,
                ssl=tls,
                compression=None,
                max_size=None,
                proxy=None,
            )
        except (OSError, WebSocketException, UnicodeError) as error:
            raise explain(self._daemon, error) from error
        async with socket:
            await self._converse(socket, utterances, turn_timeout_s)
        return self.measured()

    def measured(self) -> list[dict[str, Any]]:
        """The turns until now."""
        return [measure(turn, self.recording, began=self._began) for turn in self.turns]

    async def _converse(
        self, socket: ClientConnection, utterances: list[NDArray[np.int16]], timeout_s: float
    ) -> None:
        self._began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                ears = group.create_task(self._listen(socket))
                microphone = group.create_task(self._microphone(socket))
                await self._script(utterances, timeout_s)
                ears.cancel()
                microphone.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _script(self, utterances: list[NDArray[np.int16]], timeout_s: float) -> None:
        await asyncio.sleep(_LEAD_S)
        for number, samples in enumerate(utterances):
            self._utterance = number
            self._said.clear()
            self._speech = samples
            await self._said.wait()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_over()
            except TimeoutError:
                raise TimedOut(
                    f"The answer to utterance {number + 1} was not over after {timeout_s:g} s",
                    mend="Give more time with --turn-timeout-s, or look into the daemon's log",
                ) from None

    async def _until_over(self) -> None:
        """The answer has been played, or nothing came at all."""
        said_at = time.monotonic()
        while True:
            self._news.clear()
            due = None if self._pending() else self._due(said_at)
            if due is not None and time.monotonic() >= due:
                return
            try:
                async with asyncio.timeout(None if due is None else due - time.monotonic()):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _pending(self) -> bool:
        """A user turn or an answer is not over."""
        answering = any(not turn.status for turn in self._responses.values())
        return self._hearing or self._expected or answering

    def _due(self, said_at: float) -> float:
        """When the utterance is over, if nothing more comes."""
        played = self._began + self.recording.heard.end / RATE + _GAP_S
        turn = self.turns[-1] if self.turns else None
        if turn is not None and turn.utterance == self._utterance and turn.report:
            return played  # the daemon closed its books on the turn
        return max(max(said_at, self._last_event) + _QUIET_S, played)

    async def _microphone(self, socket: ClientConnection) -> None:
        try:
            await socket.send(json.dumps({"type": "session.update", "session": _SESSION}))
            await self._speak(socket)
        except ConnectionClosed:
            return  # the ears hear why

    async def _speak(self, socket: ClientConnection) -> None:
        """Sends frames until cancelled.

        Raises:
            ConnectionClosed
        """
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
            await socket.send(json.dumps(message))

    async def _listen(self, socket: ClientConnection) -> None:
        """Follows the conversation until cancelled.

        Raises:
            DuplexdError: the daemon refused, or ended the connection.
        """
        try:
            while True:
                message = await socket.recv()
                self._last_event = time.monotonic()
                event = self._understand(message)
                self._on_event(event)
                self._news.set()
        except ConnectionClosed as error:
            reason = f": {error.rcvd.reason}" if error.rcvd and error.rcvd.reason else ""
            raise EngineFailed(
                f"The daemon ended the conversation in utterance {self._utterance + 1}{reason}",
                mend="Look into its log",
            ) from error

    # --- events ------------------------------------------------------------------------------
    def _understand(self, message: str | bytes) -> dict[str, Any]:
        """Follows the conversation by a message.

        Raises:
            EngineFailed: no duplexd sends it.
            DuplexdError: the daemon refused.
        """
        try:
            if not isinstance(message, str):
                raise TypeError("a binary message")
            event: dict[str, Any] = json.loads(message)
            self._take(event, round((self._last_event - self._began) * RATE))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise EngineFailed(
                f"{not_a_daemon(self._daemon)}: it sent {message[:80]!r}", mend=ANOTHER
            ) from error
        return event

    def _take(self, event: dict[str, Any], position: int) -> None:
        """Follows the conversation; `position` is now, on the recording."""
        match event["type"]:
            case "session.created":
                self._welcome = True
            case "input_audio_buffer.speech_started":
                self.recording.heard.flush(position)
                self._hearing = True
            case "conversation.item.input_audio_transcription.completed":
                self._open_turn(transcript=event["transcript"])
                self._hearing = False
                self._expected = bool(event["transcript"])  # nothing is answered by nothing
            case "conversation.item.input_audio_transcription.failed":
                self._open_turn(status="failed", error=event["error"]["message"])
                self._hearing = False
            case "response.created":
                self._responses[event["response"]["id"]] = self._unanswered_turn()
                self._expected = False
            case "response.output_audio.delta":
                self._play(event, position)
            case "duplexd.playback.paused":
                if not self._responses[event["response_id"]].status:
                    self.recording.heard.pause(position)
            case "duplexd.playback.resumed":
                self.recording.heard.resume(position)
            case "response.output_audio_transcript.delta":
                self._responses[event["response_id"]].answer += event["delta"]
            case "response.done":
                self._close_response(event["response"], position)
            case "duplexd.turn":
                self._report(event)
            case "error":
                self._fail(event["error"])
            case _:
                pass

    def _open_turn(self, *, transcript: str = "", status: str = "", error: str = "") -> ClientTurn:
        turn = ClientTurn(
            utterance=self._utterance, transcript=transcript, status=status, error=error
        )
        self.turns.append(turn)
        return turn

    def _unanswered_turn(self) -> ClientTurn:
        """The turn that a response belongs to; a new one, if nobody had said anything."""
        if self.turns and not self.turns[-1].status:
            return self.turns[-1]
        return self._open_turn()

    def _play(self, event: dict[str, Any], position: int) -> None:
        samples = np.frombuffer(base64.b64decode(event["delta"]), np.int16)
        self.recording.heard.arrive(position, samples, self._responses[event["response_id"]])

    def _close_response(self, response: dict[str, Any], position: int) -> None:
        turn = self._responses[response["id"]]
        turn.status = response["status"]
        if turn.status == "cancelled":
            self.recording.heard.flush(position)
        else:
            self.recording.heard.resume(position)  # nobody else would, any more
        details = response.get("status_details") or {}
        turn.error = (details.get("error") or {}).get("message") or ""

    def _report(self, event: dict[str, Any]) -> None:
        turn = self._responses.get(event.get("response_id") or "")
        if turn is None:
            return
        turn.report = dict(event["report"])
        boot = event.get("clock", {}).get("boot_id")
        turn.same_clock = bool(boot) and boot == boot_id()

    def _fail(self, error: dict[str, Any]) -> None:
        message: str = error.get("message") or "it did not say why"
        if not self._welcome:
            raise EngineFailed(f"The daemon refused: {message}")
        if self.turns:
            self.turns[-1].error = message
        self._expected = False  # an answer that fails before it begins is an error


def boot_id() -> str:
    """Names the boot whose monotonic clock this is; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
