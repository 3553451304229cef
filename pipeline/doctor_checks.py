"""What `doctor` makes of the facts it found: pure, one function a concern.

Facts are gathered by `pipeline.doctor_facts`; `pipeline.doctor_access` judges how clients get in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.budget import ThreadBudget
from pipeline.config_schema import Config
from pipeline.doctor_access import certificate, keys, microphone, port
from pipeline.doctor_devices import devices
from pipeline.doctor_types import Check, Facts, LlmFact, ModelFact
from pipeline.needs import MEMORY, local_model

#: resident memory of the daemon itself, bytes
_BASE_MEMORY = 300 << 20
#: installs a package anew, as the lock has it
_REINSTALL = (
    ".venv/bin/uv pip install --python .venv/bin/python --reinstall-package {} --require-hashes "
    "-r configs/locks/default.txt"
)


def judge(config: Config, facts: Facts) -> list[Check]:
    """The report, in the order in which it is read."""
    return [
        _python(facts),
        _cores(facts),
        _threads(config, facts),
        _memory(facts),
        *_models(config, facts),
        _disk(facts),
        _codecs(facts),
        _llm(config, facts),
        port(config.server, facts),
        microphone(config.server, facts),
        keys(config.server, facts.keys),
        certificate(config.server, facts),
        devices(config, facts),
        _gpu(facts, _wanted(config)),
    ]


def judge_machine(facts: Facts) -> list[Check]:
    """The part of the report that needs no configuration, for when that is wrong."""
    skipped = (
        "threads, memory, models, disk, llm, port, microphone, keys, certificate and devices "
        "wait for a right configuration"
    )
    return [
        _python(facts),
        _cores(facts),
        _codecs(facts),
        _gpu(facts),
        Check(name="others", status="skip", detail=skipped),
    ]


def _wanted(config: Config) -> list[str]:
    """The keys that ask for a GPU, of engines that run."""
    asked: dict[str, str | None] = {}
    if config.asr.provider == "funasr":
        funasr = config.asr.funasr
        asked = {
            "asr.funasr.device": funasr.device,
            "asr.funasr.streaming_device": funasr.streaming_device,
            "asr.funasr.offline_device": funasr.offline_device,
        }
    if config.tts.provider == "cosyvoice":
        asked["tts.cosyvoice.device"] = config.tts.cosyvoice.device
    return [key for key, device in asked.items() if device and device.startswith("cuda")]


def _gpu(facts: Facts, wanted: Sequence[str] = ()) -> Check:
    """Where nothing asks for one, nothing about it is wrong."""
    gpu = facts.gpu
    if wanted and not (gpu.name and gpu.torch):
        missing = "torch is not installed" if gpu.name else "none found"
        return Check(
            name="gpu",
            status="fail",
            detail=f"{missing}; asked for by {' and '.join(wanted)}",
            fix="Run `make engines`."
            if gpu.name
            else "Set them to `auto`, which takes what is there.",
        )
    found = ", ".join(filter(None, (gpu.name, gpu.memory, gpu.driver and f"driver {gpu.driver}")))
    if not found:
        found = f"none found{gpu.error and f' ({gpu.error})'}; none is needed"
    torch = f"torch {gpu.torch}" if gpu.torch else "torch is not installed; none is needed"
    return Check(name="gpu", status="ok", detail=f"{found}; {torch}" if gpu.name else found)


def _codecs(facts: Facts) -> Check:
    codecs = facts.codecs
    fix = f"Run `{_REINSTALL.format('av')}`."
    if codecs.error:
        detail = f"PyAV cannot be loaded: {codecs.error}"
        return Check(name="codecs", status="fail", detail=detail, fix=fix)
    if codecs.missing:
        detail = (
            f"PyAV {codecs.version} has no {' and no '.join(codecs.missing)}: /v1/audio/speech "
            "cannot give these formats"
        )
        return Check(name="codecs", status="warn", detail=detail, fix=fix)
    return Check(name="codecs", status="ok", detail=f"opus and mp3, by PyAV {codecs.version}")


def _python(facts: Facts) -> Check:
    version = ".".join(map(str, facts.python))
    if (3, 11) <= facts.python < (3, 13):
        return Check(name="python", status="ok", detail=version)
    return Check(
        name="python",
        status="fail",
        detail=f"{version}; 3.11 or 3.12 is needed",
        fix="Install one of them, then `make clean run PYTHON=python3.12`.",
    )


def _cores(facts: Facts) -> Check:
    if facts.cores >= 2:
        return Check(name="cores", status="ok", detail=f"{facts.cores} usable")
    return Check(
        name="cores",
        status="warn",
        detail="1 usable; the embedded models want 2",
        fix="Give the process another core, or use an LLM server: set OPENAI_BASE_URL.",
    )


def _threads(config: Config, facts: Facts) -> Check:
    budget = ThreadBudget.of(config.threads, facts.cores)
    detail = f"asr {budget.asr}, tts {budget.tts}, llm {budget.llm}"
    if not budget.warnings:
        return Check(name="threads", status="ok", detail=detail)
    return Check(
        name="threads",
        status="warn",
        detail=f"{detail}; {'; '.join(budget.warnings)}",
        fix="Set the threads section back to auto.",
    )


def _memory(facts: Facts) -> Check:
    needed = _BASE_MEMORY + sum(MEMORY.get(name, 0) for name in facts.models)
    detail = f"{_size(facts.memory_free)} free, about {_size(needed)} needed"
    if facts.memory_free >= needed:
        return Check(name="memory", status="ok", detail=detail)
    return Check(
        name="memory",
        status="warn",
        detail=detail,
        fix="Close other programs, or use an LLM server: set OPENAI_BASE_URL.",
    )


def _models(config: Config, facts: Facts) -> Iterator[Check]:
    if facts.models_error:
        yield Check(
            name="models",
            status="fail",
            detail=facts.models_error,
            fix="Run `git checkout configs/models.yaml`.",
        )
    for name, fact in facts.models.items():
        yield _model(config, name, fact, facts)


def _model(config: Config, name: str, fact: ModelFact, facts: Facts) -> Check:
    title, size = f"model {name}", _size(fact.bytes)
    match fact.status:
        case "present":
            return Check(name=title, status="ok", detail=size)
        case "unverified":
            return Check(name=title, status="ok", detail=f"{size}, to be verified at first use")
        case "corrupt" | "missing":
            fetched = config.models.auto_fetch and not config.models.offline
            later = "; `run.py serve` fetches it" if fetched else ""
            command = f"`run.py models fetch {name}{facts.fetch_options}`"
            fix = f"Run {command}."
            if config.models.offline:  # the command would not be allowed either
                fix = (
                    f"Set models.offline to false and run {command}, or copy the folder {name} "
                    f"from another machine to {facts.models_root}: docs/models.md."
                )
            return Check(
                name=title,
                status="warn" if fetched else "fail",
                detail=f"{fact.status}, {size}{later}",
                fix=fix,
            )


def _disk(facts: Facts) -> Check:
    # A model is joined from its wheels: for a while it is there twice.
    needed = 2 * sum(
        fact.bytes for fact in facts.models.values() if fact.status in ("corrupt", "missing")
    )
    detail = f"{_size(facts.disk_free)} free in {facts.models_root}"
    if needed:
        detail += f", {_size(needed)} needed"
    if facts.disk_free >= needed:
        return Check(name="disk", status="ok", detail=detail)
    return Check(
        name="disk",
        status="fail",
        detail=detail,
        fix="Make room, or name another folder in models.dir or DUPLEXD_MODELS.",
    )


def _llm(config: Config, facts: Facts) -> Check:
    match config.llm.engine:
        case "scripted":
            return Check(name="llm", status="ok", detail="scripted")
        case "local":
            model = local_model(config, facts.cores)
            return Check(
                name="llm",
                status="ok",
                detail=f"embedded {model}, a demo brain; "
                "set OPENAI_BASE_URL or OPENAI_API_KEY for a better one",
            )
        case "openai":
            return _llm_server(config, facts.llm or LlmFact(url="", error="not asked"))


def _llm_server(config: Config, fact: LlmFact) -> Check:
    wanted = config.llm.model
    if fact.status is None:
        return Check(
            name="llm",
            status="fail",
            detail=f"{fact.url} does not answer: {fact.error}",
            fix="Start the server, or correct OPENAI_BASE_URL or llm.base_url.",
        )
    if fact.status in (401, 403):
        return Check(
            name="llm",
            status="fail",
            detail=f"{fact.url} refuses the key (HTTP {fact.status})",
            fix="Correct OPENAI_API_KEY or llm.api_key.",
        )
    if fact.status != 200:
        return Check(
            name="llm",
            status="warn",
            detail=f"{fact.url} answers HTTP {fact.status}",
            fix="Check that OPENAI_BASE_URL or llm.base_url ends where the API starts, as in /v1.",
        )
    if wanted and fact.models and wanted not in fact.models:
        return Check(
            name="llm",
            status="warn",
            detail=f"{fact.url} does not list the model {wanted}",
            fix=f"Set OPENAI_MODEL or llm.model to one of {', '.join(fact.models[:5])}.",
        )
    if not wanted and not fact.models:
        return Check(
            name="llm",
            status="warn",
            detail=f"{fact.url} lists no models",
            fix="Set OPENAI_MODEL or llm.model.",
        )
    return Check(
        name="llm", status="ok", detail=f"{fact.url} answers; model {wanted or fact.models[0]}"
    )


def _size(count: int) -> str:
    """Bytes in words: 1.4 GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
