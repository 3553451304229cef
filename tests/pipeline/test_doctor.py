"""Doctor names what is wrong and what mends it, and fails exactly when something cannot work."""

from __future__ import annotations

import http.server
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import doctor_facts
from pipeline.commands.doctor import examine
from pipeline.config import Config, load_config
from pipeline.doctor_checks import Check, Facts, LlmFact, ModelFact, judge
from pipeline.doctor_facts import (
    disk_free,
    gather,
    gpu_name,
    llm_fact,
    model_facts,
    port_state,
)
from tts_engine.errors import ConfigError

GOOD = Facts(
    python=(3, 11, 7),
    cores=4,
    memory_free=8 << 30,
    models={"kokoro": ModelFact(status="present", bytes=92_000_000)},
    models_root="/m",
    disk_free=10 << 30,
)


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
        "llm",
        "port",
        "gpu",
    ]
    assert {check.status for check in checks} == {"ok"}
    assert all(check.fix == "" for check in checks)


def test_what_is_not_ok_says_what_mends_it() -> None:
    bad = Facts(
        python=(3, 13, 0),
        cores=1,
        memory_free=0,
        models={"kokoro": ModelFact(status="missing", bytes=92_000_000)},
        models_error="nonsense",
        port="taken by another program",
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
        "llm": "fail",
        "port": "fail",
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


def test_a_port_that_a_duplexd_has() -> None:
    check = find("port", replace(GOOD, port="duplexd"))
    assert check == Check(name="port", status="ok", detail="a duplexd is running at 127.0.0.1:8080")


def test_a_port_that_somebody_else_has() -> None:
    check = find("port", replace(GOOD, port="taken by another program"))
    assert check.status == "fail"
    assert "--set server.port=8081" in check.fix


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


# --- finding out ----------------------------------------------------------------------------


@contextmanager
def serving(answers: dict[str, tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """An HTTP server on loopback; yields its port and the keys that it is shown."""
    keys: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("Authorization", ""))
            status, body = answers.get(self.path, (404, ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
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
    assert port_state("127.0.0.1", port) == "free"
    assert port_state("127.0.0.1", 0) == "free"


@pytest.mark.parametrize(
    ("body", "state"),
    [('{"service": "duplexd"}', "duplexd"), ("hello", "taken by another program")],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_is_taken(host: str, body: str, state: str) -> None:
    with serving({"/healthz": (200, body)}) as (port, _):
        assert port_state(host, port) == state


def test_a_port_whose_owner_speaks_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        assert port_state("127.0.0.1", server.getsockname()[1]) == "taken by another program"
        thread.join()


def test_an_address_of_another_machine() -> None:
    assert "assign" in port_state("192.0.2.1", 8080)


def test_a_name_that_nobody_has() -> None:
    assert port_state("no such host", 8080) not in ("free", "duplexd", "")


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


def fake_smi(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.defpath)


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("echo 'A1, 24 GiB'; echo 'A2, 24 GiB'", "A1, 24 GiB"),
        ("echo broken; exit 9", ""),
        ("exit 0", ""),
    ],
)
def test_the_graphics_card(
    tmp_path: Path, script: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_smi(tmp_path, script, monkeypatch)
    assert gpu_name() == name


def test_a_graphics_driver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, "exec sleep 60", monkeypatch)
    monkeypatch.setattr(doctor_facts, "_TIMEOUT_S", 0.05)
    assert gpu_name() == ""


def test_no_graphics_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_name() == ""


def test_this_machine(tmp_path: Path) -> None:
    facts = gather(config(f"models.dir={tmp_path}", "server.port=0"))
    assert facts.python >= (3, 11)
    assert facts.cores >= 1
    assert facts.memory_free > 1 << 20
    assert facts.models["kokoro"].status == "missing"
    assert facts.disk_free > 0
    assert (facts.port, facts.llm, facts.models_error) == ("free", None, "")


def test_memory_is_bounded_by_the_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_facts, "memory_left", lambda: 5)
    with serving({}) as (port, _):
        facts = gather(config("server.port=0", f"llm.base_url=http://127.0.0.1:{port}"))
    assert facts.memory_free == 5
    assert facts.llm is not None
    assert facts.llm.status == 404
