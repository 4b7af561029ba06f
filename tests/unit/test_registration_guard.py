"""A host refuses an agent whose approved calls could run where the guard does not see them, and names the way out."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentMiddleware,
    ChatMiddleware,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    MCPStreamableHTTPTool,
    RawAgent,
    tool,
)

from app.agents.scripted import ScriptedChatClient
from app.gated_tools import hosted_name
from app.registration import Registration
from app.tools import gated, unsafe
from stores.memory import MemoryWorld, memory_stores
from stores.records import EffectKind

REGISTRATION = Registration(memory_stores(MemoryWorld(lambda: 0.0)), claim_seconds=1.0, is_development=True)


@gated(unsafe())
async def wire() -> str:
    """Wire."""
    return "wired"


@tool(approval_mode="never_require")
async def look_up() -> str:
    """Look up."""
    return "found"


class Logging(FunctionMiddleware):
    """What people put around tools."""

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()


class OwnLoop(ScriptedChatClient):
    """A client that could call tools before the guard is asked."""

    def get_response(self, *args: Any, **kwargs: Any) -> Any:
        return super().get_response(*args, **kwargs)


class Wrapper(Agent[Any]):
    """An agent that could call tools before the guard is asked."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return super().run(*args, **kwargs)


class Named(Agent[Any]):
    """A subclass that adds nothing to what runs."""


class Quiet(ScriptedChatClient):
    """A client that adds nothing to what runs."""


def agent(*tools: Any, name: str = "agent", **fields: Any) -> Agent[Any]:
    return Agent(ScriptedChatClient(), "", name=name, tools=list(tools), **fields)


def with_client_middleware() -> Agent[Any]:
    served = agent(wire)
    served.client.function_middleware = [Logging()]  # type: ignore[attr-defined]  # of the function-invoking layer
    return served


def with_run_of_its_own() -> Agent[Any]:
    served = agent(wire)
    served.run = Wrapper.run.__get__(served)  # type: ignore[method-assign]  # what a patch does
    return served


@pytest.mark.parametrize(
    ("served", "way_out"),
    [
        (object(), "Serve an agent_framework Agent"),
        (RawAgent(ScriptedChatClient(), "", tools=[wire]), "Serve an agent_framework Agent"),
        (Wrapper(ScriptedChatClient(), "", tools=[wire]), "AgentMiddleware"),
        (with_run_of_its_own(), "AgentMiddleware"),
        (Agent(OwnLoop(), "", tools=[wire]), "_inner_get_response"),
        (with_client_middleware(), "Agent(..., middleware=[...])"),
    ],
    ids=["not an agent", "without middleware", "own run", "patched run", "own loop", "client's middleware"],
)
def test_tools_that_may_run_outside_the_guard_are_refused_with_the_way_out(served: object, way_out: str) -> None:
    with pytest.raises(TypeError, match="outside") as refused:
        REGISTRATION.check(served)

    assert way_out in str(refused.value)


class _Agents(AgentMiddleware):
    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()


class _Chats(ChatMiddleware):
    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()


@pytest.mark.parametrize(
    "served",
    [
        Named(ScriptedChatClient(), "", tools=[wire]),
        Agent(Quiet(), "", tools=[wire]),
        agent(wire, middleware=[Logging(), _Agents(), _Chats()]),
    ],
)
def test_the_ways_out_are_open(served: Agent[Any]) -> None:
    assert set(REGISTRATION.check(served)) == {"wire"}


def behind_one(inner: Agent[Any]) -> Any:
    return inner.as_tool()


def behind_two(inner: Agent[Any]) -> Any:
    return agent(look_up, inner.as_tool(), name="middle").as_tool()


def behind_a_decorator(inner: Agent[Any]) -> Any:
    asked = inner.as_tool()

    @wraps(asked.func)  # type: ignore[arg-type]  # as_tool always has one
    async def logged(task: str) -> str:
        """Ask."""
        return str(await asked.invoke(arguments={"task": task}))

    return tool(logged)


def behind_a_function(inner: Agent[Any]) -> Any:
    @tool
    async def ask(task: str) -> str:
        """Ask."""
        return str(await inner.run(task))

    return ask


def behind_a_partial(inner: Agent[Any]) -> Any:
    async def ask(asked: Agent[Any], task: str) -> str:
        return str(await asked.run(task))

    return FunctionTool(name="ask", func=partial(ask, inner), input_model={"type": "object", "properties": {}})


