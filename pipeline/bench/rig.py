"""Servers to be measured: each a process of its own, for the length of a block.

with daemon("scripted:instant", cores={1}) as server:
    asyncio.run(talk_to(server.endpoint))
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from pipeline.talk.daemon import RUN, own_daemon
from pipeline.talk.endpoint import Endpoint
from services.access.keys import new_key
from tts_engine.errors import BadRequest, EngineFailed

#: the stock pipecat server, see `pipeline.bench.peer`
_PEER = (str(RUN), "bench", "peer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that is ready.

    Parameters:
        endpoint: where a client reaches it.
        process: the server's; what it starts (an engine of its own) are its children.
    """

    endpoint: Endpoint
    process: psutil.Process

    def at(self, path: str) -> Endpoint:
        """Another path of it, with a leading slash."""
        address = self.endpoint.base.replace("http", "ws", 1) + path
        return Endpoint.of(address, key=self.endpoint.key)

    @property
    def cpu_s(self) -> float:
        """Processor time that it has used, seconds, without its children's."""
        times = self.process.cpu_times()
        return times.user + times.system

    @property
    def memory_mb(self) -> float:
        """Memory that it holds (RSS), megabytes, without its children's."""
        return self.process.memory_info().rss / 1e6


@contextmanager
def daemon(
    options: Sequence[str] = (),
    *,
    sets: Mapping[str, str] | None = None,
    cores: Collection[int] | None = None,
    log: Path | None = None,
) -> Iterator[Server]:
    """Runs duplexd on loopback.

    Args:
        options: of `run.py serve`, as `--engines SPEC`.
        sets: keys of the configuration and their values as --set takes them; they go before those
            of `options`.
        cores: what it may run on; None: all.
        log: where its log goes; None discards it.

    Raises:
        EngineFailed, TimedOut: it did not start, or not in time.
        BadRequest: there are no such cores.
    """
    with _server((), options, sets or {}, cores, log) as server:
        yield server


@contextmanager
def peer(
    options: Sequence[str] = (),
    *,
    sets: Mapping[str, str] | None = None,
    cores: Collection[int] | None = None,
    log: Path | None = None,
) -> Iterator[Server]:
    """Runs the stock pipecat pipeline over the same engines; the arguments are those of `daemon`.

    Its variants are paths of it: see `pipeline.bench.peer`.
    """
    with _server(_PEER, options, sets or {}, cores, log) as server:
        yield server


@contextmanager
def _server(
    program: Sequence[str],
    options: Sequence[str],
    sets: Mapping[str, str],
    cores: Collection[int] | None,
    log: Path | None,
) -> Iterator[Server]:
    arguments = [*options]
    for name, value in sets.items():
        arguments += ["--set", f"{name}={value}"]
    key = new_key()
    with _pinned(cores) as unpin, own_daemon(arguments, key=key, log=log, program=program) as at:
        unpin()
        endpoint = Endpoint.of(at, key=key)
        yield Server(endpoint=endpoint, process=_listening(at))


@contextmanager
def _pinned(cores: Collection[int] | None) -> Iterator[_Unpin]:
    """Children started within the block, up to the call of what it yields, run on these cores."""
    before = os.sched_getaffinity(0)
    unpin = _Unpin(before)
    if cores is not None:
        try:
            os.sched_setaffinity(0, cores)
        except OSError as error:
            wanted = ", ".join(map(str, cores))
            raise BadRequest(f"This machine has no cores {wanted} for a server") from error
    try:
        yield unpin
    finally:
        unpin()


@dataclass(frozen=True, slots=True)
class _Unpin:
    """Gives this process its cores back."""

    before: set[int]

    def __call__(self) -> None:
        os.sched_setaffinity(0, self.before)


def _listening(address: str) -> psutil.Process:
    """The child that was told to listen there."""
    port = f"server.port={address.rpartition(':')[2]}"
    for child in psutil.Process().children():
        if port in child.cmdline():
            return child
    raise EngineFailed(f"The server at {address} is gone", mend="Look into its log")


def path_of(variant: str, *, frame_ms: int) -> str:
    """Where a variant of the peer is reached."""
    return f"/{variant}?frame_ms={frame_ms}"
