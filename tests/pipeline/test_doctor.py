"""Doctor names what is wrong and what mends it, and fails exactly when something cannot work."""

from __future__ import annotations

import errno
import http.server
import json
import os
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline import doctor_facts, doctor_port
from pipeline.access import key_file
from pipeline.commands.doctor import examine
from pipeline.config import Config, load_config
from pipeline.doctor_checks import judge
from pipeline.doctor_facts import (
    certificate_fact,
    codecs_fact,
    devices_fact,
    disk_free,
    gather,
    gpu_fact,
    keys_fact,
    llm_fact,
    model_facts,
    torch_version,
)
from pipeline.doctor_port import port_fact
from pipeline.doctor_types import (
    CertificateFact,
    Check,
    CodecsFact,
    DevicesFact,
    Facts,
    GpuFact,
    KeysFact,
    LlmFact,
    ModelFact,
    PortFact,
    Running,
)
from services.access.keys import digest_of
from services.access.public import CHALLENGE
from services.xiaozhi.device_file import Device, DeviceFile, Visit
from tests.pipeline.conftest import Run
from tests.talk.certificates import make_certificate, serving_context
from tts_engine.errors import ConfigError

FREE = PortFact(state="free")
GOOD = Facts(
    python=(3, 11, 7),
    cores=4,
    memory_free=8 << 30,
    models={"kokoro": ModelFact(status="present", bytes=92_000_000)},
    models_root="/m",
    disk_free=10 << 30,
    codecs=CodecsFact(version="18.1.0"),
    keys=KeysFact(file="/k"),
    addresses=("192.168.1.5", "fd00::5"),
    names=frozenset({"box", "box.local"}),
    now=datetime(2026, 12, 1, tzinfo=UTC),
)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where keys and certificates are kept."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("DUPLEXD_API_KEY", raising=False)
    return tmp_path / "duplexd"


def config(*overrides: str, **environ: str) -> Config:
    return load_config(None, overrides, environ=environ)


def find(name: str, facts: Facts, *overrides: str) -> Check:
    return next(each for each in judge(config(*overrides), facts) if each.name == name)


# --- judging --------------------------------------------------------------------------------


def test_a_good_machine() -> None:
    checks = judge(config(), GOOD)
    assert [check.name for check in checks] == [
        "python",
        "cores",
        "threads",
        "memory",
        "model kokoro",
        "disk",
        "codecs",
        "llm",
        "port",
        "microphone",
        "keys",
        "certificate",
        "devices",
        "gpu",
    ]
    assert {check.status for check in checks if check.name != "certificate"} == {"ok"}
    assert find("certificate", GOOD).status == "skip"
    assert all(check.fix == "" for check in checks)


def test_what_is_not_ok_says_what_mends_it() -> None:
    bad = Facts(
        python=(3, 13, 0),
        cores=1,
        memory_free=0,
        models={"kokoro": ModelFact(status="missing", bytes=92_000_000)},
        models_error="nonsense",
        port=PortFact(state="taken"),
        codecs=CodecsFact(error="libavcodec is broken"),
        keys=KeysFact(required=True, error="no keys", fix="Delete them."),
        certificate=CertificateFact(error="expired", fix="Renew it"),
        devices=DevicesFact(error="no devices", fix="Restore it."),
    )
    checks = judge(config("threads.tts=9", "server.host=0.0.0.0", "llm.base_url=http://h"), bad)
    assert {check.name: check.status for check in checks} == {
        "python": "fail",
        "cores": "warn",
        "threads": "warn",
        "memory": "warn",
        "models": "fail",
        "model kokoro": "warn",
        "disk": "fail",
        "codecs": "fail",
        "llm": "fail",
        "port": "fail",
        "microphone": "warn",
        "keys": "fail",
        "certificate": "fail",
        "devices": "fail",
        "gpu": "ok",
    }
    assert all(check.fix for check in checks if check.status != "ok")


