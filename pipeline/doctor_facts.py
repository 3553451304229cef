"""Gathers what `doctor` judges: looks at the machine, the model store, the port, the LLM server."""

from __future__ import annotations

import errno
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil

from pipeline.budget import available_cores
from pipeline.cgroup import memory_left
from pipeline.config_schema import Config
from pipeline.doctor_checks import Facts, LlmFact, ModelFact
from pipeline.needs import needed_models
from pipeline.store import models_root, open_store
from services.models import fetch_options
from tts_engine.errors import ConfigError

_TIMEOUT_S = 5.0
_OPENAI = "https://api.openai.com/v1"


def gather(config: Config) -> Facts:
    """Looks at everything; a server that does not answer costs at most a few seconds."""
    root = models_root(config)
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
        port=port_state(config.server.host, config.server.port),
        llm=llm_fact(config) if config.llm.engine == "openai" else None,
        gpu=gpu_name(),
    )


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


def port_state(host: str, port: int) -> str:
    """Whether a daemon could listen there: "free", "duplexd", or why not."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            # Two sockets may be bound to a port with SO_REUSEADDR; only one may listen.
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return "duplexd" if is_duplexd(host, port) else "taken by another program"
        return error.strerror or str(error)
    return "free"


def is_duplexd(host: str, port: int, *, timeout_s: float = _TIMEOUT_S) -> bool:
    """Whether what listens there says that it is a duplexd."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    url = f"http://[{target}]:{port}" if ":" in target else f"http://{target}:{port}"
    try:
        # The environment's proxies are for the world outside.
        with httpx.Client(timeout=timeout_s, trust_env=False) as client:
            response = client.get(f"{url}/healthz")
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return response.status_code == 200 and "duplexd" in response.text


def llm_fact(config: Config) -> LlmFact:
    """Asks the LLM's server for its models."""
    url = (config.llm.base_url or _OPENAI).rstrip("/")
    shown = (config.llm.shown_url or _OPENAI).rstrip("/")
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


def gpu_name() -> str:
    """The first NVIDIA card and its memory, or empty."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return lines[0].strip() if lines else ""
