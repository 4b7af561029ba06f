"""Tools whose approved calls would run where the guard does not see them, each with the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CellType, FunctionType
from typing import Any

from agent_framework import FunctionTool, MCPStdioTool, MCPStreamableHTTPTool, MCPWebsocketTool, RawAgent

from app.tools import declared_effect
from stores.records import EffectKind

_MCP_TOOLS = (MCPStdioTool, MCPStreamableHTTPTool, MCPWebsocketTool)
_EMPTY = CellType()


def problem_with(tool: object, *, agent: RawAgent[Any]) -> str | None:
    """Say why a gated tool of `agent` can not be served, and what to do instead; None if it can, or is not gated."""
    name = _name_of(tool)
    if isinstance(tool, FunctionTool):
        if declared_effect(tool).kind is not EffectKind.NONE and tool.declaration_only:
            return f"Tool '{name}' needs an approval, but has no function that could run under the approval guard."
        return _problem_with_agents_behind(tool, name, agent)
    if not _is_gated(tool):
        return None
    if isinstance(tool, _MCP_TOOLS):
        return (
            f"The tools of the MCP server '{name}' need an approval, but appear only when a run connects to it: nobody "
            "can declare their effects. Offer a @gated function that calls the server, with approval_mode="
            "'never_require' on it, for each tool that shall be approved."
        )
    return None


def hosted_label(tool: object) -> str | None:
    """Return the label of the server behind the model's provider that a gated hosted tool is; None for other tools."""
    if isinstance(tool, (FunctionTool, *_MCP_TOOLS)) or not _is_gated(tool):
        return None
    return str(_read(tool, "server_label") or _name_of(tool))


def _problem_with_agents_behind(tool: FunctionTool, name: str, agent: RawAgent[Any]) -> str | None:
    gated = next(_gated_tools_behind(tool, {id(agent)}), None)
    if gated is None:
        return None
    return (
        f"Tool '{name}' runs an agent whose tool '{gated}' needs an approval, which never reaches the person: an agent "
        "behind as_tool() can not ask. Give the gated tool to the outer agent, or use a workflow of the two agents."
    )


def _gated_tools_behind(value: object, seen: set[int]) -> Iterator[str]:
    """Name the gated tools of agents in the closure of a function, where as_tool() keeps its own, at any depth."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, RawAgent):
        for tool in tools_of(value):
            if _is_gated(tool):
                yield _name_of(tool)
            yield from _gated_tools_behind(tool, seen)
        return
    for inner in _inside(value):
        yield from _gated_tools_behind(inner, seen)


def _inside(value: object) -> Iterable[object]:
    """Return what a function or tool keeps; a cell that was never filled keeps nothing."""
    if isinstance(value, FunctionTool):
        return [value.func]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if not isinstance(value, FunctionType):
        return []
    return [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]


def tools_of(agent: RawAgent[Any]) -> list[object]:
    """Return the tools that an agent has of its own, MCP servers included."""
    return [*(agent.default_options.get("tools") or ()), *agent.mcp_tools]


def _name_of(tool: object) -> str:
    """Return what a tool of any kind is called."""
    return str(_read(tool, "name") or _read(tool, "server_label") or getattr(tool, "__name__", type(tool).__name__))


def _is_gated(tool: object) -> bool:
    if isinstance(tool, FunctionTool):
        return declared_effect(tool).kind is not EffectKind.NONE
    mode = _read(tool, "approval_mode")
    if isinstance(mode, Mapping):
        mode = "always_require" if mode.get("always_require_approval") else None
    return mode == "always_require" or _read(tool, "require_approval") not in (None, "never")


def _read(tool: object, name: str) -> Any:
    """Read a field of a tool; hosted ones are objects or dictionaries, as their provider's client makes them."""
    return tool.get(name) if isinstance(tool, Mapping) else getattr(tool, name, None)
