# pyright: strict
"""Tools and the choice among them, as clients write them and as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from services.realtime.schema import (
    FunctionName,
    Refused,
    Text,
    WireModel,
    as_object,
    unsupported_types,
)
from services.tools import NamedTool, Tool, ToolChoice, may_choose

#: most tools of a session or an answer: the limit of OpenAI's chat API
_MAX_TOOLS = 128


class FunctionTool(WireModel):
    """A function of the client's; `parameters` is a JSON schema."""

    type: Literal["function"]
    name: FunctionName
    description: Text | None = None
    parameters: dict[str, Any] | None = None

    def tool(self) -> Tool:
        """For the conversation."""
        return Tool(
            name=self.name, description=self.description or "", parameters=self.parameters or {}
        )


def _no_twins(tools: list[FunctionTool]) -> list[FunctionTool]:
    if len({tool.name for tool in tools}) < len(tools):
        raise PydanticCustomError("twins", "two tools have the same name")
    return tools


Tools = Annotated[
    list[Annotated[FunctionTool, unsupported_types("mcp")]],
    Field(max_length=_MAX_TOOLS, fail_fast=True),
    AfterValidator(_no_twins),
]


def _choice(value: Any) -> Any:
    # a union would name its branches in the path of the field at fault
    if value in ("auto", "none", "required"):
        return value
    fields = as_object(value)
    if fields is not None:
        name, kind = fields.get("name"), fields.get("type")
        if len(fields) == 2 and kind == "function" and isinstance(name, str) and name:
            return NamedTool(name)
    raise PydanticCustomError(
        "tool_choice", '"auto", "none", "required" or {"type": "function", "name": ...}'
    )


Choice = Annotated[Any, BeforeValidator(_choice), unsupported_types("mcp")]


def check_choice(choice: ToolChoice, tools: Sequence[Tool], *, param: str) -> None:
    """A function that must be called has to be there.

    Raises:
        Refused: it is not.
    """
    if isinstance(choice, NamedTool) and not may_choose(choice, tools):
        raise Refused(
            f"There is no tool '{choice.name[:100]}' to choose",
            reason="invalid_value",
            param=param,
        )


def show_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The protocol's form."""
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        for tool in tools
    ]


def show_choice(choice: ToolChoice) -> Any:
    """The protocol's form."""
    if isinstance(choice, NamedTool):
        return {"type": "function", "name": choice.name}
    return choice