@pytest.mark.parametrize(
    ("status", "overrides", "verdict", "said"),
    [
        ("present", [], "ok", "92 MB"),
        ("unverified", [], "ok", "verified at first use"),
        ("missing", [], "warn", "missing, 92 MB; `run.py serve` fetches it"),
        ("corrupt", [], "warn", "corrupt, 92 MB; `run.py serve` fetches it"),
        ("missing", ["models.auto_fetch=false"], "fail", "missing, 92 MB"),
        ("missing", ["models.offline=true"], "fail", "missing, 92 MB"),
    ],
)
def test_models(status: Any, overrides: list[str], verdict: str, said: str) -> None:
    facts = replace(GOOD, models={"kokoro": ModelFact(status=status, bytes=92_000_000)})
    check = find("model kokoro", facts, *overrides)
    assert check.status == verdict
    assert said in check.detail
    assert ("run.py models fetch kokoro" in check.fix) == (verdict != "ok")
    offline = "models.offline=true" in overrides
    assert ("Set models.offline to false" in check.fix) == offline
    assert ("copy the folder kokoro from another machine to /m" in check.fix) == offline


def test_the_disk_must_hold_a_missing_model_twice() -> None:
    missing = {"kokoro": ModelFact(status="missing", bytes=1_000_000_000)}
    facts = replace(GOOD, models=missing, disk_free=1_900_000_000)
    check = find("disk", facts)
    assert check.status == "fail"
    assert check.detail == "1.9 GB free in /m, 2.0 GB needed"
    assert find("disk", replace(facts, disk_free=2_000_000_000)).status == "ok"


@pytest.mark.parametrize(
    ("fact", "model", "status", "said"),
    [
        (None, "", "fail", "does not answer: not asked"),
        (LlmFact(url="http://h", error="refused"), "", "fail", "http://h does not answer: refused"),
        (LlmFact(url="http://h", status=401), "", "fail", "refuses the key (HTTP 401)"),
        (LlmFact(url="http://h", status=404), "", "warn", "answers HTTP 404"),
        (LlmFact(url="http://h", status=200, models=("a",)), "b", "warn", "not list the model b"),
        (LlmFact(url="http://h", status=200), "", "warn", "lists no models"),
        (LlmFact(url="http://h", status=200), "b", "ok", "http://h answers; model b"),
        (LlmFact(url="http://h", status=200, models=("a",)), "", "ok", "answers; model a"),
    ],
)
def test_the_llm_server(fact: LlmFact | None, model: str, status: str, said: str) -> None:
    facts = replace(GOOD, llm=fact)
    check = find("llm", facts, "llm.base_url=http://h", f"llm.model={model}")
    assert check.status == status
    assert said in check.detail


def test_an_llm_without_a_server() -> None:
    assert "qwen2.5-coder-1.5b, a demo brain" in find("llm", GOOD).detail
    assert find("llm", GOOD, "llm.provider=scripted").detail == "scripted"


def taken_by(*, secure: bool = False, locked: bool = False, deaf: tuple[str, ...] = ()) -> PortFact:
    daemon = Running(secure=secure, locked=locked)
    return PortFact(state="duplexd", daemon=daemon, at="127.0.0.1:8080", deaf=deaf)


def test_a_port_that_a_duplexd_has() -> None:
    check = find("port", replace(GOOD, port=taken_by()))
    assert check == Check(name="port", status="ok", detail="a duplexd is running at 127.0.0.1:8080")
    assert find("microphone", replace(GOOD, port=taken_by())).status == "ok"


@pytest.mark.parametrize(
    ("port", "overrides", "required", "said", "page"),
    [
        (
            taken_by(deaf=("192.168.1.5",)),
            ["server.host=0.0.0.0", "server.tls=auto"],
            True,
            "speaks no TLS and asks for no key and does not answer at 192.168.1.5",
            "http://127.0.0.1:8080/",
        ),
        (
            taken_by(secure=True, locked=True),
            [],
            False,
            "speaks TLS and asks for a key",
            "https://127.0.0.1:8080/",
        ),
    ],
)
def test_a_port_that_another_duplexd_has(
    port: PortFact, overrides: list[str], required: bool, said: str, page: str
) -> None:
    facts = replace(GOOD, port=port, keys=KeysFact(required=required))
    check = find("port", facts, *overrides)
    assert check.status == "warn"
    assert check.detail == f"a duplexd is running at 127.0.0.1:8080, but {said}"
    assert "End it and run `run.py serve`" in check.fix
    assert page in check.fix
    assert find("microphone", facts, *overrides).status == "skip"


