"""Expected failures, one class each, shared by every layer.

    DuplexdError            code "error"
    |-- AtCapacity          "at_capacity"     the queue of an engine or the daemon is full
    |-- TimedOut            "timed_out"       an engine or a server did not answer in time
    |-- EngineFailed        "engine_failed"   an engine raised, died or gave nothing
    |   `-- NotReady        "not_ready"       it warms up, or is being started again
    |-- BadAudio            "bad_audio"       audio that cannot be what it claims to be
    |-- BadRequest          "bad_request"     a caller's argument is wrong
    |-- UnknownVoice        "unknown_voice"
    |-- ConfigError         "config"          configuration that cannot be used
    `-- ModelError          "model"           weights: missing, corrupt, not to be had
        |-- ModelMissing    "model_missing"
        `-- ModelCorrupt    "model_corrupt"

A failure says what happened in `message` and, where there is one, what mends it in `mend`.
Both are shown to people as they are.
"""

from __future__ import annotations


class DuplexdError(Exception):
    """Base of every failure that the daemon expects, counts and survives."""

    code = "error"

    def __init__(self, message: str, *, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.message}. {self.mend}" if self.mend else self.message


class AtCapacity(DuplexdError):
    """Every place is taken; trying again later may work."""

    code = "at_capacity"


class TimedOut(DuplexdError):
    """An engine or a server did not answer within its limit."""

    code = "timed_out"


class EngineFailed(DuplexdError):
    """An engine raised, died, or ended without a result."""

    code = "engine_failed"


class NotReady(EngineFailed):
    """An engine warms up, or is being started again; trying again later may work."""

    code = "not_ready"


class BadAudio(DuplexdError):
    """Audio whose length, rate or encoding cannot be right."""

    code = "bad_audio"


class BadRequest(DuplexdError):
    """An argument that the callee cannot accept."""

    code = "bad_request"


class UnknownVoice(DuplexdError):
    """A voice name that the engine does not know."""

    code = "unknown_voice"


class ConfigError(DuplexdError):
    """Configuration that cannot be used: names the file, the line and the key."""

    code = "config"


class ModelError(DuplexdError):
    """Model weights cannot be had or used."""

    code = "model"


class ModelMissing(ModelError):
    """A model's file is not there, and was not to be fetched now."""

    code = "model_missing"


class ModelCorrupt(ModelError):
    """A model's file is there and its hash is wrong."""

    code = "model_corrupt"


def not_installed(what: str, error: ImportError) -> EngineFailed:
    """The failure of what needs the packages of FunASR or CosyVoice, where they are not.

    Args:
        what: needs them; the message begins with it.
        error: names the one that is missing.
    """
    return EngineFailed(
        f"{what} needs {error.name or error}, which is not installed", mend="Run `make engines`"
    )


def first_line(error: Exception) -> str:
    """What an error of somebody else's says, as far as it fits into a sentence of ours."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
