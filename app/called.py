"""One approved call's way past the agent's own middleware: whether it has got to its tool, and may not get there again.

The guard opens a gate for each approved call, and the innermost middleware of the run goes through it. What middleware
does by another way than `call_next`, such as calling the tool's function itself, nothing here can see.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_framework import FunctionInvocationContext, FunctionMiddleware, MiddlewareFailure


class CalledTwice(ConnectionError):
    """Middleware called a tool a second time that may run once: what the first call did, nobody says any more."""


class Gate:
    """Stands before one call. `is_repeatable`: its tool recognises a repeat by its key."""

    def __init__(self, *, is_repeatable: bool) -> None:
        self.is_passed = False
        self.is_refused = False
        self._is_repeatable = is_repeatable
        self._is_shut = False

    def go_through(self) -> None:
        """Let the call to its tool. Raises MiddlewareFailure if it was shut, CalledTwice where it may not go again."""
        if self._is_shut:
            raise MiddlewareFailure("The call was given up before it was made.")
        if self.is_passed and not self._is_repeatable:
            self.is_refused = True
            raise CalledTwice("A middleware called this tool twice.")
        self.is_passed = True

    def shut(self) -> bool:
        """Let nothing through from now on, unless the call has been made; True if it never was, and never will be."""
        self._is_shut = not self.is_passed
        return self._is_shut


class Gates:
    """The gates of one run, by the call's context. Middleware can not reach them."""

    def __init__(self) -> None:
        # The context is kept with its gate, or another one could come to have its identity.
        self._gates: dict[int, tuple[FunctionInvocationContext, Gate]] = {}

    def open(self, context: FunctionInvocationContext, *, is_repeatable: bool) -> Gate:
        """Put a gate before an approved call."""
        gate = Gate(is_repeatable=is_repeatable)
        self._gates[id(context)] = (context, gate)
        return gate

    def of(self, context: FunctionInvocationContext) -> Gate | None:
        """Return the gate of a call; None if it is not one that was approved."""
        found = self._gates.get(id(context))
        return found[1] if found is not None else None


class GoesThroughGate(FunctionMiddleware):
    """The innermost function middleware of a run."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Make the call, if its gate lets it through."""
        gate = self._gates.of(context)
        if gate is not None:
            gate.go_through()
        await call_next()