@pytest.mark.parametrize(
    ("fact", "said", "fix"),
    [
        (PortFact(state="taken"), "taken by another program", "End it, or choose another"),
        (PortFact(state="taken"), "taken by another program", "--set server.port=8081"),
        (PortFact(state="forbidden", error="not allowed"), "not allowed", "above 1023"),
        (PortFact(state="unknown", error="slow"), "slow", "Look again"),
        (
            PortFact(state="foreign", error="no such name"),
            "no such name",
            "(192.168.1.5, fd00::5, 127.0.0.1)",
        ),
    ],
)
def test_a_port_that_cannot_be_had(fact: PortFact, said: str, fix: str) -> None:
    check = find("port", replace(GOOD, port=fact))
    assert (check.status, check.detail) == ("fail", f"127.0.0.1:8080: {said}")
    assert fix in check.fix
    microphone = find("microphone", replace(GOOD, port=fact))
    assert microphone.status == ("skip" if fact.state == "foreign" else "ok")


def test_a_port_of_an_ipv6_address() -> None:
    assert find("port", GOOD, 'server.host="::1"').detail == "[::1]:8080 is free"


@pytest.mark.parametrize(
    ("overrides", "status", "said"),
    [
        ([], "ok", "open http://127.0.0.1:8080/ in a browser of this machine"),
        (['server.host="::1"'], "ok", "open http://[::1]:8080/ in a browser of this machine"),
        (
            ["server.host=localhost", "server.port=0"],
            "ok",
            "open http://localhost:PORT/ in a browser of this machine",
        ),
        (["server.tls=auto"], "ok", "open https://127.0.0.1:8080/ in a browser of this machine"),
        (["server.host=0.0.0.0", "server.tls=auto"], "ok", "open https://192.168.1.5:8080/"),
        (
            ['server.host="::"', "server.tls=auto"],
            "ok",
            "open https://192.168.1.5:8080/ or https://[fd00::5]:8080/",
        ),
        (
            ["server.host=0.0.0.0"],
            "warn",
            "without TLS no browser gives it to http://192.168.1.5:8080/; "
            "on this machine open http://localhost:8080/",
        ),
        (
            ["server.host=192.168.1.5"],
            "warn",
            "without TLS no browser gives it to http://192.168.1.5:8080/",
        ),
    ],
)
def test_where_a_browser_gives_the_microphone(overrides: list[str], status: str, said: str) -> None:
    check = find("microphone", GOOD, *overrides)
    assert (check.status, check.detail) == (status, said)
    assert ("run.py serve --tls auto" in check.fix) == (status == "warn")


def test_a_machine_without_a_network() -> None:
    check = find("microphone", replace(GOOD, addresses=()), "server.host=0.0.0.0")
    assert "http://localhost:8080/" in check.detail


@pytest.mark.parametrize(
    ("fact", "status", "said"),
    [
        (KeysFact(file="/k"), "ok", "none is asked for on 127.0.0.1; no keys in /k"),
        (KeysFact(file="/k", required=True, count=1), "ok", "one is asked for; 1 key in /k"),
        (
            KeysFact(file="/k", required=True),
            "ok",
            "one is asked for; no keys in /k; `run.py serve` makes the first and shows it once",
        ),
        (
            KeysFact(file="/k", required=True, environment=True),
            "ok",
            "one is asked for; no keys in /k and one in DUPLEXD_API_KEY",
        ),
        (KeysFact(error="broken", fix="Delete it"), "warn", "broken"),
        (KeysFact(error="broken", fix="Delete it", required=True), "fail", "broken"),
    ],
)
def test_keys(fact: KeysFact, status: str, said: str) -> None:
    check = find("keys", replace(GOOD, keys=fact))
    assert (check.status, check.detail, check.fix) == (status, said, fact.fix)


