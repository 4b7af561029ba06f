"""The outermost function middleware: an approved call runs through this run's claim and ledger, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agent_framework import (
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareFailure,
)
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError

from app.answers import approval_digest, canonical
from app.called import CalledTwice, Gate, Gates
from app.effects import OPEN_ERRORS, RunEffects, ToolFailed
from app.errors import Code, Refusal, RunRefused
from app.more_input import answer_in, question_in
from app.tools import DidNotHappen, EffectCall, declared_effect, give_effect
from stores.errors import StoreError
from stores.records import EffectKind, ToolResult

_log = logging.getLogger(__name__)

GONE = (OperationalError, InterfaceError, InternalError)
"""What a database says when it is not there any more, gives up a transaction (a lock, a deadlock) or takes no writes:
nothing of a transactional tool's has happened then, and it is no answer of the tool."""


class RecordedFailure(Exception):
    """The tool failed, now or when it ran; core turns this into the text the model sees for a failed call."""


class ApprovalGuard(FunctionMiddleware):
    """Begins and settles each approved call of one run. It raises nothing but MiddlewareFailure before a call.

    A plain exception before the call would make upstream record an error for a tool that never ran.
    """

    def __init__(self, effects: RunEffects, gates: Gates) -> None:
        self._effects = effects
        self._gates = gates

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Let ungated calls through; run an approved one through the ledger and set its recorded result.

        A person may have approved a call of an ungated tool too, where the agent's middleware asked for it.
        """
        response = context.metadata.get("approval_response")
        interrupt_id = context.metadata.get("function_call_occurrence_id")
        is_gated = declared_effect(context.function).kind is not EffectKind.NONE
        if not is_gated and not self._effects.is_granted(interrupt_id):
            await _call_ungated(context, call_next)
            return
        digest = _approved_digest(response)
        if digest is None or not isinstance(interrupt_id, str):
            refusal = Refusal(Code.RUN_FAILED, "A gated call was about to run without an approval; the run was ended.")
            raise MiddlewareFailure(refusal.message) from RunRefused(refusal)
        gate = self._gates.open(context, is_repeatable=declared_effect(context.function).kind is EffectKind.IDEMPOTENT)
        not_started = partial(self._effects.unstarted.add, interrupt_id)
        try:
            result = await self._effects.perform(interrupt_id, digest, _call(context, call_next, gate, not_started))
        except (RunRefused, StoreError) as error:
            raise MiddlewareFailure("The approved call could not be carried out.") from error
        if result.is_error and not result.contents:
            raise RecordedFailure(f"The tool '{context.function.name}' failed.")
        context.result = [Content.from_dict(dict(content)) for content in result.contents]


async def _call_ungated(context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
    try:
        await call_next()
    except Exception as error:
        question = question_in(error)
        if question is None:
            raise
        context.result = [Content.from_text(question)]


def _approved_digest(response: Any) -> str | None:
    """Return the digest of exactly what upstream is about to execute, to be held against the decision's."""
    if not isinstance(response, Content) or response.approved is not True or response.function_call is None:
        return None
    arguments = canonical(dict(response.function_call.parse_arguments() or {}))
    return approval_digest(response.function_call.name or "", arguments)


def _call(
    context: FunctionInvocationContext,
    call_next: Callable[[], Awaitable[None]],
    gate: Gate,
    not_started: Callable[[], None],
) -> Callable[[EffectCall], Awaitable[ToolResult]]:
    async def call(effect: EffectCall) -> ToolResult:
        give_effect(context, effect)
        try:
            await call_next()
        except MiddlewareFailure:
            if gate.shut():
                not_started()
            raise
        except OPEN_ERRORS:
            raise
        except Exception as error:
            if gate.is_refused:
                raise CalledTwice("A middleware called this tool twice.") from error
            raise _ended(error, context, effect, is_called=gate.is_passed) from error
        if gate.is_refused:
            raise CalledTwice("A middleware called this tool twice.")
        return ToolResult(_contents(context.result))

    return call


def _ended(error: Exception, context: FunctionInvocationContext, effect: EffectCall, *, is_called: bool) -> Exception:
    """Return how a call ended in which its tool, or middleware around it, raised an exception."""
    if isinstance(error, DidNotHappen):
        return ToolFailed(ToolResult((_text(f"Error: {error}"),), is_error=True))
    question = question_in(error, context.result)
    if question is not None:
        return ToolFailed(ToolResult((_text(question),)))
    # A tool's transaction is rolled back whatever stopped it: then the answer of who stopped it is not what happened.
    answer = answer_in(error, context.result)
    if answer is not None and not (effect.connection is not None and is_called):
        return ToolFailed(ToolResult(_contents(answer)))
    if effect.connection is not None and isinstance(error, GONE):
        return ConnectionError("The tool's transaction was lost and is rolled back.")
    _log.warning("Tool %s failed: %s", context.function.name, type(error).__name__)
    return ToolFailed(ToolResult(is_error=True))


def _contents(result: Any) -> tuple[dict[str, Any], ...]:
    if isinstance(result, list) and all(isinstance(each, Content) for each in result):
        return tuple(each.to_dict() for each in result)
    return (_text(str(result)),)


def _text(text: str) -> dict[str, Any]:
    return Content.from_text(text).to_dict()
