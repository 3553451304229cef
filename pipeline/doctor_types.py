"""What `doctor` finds, and what it says: data, without any judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

Status = Literal["ok", "warn", "fail", "skip"]
ModelStatus = Literal["present", "unverified", "corrupt", "missing"]
PortState = Literal["free", "duplexd", "taken", "foreign", "forbidden", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report.

    Parameters:
        name: what was looked at.
        status: "warn" works, though not well; "fail" does not work; "skip" was not looked at.
        detail: what was found.
        fix: what to do about it; empty when all is well.
    """

    name: str
    status: Status
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFact:
    """A model that the configuration needs: its state in the store, and its size in bytes."""

    status: ModelStatus
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmFact:
    """What the LLM's server answered.

    Parameters:
        url: where it was asked.
        status: HTTP status, or None when there was no answer.
        error: why there was none.
        models: names that it lists.
    """

    url: str
    status: int | None = None
    error: str = ""
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysFact:
    """The API keys of the daemon.

    Parameters:
        required: clients must show one.
        count: how many there are in the file.
        file: where their hashes are kept.
        environment: the environment gives a further one.
        error, fix: why they cannot be read, and what mends it; empty if they can.
    """

    required: bool = False
    count: int = 0
    file: str = ""
    environment: bool = False
    error: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesFact:
    """The Xiaozhi devices.

    Parameters:
        known: how many may connect.
        waiting: how many wait to be let in.
        error, fix: why they cannot be read, and what mends it; empty if they can.
    """

    known: int = 0
    waiting: int = 0
    error: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFact:
    """The certificate that TLS would be served with.

    Parameters:
        file: where it is.
        ends: when it is over.
        names: host names that it is for.
        addresses: IP addresses that it is for.
        error, fix: why it cannot be used, and what mends it; empty if it can.
    """

    file: str = ""
    ends: datetime = datetime(9999, 1, 1, tzinfo=UTC)
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    error: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecsFact:
    """What PyAV brings.

    Parameters:
        version: its own.
        missing: encoders that are needed and not there.
        error: why it cannot be loaded; empty if it can.
    """

    version: str = ""
    missing: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFact:
    """The first NVIDIA card.

    Parameters:
        name, memory, driver: as nvidia-smi tells them; empty where there is none.
        error: what nvidia-smi said in their place.
        torch: version of torch, which may name its CUDA; empty where it is not installed.
    """

    name: str = ""
    memory: str = ""
    driver: str = ""
    error: str = ""
    torch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A daemon that runs: it is reached over TLS, it wants an API key."""

    secure: bool
    locked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFact:
    """Who has the port.

    Parameters:
        state: "free"; "duplexd": a running daemon has it; "taken": another program has it;
            "foreign": the address is not this machine's; "forbidden": it may not be used;
            "unknown": it took too long to find out.
        daemon: the running one.
        at: host:port where it answers.
        deaf: hosts at which it does not answer, of those that would be listened on.
        error: why the port cannot be used; empty if that is plain.
    """

    state: PortState
    daemon: Running | None = None
    at: str = ""
    deaf: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found on this machine.

    Parameters:
        python: version of the interpreter.
        cores: usable by this process.
        memory_free: bytes that can still be had.
        models: those that the configuration needs.
        models_error: why the model store could not be read; empty if it could.
        models_root: where models are kept.
        fetch_options: what `models fetch` needs to bring them there, see `services.models`.
        disk_free: bytes free there.
        port: who has it.
        llm: the LLM's server, when one is asked.
        codecs: what encodes speech for /v1/audio/speech.
        gpu: the graphics card.
        addresses: of this machine, as others reach it.
        names: host names that the daemon answers to, beside localhost.
        keys: who gets in.
        certificate: of TLS; None without TLS.
        devices: Xiaozhi devices.
        now: the time.
    """

    python: tuple[int, int, int]
    cores: int
    memory_free: int
    models: Mapping[str, ModelFact] = field(default_factory=dict[str, ModelFact])
    models_error: str = ""
    models_root: str = ""
    fetch_options: str = ""
    disk_free: int = 0
    port: PortFact = PortFact(state="free")
    llm: LlmFact | None = None
    codecs: CodecsFact = CodecsFact()
    gpu: GpuFact = GpuFact()
    addresses: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    keys: KeysFact = KeysFact()
    certificate: CertificateFact | None = None
    devices: DevicesFact = DevicesFact()
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
