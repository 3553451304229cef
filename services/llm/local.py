"""The embedded language model: a child process with an OpenAI-compatible server on loopback.

It is talked to through the same client as any other server. This module only keeps it alive.

The port is chosen by the first child and kept over restarts, so that a client made once stays
right; only when somebody took the port meanwhile is there a new one, told by `on_address`.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from loguru import logger

from services.llm.child_process import ServerProcess
from tts_engine.errors import ModelMissing
from tts_engine.kept_process import KeptProcess, State
from tts_engine.restart import RestartPolicy

#: the new state, and why
OnState = Callable[[State, str], None]
#: the new `base_url`
OnAddress = Callable[[str], None]

NAME = "local language model"
HOST = "127.0.0.1"
#: -P keeps the script's own folder off the import path; no package needs to be importable
CHILD = (sys.executable, "-P", str(Path(__file__).with_name("local_child.py")))
#: from this many cores on the larger model leaves enough of them to the ear and the voice
CORES_FOR_1_5B = 4


def choose_model(choice: Literal["auto", "0.5b", "1.5b"], cores: int) -> str:
    """Name in the model store of the model to serve.

    Args:
        choice: a size, or "auto": the larger one from four cores on.
        cores: cores of the machine.
    """
    if choice == "auto":
        choice = "1.5b" if cores >= CORES_FOR_1_5B else "0.5b"
    return f"qwen2.5-coder-{choice}"


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class LocalLlm(KeptProcess[ServerProcess]):
    """Starts the child, restarts it when it dies, ends it. One life: not to be started again."""

    def __init__(
        self,
        *,
        model_path: Path,
        threads: int,
        context: int = 4096,
        parallel: int = 2,
        start_timeout_s: float = 120.0,
        policy: RestartPolicy | None = None,
        on_state: OnState | None = None,
        on_address: OnAddress | None = None,
        command: Sequence[str] = CHILD,
        grace_s: float = 3.0,
    ) -> None:
        """Describes the server; nothing runs yet.

        Args:
            model_path: a GGUF file.
            threads: of decoding, for all requests together.
            context: tokens over all slots.
            parallel: slots, requests decoded at a time; each keeps the prefix it saw last.
            start_timeout_s: for loading, of the first start and of restarts.
            policy: when to restart.
            on_state: called on the event loop with every change of state; must not raise.
            on_address: called when a restart had to take another port.
            command: the child's program; the options are appended.
            grace_s: time between SIGTERM and SIGKILL when closing.
        """
        super().__init__(
            name=NAME,
            command=command,
            start_timeout_s=start_timeout_s,
            policy=policy,
            grace_s=grace_s,
        )
        self._model_path = model_path
        self._threads = threads
        self._context = context
        self._parallel = parallel
        self._on_state = on_state
        self._on_address = on_address
        self._address = ""
        #: why it is in that state
        self.detail = ""
        #: any page in a browser can reach a loopback port; without the key it is told nothing
        self.api_key = secrets.token_urlsafe(24)

    @property
    def base_url(self) -> str:
        """For an OpenAI client; empty until `start` has returned."""
        return f"{self._address}/v1" if self._address else ""

    @property
    def model(self) -> str:
        """The model's name at the server: its file's, without the ending."""
        return self._model_path.stem

    async def start(self) -> None:
        """Starts the child and returns once the model is loaded and served.

        Raises:
            ModelMissing: there is no such file.
            EngineFailed: the child ended, or `close` was called meanwhile.
            TimedOut: not ready within `start_timeout_s`.
        """
        if not self._model_path.is_file():
            raise ModelMissing(
                f"The language model {self._model_path} is not there",
                mend="Fetch it with `run.py models fetch`",
            )
        self._enter("starting", self._model_path.name)
        await super().start()

    def _options(self, port: int) -> list[str]:
        return [
            *("--parent", str(os.getpid())),
            *("--model", str(self._model_path.resolve())),
            *("--port", str(port)),
            *("--threads", str(self._threads)),
            *("--context", str(self._context)),
            *("--parallel", str(self._parallel)),
        ]

    async def _launch(self) -> ServerProcess:
        """Brings up a child.

        Raises:
            EngineFailed, TimedOut: it is gone again.
        """
        port = urlsplit(self._address).port or 0 if self._address else 0
        if port and not port_is_free(port):
            logger.warning(f"{NAME}: port {port} was taken by another program, using a new one")
            port = 0
        self._child = child = await ServerProcess.spawn(
            (*self._command, *self._options(port)), name=NAME, grace_s=self._grace_s
        )
        child.write(json.dumps({"api_key": self.api_key}).encode() + b"\n")
        address = await child.ready(self._start_timeout_s)
        moved = bool(self._address) and address != self._address
        self._address = address
        self._enter("ready", address)
        if moved and self._on_address:
            self._on_address(self.base_url)
        return child

    async def _outlive(self, launched: ServerProcess) -> str:
        return await launched.ended()

    def _enter(self, state: State, detail: str) -> None:
        self.detail = detail
        super()._enter(state, detail)
        if self._on_state:
            self._on_state(state, detail)
