"""The section `server`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from pipeline.config_section import Section
from services.access.hosts import host_of
from services.access.origins import origin_of


class Server(Section):
    """The socket that clients connect to."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="TCP port; 0 takes any free one.")
    max_sessions: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Conversations at a time; further clients are refused.",
    )
    send_timeout_s: float = Field(
        default=5.0,
        ge=0.1,
        le=60,
        description="A client that does not take a message for so long is cut.",
    )
    tls: str = Field(
        default="off",
        min_length=1,
        description="off; auto: a certificate of its own, for this machine's addresses; "
        "CERT,KEY: PEM files of yours.",
    )
    require_key: bool = Field(
        default=False,
        description="Ask for an API key on loopback too; beyond loopback one is always asked for.",
    )
    keys_file: Path | None = Field(
        default=None,
        strict=False,
        description="Where the hashes of the API keys are kept, relative to the configuration "
        "file; null is a file in the user's data folder.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Further names that clients may call the daemon by, as behind a proxy. IP "
        "addresses, localhost, this machine's name and `host` always do.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Web pages of other hosts that may connect, as https://app.example.com.",
    )
    requests_per_minute: int = Field(
        default=600,
        ge=0,
        le=1_000_000,
        description="Requests of one client address, where a key is asked for; 0 is no limit.",
    )

    @field_validator("tls")
    @classmethod
    def _tls(cls, value: str) -> str:
        cert, comma, key = value.partition(",")
        if value not in ("off", "auto") and not (cert.strip() and comma and key.strip()):
            raise ValueError("must be off, auto, or two files: CERT,KEY")
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if ":" in name or host_of(name) is None:
                raise ValueError(f"{name!r} is no host name; write one like voice.example.com")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin_of(origin) is None:
                raise ValueError(f"{origin!r} is no origin; write one like https://app.example.com")
        return value
