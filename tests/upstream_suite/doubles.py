"""Upstream's test doubles as this host takes them: what is registered for one, and what of it runs."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    RawAgent,
    ResponseStream,
    SupportsChatGetResponse,
)

from app.tools import declared_effect
from stores.records import EffectKind

PUT_AROUND = ("middleware", "context_providers")
"""What a host puts around the tools of an agent for one run."""


def builder(agent: Any, client: SupportsChatGetResponse, *, is_asked: bool) -> Callable[[], Agent]:
    """Return what a host builds an agent with: first the one it registers, then, for each run, the test's own.

    Tests look into their agent afterwards, so it is theirs that runs; but what a host puts around the tools of one run
    must not be there in the next. So an `Agent` is copied, and a stub runs without it. A stub with gated tools, or
    whose calls wait for a person (`is_asked`), has something to be guarded: it is served as the model of an `Agent`
    that runs its tools.
    """
    if _is_stub(agent) and (_has_gated_tools(agent) or (is_asked and _functions(agent))):
        return lambda: Agent(StubModel(agent), name=agent.name, tools=agent.default_options["tools"])
    registered = iter([_registered(agent, client)])
    run = copy.copy if isinstance(agent, RawAgent) else _as_it_is
    return lambda: cast(Agent, next(registered, None) or run(agent))


def _registered(agent: Any, client: SupportsChatGetResponse) -> Any:
    """Return what stands for an agent at its registration.

    Nearly all agents of upstream's tests are stubs, or speak to a stub of a client, whose types this host refuses. So
    an agent is registered with its tools over `client`, and what has no gated tools, and so nothing to guard, as an
    agent without tools. Any other agent stands for itself and is refused.
    """
    if isinstance(agent, Agent):
        registered = copy.copy(agent)
        registered.client = client
        if not _has_gated_tools(agent):
            vars(registered).pop("run", None)  # Some tests put a recorder there.
        return registered
    return agent if _has_gated_tools(agent) else Agent(client)


class StubModel(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A chat client that says what a stub of an agent would."""

    def __init__(self, stub: Any) -> None:
        configuration = getattr(stub.client, "function_invocation_configuration", None)
        super().__init__(middleware=[], function_invocation_configuration=configuration)
        self._stub = stub

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        return ResponseStream(self._says(messages, options), finalizer=ChatResponse.from_updates)

    async def _says(self, messages: Sequence[Message], options: Mapping[str, Any]) -> AsyncIterator[ChatResponseUpdate]:
        async for said in self._stub.run(messages, stream=True, tools=options.get("tools")):
            yield ChatResponseUpdate(
                contents=said.contents, role=said.role, message_id=said.message_id, response_id=said.response_id
            )


def _is_stub(agent: Any) -> bool:
    return type(agent).__name__ == "StubAgent"


def _has_gated_tools(agent: Any) -> bool:
    return any(declared_effect(tool).kind is not EffectKind.NONE for tool in _functions(agent))


def _functions(agent: Any) -> list[FunctionTool]:
    options = getattr(agent, "default_options", None)
    tools = options.get("tools") if isinstance(options, dict) else None
    return [tool for tool in tools or () if isinstance(tool, FunctionTool)]


def _as_it_is(agent: Any) -> Any:
    """Return the stub in a form that shares all of its state, but takes nothing that is put around its tools."""
    kind = type(agent)
    put_around = {name: _Unchanged(getattr(agent, name, ())) for name in PUT_AROUND}
    same: Any = object.__new__(type(kind.__name__, (kind,), put_around))
    same.__dict__ = agent.__dict__
    return same


class _Unchanged:
    """An attribute that keeps its value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __get__(self, instance: object, owner: type) -> Any:
        return self._value

    def __set__(self, instance: object, value: Any) -> None:
        pass
