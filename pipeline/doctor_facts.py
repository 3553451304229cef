"""Gathers what `doctor` judges: looks at the machine, the model store, the port, the LLM server.

Whatever waits for others has a time limit.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from pipeline.access import environment_key, key_file, key_required, names_of, tls_of
from pipeline.budget import available_cores
from pipeline.cgroup import memory_left
from pipeline.config_schema import Config
from pipeline.config_server import Server
from pipeline.doctor_port import port_fact
from pipeline.doctor_types import (
    CertificateFact,
    CodecsFact,
    DevicesFact,
    Facts,
    GpuFact,
    KeysFact,
    LlmFact,
    ModelFact,
    PortFact,
)
from pipeline.needs import needed_models
from pipeline.store import models_root, open_store
from pipeline.xiaozhi_devices import device_file
from services.access.addresses import own_addresses
from services.models import fetch_options
from tts_engine.errors import ConfigError, DuplexdError

_T = TypeVar("_T")
#: of a step, as a connection or an answer
_TIMEOUT_S = 5.0
#: of everything that is looked at: names, and servers that answer byte by byte, have no other
_LIMIT_S = 15.0
_OPENAI = "https://api.openai.com/v1"
#: what /v1/audio/speech encodes with
_ENCODERS = ("libopus", "libmp3lame")


def gather(config: Config) -> Facts:
    """Looks at everything; what does not answer costs at most some seconds.

    The certificate of `server.tls` auto is made, as `serve` would.
    """
    server, root = config.server, models_root(config)
    port = _begin(lambda: port_fact(server.host, server.port))
    llm = _begin(lambda: llm_fact(config)) if config.llm.engine == "openai" else None
    cores = available_cores()
    models, error = model_facts(config, cores=cores)
    free = psutil.virtual_memory().available
    return Facts(
        python=sys.version_info[:3],
        cores=cores,
        memory_free=min(free, free if (left := memory_left()) is None else left),
        models=models,
        models_error=error,
        models_root=str(root),
        fetch_options=fetch_options(root),
        disk_free=disk_free(root),
        codecs=codecs_fact(),
        gpu=gpu_fact(),
        addresses=tuple(own_addresses()),
        names=names_of(server),
        keys=keys_fact(server),
        certificate=certificate_fact(server),
        devices=devices_fact(config),
        port=_end(
            port,
            PortFact(
                state="unknown",
                error=f"whether it is free could not be found out in {_LIMIT_S:g} s",
            ),
        ),
        llm=llm and _end(llm, LlmFact(url=_shown(config), error=f"not within {_LIMIT_S:g} s")),
    )


def _begin(look: Callable[[], _T]) -> Future[_T]:
    """Looks in a thread of its own, which nobody waits for at the end of the process."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(look())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="doctor").start()
    return future


def _end(future: Future[_T], otherwise: _T) -> _T:
    try:
        return future.result(_LIMIT_S)
    except TimeoutError:
        return otherwise


def model_facts(
    config: Config, *, cores: int, manifest: Path | None = None
) -> tuple[dict[str, ModelFact], str]:
    """State and size of every model that is needed, and why they could not be found out."""
    facts: dict[str, ModelFact] = {}
    try:
        store = open_store(config, manifest=manifest)
        for name in needed_models(config, cores):
            size = store.manifest.model(name).bytes
            facts[name] = ModelFact(status=store.status(name).value, bytes=size)
    except ConfigError as error:
        return facts, str(error)
    return facts, ""


def disk_free(folder: Path) -> int:
    """Bytes free where `folder` is, or would be."""
    existing = next(
        each for each in (folder.absolute(), *folder.absolute().parents) if each.exists()
    )
    return shutil.disk_usage(existing).free


def llm_fact(config: Config) -> LlmFact:
    """Asks the LLM's server for its models."""
    url = (config.llm.base_url or _OPENAI).rstrip("/")
    shown = _shown(config)
    key = config.llm.api_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True) as client:
            response = client.get(f"{url}/models", headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
        return LlmFact(url=shown, error=str(error) or type(error).__name__)
    return LlmFact(url=shown, status=response.status_code, models=_listed(response))


def _listed(response: httpx.Response) -> tuple[str, ...]:
    try:
        body: Any = response.json()
        return tuple(str(item["id"]) for item in body["data"])
    except (ValueError, KeyError, TypeError):
        return ()


def _shown(config: Config) -> str:
    return (config.llm.shown_url or _OPENAI).rstrip("/")


def keys_fact(server: Server) -> KeysFact:
    """The daemon's API keys; none is read, only their number."""
    required, file = key_required(server), key_file(server)
    try:
        # Where none is asked for, the environment's may be meant for another daemon.
        environment = required and environment_key() is not None
        count = len(file.read())
    except DuplexdError as error:
        return KeysFact(required=required, error=error.message, fix=error.mend)
    return KeysFact(required=required, count=count, file=str(file.path), environment=environment)


def devices_fact(config: Config) -> DevicesFact:
    """The Xiaozhi devices; only their number is told."""
    if not config.xiaozhi.enabled:
        return DevicesFact()
    try:
        found = device_file(config).read()
    except DuplexdError as error:
        return DevicesFact(error=error.message, fix=error.mend)
    waiting = sum(not each.expired for each in found.waiting)
    return DevicesFact(known=len(found.devices), waiting=waiting)


def certificate_fact(server: Server) -> CertificateFact | None:
    """The certificate that the daemon would show; None without TLS."""
    try:
        tls = tls_of(server)
    except DuplexdError as error:
        return CertificateFact(error=error.message, fix=error.mend)
    if tls is None:
        return None
    from cryptography import x509

    shown = x509.load_pem_x509_certificates(tls.certificate.read_bytes())[0]
    try:
        covered = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        covered = x509.SubjectAlternativeName([])
    return CertificateFact(
        file=str(tls.certificate),
        ends=shown.not_valid_after_utc,
        names=tuple(covered.get_values_for_type(x509.DNSName)),
        addresses=tuple(map(str, covered.get_values_for_type(x509.IPAddress))),
    )


def codecs_fact() -> CodecsFact:
    """What PyAV can encode; it carries its codecs with it."""
    try:
        import av
    except (ImportError, OSError) as error:
        return CodecsFact(error=str(error))
    missing = tuple(name for name in _ENCODERS if name not in av.codecs_available)
    return CodecsFact(version=av.__version__, missing=missing)


def gpu_fact() -> GpuFact:
    """The first NVIDIA card, as its driver tells, and torch, without loading it."""
    torch = torch_version()
    program = shutil.which("nvidia-smi")
    if program is None:
        return GpuFact(torch=torch)
    query = [program, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return GpuFact(error=f"nvidia-smi: {error}", torch=torch)
    first = next(iter(done.stdout.splitlines()), "").strip()
    if done.returncode or not first:
        return GpuFact(error=f"nvidia-smi: {first or done.stderr.strip()}", torch=torch)
    name, memory, driver, *_ = (*first.split(", "), "", "")
    return GpuFact(name=name, memory=memory, driver=driver, torch=torch)


def torch_version() -> str:
    """Version of torch, and of the CUDA that it brings; empty where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return ""
    try:
        version = importlib.metadata.version("torch")
        needed = importlib.metadata.requires("torch") or []
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
    runtimes = (re.match(r"nvidia-cuda-runtime[\w-]*", each) for each in needed)
    for runtime in filter(None, runtimes):
        try:
            return f"{version} with CUDA {importlib.metadata.version(runtime[0])}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return version