@pytest.mark.parametrize(
    ("overrides", "status", "said"),
    [
        ([], "ok", "programs of this machine alone; boards need --host 0.0.0.0"),
        (["xiaozhi.enabled=false"], "skip", "xiaozhi.enabled is off"),
        (
            ["server.host=0.0.0.0"],
            "ok",
            "their OTA address is http://192.168.1.5:8080/xiaozhi/ota/; "
            "2 may connect, 1 wait: run.py devices list",
        ),
        (
            ["server.host=0.0.0.0", "server.tls=auto"],
            "warn",
            "boards trust no certificate that was made here, at "
            "https://192.168.1.5:8080/xiaozhi/ota/; 2 may connect, 1 wait: run.py devices list",
        ),
        (
            ["xiaozhi.trusted_proxies=[127.0.0.1]"],
            "ok",
            "the OTA address is the proxy's, with /xiaozhi/ota/; "
            "2 may connect, 1 wait: run.py devices list",
        ),
    ],
)
def test_devices(overrides: list[str], status: str, said: str) -> None:
    facts = replace(GOOD, devices=DevicesFact(known=2, waiting=1))
    check = find("devices", facts, *overrides)
    assert (check.status, check.detail) == (status, said)
    assert bool(check.fix) == (status == "warn")


def test_how_many_devices_there_are(tmp_path: Path) -> None:
    file = DeviceFile(tmp_path / "devices.json")
    settings = config(f"xiaozhi.devices_file={file.path}")
    assert devices_fact(settings) == DevicesFact()
    file.add(Device(id="aa:bb:cc:dd:ee:01"))
    file.enrol(Visit(id="aa:bb:cc:dd:ee:02", client_id="uuid"), open_door=False)
    assert devices_fact(settings) == DevicesFact(known=1, waiting=1)
    file.path.write_text("{")
    assert "not a file of devices" in devices_fact(settings).error
    off = config(f"xiaozhi.devices_file={file.path}", "xiaozhi.enabled=false")
    assert devices_fact(off) == DevicesFact()


def certified(*covers: str, ends: datetime = datetime(2027, 12, 1, tzinfo=UTC)) -> Facts:
    addresses = tuple(each for each in covers if each[0].isdigit())
    names = tuple(each for each in covers if each not in addresses)
    fact = CertificateFact(file="/c", ends=ends, names=names, addresses=addresses)
    return replace(GOOD, certificate=fact)


OPEN = ["server.host=0.0.0.0", "server.tls=auto"]


@pytest.mark.parametrize(
    ("facts", "overrides", "said"),
    [
        (certified("Box", "localhost", "192.168.1.5"), OPEN, "for Box, localhost, 192.168.1.5"),
        (certified("box.local"), OPEN, "for box.local; not for 192.168.1.5"),
        (certified("*.local"), OPEN, "for *.local; not for 192.168.1.5"),
        (certified("localhost"), ["server.tls=auto"], "for localhost; not for 127.0.0.1"),
    ],
)
def test_a_good_certificate(facts: Facts, overrides: list[str], said: str) -> None:
    check = find("certificate", facts, *overrides)
    assert (check.status, check.fix) == ("ok", "")
    assert check.detail == f"/c, valid until 2027-12-01, {said}"


@pytest.mark.parametrize(
    ("facts", "said", "fix"),
    [
        (certified(), "for no name and no address; clients find", "names it, or run"),
        (certified("10.0.0.1"), "clients find this machine by none of these", "names it, or run"),
        (certified("*.example.com"), "by none of these", "names it, or run"),
        (
            certified("voice.example.com", "box"),
            "does not answer to voice.example.com",
            "--set 'server.allowed_hosts=[other,voice.example.com]'",
        ),
        (certified("box", ends=datetime(2026, 12, 10, tzinfo=UTC)), "soon", "Renew it"),
    ],
)
def test_a_certificate_worth_a_word(facts: Facts, said: str, fix: str) -> None:
    check = find("certificate", facts, *OPEN, "server.allowed_hosts=[other]")
    assert check.status == "warn"
    assert said in check.detail
    assert fix in check.fix


@pytest.mark.parametrize(
    ("fact", "status", "said"),
    [
        (CodecsFact(version="1"), "ok", "opus and mp3, by PyAV 1"),
        (CodecsFact(version="1", missing=("a", "b")), "warn", "PyAV 1 has no a and no b"),
        (CodecsFact(error="no such module"), "fail", "cannot be loaded: no such module"),
    ],
)
def test_codecs(fact: CodecsFact, status: str, said: str) -> None:
    check = find("codecs", replace(GOOD, codecs=fact))
    assert check.status == status
    assert said in check.detail
    assert ("--reinstall-package av " in check.fix) == (status != "ok")


