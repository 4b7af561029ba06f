"""Standing rules: what a person approved for later calls of a thread, and what code approves. Only `decided` awaits."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_framework import (
    Agent,
    Content,
    FunctionTool,
    ToolApprovalMiddleware,
    ToolApprovalRuleCallback,
)

from app.answers import RULE_KEY, approval_digest, canonical, digest
from app.tools import declared_effect
from app.upstream import middleware_of
from stores.records import (
    Decision,
    Json,
    Occurrence,
    OccurrenceState,
    Record,
    RuleReach,
    StandingRule,
    Verdict,
)

ROUNDS_MAX = 20
"""How often one run may go on by rules alone. A model that calls a ruled tool for ever is stopped then."""
RULES_MAX = 50
"""Rules of one thread: they are read and written with its record. Beyond it the oldest go, and a person is asked."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """What an agent with upstream's ToolApprovalMiddleware takes: the digests of its tools, and its callbacks."""

    tool_digests: Mapping[str, str]
    callbacks: Sequence[ToolApprovalRuleCallback]


def standing_of(agent: Agent) -> Standing | None:
    """Return what the agent's middleware opts in to; None without it, then every gated call is asked for."""
    found = [each for each in middleware_of(agent) if isinstance(each, ToolApprovalMiddleware)]
    if not found:
        return None
    tools = agent.default_options.get("tools") or []
    digests = {each.name: tool_digest(each) for each in tools if isinstance(each, FunctionTool)}
    return Standing(digests, [callback for each in found for callback in each.auto_approval_rules])


def tool_digest(function: FunctionTool) -> str:
    """Return the digest of what a person was shown of a tool; with another one, it is another tool to a rule."""
    kind = declared_effect(function).kind
    return digest("tool", function.name, function.description or "", canonical(function.parameters()), kind.value)


async def decided(occurrence: Occurrence, rules: Collection[StandingRule], standing: Standing) -> Occurrence:
    """Approve a call exactly as it would be shown, if a rule or a callback says so; else return it as it is."""
    if not any(matches(rule, occurrence) for rule in rules) and not await _is_approved_by_code(occurrence, standing):
        return occurrence
    text = occurrence.arguments
    approval = Decision(Verdict.APPROVE, text, approval_digest(occurrence.tool, text))
    return replace(occurrence, state=OccurrenceState.DECIDED, decision=approval)


def matches(rule: StandingRule, occurrence: Occurrence) -> bool:
    """Say whether a rule approves this call: of the same tool, unchanged, with the arguments that it names, if any."""
    is_same_tool = rule.tool == occurrence.tool and rule.tool_digest == occurrence.tool_digest
    return is_same_tool and rule.arguments in (None, occurrence.arguments)


def rules_after(record: Record, now: float) -> tuple[StandingRule, ...]:
    """Return the rules in force once the decisions of this record are carried out."""
    rules = record.standing_rules
    for each in record.occurrences:
        if each.decision is not None and each.decision.standing_rule is not None and each.tool_digest is not None:
            is_for_any = each.decision.standing_rule is RuleReach.TOOL
            arguments = None if is_for_any else each.decision.arguments
            rules = _with(rules, StandingRule(each.tool, arguments, each.tool_digest, each.interrupt_id, now))
    return rules[-RULES_MAX:]


def revoked(record: Record, interrupts: Collection[str]) -> Record:
    """Return the record without the rules that these interrupts gave."""
    return replace(
        record, standing_rules=tuple(each for each in record.standing_rules if each.interrupt_id not in interrupts)
    )


def is_coming(record: Record, interrupts: Collection[str]) -> bool:
    """Say whether one of these interrupts was answered with a rule, in force once its call is at its end."""
    return any(
        each.interrupt_id in interrupts and each.decision is not None and each.decision.standing_rule is not None
        for each in record.occurrences
    )


def offered(interrupt: Json) -> Json:
    """Return a card whose answer may give a standing rule: its schema, which takes no unknown field, knows this one."""
    schema = interrupt.get("responseSchema") or {}
    described = {"type": "string", "enum": list(RuleReach), "description": "Approve later calls like this one too."}
    properties = {**schema.get("properties", {}), RULE_KEY: described}
    return {**interrupt, "responseSchema": {**schema, "properties": properties}}


def shown(rules: Sequence[StandingRule]) -> list[Json]:
    """Return rules as clients see them; `arguments` is null where a rule is for any."""
    return [
        {
            "tool": each.tool,
            "arguments": None if each.arguments is None else json.loads(each.arguments),
            "interruptId": each.interrupt_id,
        }
        for each in rules
    ]


def _with(rules: tuple[StandingRule, ...], new: StandingRule) -> tuple[StandingRule, ...]:
    """Add a rule. It takes the place of one for the same calls, which may be of the tool as it was before."""
    others = tuple(each for each in rules if (each.tool, each.arguments) != (new.tool, new.arguments))
    return (*others, new)


async def _is_approved_by_code(occurrence: Occurrence, standing: Standing) -> bool:
    call = Content.from_function_call(occurrence.call_id, occurrence.tool, arguments=occurrence.arguments)
    for callback in standing.callbacks:
        try:
            answer = callback(call)
            is_approved = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            # User code that fails approves nothing: a person is asked, as without it.
            _log.warning("An auto-approval rule failed for %s: %s", occurrence.tool, type(error).__name__)
            continue
        if is_approved is True:
            return True
    return False
