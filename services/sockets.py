"""Sockets whose other end may not read, or may have vanished."""

from __future__ import annotations

import socket
from asyncio import Transport

#: bytes that may wait in the kernel: one second of audio as the Realtime protocol sends it
_KERNEL_BUFFER = 64 * 1024
#: bytes that may wait in the process before a send waits
_PROCESS_BUFFER = 16 * 1024
#: a silent peer is asked after 60 s, then every 15 s, and given up when 4 questions got no answer
_KEEPALIVE = (
    (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), 60),  # the second is macOS's name
    (("TCP_KEEPINTVL",), 15),
    (("TCP_KEEPCNT",), 4),
)


def make_honest(transport: Transport) -> None:
    """Makes the buffers small, so that a send that returned is nearly with the peer, and lets TCP
    find out that a peer vanished without a goodbye.
    """
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
        if connection.family != socket.AF_UNIX:
            _keep_alive(connection)
    transport.set_write_buffer_limits(high=_PROCESS_BUFFER)


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in _KEEPALIVE:
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
