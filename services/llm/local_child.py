"""The child process that serves a GGUF model over OpenAI's HTTP protocol on loopback.

Started by `services.llm.local`; not meant to be run by hand. What passes between the two:

        stdin   parent -> child  one JSON line {"api_key": "..."}, then nothing; end of file: exit
        stdout  child -> parent  one JSON line {"address": "http://127.0.0.1:PORT"} once it serves
        stderr  child -> parent  the log

A process of its own, so that decoding holds neither the daemon's GIL nor its event loop.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

#: prctl option of <sys/prctl.h>
PR_SET_PDEATHSIG = 1
#: prompt tokens decoded in one go. The server sees a cancelled request, and serves its other
#: slots, only between two batches: 64 tokens are 1.4 s on one thread and cost a tenth of throughput
BATCH_TOKENS = 64
#: cap of the server's store of evicted prompts; a token of a 0.5B model takes 12 KiB
PROMPT_STORE_MIB = 256
#: verbosity of the log: warnings and errors
WARNINGS = 2
#: every request, also one that waits for a slot, holds a thread of the HTTP server
HTTP_THREADS = 64


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends, however it ends.

    Exits at once when the parent is gone already: the signal would never come.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


def claim_stdout() -> int:
    """Keeps stdout for the report: whatever native code prints goes to the log instead.

    Returns:
        A file descriptor of what stdout was.
    """
    report = os.dup(1)
    os.dup2(2, 1)
    return report


def parameters(xllamacpp: Any, options: argparse.Namespace, *, api_key: str) -> Any:
    """Builds the server's `CommonParams`. Every thread count is explicit: the default takes all
    cores, and spin barriers collapse as soon as anything else wants one.
    """
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {Path(options.model).stem}
    params.verbosity = WARNINGS
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.api_keys = [api_key]
    params.ui = False
    params.use_jinja = True
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.n_threads_http = HTTP_THREADS
    params.n_ctx = options.context
    params.n_parallel = options.parallel
    params.n_batch = BATCH_TOKENS
    params.n_ubatch = BATCH_TOKENS
    params.n_gpu_layers = 0
    params.fit_params = False
    params.cache_prompt = True
    params.cache_ram_mib = PROMPT_STORE_MIB
    params.endpoint_slots = False
    return params


#: what is written is ready long before it is spoken: where cores are few, the voice goes first
NICER = 5


def main(argv: list[str] | None = None) -> None:
    """Serves until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--parallel", type=int, required=True)
    options = parser.parse_args(argv)
    die_with(options.parent)
    os.nice(NICER)
    report = claim_stdout()
    hello = json.loads(sys.stdin.readline())

    # imported only now: the parent may end while this loads; as Any: a native module without stubs
    xllamacpp: Any = importlib.import_module("xllamacpp")
    server = xllamacpp.Server(parameters(xllamacpp, options, api_key=hello["api_key"]))
    os.write(report, (json.dumps({"address": server.listening_address}) + "\n").encode())
    sys.stdin.read()  # the parent's end of the pipe closes: it asks us to end, or is gone


if __name__ == "__main__":
    main()