def test_what_is_installed_anew_is_in_the_lock() -> None:
    fix = find("codecs", replace(GOOD, codecs=CodecsFact(error="x"))).fix
    root = Path(doctor_facts.__file__).parents[1]
    [lock] = [word for word in fix.replace("`", " ").split() if word.startswith("configs/")]
    assert "\nav==" in (root / lock).read_text()


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (GpuFact(), "none found; none is needed"),
        (GpuFact(error="nvidia-smi: broken"), "none found (nvidia-smi: broken); none is needed"),
        (GpuFact(torch="2.5"), "none found; none is needed"),
        (
            GpuFact(name="A1", memory="24 GiB", driver="550", torch="2.5 with CUDA 12.4"),
            "A1, 24 GiB, driver 550; torch 2.5 with CUDA 12.4",
        ),
        (GpuFact(name="A1"), "A1; torch is not installed; none is needed"),
    ],
)
def test_a_graphics_card_is_never_wrong(fact: GpuFact, said: str) -> None:
    check = find("gpu", replace(GOOD, gpu=fact))
    assert (check.status, check.detail) == ("ok", said)


def test_a_graphics_card_that_is_asked_for_has_to_be_there() -> None:
    asked = ("asr.provider=funasr", "asr.funasr.device=cuda", "tts.provider=cosyvoice")
    check = find("gpu", replace(GOOD, gpu=GpuFact(torch="2.13")), *asked)
    assert (check.status, check.detail) == ("fail", "none found; asked for by asr.funasr.device")
    assert "auto" in check.fix
    both = (*asked, "tts.cosyvoice.device=cuda:1")
    check = find("gpu", replace(GOOD, gpu=GpuFact(name="A1")), *both)
    assert check.status == "fail"
    assert check.detail == (
        "torch is not installed; asked for by asr.funasr.device and tts.cosyvoice.device"
    )
    assert check.fix == "Run `make engines`."
    assert find("gpu", replace(GOOD, gpu=GpuFact(name="A1", torch="2")), *both).status == "ok"


def test_a_wrong_configuration_is_one_of_the_findings() -> None:
    def refuse() -> Config:
        raise ConfigError("vad.x: unknown key", mend="Look it up.")

    first, *rest = examine(refuse, gather=lambda _: GOOD)
    assert first == Check(
        name="config", status="fail", detail="vad.x: unknown key", fix="Look it up."
    )
    # what the configuration decides is not guessed
    assert [(check.name, check.status) for check in rest] == [
        ("python", "ok"),
        ("cores", "ok"),
        ("codecs", "ok"),
        ("gpu", "ok"),
        ("others", "skip"),
    ]


def test_the_command_that_fetches_names_another_folder(tmp_path: Path) -> None:
    facts = gather(config(f"models.dir={tmp_path}", "server.port=0"))
    fix = find("model kokoro", facts).fix
    assert fix == f"Run `run.py models fetch kokoro --models-dir {tmp_path}`."


def test_the_configuration_file_is_named() -> None:
    first = examine(Config, file=Path("my.yaml"), gather=lambda _: GOOD)[0]
    assert (first.status, first.detail) == ("ok", "my.yaml")


def test_every_check_is_in_the_guide() -> None:
    guide = (Path(doctor_facts.__file__).parents[1] / "docs" / "user-guide.md").read_text()
    table = guide.partition("| check | looks at |")[2].partition("\n\n")[0]
    known = {name for row in table.splitlines() for name in row.split(" | ")[0].split("`")[1::2]}
    broken = replace(GOOD, models_error="x")
    checks = [
        *judge(config(), broken),
        *examine(lambda: load_config(None, ["vad.x=1"], environ={}), gather=lambda _: GOOD),
    ]
    names = {"model NAME" if each.name.startswith("model ") else each.name for each in checks}
    assert names == known


# --- finding out ----------------------------------------------------------------------------


