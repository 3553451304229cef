"""The token of a device: an HMAC of what is kept of it, so that none is kept."""

from __future__ import annotations

import base64
import hashlib
import hmac

from services.xiaozhi.device_file import Device, Devices


def token_of(found: Devices, device: Device) -> str:
    """The token of a device, 43 characters that need no quoting anywhere."""
    said = f"{device.id}\n{device.client_id}\n{device.added}\n{device.generation}"
    digest = hmac.new(bytes.fromhex(found.secret), said.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
