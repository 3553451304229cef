"""A daemon of one's own ends with the talk, whatever ends it, and says why it did not start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
import soundfile

from pipeline.access import KEY_VARIABLE
from pipeline.talk import daemon as module
from pipeline.talk.daemon import State, address_of, await_ready, command_for, own_daemon
from pipeline.talk.endpoint import Endpoint
from services.scripted.speech import synthetic_speech
from tests.talk.served import SCRIPTED
from tts_engine.errors import BadRequest, EngineFailed, TimedOut

#: stands for `run.py serve`: ready at once on the port that it is given, deaf to SIGTERM
_STUBBORN = """
import signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "ready"}')
[port] = [int(a.partition("=")[2]) for a in sys.argv if a.startswith("server.port=")]
HTTPServer(("127.0.0.1", port), Ready).serve_forever()
"""

#: to be put into it
_TELLS_ITS_KEY = """
import os, pathlib, signal, sys
pathlib.Path(__file__).with_name("key").write_text(os.environ["DUPLEXD_API_KEY"])
"""


@contextmanager
def answering(*bodies: str) -> Iterator[str]:
    """A server that gives one body after the other, then the last one for ever."""
    left = list(bodies)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if '"ready"' in left[0] else 503)
            self.end_headers()
            self.wfile.write((left.pop(0) if len(left) > 1 else left[0]).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def state_of(address: str) -> State:
    return module.state_of(Endpoint.of(address))


@pytest.fixture
def instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program in place of run.py; no process of it may be left."""
    program = tmp_path / "instead.py"
    monkeypatch.setattr(module, "RUN", program)
    yield program
    assert not children(str(program))


