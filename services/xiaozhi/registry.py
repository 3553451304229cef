"""Which devices may come in, and with which token: see docs/decisions/017-devices.md.

A device learns its token from the OTA address, each time it boots, so whoever asks there in its
name must not get it. A MAC address is no secret; the Client-Id, a UUID that the firmware drew, is
shown to nobody but the servers that it talks to. So a token is for both, and one with another
Client-Id, a stranger or a device whose flash was erased, waits for approval like a new one.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from loguru import logger

from services.xiaozhi.device_file import Device, DeviceFile, Devices, Visit
from services.xiaozhi.handshake import VISION_PATH, Identity
from services.xiaozhi.tokens import token_of
from tts_engine.errors import DuplexdError
from tts_engine.files import Stamp

#: how often the file is looked at, at most, seconds
_LOOK_EVERY_S = 1.0
#: devices without a token of which it is remembered what they said of themselves
_MOST_VISITS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolled:
    """What a device is told when it boots.

    Parameters:
        token: for the WebSocket; empty: it needs none, or waits, or cannot get one.
        code: to be approved; empty: it does not wait.
        replaces: approval would put it in the place of a device that is let in.
    """

    token: str = ""
    code: str = ""
    replaces: bool = False


class DeviceRegistry:
    """Implements `services.xiaozhi.handshake.Doors`.

    Parameters:
        file: of the devices.
        asks: devices need a token.
        open_door: every device that is not known gets one; False: somebody has to approve it.
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
        self._visits: dict[str, Visit] = {}

    @property
    def guests(self) -> tuple[Visit, ...]:
        """Devices that have asked for their settings, and needed no token."""
        return tuple(self._visits.values())

    # --- Doors -------------------------------------------------------------------------------
    def admits(self, device_id: str, token: str) -> bool:
        """See Doors."""
        return not self.asks or self._is_good(device_id, token_of, token)

    def board(self, device_id: str) -> str:
        """See Doors."""
        known = self._known(device_id)
        return known.board if known else ""

    def vision(self, device_id: str) -> tuple[str, str]:
        """See Doors. The token names its device, as some clients do not when they send a photo."""
        known = self._known(device_id)
        url = f"{known.base}{VISION_PATH}" if known and known.base else ""
        if not isinstance(known, Device):
            return url, ""
        return url, f"{device_id}/{_vision_token(self._found, known)}"

    # --- photos ------------------------------------------------------------------------------
    def admits_photo(self, token: str) -> bool:
        """Whether this is what `vision` has given to a device that still may come in."""
        if not self.asks:
            return True
        device_id, _, token = token.rpartition("/")
        return self._is_good(device_id, _vision_token, token)

    # --- boot --------------------------------------------------------------------------------
    def boots(self, visit: Visit) -> Enrolled:
        """A device asks for its settings. May write the file.

        Raises:
            DuplexdError: the file cannot be read or written.
        """
        if not self.asks:
            self._visits.pop(visit.id, None)
            self._visits[visit.id] = visit
            if len(self._visits) > _MOST_VISITS:
                del self._visits[next(iter(self._visits))]
            return Enrolled()
        if not visit.client_id:  # whoever has seen its MAC address could be it
            return Enrolled()
        found = self._look()
        device = found.device(visit.id)
        if device is None or not device.is_of(visit.client_id) or device.after(visit) != device:
            found, code = self._file.enrol(visit, open_door=self._open_door)
            self._found, self._stamp = found, None  # another process may have changed it since
            device = found.device(visit.id)
            if code or device is None:
                return Enrolled(code=code, replaces=device is not None)
        return Enrolled(token=token_of(found, device))

    def approved(self, who: Identity) -> bool:
        """Whether a device that waited may come in now."""
        if not self.asks:
            return True
        device = self._look().device(who.device_id)
        return device is not None and (not device.client_id or device.is_of(who.client_id))

    # --- the file ----------------------------------------------------------------------------
    def _known(self, device_id: str) -> Device | Visit | None:
        return self._look().device(device_id) if self.asks else self._visits.get(device_id)

    def _is_good(self, device_id: str, right: Callable[[Devices, Device], str], token: str) -> bool:
        found = self._look()
        device = found.device(device_id)
        # Somebody's token is made for a device that nobody knows, so that it takes as long.
        made = right(found, device or Device(id=device_id))
        return hmac.compare_digest(made.encode(), token.encode()) and device is not None

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


def _vision_token(found: Devices, device: Device) -> str:
    return token_of(found, device, "vision")