BEHIND = [behind_one, behind_two, behind_a_decorator, behind_a_function, behind_a_partial]


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("is_gated_itself", [True, False])
def test_a_gated_tool_behind_another_agents_tool_is_refused_and_workflows_are_named(
    behind: Callable[[Agent[Any]], Any], is_gated_itself: bool
) -> None:
    offered = behind(agent(look_up, wire, name="inner"))
    offered.approval_mode = "always_require" if is_gated_itself else "never_require"

    with pytest.raises(ValueError, match="'wire' needs an approval") as refused:
        REGISTRATION.check(agent(offered))

    assert "workflow" in str(refused.value)


@pytest.mark.parametrize("behind", BEHIND)
def test_an_agent_without_gated_tools_may_be_a_tool(behind: Callable[[Agent[Any]], Any]) -> None:
    assert REGISTRATION.check(agent(wire, behind(agent(look_up, name="inner")))).keys() == {"wire"}


def test_a_tool_may_know_the_agent_it_belongs_to() -> None:
    served = agent(wire)

    @tool
    async def who() -> str:
        """Say who this is."""
        return str(served.name)

    served.default_options["tools"].append(who)

    assert REGISTRATION.check(served).keys() == {"wire"}


def test_agents_that_know_each_other_are_looked_at_once() -> None:
    first, second = agent(look_up, name="first"), agent(look_up, name="second")
    first.default_options["tools"].append(second.as_tool())
    second.default_options["tools"].append(first.as_tool())

    assert REGISTRATION.check(agent(first.as_tool())) == {}


def test_as_tool_still_keeps_its_agent_in_the_closure_of_its_function() -> None:
    """The contract with agent-framework by which a gated tool behind as_tool() is found: an upgrade must keep it."""
    inner = agent(wire, name="inner")
    offered = inner.as_tool()

    assert isinstance(offered, FunctionTool)
    assert inspect.isfunction(offered.func)
    assert inspect.getclosurevars(offered.func).nonlocals["self"] is inner


GATED_HOSTED: list[dict[str, Any]] = [
    {"type": "mcp", "server_label": "crm", "require_approval": "always"},
    {"type": "mcp", "server_label": "crm", "require_approval": {"never": {"tool_names": ["read"]}}},
]


@pytest.mark.parametrize("hosted", GATED_HOSTED)
def test_a_hosted_tool_that_needs_an_approval_is_taken_for_unsafe(hosted: dict[str, Any]) -> None:
    stores = memory_stores(MemoryWorld(lambda: 0.0))
    durable = Registration(replace(stores, durable=True), claim_seconds=1.0, is_development=False)
    forgetful = Registration(replace(stores, durable=False), claim_seconds=1.0, is_development=False)

    assert durable.check(agent(hosted))[hosted_name("crm")].kind is EffectKind.UNSAFE
    with pytest.raises(ValueError, match="'crm' needs an approval, and the effect ledger may lose"):
        forgetful.check(agent(hosted))


@pytest.mark.parametrize("hosted", GATED_HOSTED)
def test_an_agent_with_a_hosted_tool_that_needs_an_approval_is_no_tool(hosted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'crm' needs an approval, which never reaches"):
        REGISTRATION.check(agent(agent(hosted, name="inner").as_tool()))


@pytest.mark.parametrize("mode", ["always_require", {"always_require_approval": ["pay"]}])
def test_an_mcp_server_whose_tools_need_an_approval_is_refused(mode: Any) -> None:
    server = MCPStreamableHTTPTool("crm", "http://127.0.0.1:1/mcp", approval_mode=mode)

    with pytest.raises(ValueError, match="'crm' need an approval, but appear only when") as refused:
        REGISTRATION.check(agent(server))
    assert "@gated" in str(refused.value)
    with pytest.raises(ValueError, match="'crm' needs an approval, which never reaches"):
        REGISTRATION.check(agent(agent(server, name="inner").as_tool()))


@pytest.mark.parametrize(
    "ungated",
    [
        {"type": "web_search"},
        {"type": "mcp", "server_label": "crm", "require_approval": "never"},
        MCPStreamableHTTPTool("crm", "http://127.0.0.1:1/mcp", approval_mode="never_require"),
        MCPStreamableHTTPTool("crm", "http://127.0.0.1:1/mcp"),
    ],
)
def test_what_needs_no_approval_may_run_anywhere(ungated: Any) -> None:
    assert REGISTRATION.check(agent(ungated, wire)).keys() == {"wire"}


def test_a_gated_tool_without_a_function_is_refused() -> None:
    declared = FunctionTool(name="fax", approval_mode="always_require", func=None, input_model={"type": "object"})

    with pytest.raises(ValueError, match="'fax' needs an approval, but has no function"):
        REGISTRATION.check(agent(declared))
