"""A configuration is right, or refused with the place, the key and what was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config import DEFAULT_FILE, Config, load_config
from pipeline.config_problems import Origins, leaf_keys
from services.scripted.spec import AsrSpec, LlmSpec, TtsSpec
from tts_engine.errors import ConfigError


def load(path: Path | None = None, *overrides: str, **environ: str) -> Config:
    return load_config(path, overrides, environ=environ)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my.yaml"


def refusal(file: Path, text: str, *overrides: str, **environ: str) -> ConfigError:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, *overrides, **environ)
    return caught.value


# --- what is right --------------------------------------------------------------------------


def test_the_default_file_says_what_the_models_say() -> None:
    assert load() == Config()


def test_the_default_file_names_every_key() -> None:
    data = yaml.safe_load(DEFAULT_FILE.read_text(encoding="utf-8"))
    keys = set(leaf_keys(Config))

    def leaves(value: Any, prefix: str) -> list[str]:
        if not isinstance(value, dict) or prefix.removeprefix(".") in keys:
            return [prefix]
        return [leaf for key, inner in value.items() for leaf in leaves(inner, f"{prefix}.{key}")]

    named = {leaf.removeprefix(".") for leaf in leaves(data, "")}
    assert named == keys


def test_every_key_has_a_description() -> None:
    def undescribed(model: Any, prefix: str) -> list[str]:
        missing: list[str] = []
        for name, field in model.model_fields.items():
            inner = field.annotation
            if hasattr(inner, "model_fields"):
                missing += undescribed(inner, f"{prefix}{name}.")
            elif not field.description:
                missing.append(f"{prefix}{name}")
        return missing

    assert undescribed(Config, "") == []


def test_a_file_goes_before_the_defaults_key_by_key(file: Path) -> None:
    file.write_text("tts: {speed: 1.2}\nasr: {languages: [en]}\n", encoding="utf-8")
    config = load(file)
    assert (config.tts.speed, config.tts.voice) == (1.2, None)
    assert config.asr.languages == ("en",)


def test_options_go_before_the_environment_before_the_file(file: Path) -> None:
    file.write_text("llm: {model: a, base_url: http://a/v1}\n", encoding="utf-8")
    config = load(file, "llm.model=c", OPENAI_MODEL="b", OPENAI_BASE_URL="http://b/v1")
    assert (config.llm.model, config.llm.base_url) == ("c", "http://b/v1")


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("server.port=0", "server", "port", 0),
        ("turns.interruptible=false", "turns", "interruptible", False),
        ("asr.languages=[en, zh]", "asr", "languages", ("en", "zh")),
        ("asr.partials=on", "asr", "partials", "on"),
        ("llm.model=", "llm", "model", None),
        ("llm.model=a=b", "llm", "model", "a=b"),
        ('llm.model="12"', "llm", "model", "12"),
        ("tts.ahead_s=3", "tts", "ahead_s", 3.0),
    ],
)
def test_overrides_are_yaml(override: str, section: str, key: str, value: object) -> None:
    assert getattr(getattr(load(None, override), section), key) == value


def test_the_last_override_wins() -> None:
    assert load(None, "server.port=1", "server.port=2").server.port == 2


@pytest.mark.parametrize("text", ["", "# nothing\n", "turns:\n  # all commented out\nvad: {}\n"])
def test_an_empty_section_keeps_the_defaults(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    assert load(file) == Config()


def test_paths_start_at_their_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "me.md").write_text(" 你好 \n", encoding="utf-8")
    file.write_text("prompts: {zh: me.md}\nmodels: {dir: weights}\n", encoding="utf-8")
    config = load(file)
    assert config.prompts.text("zh") == "你好"
    assert config.prompts.text("en") == Config().prompts.text("en") != ""
    assert config.models.dir == tmp_path / "weights"
    monkeypatch.chdir(tmp_path)
    assert load(None, "prompts.en=me.md").prompts.en == tmp_path / "me.md"


def test_models_may_be_kept_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert load(DUPLEXD_MODELS="/srv/models").models.dir == Path("/srv/models")
    assert load(None, "models.dir=~/m").models.dir == Path("/home/someone/m")
    assert load(DUPLEXD_MODELS="").models.dir is None


@pytest.mark.parametrize(
    ("overrides", "environ", "engine"),
    [
        ([], {}, "local"),
        ([], {"OPENAI_API_KEY": ""}, "local"),
        ([], {"OPENAI_API_KEY": "k"}, "openai"),
        ([], {"OPENAI_BASE_URL": "http://h/v1"}, "openai"),
        (["llm.base_url=http://h/v1"], {}, "openai"),
        (["llm.provider=local"], {"OPENAI_API_KEY": "k"}, "local"),
        (["llm.provider=scripted"], {"OPENAI_API_KEY": "k"}, "scripted"),
        (["llm.provider=openai"], {"OPENAI_API_KEY": "k"}, "openai"),
    ],
)
def test_the_llm_is_a_server_if_one_is_named(
    overrides: list[str], environ: dict[str, str], engine: str
) -> None:
    assert load(None, *overrides, **environ).llm.engine == engine


def test_the_key_is_never_shown() -> None:
    config = load(OPENAI_API_KEY="sk-secret")
    assert config.llm.api_key is not None
    assert config.llm.api_key.get_secret_value() == "sk-secret"
    assert "secret" not in repr(config) + str(config) + config.model_dump_json()


def test_scripted_engines_that_are_not_named_are_instant() -> None:
    delays = load(None, "scripted.spec=llm=150@50").scripted.delays
    assert delays.llm == LlmSpec(first_token_s=0.15, tokens_per_s=50)
    assert (delays.asr, delays.tts) == (AsrSpec(), TtsSpec())


def test_scripted_texts_come_from_the_section() -> None:
    texts = load(None, "scripted.transcripts=[a, b]", 'scripted.echo="{user}!"').scripted.texts
    assert texts.transcript(session="s", turn=2) == "b"
    assert texts.reply(session="s", turn=1, user="x") == ("x!",)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().server.port = 1  # type: ignore[misc]


# --- what is wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("vad:\n  treshold: 0.6", 2, "vad.treshold: unknown key; did you mean vad.threshold?"),
        ("serve: {}", 1, "serve: unknown key; did you mean server?"),
        ("floor_ms: 3", 1, "floor_ms: unknown key; did you mean turns.floor_ms?"),
        ("tts: {zzz: 1}", 1, "tts.zzz: unknown key; known here: provider, voice, speed"),
        ("messages: {llm_failed: {fr: x}}", 1, "messages.llm_failed.fr: unknown key; known here"),
        ("llm:\n  local:\n    contxt: 1", 3, "did you mean llm.local.context?"),
        ("server: {port: 70000}", 1, "server.port: must be at most 65535; found 70000"),
        ("server: {port: -1}", 1, "server.port: must be at least 0; found -1"),
        ("server: {port: '80'}", 1, 'server.port: must be a whole number; found "80"'),
        ("server: {port: true}", 1, "server.port: must be a whole number; found true"),
        ("server: {host: ''}", 1, "server.host: must not be empty"),
        ("vad: {threshold: 1}", 1, "vad.threshold: must be below 1; found 1"),
        ("vad: {threshold: 0}", 1, "vad.threshold: must be above 0; found 0"),
        ("tts: {speed: .nan}", 1, "tts.speed: must be a finite number; found NaN"),
        ("tts: {speed: fast}", 1, 'tts.speed: must be a number; found "fast"'),
        ("tts: {voice: 1}", 1, "tts.voice: must be text; found 1"),
        ("tts: {speed: null}", 1, "tts.speed: must be a number; found nothing"),
        ("tts: 3", 1, "tts: must be a section with keys of its own; found 3"),
        ("tts: [a]", 1, "tts: must be a section with keys of its own; found a list"),
        ("asr: {beam: 1.5}", 1, "asr.beam: must be a whole number; found 1.5"),
        ("asr: {partials: true}", 1, "must be 'auto', 'on' or 'off'; found true"),
        ("asr: {languages: zh}", 1, 'asr.languages: must be a list, like [a, b]; found "zh"'),
        ("asr: {languages: []}", 1, "asr.languages: needs at least 1 item"),
        (
            "asr:\n  languages:\n  - zh\n  - fr",
            4,
            "asr.languages[1]: must be 'zh' or 'en'; found \"fr\"",
        ),
        ("threads: {asr: four}", 1, "threads.asr: must be 'auto' or a whole number"),
        ("threads: {asr: 0}", 1, "threads.asr: must be 'auto' or at least 1; found 0"),
        ("turns: {interruptible: 1}", 1, "must be true or false; found 1"),
        ("models: {dir: 3}", 1, "models.dir: must be the path of a file or folder; found 3"),
        ("prompts:\n  zh: gone.md", 2, "prompts.zh: there is no file"),
        (
            "prompts:\n  mood:\n    zh: （用户很{emotion}。）\n    en: (Happy.)",
            2,
            "prompts.mood: needs {emotion} in en, where the emotion is named",
        ),
        ("prompts: {mood: {zh: '{emotion}'}}", 1, "prompts.mood: 'en' is missing"),
        ("llm: {base_url: h/v1}", 1, "llm.base_url: must be an http:// or https:// address"),
        ("llm: {provider: openai}", 1, "needs a base_url or an api_key; set OPENAI_BASE_URL"),
        ("scripted: {spec: asx=3}", 1, "scripted.spec: 'asx=3' names no engine (asr, llm, tts)"),
        (f"tts: {{speed: {'x' * 99}}}", 1, 'found "' + "x" * 56 + "..."),
    ],
)
def test_one_problem(file: Path, text: str, line: int, said: str) -> None:
    error = refusal(file, text)
    assert error.message.startswith(f"{file}:{line}: ")
    assert said in error.message
    assert ("host:port/v1" if "base_url: must" in said else "docs/configuration.md") in error.mend


def test_all_problems_are_listed_in_the_order_of_the_lines(file: Path) -> None:
    text = "vad:\n  treshold: 1\nserver:\n  port: x\nprompts: {en: gone.md}\nnonsense: 1\n"
    lines = refusal(file, text).message.splitlines()
    assert lines[0] == "4 problems in the configuration:"
    assert [line.split(": ")[1] for line in lines[1:]] == [
        "vad.treshold",
        "server.port",
        "prompts.en",
        "nonsense",
    ]


def test_a_problem_is_named_where_the_value_came_from(file: Path) -> None:
    assert refusal(file, "", "server.port=x").message.startswith("--set: server.port: ")
    error = refusal(file, "", OPENAI_BASE_URL="nonsense")
    assert error.message.startswith("OPENAI_BASE_URL: llm.base_url: ")
    assert error.mend == "Write it as http://host:port/v1."
    several = refusal(file, "", "server.port=x", OPENAI_BASE_URL="nonsense").mend
    assert "docs/configuration.md" in several
    assert "http://host:port/v1" in several
    assert refusal(file, "", "server.port.x=1").message == (
        "--set: server.port: must be a whole number; found a section"
    )


@pytest.mark.parametrize("text", ["llm: {api_key: [sk-secret]}", "llm: {api_key: {sk-secret: 1}}"])
def test_a_wrong_key_of_the_api_is_not_repeated(file: Path, text: str) -> None:
    assert "secret" not in str(refusal(file, text))


def test_a_key_that_looks_like_a_number_is_not_repeated(file: Path) -> None:
    message = refusal(file, "llm: {api_key: 123456}").message
    assert "llm.api_key: must be text; found a number" in message
    assert "123456" not in message


@pytest.mark.parametrize("override", ["", "a", "=1", "a.=1", ".a=1", "a..b=1"])
def test_an_override_is_section_key_value(override: str) -> None:
    with pytest.raises(ConfigError, match=r'expected the form "section.key=value"'):
        load(None, override)


def test_an_override_that_is_not_yaml() -> None:
    with pytest.raises(ConfigError, match=r"--set asr.languages:1: not valid YAML"):
        load(None, "asr.languages=[zh")


def test_an_unknown_section_in_an_override() -> None:
    with pytest.raises(ConfigError, match=r"--set: a: unknown key; known here: server, models"):
        load(None, "a.b=1")


def test_what_nobody_set_has_no_origin() -> None:
    assert str(Origins().of(("a",))) == "configuration"


# --- whatever a file holds ------------------------------------------------------------------

_KEYS = st.sampled_from([name for key in leaf_keys(Config) for name in key.split(".")])
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["auto", "on", "zh", "~nobody/x", "http://h"])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
_SECTIONS = st.sampled_from([*Config.model_fields]) | st.text(max_size=5)


def outcome(file: Path | None, *overrides: str) -> str:
    """What loading came to; anything but a Config or a ConfigError is raised."""
    try:
        return "loaded" if isinstance(load(file, *overrides), Config) else "nothing"
    except ConfigError as error:
        return "refused" if error.message else "refused without a word"


@given(data=st.dictionaries(_SECTIONS, _VALUES, max_size=4))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_mapping_loads_or_is_refused(file: Path, data: dict[str, Any]) -> None:
    file.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    assert outcome(file) in ("loaded", "refused")


@given(text=st.text(alphabet="ab: \n-[]{}'\"#&*!|>%@`\t,?~0.\ud7ff", max_size=40))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_loads_or_is_refused(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    assert outcome(file) in ("loaded", "refused")


@given(data=st.binary(max_size=30))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_load_or_are_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert outcome(file) in ("loaded", "refused")


@given(text=st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_override_loads_or_is_refused(text: str) -> None:
    assert outcome(None, f"llm.model={text}") in ("loaded", "refused")
