"""The tokens of a device: HMACs of what is kept of it, so that none is kept."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Literal

from services.xiaozhi.device_file import Device, Devices

Purpose = Literal["socket", "vision"]


def token_of(found: Devices, device: Device, purpose: Purpose = "socket") -> str:
    """A token of a device, 43 characters that need no quoting anywhere.

    Args:
        found: the device's file, with its secret.
        device: whose token it is.
        purpose: socket: to talk; vision: to send photos, which may go by another way.
    """
    said = f"{purpose}\n{device.id}\n{device.client_id}\n{device.salt}"
    digest = hmac.new(bytes.fromhex(found.secret), said.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