@contextmanager
def serving(
    answers: dict[str, tuple[int, str]],
    headers: dict[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> Iterator[tuple[int, list[str]]]:
    """An HTTP server on loopback; yields its port and the keys that it is shown."""
    keys: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("Authorization", ""))
            status, body = answers.get(self.path, (404, ""))
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer((host, 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, keys
        finally:
            server.shutdown()
            thread.join()


def test_a_free_port() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    assert port_fact("127.0.0.1", port) == FREE
    assert port_fact("127.0.0.1", 0) == FREE


DUPLEXD = '{"service": "duplexd"}'


@pytest.mark.parametrize(
    ("body", "daemon"),
    [(DUPLEXD, Running(secure=False, locked=False)), ("hello", None)],
)
def test_a_port_that_is_taken(body: str, daemon: Running | None) -> None:
    with serving({"/healthz": (200, body)}) as (port, _):
        fact = port_fact("127.0.0.1", port)
    at = f"127.0.0.1:{port}" if daemon else ""
    assert fact == PortFact(state="duplexd" if daemon else "taken", daemon=daemon, at=at)


@pytest.mark.parametrize(
    ("host", "addresses", "answers", "deaf"),
    [
        ("0.0.0.0", ["127.0.0.2", "fd00::5"], "127.0.0.1", ("127.0.0.2",)),
        ("0.0.0.0", ["127.0.0.2"], "127.0.0.2", ("0.0.0.0",)),
        ("0.0.0.0", ["127.0.0.2"], "0.0.0.0", ()),
    ],
)
def test_where_the_daemon_that_has_the_port_answers(
    host: str,
    addresses: list[str],
    answers: str,
    deaf: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_port, "own_addresses", lambda: addresses)
    with serving({"/healthz": (200, DUPLEXD)}, host=answers) as (port, _):
        fact = port_fact(host, port)
    at = "127.0.0.2" if answers == "127.0.0.2" else "127.0.0.1"
    daemon = Running(secure=False, locked=False)
    assert fact == PortFact(state="duplexd", daemon=daemon, at=f"{at}:{port}", deaf=deaf)


@pytest.mark.parametrize(
    ("challenge", "daemon"),
    [(CHALLENGE, Running(secure=False, locked=True)), ('Bearer realm="x"', None)],
)
def test_a_port_whose_owner_wants_a_key(challenge: str, daemon: Running | None) -> None:
    with serving({"/healthz": (401, "")}, {"WWW-Authenticate": challenge}) as (port, _):
        assert port_fact("127.0.0.1", port).daemon == daemon


def test_a_port_whose_owner_has_tls(tmp_path: Path) -> None:
    tls = serving_context(*make_certificate(tmp_path, "elsewhere"))
    with serving({"/healthz": (200, DUPLEXD)}, tls=tls) as (port, _):
        assert port_fact("127.0.0.1", port).daemon == Running(secure=True, locked=False)


def test_a_port_whose_owner_speaks_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            for _ in range(2):  # it is asked with TLS too
                server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert port_fact("127.0.0.1", server.getsockname()[1]) == PortFact(state="taken")
        thread.join()


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "no..host", "*"])
def test_an_address_that_is_not_this_machines(host: str) -> None:
    fact = port_fact(host, 8080)
    assert fact.state == "foreign"
    assert fact.error


def test_a_port_that_may_not_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    assert port_fact("127.0.0.1", 80) == PortFact(state="forbidden", error="Permission denied")


def test_the_llm_server_is_asked_with_the_key() -> None:
    body = json.dumps({"data": [{"id": "a"}, {"id": "b"}]})
    with serving({"/v1/models": (200, body)}) as (port, keys):
        fact = llm_fact(config(f"llm.base_url=http://127.0.0.1:{port}/v1/", OPENAI_API_KEY="k"))
    assert fact == LlmFact(url=f"http://127.0.0.1:{port}/v1", status=200, models=("a", "b"))
    assert keys == ["Bearer k"]


@pytest.mark.parametrize("body", ["hello", "[]", '{"data": 3}', '{"data": [{}]}'])
def test_a_server_that_is_no_llm(body: str) -> None:
    with serving({"/v1/models": (200, body)}) as (port, keys):
        fact = llm_fact(config(f"llm.base_url=http://127.0.0.1:{port}/v1"))
    assert (fact.status, fact.models, keys) == (200, (), [""])


def test_an_llm_server_that_is_not_there() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        fact = llm_fact(config(f"llm.base_url=http://me:secret@127.0.0.1:{port}/v1"))
    assert fact.status is None
    assert fact.error
    assert "secret" not in fact.url


def test_a_key_that_no_header_can_hold() -> None:
    fact = llm_fact(config("llm.base_url=http://127.0.0.1:1", OPENAI_API_KEY="密"))
    assert fact.status is None
    assert fact.error


def test_models_that_are_not_there(tmp_path: Path) -> None:
    facts, error = model_facts(config(f"models.dir={tmp_path}"), cores=2)
    assert error == ""
    assert [*facts] == ["whisper-base", "kokoro", "qwen2.5-coder-0.5b"]
    assert {fact.status for fact in facts.values()} == {"missing"}
    assert facts["qwen2.5-coder-0.5b"].bytes == 491_400_064


def test_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    facts, error = model_facts(
        config(f"models.dir={tmp_path}"), cores=2, manifest=tmp_path / "gone.yaml"
    )
    assert facts == {}
    assert "gone.yaml" in error


def test_a_model_that_the_manifest_does_not_know(tmp_path: Path) -> None:
    facts, error = model_facts(config("asr.model=whisper-bas", f"models.dir={tmp_path}"), cores=2)
    assert facts == {}
    assert "whisper-base" in error


def test_room_in_a_folder_that_is_to_be_made(tmp_path: Path) -> None:
    free = disk_free(tmp_path)
    assert abs(disk_free(tmp_path / "a" / "b") - free) < 1 << 30


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own torch is none of the machine's."""
    monkeypatch.setattr(doctor_facts, "torch_version", lambda: "")


def fake_smi(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.defpath)


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize(
    ("script", "fact"),
    [
        (
            "echo 'A1, 24 MiB, 550.1'; echo 'A2, 24 MiB, 550.1'",
            GpuFact(name="A1", memory="24 MiB", driver="550.1"),
        ),
        ("echo A1", GpuFact(name="A1")),
        ("echo No devices were found; exit 6", GpuFact(error="nvidia-smi: No devices were found")),
        ("echo broken >&2; exit 9", GpuFact(error="nvidia-smi: broken")),
        ("exit 0", GpuFact(error="nvidia-smi: ")),
    ],
)
def test_the_graphics_card(
    tmp_path: Path, script: str, fact: GpuFact, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_smi(tmp_path, script, monkeypatch)
    assert gpu_fact() == fact


def test_a_graphics_driver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, "exec sleep 60", monkeypatch)
    monkeypatch.setattr(doctor_facts, "_TIMEOUT_S", 0.05)
    assert "timed out" in gpu_fact().error


@pytest.mark.usefixtures("no_torch")
def test_no_graphics_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_fact() == GpuFact()


def install(folder: Path, name: str, version: str, *needs: str) -> None:
    """Puts a package's metadata, and nothing else of it, where imports look."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    (info / "METADATA").write_text("\n".join(lines))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, with a torch that must not be imported."""
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text("raise AssertionError('imported')")
    # Nor is the one of these tests to be found.
    others = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(site), *others])
    return site


