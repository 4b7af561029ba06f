"""Which calls a standing rule approves, what a record keeps of rules, and what an older version reads of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from agent_framework import Agent, Content, FunctionTool, ToolApprovalMiddleware

from app import standing
from app.agents.scripted import ScriptedChatClient
from app.answers import Entry, approval_digest, decide
from app.errors import Code, Refusal
from app.lifecycle import Grant
from app.standing_request import revoked_by
from app.tools import gated, idempotent, unsafe
from stores.records import (
    Decision,
    OccurrenceState,
    Record,
    RuleReach,
    StandingRule,
    Verdict,
    Version,
    record_from_json,
    to_json,
)
from tests.unit.threads import ARGUMENTS, NOW, decided, occurrence

DIGEST = "digest-of-the-tool"
ANY = StandingRule("wire", None, DIGEST, "i0", NOW)
EXACT = StandingRule("wire", ARGUMENTS, DIGEST, "i0", NOW)
NONE = StandingRule("wire", "{}", DIGEST, "i0", NOW)


@pytest.mark.parametrize(
    ("rule", "call", "is_match"),
    [
        (ANY, {}, True),
        (ANY, {"arguments": "{}"}, True),
        (EXACT, {}, True),
        (EXACT, {"arguments": '{"invoice":"INV-1","payee":"Bolt"}'}, False),
        (EXACT, {"arguments": "{}"}, False),
        (NONE, {"arguments": "{}"}, True),
        (NONE, {}, False),
        (ANY, {"tool": "pay"}, False),
        (ANY, {"tool_digest": "another"}, False),
        (ANY, {"tool_digest": None}, False),
    ],
)
def test_a_rule_approves_calls_of_its_tool_as_it_was_with_its_arguments(
    rule: StandingRule, call: dict[str, Any], is_match: bool
) -> None:
    assert standing.matches(rule, occurrence(**{"tool_digest": DIGEST, **call})) is is_match


async def test_a_call_that_a_rule_approves_is_decided_as_a_person_would_approve_what_is_shown() -> None:
    asked = occurrence(tool_digest=DIGEST)

    approved = await standing.decided(asked, [EXACT], standing.Standing({}, ()))

    assert approved == replace(
        asked,
        state=OccurrenceState.DECIDED,
        decision=Decision(Verdict.APPROVE, ARGUMENTS, approval_digest("wire", ARGUMENTS)),
    )
    assert await standing.decided(asked, [NONE], standing.Standing({}, ())) == asked


async def test_a_callback_approves_with_true_alone_and_one_that_fails_approves_nothing() -> None:
    def fails(_call: Content) -> bool:
        raise RuntimeError

    asked = occurrence()
    answers: list[Any] = [False, None, 1, "yes"]
    for callbacks in ([fails], *([lambda _call, answer=answer: answer] for answer in answers)):
        assert await standing.decided(asked, (), standing.Standing({}, callbacks)) == asked
    approved = await standing.decided(asked, (), standing.Standing({}, [fails, lambda _call: True]))
    assert approved.state is OccurrenceState.DECIDED


def given(name: str, reach: RuleReach, arguments: str = ARGUMENTS, digest: str | None = DIGEST) -> Any:
    decision = Decision(Verdict.APPROVE, arguments, approval_digest("wire", arguments), reach)
    return decided(name, decision, tool_digest=digest)


def test_a_decision_with_a_rule_leaves_it_in_the_record_with_what_was_executed() -> None:
    edited = '{"invoice":"INV-1","payee":"Bolt"}'
    record = Record(
        occurrences=(
            given("i1", RuleReach.TOOL),
            given("i2", RuleReach.TOOL_WITH_ARGUMENTS, edited),
            given("i3", RuleReach.TOOL_WITH_ARGUMENTS, "{}"),
            given("i4", RuleReach.TOOL, digest=None),
            decided("i5"),
        )
    )

    rules = standing.rules_after(record, NOW)

    assert [(each.interrupt_id, each.arguments) for each in rules] == [("i1", None), ("i2", edited), ("i3", "{}")]
    assert {each.tool_digest for each in rules} == {DIGEST}


def test_a_rule_given_again_takes_the_place_of_the_older_one_and_the_oldest_go_beyond_the_limit() -> None:
    older = replace(ANY, tool_digest="older", interrupt_id="i0")
    again = Record(standing_rules=(older, EXACT), occurrences=(given("i1", RuleReach.TOOL),))

    assert standing.rules_after(again, NOW) == (EXACT, replace(ANY, interrupt_id="i1"))

    many = tuple(replace(EXACT, arguments=json.dumps({"n": number})) for number in range(standing.RULES_MAX))
    full = Record(standing_rules=many, occurrences=(given("i1", RuleReach.TOOL),))
    assert standing.rules_after(full, NOW) == (*many[1:], replace(ANY, interrupt_id="i1"))


def test_rules_are_stored_with_no_arguments_told_from_any_and_shown_so() -> None:
    rules = (ANY, NONE, EXACT)

    read = record_from_json(to_json(Record(standing_rules=rules)), Version(), None)

    assert read.standing_rules == rules
    assert [each["arguments"] for each in standing.shown(read.standing_rules)] == [None, {}, json.loads(ARGUMENTS)]


def test_a_thread_without_rules_is_stored_as_versions_before_them_wrote_and_read_it() -> None:
    text = to_json(Record(occurrences=(decided(),)))

    for later in ("standing_rule", "tool_digest", "goes_on"):
        assert later not in text
    assert record_from_json(text, Version(), None) == Record(occurrences=(decided(),))


@gated(unsafe())
def wire(invoice: str) -> str:
    """Wire."""
    return invoice


def other(change: str) -> FunctionTool:
    if change == "schema":

        @gated(unsafe())
        def wire(invoice: str, payee: str = "") -> str:
            """Wire."""
            return invoice

        return wire
    effect = idempotent(key_lifetime_seconds=60) if change == "kind" else unsafe()
    described = "Wire twice." if change == "description" else "Wire."

    def same(invoice: str) -> str:
        return invoice

    same.__name__ = "wired" if change == "name" else "wire"
    same.__doc__ = described
    return gated(effect)(same)


def test_a_tool_built_anew_has_the_same_digest_and_a_changed_one_another() -> None:
    digests = {change: standing.tool_digest(other(change)) for change in ("schema", "kind", "description", "name")}

    assert standing.tool_digest(other("nothing")) == standing.tool_digest(wire)
    assert len({standing.tool_digest(wire), *digests.values()}) == 5


def test_only_an_agent_with_upstreams_middleware_takes_rules() -> None:
    client = ScriptedChatClient()

    def callback(_call: Content) -> bool:
        return False

    assert standing.standing_of(Agent(client, tools=[wire])) is None
    opted_in = Agent(client, tools=[wire], middleware=[ToolApprovalMiddleware(auto_approval_rules=[callback])])
    taken = standing.standing_of(opted_in)
    assert taken == standing.Standing({"wire": standing.tool_digest(wire)}, [callback])


PAYLOADS: list[tuple[Any, bool]] = [
    ({"approved": True, "standingRule": "everything"}, True),
    ({"approved": True, "standingRule": ["tool"]}, True),
    ({"approved": True, "standingRule": True}, True),
    ({"approved": False, "standingRule": "tool"}, True),
    ({"approved": True, "standingRule": "tool"}, False),
]


@pytest.mark.parametrize(("payload", "takes_rules"), PAYLOADS)
def test_a_rule_that_is_none_or_is_not_taken_makes_the_answer_invalid(payload: Any, takes_rules: bool) -> None:
    entry = Entry("i1", "resolved", payload, "resume")

    refusal = decide(entry, tool="wire", arguments=ARGUMENTS, takes_rules=takes_rules)

    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.RESUME_INVALID


def test_a_rule_is_no_edited_argument_and_makes_the_answer_another_one() -> None:
    def answered(**payload: Any) -> Decision:
        entry = Entry("i1", "resolved", {"approved": True, **payload}, "resume")
        decision = decide(entry, tool="wire", arguments=ARGUMENTS, takes_rules=True)
        assert isinstance(decision, Decision), decision
        return decision

    plain, ruled = answered(), answered(standingRule="tool")

    assert ruled == replace(plain, standing_rule=RuleReach.TOOL)
    assert answered(standingRule=None) == plain
    identities = {each.identity for each in (plain, ruled, answered(standingRule="tool_with_arguments"))}
    assert len(identities) == 3
    assert plain.identity == plain.digest == ruled.digest


@pytest.mark.parametrize("asked", [[], {"revoke": "all"}, {"revoke": [1]}, {}])
def test_a_malformed_wish_to_take_rules_back_is_refused(asked: Any) -> None:
    for name in ("forwardedProps", "forwarded_props"):
        refusal = revoked_by({name: {"standingRules": asked}})
        assert isinstance(refusal, Refusal)
        assert refusal.code is Code.RESUME_INVALID


def test_rules_are_taken_back_by_the_interrupts_that_gave_them() -> None:
    assert revoked_by({"forwardedProps": {"standingRules": {"revoke": ["i1", "i2"]}}}) == ("i1", "i2")
    for without in ({}, {"forwardedProps": {}}, {"forwardedProps": "text"}):
        assert revoked_by(without) == ()
    record = Record(standing_rules=(ANY, replace(EXACT, interrupt_id="i9")))
    assert standing.revoked(record, ["i0", "unknown"]).standing_rules == (replace(EXACT, interrupt_id="i9"),)


def test_the_same_answers_with_another_rule_are_another_input_of_a_run() -> None:
    digests = {Grant((given("i1", reach),)).input_digest for reach in RuleReach}

    assert len(digests | {Grant((decided("i1"),)).input_digest}) == 3
