"""A stand-in for services.llm.local_child that behaves as the file named by argument 1 says.

The file holds one word per life, of which each life takes the first: so one command can behave
differently at every restart. The last word stays.

        serve         listens on --port, reports it, lives until stdin ends
        moody         as serve, after garbage on both streams
        deaf          as serve, but ignores SIGTERM and the end of stdin
        brief         reports, then exits with status 7
        die           exits with status 3 and a last word, before it reports
        mute          closes stdout without a report and lives on
        never         says nothing, lives until stdin ends
        segv          reports, then sends itself SIGSEGV
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path


def take(script: Path) -> str:
    first, *rest = script.read_text().split()
    if rest:
        script.write_text(" ".join(rest))
    return first


def main() -> None:
    mood = take(Path(sys.argv[1]))
    port = int(sys.argv[sys.argv.index("--port") + 1])
    hello = json.loads(sys.stdin.readline())
    assert hello["api_key"]
    if mood == "die":
        print("the weights are made of cheese", file=sys.stderr)
        sys.exit(3)
    if mood == "mute":
        sys.stdout.flush()
        os.close(1)
        time.sleep(60)
    if mood == "never":
        sys.stdin.read()
        sys.exit(0)
    if mood == "moody":
        print('noise\n\xff\xfe{"address": 7}\n[1]\n' + "x" * 20_000)
        sys.stdout.buffer.write(b"\xff\xfe\x00 bytes that are no text\n")
        sys.stderr.write("y" * 20_000)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if mood == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(json.dumps({"address": address}), flush=True)
    print("serving", file=sys.stderr, flush=True)
    if mood == "brief":
        sys.exit(7)
    if mood == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mood == "deaf":
        time.sleep(60)
    sys.stdin.read()


main()