def test_torch_is_not_imported(site: Path) -> None:
    assert torch_version() == "of unknown version"
    runtime = "nvidia-cuda-runtime-cu12==12.4.127; platform_system == 'Linux'"
    install(site, "torch", "2.5.1", "numpy", runtime)
    assert torch_version() == "2.5.1"  # of this machine's kind without CUDA
    install(site, "nvidia-cuda-runtime-cu12", "12.4.127")
    assert torch_version() == "2.5.1 with CUDA 12.4.127"


def test_codecs_of_this_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    fact = codecs_fact()
    assert (fact.missing, fact.error) == ((), "")
    assert fact.version
    monkeypatch.setattr(doctor_facts, "_ENCODERS", ("libopus", "libnothing"))
    assert codecs_fact().missing == ("libnothing",)
    monkeypatch.setitem(sys.modules, "av", None)
    assert "av" in codecs_fact().error


def test_keys_are_counted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, free = config("server.host=0.0.0.0").server, config().server
    file = data / "keys.json"
    assert keys_fact(free) == KeysFact(file=str(file))
    key_file(free).add(digest_of("x"))
    monkeypatch.setenv("DUPLEXD_API_KEY", "0123456789abcdef")
    assert keys_fact(free) == KeysFact(count=1, file=str(file))
    assert keys_fact(closed) == KeysFact(required=True, count=1, file=str(file), environment=True)
    monkeypatch.setenv("DUPLEXD_API_KEY", "short")
    assert keys_fact(free).error == ""
    assert "DUPLEXD_API_KEY is too short" in keys_fact(closed).error
    file.write_text("nonsense")
    assert "not a file of API keys" in keys_fact(free).error
    assert keys_fact(free).fix


