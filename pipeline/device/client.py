"""A simulated Xiaozhi device that speaks the protocol as the firmware does, over a real socket.

It asks the OTA address, connects, greets, listens and plays by the model of its loudspeaker, and
tells of each turn what `pipeline.talk.turn.measure` tells, and what a device would have lost.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

import httpx
import numpy as np
import opuslib_next
import soxr
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from pipeline.device.model import FIRMWARES, NEWEST, Losses, Loudspeaker
from pipeline.talk.endpoint import Endpoint
from pipeline.talk.refusals import ANOTHER, explain, not_a_daemon
from pipeline.talk.stereo import RATE, StereoRecording
from pipeline.talk.turn import ClientTurn, measure
from services.xiaozhi.events import Audio, Mode
from services.xiaozhi.framing import pack, unpack
from tts_engine.errors import EngineFailed, TimedOut

#: of the microphone, samples per second
_EAR_RATE = 16_000
_FRAME_MS = 60
_FRAME_S = _FRAME_MS / 1000
#: silence before the first utterance, and after an answer was played, seconds
_LEAD_S, _GAP_S = 0.5, 0.6
#: an utterance that nothing answers is given up after so much silence, seconds
_QUIET_S = 8.0


#: of the recording, and as the microphone sends it
_Frame = tuple[NDArray[np.int16], NDArray[np.int16]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """Which device is played.

    Parameters:
        mode: in which it listens.
        framing: of its audio, 1 to 3.
        firmware: a version among FIRMWARES.
        device_id: its MAC address.
        wake_word: is detected before the first utterance; empty: a button is pressed.
    """

    mode: Mode = "auto"
    framing: int = 1
    firmware: str = NEWEST
    device_id: str = "02:00:00:00:00:01"
    wake_word: str = ""

    @property
    def client_id(self) -> str:
        """Its UUID, the same each time."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, self.device_id))

    @property
    def headers(self) -> dict[str, str]:
        """Of its requests."""
        return {
            "Device-Id": self.device_id,
            "Client-Id": self.client_id,
            "User-Agent": f"duplexd-simulated/{self.firmware}",
        }


