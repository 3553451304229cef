"""A whole turn of a device."""

from __future__ import annotations

from tests.xiaozhi.device import START, STOP, Device


async def turn(device: Device, *, mode: str = "auto", seconds: float = 0.6) -> None:
    """From the question to the end of the answer.

    Args:
        device: has greeted; in realtime mode it listens.
        mode: of listening.
        seconds: of speech.
    """
    starts, stops = len(device.of(START)), len(device.of(STOP))
    if mode != "realtime":
        await device.listen(mode)
    await device.speak(seconds)
    if mode == "manual":
        await device.release()
    await device.wait(START, starts + 1)
    await device.wait(STOP, stops + 1)
