"""Which devices may come in, and with which token.

A device learns its token from the OTA address, each time it boots, so whoever asks there in its
name must not get it. A MAC address is no secret; the Client-Id, a UUID that the firmware drew, is
shown to nobody but the servers that it talks to. So a token is for both, and one with another
Client-Id, a stranger or a device whose flash was erased, waits for approval like a new one.

A token is an HMAC of the two and of a generation, which approval counts up: none is kept.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from loguru import logger

from services.xiaozhi.device_file import Device, DeviceFile, Devices, now
from services.xiaozhi.handshake import Identity
from services.xiaozhi.tokens import token_of
from tts_engine.errors import DuplexdError
from tts_engine.files import Stamp

#: how often the file is looked at, at most, seconds
_LOOK_EVERY_S = 1.0
#: devices of which it is remembered what they said of themselves
_MOST_BOARDS = 1_024
#: where devices send photos
VISION_PATH = "/xiaozhi/vision/explain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolled:
    """What a device is told when it boots.

    Parameters:
        token: for the WebSocket; empty: it needs none, or waits.
        code: to be approved; empty: it is let in.
    """

    token: str = ""
    code: str = ""


class DeviceRegistry:
    """Implements `services.xiaozhi.handshake.Doors`.

    Parameters:
        file: of the devices.
        asks: devices need a token.
        open_door: every device that asks gets one; False: somebody has to approve it.
        clock: seconds.

    Raises:
        DuplexdError: the file cannot be used.
    """

    def __init__(
        self,
        *,
        file: DeviceFile,
        asks: bool,
        open_door: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.asks = asks
        self._file = file
        self._open_door = open_door
        self._clock = clock
        self._look_at = clock() + _LOOK_EVERY_S
        self._stamp: Stamp | None = file.stamp()
        self._found = file.read()
        self._boards: dict[str, str] = {}
        self._bases: dict[str, str] = {}

    # --- Doors -------------------------------------------------------------------------------
    def admits(self, device_id: str, token: str) -> bool:
        """See Doors."""
        if not self.asks:
            return True
        found = self._look()
        device = found.device(device_id)
        # As long for a device that nobody knows.
        right = token_of(found, device or Device(id=device_id, added=""))
        return hmac.compare_digest(right.encode(), token.encode()) and device is not None

    def board(self, device_id: str) -> str:
        """See Doors."""
        device = self._look().device(device_id)
        return self._boards.get(device_id) or (device.board if device else "")

    def vision(self, device_id: str) -> tuple[str, str]:
        """See Doors."""
        found = self._look()
        base = self._bases.get(device_id, "")
        device = found.device(device_id) or Device(id=device_id, added="")
        return f"{base}{VISION_PATH}" if base else "", token_of(found, device)

    # --- boot --------------------------------------------------------------------------------
    def boots(self, who: Identity, *, board: str, firmware: str, base: str) -> Enrolled:
        """A device asks for its settings.

        Args:
            who: it is.
            board, firmware: what it says of itself.
            base: by which address it has reached us, `http://host:port`.

        Raises:
            DuplexdError: the file cannot be written.
        """
        if len(self._boards) < _MOST_BOARDS or who.device_id in self._boards:
            self._boards[who.device_id], self._bases[who.device_id] = board, base
        if not self.asks:
            return Enrolled()
        found = self._look()
        device = found.device(who.device_id)
        if device is None and self._open_door:
            device = Device(
                id=who.device_id,
                client_id=who.client_id,
                board=board,
                firmware=firmware,
                added=now(),
            )
            found = self._changed(self._file.add(device))
        elif device is not None and not device.client_id and who.client_id:
            device = device.model_copy(
                update={"client_id": who.client_id, "board": board, "firmware": firmware}
            )
            found = self._changed(self._file.add(device))
        if device is not None and hmac.compare_digest(
            device.client_id.encode(), who.client_id.encode()
        ):
            return Enrolled(token=token_of(found, device))
        code, found = self._file.wait(who.device_id, who.client_id, board, firmware)
        self._changed(found)
        return Enrolled(code=code)

    def approved(self, who: Identity) -> bool:
        """Whether a device that waited may come in now."""
        if not self.asks:
            return True
        device = self._look().device(who.device_id)
        return device is not None and device.client_id in ("", who.client_id)

    # --- the file ----------------------------------------------------------------------------
    def _look(self) -> Devices:
        """Reads the file if it has changed: a few kilobytes, once."""
        at = self._clock()
        if at < self._look_at:
            return self._found
        self._look_at = at + _LOOK_EVERY_S
        stamp = self._file.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._found = self._file.read()
            except DuplexdError as error:
                # Nobody knows which were taken back, so that none is let in.
                self._found = Devices()
                logger.error("the devices cannot be read, and none is let in: {}", error)
        return self._found

    def _changed(self, found: Devices) -> Devices:
        self._found, self._stamp = found, self._file.stamp()
        return found
