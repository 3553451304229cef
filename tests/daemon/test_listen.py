"""Invariants: a port has one daemon, also among two that start at once; a daemon that ended can be
started again at once; a client that comes before the daemon serves waits, and is served; one
command opens it to the network, with a key and TLS.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from websockets.asyncio.client import connect

from pipeline.commands.serve import listen
from tests.daemon.client import talking
from tests.daemon.process import serving
from tests.realtime.fakes import Face
from tests.realtime.fakes import serving as serving_face
from tts_engine.errors import DuplexdError


def test_the_second_is_told_that_the_port_is_taken():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(DuplexdError, match=f"Port {port} is taken") as caught:
            listen("127.0.0.1", port)
    assert f"--set server.port={port + 1}" in caught.value.mend
    listen("127.0.0.1", port).close()


def test_it_starts_again_while_connections_of_the_last_one_linger():
    with listen("127.0.0.1", 0) as first:
        host, port = first.getsockname()
        client = socket.create_connection((host, port))
        accepted, _ = first.accept()
        accepted.close()  # who closes first keeps the connection in TIME_WAIT
        assert client.recv(1) == b""
        client.close()
    with listen(host, port) as again, socket.create_connection((host, port)):
        again.accept()[0].close()


@pytest.mark.parametrize("host", ["no such host", "..", "a" * 64, "x\0y", "[::1]", "*"])
def test_what_is_no_address(host: str):
    with pytest.raises(DuplexdError) as caught:
        listen(host, 0)
    assert "server.host" in caught.value.mend


def test_a_name_that_only_seems_to_be_loopback(monkeypatch: pytest.MonkeyPatch):
    """No key would be asked for."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(
        DuplexdError, match=r"localhost is 192\.0\.2\.1 here, which is not loopback"
    ):
        listen("localhost", 0)


def test_localhost_is_the_address_that_everybody_tries():
    with listen("localhost", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_all_addresses_are_both_kinds():
    with listen("::", 0) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port)).close()


async def test_a_client_that_comes_early_is_served():
    with listen("127.0.0.1", 0) as listener:
        host, port = listener.getsockname()
        client = asyncio.create_task(first_event(f"ws://{host}:{port}/v1/realtime"))
        loop = asyncio.get_running_loop()
        early = socket.socket()
        early.setblocking(False)
        await loop.sock_connect(early, (host, port))  # it is let in before anybody serves
        early.close()
        assert not client.done()
        async with serving_face(Face(), sockets=[listener]):
            assert (await asyncio.wait_for(client, 10))["type"] == "session.created"


async def first_event(url: str) -> dict[str, str]:
    async with connect(url) as connection:
        return json.loads(await connection.recv())


async def test_of_two_that_start_at_once_one_serves():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sets = {"server.port": port}
    async with serving(sets=sets, ready=False) as one, serving(sets=sets, ready=False) as other:
        ended = [asyncio.create_task(asyncio.to_thread(each.wait)) for each in (one, other)]
        done, _ = await asyncio.wait(ended, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [1]
        loser, winner = (one, other) if ended[0] in done else (other, one)
        assert re.search(rf"^error: .*{port}", loser.log, re.MULTILINE)
        assert "ready:" not in loser.log
        await asyncio.to_thread(winner.ready)
        winner.popen.terminate()
        assert await ended[0 if winner is one else 1] == 0


async def test_it_opens_to_the_network_with_one_command(tmp_path: Path):
    """The key and the certificate that are printed are all that a client needs."""
    env = {"XDG_DATA_HOME": str(tmp_path), "DUPLEXD_API_KEY": ""}
    beyond = {"args": ["--host", "0.0.0.0", "--tls", "auto"], "env": env, "ready": False}
    printed = tmp_path / "printed"
    async with serving(**beyond, output=printed) as daemon:
        await asyncio.to_thread(daemon.line, r" ready: point a Realtime client at wss://\S+")
        shown = printed.read_text()
        [key] = re.findall(r"API key, shown only now: (dx-[\w-]{32})\n", shown)
        [authority] = re.findall(r"authority of this machine's own: (\S+)", shown)
        addresses = re.findall(r"https://([^\s/]+)/\n", shown)
        assert addresses
        assert f"devices: https://{addresses[0]}/xiaozhi/ota/\n" in shown
        trusting = ssl.create_default_context(cafile=authority)
        for address in (*addresses, f"localhost:{daemon.port}"):
            async with talking(f"wss://{address}/v1/realtime", tls=trusting, key=key) as client:
                await client.speak()
                assert (await client.done())["status"] == "completed"
        assert key not in daemon.log
        assert daemon.end()[0] == 0
    async with serving(**beyond, output=printed) as daemon:
        await asyncio.to_thread(daemon.line, r" listening on https://0\.0\.0\.0:\d+,")
        assert "dx-" not in printed.read_text()
        assert authority in printed.read_text()


async def test_a_certificate_that_is_not_there(tmp_path: Path):
    tls = f"{tmp_path}/gone.crt,{tmp_path}/gone.key"
    async with serving(args=["--tls", tls], ready=False) as daemon:
        assert await asyncio.to_thread(daemon.wait) == 2
        assert daemon.lines[0].startswith(f"error: Cannot read {tmp_path}/gone.crt: No such file")
        assert daemon.lines[1].startswith("fix:   ")


async def test_a_key_of_the_environment_that_is_too_short(tmp_path: Path):
    env = {"DUPLEXD_API_KEY": "secret", "XDG_DATA_HOME": str(tmp_path)}
    async with serving(args=["--host", "0.0.0.0"], env=env, ready=False) as daemon:
        assert await asyncio.to_thread(daemon.wait) == 2
        assert daemon.lines[0] == "error: DUPLEXD_API_KEY is too short for an API key"
        assert "secret" not in daemon.log


@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_NOFILE"), reason="this system does not tell limits")
async def test_more_clients_than_usual_may_hold_on():
    """A shell's limit of file descriptors is taken as far up as it may be."""
    with usual_limit(256):
        async with serving(ready=False) as daemon:
            await asyncio.to_thread(lambda: daemon.port)
            soft, hard = daemon.process.rlimit(psutil.RLIMIT_NOFILE)
            assert soft == min(hard, 65_536)


@contextmanager
def usual_limit(soft: int) -> Iterator[None]:
    """What processes that are started get."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