def test_the_certificate_of_its_own(data: Path) -> None:
    assert certificate_fact(config().server) is None
    fact = certificate_fact(config("server.tls=auto").server)
    assert fact is not None
    assert fact.file == str(data / "tls" / "server.crt")
    assert "localhost" in fact.names
    assert {"127.0.0.1", "::1"} <= {*fact.addresses}
    facts = gather(config("server.tls=auto", "server.port=0"))
    assert find("certificate", facts, "server.tls=auto").status == "ok"


def test_a_certificate_that_was_given(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "box.example.com", "10.0.0.1")
    fact = certificate_fact(config(f"server.tls='{cert},{key}'").server)
    assert fact is not None
    assert (fact.names, fact.addresses) == (("box.example.com",), ("10.0.0.1",))
    assert fact.ends > datetime.now(UTC)
    make_certificate(tmp_path)
    fact = certificate_fact(config(f"server.tls='{cert},{key}'").server)
    assert fact is not None
    assert (fact.names, fact.addresses, fact.error) == ((), (), "")


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "box", days=0.5)
    for path in (cert, tmp_path / "gone"):
        fact = certificate_fact(config(f"server.tls='{path},{key}'").server)
        assert fact is not None
        assert str(path) in fact.error
        assert fact.fix


def test_what_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def wait(*_: object) -> str:
        done.wait(60)
        return "free"

    monkeypatch.setattr(doctor_facts, "_LIMIT_S", 0.05)
    monkeypatch.setattr(doctor_facts, "port_fact", wait)
    monkeypatch.setattr(doctor_facts, "llm_fact", wait)
    facts = gather(config("llm.base_url=http://me:secret@h/v1"))
    done.set()
    assert "could not be found out in 0.05 s" in facts.port.error
    assert facts.llm == LlmFact(url="http://h/v1", error="not within 0.05 s")


def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor_facts, "port_fact", fail)
    with pytest.raises(ZeroDivisionError):
        gather(config())


def test_the_command_checks_what_would_be_served(run: Run, data: Path) -> None:
    options = ["--port", "0", "--engines", "scripted:instant", "--json"]
    code, out, _ = run("doctor", "--host", "0.0.0.0", "--tls", "auto", *options)
    report = json.loads(out)
    assert (code, report["ok"]) == (0, True)
    assert all({*check} == {"name", "status", "detail", "fix"} for check in report["checks"])
    found = {check["name"]: check["detail"] for check in report["checks"]}
    assert found["microphone"].startswith("open https://")
    assert found["certificate"].startswith(str(data / "tls"))


def test_this_machine(tmp_path: Path) -> None:
    facts = gather(config(f"models.dir={tmp_path}", "server.port=0"))
    assert facts.python >= (3, 11)
    assert facts.cores >= 1
    assert facts.memory_free > 1 << 20
    assert facts.models["kokoro"].status == "missing"
    assert facts.disk_free > 0
    assert (facts.port, facts.llm, facts.models_error) == (FREE, None, "")


def test_memory_is_bounded_by_the_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_facts, "memory_left", lambda: 5)
    with serving({}) as (port, _):
        facts = gather(config("server.port=0", f"llm.base_url=http://127.0.0.1:{port}"))
    assert facts.memory_free == 5
    assert facts.llm is not None
    assert facts.llm.status == 404
