"""The section `tools`."""

from __future__ import annotations

from pydantic import Field, SecretStr, model_validator

from pipeline.config_section import Section


class McpServer(Section):
    """A server of functions that speaks MCP: a program, or an address."""

    command: tuple[str, ...] = Field(
        default=(), strict=False, description="Program and arguments: it speaks over its stdio."
    )
    env: dict[str, str] = Field(default_factory=dict, description="Variables for the program.")
    url: str | None = Field(
        default=None, description="Address of a server that speaks streamable HTTP."
    )
    token: SecretStr | None = Field(
        default=None, description="Sent to it as a bearer token; never shown."
    )
    only: tuple[str, ...] = Field(
        default=(), strict=False, description="Its functions that are offered; empty is all."
    )
    timeout_s: float = Field(default=15.0, ge=0.1, le=600, description="Limit of one call.")

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if bool(self.command) == bool(self.url):
            raise ValueError("needs a command or a url, and not both")
        return self


class Tools(Section):
    """Functions that the daemon runs itself for the language model: see docs/tools.md.

    The embedded language model is offered none, unless `llm.local.tools`.
    """

    clock: bool = Field(default=True, description="get_time tells time and date.")
    filler_after_s: float = Field(
        default=1.5,
        ge=0,
        le=60,
        description="Silence while they run after which messages.filler is spoken; 0 is never.",
    )
    mcp: dict[str, McpServer] = Field(
        default_factory=dict, description="Servers of further functions, by a name of yours."
    )
