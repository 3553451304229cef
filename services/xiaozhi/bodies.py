"""Bodies of requests that anybody may make: bounded, and answered whatever they are."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

#: Of a body that is too large so much is received, for nothing: who is still sending when the
#: connection is closed may never see the answer.
_WASTED = 16 << 20


async def body_of(request: Request, *, most: int, wait_s: float) -> bytes | None:
    """The body of a request.

    Args:
        request: nothing of its body has been read.
        most: bytes that it may have.
        wait_s: longest wait for the whole of it, seconds.

    Returns:
        None: it is too large, or did not come as a whole.
    """
    read = bytearray()
    received = 0
    try:
        async with asyncio.timeout(wait_s):
            async for piece in request.stream():
                received += len(piece)
                if received <= most:
                    read += piece
                elif received > _WASTED:
                    break
    except (TimeoutError, ClientDisconnect):
        return None
    return bytes(read) if received <= most else None