class DeviceClient:
    """Talks to a daemon as a device.

    Parameters:
        daemon: where the daemon is.
        kind: which device.

    Attributes:
        recording: left what was said, right what would have been heard.
        losses: of each answer, in their order.
    """

    def __init__(self, daemon: Endpoint, kind: DeviceKind) -> None:
        self.recording = StereoRecording()
        self.turns: list[ClientTurn] = []
        self.losses: list[Losses] = []
        self._daemon = daemon
        self._kind = kind
        self._speaker = Loudspeaker(
            firmware=FIRMWARES[kind.firmware], mode=kind.mode, frame_s=_FRAME_S
        )
        self._decoder = opuslib_next.Decoder(RATE, 1)
        self._encoder = opuslib_next.Encoder(_EAR_RATE, 1, opuslib_next.APPLICATION_AUDIO)
        self._encoder.complexity = 0
        self._speech: deque[_Frame] = deque()
        self._said = asyncio.Event()
        self._news = asyncio.Event()
        self._greeted = asyncio.Event()
        self._utterance = 0
        self._listening = False
        self._answer: ClientTurn | None = None
        self._answered = 0  # utterances whose answer is over
        self._session = ""
        self._began = 0.0
        self._last = 0.0
        self._socket: ClientConnection

    async def talk(
        self, utterances: list[NDArray[np.int16]], *, turn_timeout_s: float = 60.0
    ) -> list[dict[str, Any]]:
        """Says each utterance after the answer to the one before.

        Args:
            utterances: mono int16 at RATE.
            turn_timeout_s: longest wait for the answer to an utterance.

        Returns:
            The turns as `pipeline.talk.turn.measure` gives them, each with its `device`: losses.

        Raises:
            EngineFailed: the daemon cannot be reached, refuses, or ends the connection.
            TimedOut: an answer is not over in time.
        """
        url, token = await self._ask_ota()
        headers = {**self._kind.headers, "Protocol-Version": str(self._kind.framing)}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        tls = self._daemon.tls() if url.startswith("wss:") else None
        try:
            socket = await connect(
                url,
                additional_headers=headers,
                user_agent_header=None,
                ssl=tls,
                compression=None,
                ping_interval=None,
                close_timeout=1,
                proxy=None,
            )
        except (OSError, WebSocketException, UnicodeError) as error:
            raise explain(self._daemon, error) from error
        async with socket:
            self._socket = socket
            await self._converse(utterances, turn_timeout_s)
        return [
            {**measure(turn, self.recording, began=self._began), "device": asdict(losses)}
            for turn, losses in zip(self.turns, self._all_losses(), strict=True)
        ]

    # --- boot --------------------------------------------------------------------------------
    async def _ask_ota(self) -> tuple[str, str]:
        """Address and token for the socket."""
        address = f"{self._daemon.base}/xiaozhi/ota/"
        body = {"application": {"version": self._kind.firmware}, "board": {"type": "simulated"}}
        try:
            async with httpx.AsyncClient(
                trust_env=False, timeout=10, verify=self._daemon.tls() or True
            ) as client:
                response = await client.post(address, headers=self._kind.headers, json=body)
            answer = response.raise_for_status().json()
            websocket = answer["websocket"]
            url, token = str(websocket["url"]), str(websocket["token"])
        except httpx.ConnectError as error:
            raise explain(self._daemon, _of_socket(error)) from error
        except httpx.HTTPError as error:
            raise EngineFailed(f"{address} does not answer: {error}", mend=ANOTHER) from error
        except (ValueError, LookupError, TypeError) as error:
            raise EngineFailed(not_a_daemon(self._daemon), mend=ANOTHER) from error
        code = (answer.get("activation") or {}).get("code")
        if code:
            raise EngineFailed(
                f"The daemon does not know this device; it shows the code {code}",
                mend=f"Let it in: run.py devices approve {code}",
            )
        return url, token

    # --- the conversation --------------------------------------------------------------------
    async def _converse(self, utterances: list[NDArray[np.int16]], timeout_s: float) -> None:
        self._began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                ears = group.create_task(self._receive())
                await self._hello()
                microphone = group.create_task(self._microphone())
                await self._script(utterances, timeout_s)
                microphone.cancel()
                ears.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _hello(self) -> None:
        audio = {"format": "opus", "sample_rate": _EAR_RATE, "channels": 1, "frame_duration": 60}
        await self._send(
            type="hello",
            version=self._kind.framing,
            features={"mcp": False},
            transport="websocket",
            audio_params=audio,
        )
        try:
            async with asyncio.timeout(10):
                await self._greeted.wait()
        except TimeoutError:
            raise TimedOut("The daemon did not answer the hello within 10 s") from None
        if self._kind.wake_word:
            await self._send(type="listen", state="detect", text=self._kind.wake_word)
        if self._kind.mode != "manual":
            await self._listen()

    async def _listen(self) -> None:
        self._listening = True
        await self._send(type="listen", state="start", mode=self._kind.mode)

    async def _script(self, utterances: list[NDArray[np.int16]], timeout_s: float) -> None:
        await asyncio.sleep(_LEAD_S)
        for number, samples in enumerate(utterances):
            self._utterance = number
            if self._kind.mode == "manual":
                await self._listen()
            self._said.clear()
            self._speech.extend(_frames(samples))
            await self._said.wait()
            if self._kind.mode == "manual":
                self._listening = False
                await self._send(type="listen", state="stop")
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_over(number)
            except TimeoutError:
                raise TimedOut(
                    f"The answer to utterance {number + 1} was not over after {timeout_s:g} s",
                    mend="Give more time with --turn-timeout-s, or look into the daemon's log",
                ) from None

    async def _until_over(self, number: int) -> None:
        """The answer has been played, or nothing came at all."""
        said = time.monotonic()
        while self._answered <= number:
            self._news.clear()
            quiet = None if self._answer else max(said, self._last) + _QUIET_S - time.monotonic()
            if quiet is not None and quiet <= 0:
                return
            try:
                async with asyncio.timeout(quiet):
                    await self._news.wait()
            except TimeoutError:
                continue
        await asyncio.sleep(max(0.0, self._speaker.plays_until - time.monotonic()) + _GAP_S)

    async def _microphone(self) -> None:
        """Sends frames until cancelled: speech, else silence; nothing while it does not listen."""
        silence = _frames(np.zeros(_FRAME_MS * RATE // 1000, np.int16))
        count = 0
        try:
            while True:
                count += 1
                due = self._began + count * _FRAME_S
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not self._speech:
                    self._said.set()
                recorded, heard = self._speech.popleft() if self._speech else silence[0]
                self.recording.sent.append(recorded)
                if self._listening:
                    packet = self._encoder.encode(heard.tobytes(), len(heard))
                    await self._socket.send(pack(packet, self._kind.framing))
        except ConnectionClosed:
            return  # the ears hear why

    async def _receive(self) -> None:
        """Follows the conversation until cancelled.

        Raises:
            EngineFailed: the daemon ended the connection, or is none.
        """
        try:
            while True:
                message = await self._socket.recv()
                self._last = time.monotonic()
                if isinstance(message, bytes):
                    self._play(message)
                else:
                    await self._take(message)
                self._news.set()
        except ConnectionClosed as error:
            raise EngineFailed(
                f"The daemon ended the conversation in utterance {self._utterance + 1}",
                mend="Look into its log",
            ) from error

    # --- what comes --------------------------------------------------------------------------
    async def _take(self, text: str) -> None:
        try:
            message: dict[str, Any] = json.loads(text)
            kind = message["type"]
        except (ValueError, LookupError, TypeError) as error:
            raise EngineFailed(
                f"{not_a_daemon(self._daemon)}: it sent {text[:80]!r}", mend=ANOTHER
            ) from error
        match kind, message.get("state"):
            case "hello", _:
                self._session = str(message.get("session_id", ""))
                self._greeted.set()
            case "stt", _:
                said = str(message.get("text", ""))
                self.turns.append(ClientTurn(utterance=self._utterance, transcript=said))
            case "tts", "start":
                self._start()
            case "tts", "sentence_start":
                if self._answer is not None:
                    self._answer.answer += str(message.get("text", ""))
            case "tts", "stop":
                await self._stop()
            case "alert", _:
                turn = self._answer or ClientTurn(utterance=self._utterance, status="failed")
                turn.error = str(message.get("message", ""))
                if turn not in self.turns:
                    self.turns.append(turn)
            case _:
                pass

    def _start(self) -> None:
        self._speaker.start(self._last)
        if self._kind.mode == "auto":
            self._listening = False
        if not self.turns or self.turns[-1].status:
            self.turns.append(ClientTurn(utterance=self._utterance))
        self._answer = self.turns[-1]
        self._speaker.losses = Losses()
        self.losses.append(self._speaker.losses)

    async def _stop(self) -> None:
        answer, self._answer = self._answer, None
        listens = self._speaker.stop(self._last)
        self.recording.heard.flush(self._position(self._speaker.plays_until))
        if answer is not None:
            answer.status = "failed" if answer.error else "completed"
            if answer.transcript:
                self._answered = answer.utterance + 1
        if listens:
            await self._listen()

    def _play(self, message: bytes) -> None:
        found = unpack(message, self._kind.framing)
        fate = self._speaker.frame(self._last)
        if not isinstance(found, Audio):
            raise EngineFailed(f"The daemon sent a frame that is none: {found.kind}")
        samples = np.frombuffer(self._decoder.decode(found.packet, RATE // 5), np.int16)
        if fate == "played" and self._answer is not None:
            start = self._position(self._speaker.plays_until - _FRAME_S)
            self.recording.heard.arrive(start, samples, self._answer)

    def _position(self, at: float) -> int:
        return round((at - self._began) * RATE)

    def _all_losses(self) -> list[Losses]:
        """One for each turn; a turn that nothing answered has lost nothing."""
        found = iter(self.losses)
        return [next(found, Losses()) if turn.status else Losses() for turn in self.turns]

    async def _send(self, **members: Any) -> None:
        await self._socket.send(json.dumps({"session_id": self._session, **members}))


def _of_socket(error: Exception) -> Exception:
    """What the socket said, which the client's own errors wrap."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause if isinstance(cause, Exception) else error


def _frames(samples: NDArray[np.int16]) -> list[_Frame]:
    """Cuts what is said, filled up with silence, into frames at both rates."""
    size, ear = _FRAME_MS * RATE // 1000, _FRAME_MS * _EAR_RATE // 1000
    filled = np.pad(samples, (0, -len(samples) % size))
    heard = soxr.resample(filled, RATE, _EAR_RATE)
    return list(zip(filled.reshape(-1, size), heard.reshape(-1, ear), strict=True))