def children(word: str) -> list[psutil.Process]:
    """Our child processes whose command line holds a word."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if any(word in part for part in child.cmdline())
    ]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1:80"),
        ("0.0.0.0", "127.0.0.1:80"),
        ("::", "[::1]:80"),
        ("fd00::1", "[fd00::1]:80"),
        ("box", "box:80"),
    ],
)
def test_where_a_listening_daemon_is_reached(host: str, address: str) -> None:
    assert address_of(host, 80) == address


@pytest.mark.parametrize(
    ("address", "secure", "locked", "options"),
    [
        ("127.0.0.1:8080", False, False, ""),
        ("127.0.0.1:8080", True, True, " --key KEY"),
        ("127.0.0.1:81", False, False, " --url 127.0.0.1:81"),
        ("[::1]:8080", True, True, " --url https://[::1]:8080 --cacert FILE --key KEY"),
    ],
)
def test_the_command_that_reaches_it(
    address: str, secure: bool, locked: bool, options: str
) -> None:
    said = command_for(address, secure=secure, locked=locked)
    assert said == f"run.py talk{options} --say TEXT"


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ('{"status": "ready"}', "ready"),
        ('{"status": "warming"}', "warming"),
        ('{"status": "failed"}', "none"),
        ("[1]", "none"),
        ("<html>", "none"),
    ],
)
def test_only_a_daemon_is_a_daemon(body: str, state: str) -> None:
    with answering(body) as address:
        assert state_of(address) == state


def test_nobody_is_no_daemon(unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert state_of(f"127.0.0.1:{unused_tcp_port}") == "none"


def test_what_speaks_no_http_may_be_a_daemon_with_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        assert state_of(f"127.0.0.1:{server.getsockname()[1]}") == "alien"
        thread.join()


def test_a_daemon_that_warms_up_is_waited_for() -> None:
    warming = json.dumps({"status": "warming"})
    with answering(warming, warming, '{"status": "ready"}') as address:
        await_ready(Endpoint.of(address))
    with (
        answering(warming, '{"status": "failed"}') as address,
        pytest.raises(EngineFailed, match="did not start"),
    ):
        await_ready(Endpoint.of(address))
    with (
        answering(warming) as address,
        pytest.raises(TimedOut, match="not ready after 0 s"),
    ):
        await_ready(Endpoint.of(address), timeout_s=0)


def test_its_key_is_handed_over_unseen(instead: Path, tmp_path: Path) -> None:
    instead.write_text(_STUBBORN.replace("import signal, sys", _TELLS_ITS_KEY))
    with own_daemon([], key="dx-0123456789abcdef", timeout_s=30):
        [child] = children(str(instead))
        assert "dx-0123456789abcdef" not in " ".join(child.cmdline())
        child.kill()
    assert (tmp_path / "key").read_text() == "dx-0123456789abcdef"


def test_a_key_that_the_configuration_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "too short for one")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    sets = ["--set", "server.require_key=true", "--set", "server.tls=auto"]
    with own_daemon([*sets, "--engines", SCRIPTED], key="dx-0123456789abcdef") as address:
        assert state_of(address) == "locked"
        assert module.state_of(Endpoint.of(address, key="dx-0123456789abcdef")) == "ready"


def test_it_ends_with_the_block_and_its_log_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with own_daemon(["--set", "log.format=json", "--engines", SCRIPTED], log=log) as address:
        assert state_of(address) == "ready"
        assert len(children("serve")) >= 1
    assert not children("serve")
    assert state_of(address) == "none"
    assert "ready: point a Realtime client" in log.read_text()


def test_why_it_did_not_start_is_told_with_what_mends_it(tmp_path: Path) -> None:
    sets = [f"models.dir={tmp_path}", "models.offline=true", "llm.provider=scripted"]
    arguments = [part for each in sets for part in ("--set", each)]
    why = r"The daemon did not start: .*whisper-base"
    with pytest.raises(EngineFailed, match=why) as caught, own_daemon(arguments):
        pass
    assert caught.value.mend == f"Run `run.py models fetch whisper-base --models-dir {tmp_path}`."


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)", "one / two"),
        ("", "it said nothing"),
    ],
)
def test_it_ends_at_once(instead: Path, program: str, said: str) -> None:
    instead.write_text(program)
    with pytest.raises(EngineFailed, match=f"did not start: {said}"), own_daemon([]):
        pass


def test_it_is_never_ready(instead: Path) -> None:
    instead.write_text("import time; time.sleep(60)")
    with pytest.raises(TimedOut, match=r"not ready after 0\.3 s"), own_daemon([], timeout_s=0.3):
        pass


def test_it_does_not_want_to_end(instead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_TIMEOUT_S", 0.2)
    instead.write_text(_STUBBORN)
    with own_daemon([]) as address:
        assert state_of(address) == "ready"


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with (
        pytest.raises(BadRequest, match=r"Cannot write .*: Is a directory"),
        own_daemon([], log=tmp_path),
    ):
        pass


def test_it_runs_in_any_thread(instead: Path) -> None:
    instead.write_text("")
    failures: list[EngineFailed] = []

    def talk() -> None:
        try:
            with own_daemon([]):
                pass
        except EngineFailed as error:
            failures.append(error)

    thread = threading.Thread(target=talk)
    thread.start()
    thread.join(30)
    assert len(failures) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_talk_and_its_daemon(number: int, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.wav", synthetic_speech(seconds=50), 16_000)
    options = ["--engines", SCRIPTED, "--wav", str(tmp_path / "long.wav")]
    options += ["--out", str(tmp_path / "out.wav"), "--log", str(tmp_path / "log")]
    with subprocess.Popen(
        [sys.executable, str(module.RUN), "talk", *options, "--set", "log.level=debug"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as talk:
        assert talk.stderr is not None
        assert talk.stderr.readline() == "starting a daemon, and waiting until it is ready\n"
        # Ctrl-C comes while it talks, SIGTERM while the daemon starts.
        _await_line(tmp_path / "log", "a turn opens" if number == signal.SIGINT else "", talk)
        daemons = psutil.Process(talk.pid).children()
        talk.send_signal(number)
        _, err = talk.communicate(timeout=30)
    assert (talk.returncode, err) == (128 + number, "")
    assert daemons
    assert not any(daemon.is_running() for daemon in daemons)
    assert (tmp_path / "out.wav").exists() == (number == signal.SIGINT)


def _await_line(log: Path, word: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 90
    while not (log.exists() and word in log.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
