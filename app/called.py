"""Notes that a call got past all of an agent's own middleware: where it did not, its tool has done nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_framework import FunctionInvocationContext, FunctionMiddleware

_CALLED = "agui_called"


class NotesCall(FunctionMiddleware):
    """The innermost function middleware of a run."""

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Note the call before it is made."""
        context.metadata[_CALLED] = True
        await call_next()


def is_called(context: FunctionInvocationContext) -> bool:
    """Say whether the tool of this call may have run."""
    return bool(context.metadata.get(_CALLED))
