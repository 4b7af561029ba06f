"""What a client sends for a card is a decision about exactly what the card showed, or it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers import Entry, approval_digest, canonical, decide, digest
from app.errors import Code, Refusal
from stores.records import Decision, Verdict

SHOWN: dict[str, Any] = {
    "text": "a",
    "number": 1.5,
    "whole": 1,
    "flag": True,
    "list": [1],
    "object": {"x": 1},
    "nothing": None,
}

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def answer(payload: Any, *, status: str = "resolved", shown: dict[str, Any] | None = None) -> Decision | Refusal:
    arguments = canonical(SHOWN if shown is None else shown)
    return decide(Entry("i1", status, payload, "resume"), tool="pay", arguments=arguments)


def executed(payload: Any) -> dict[str, Any]:
    decision = answer(payload)
    assert isinstance(decision, Decision), decision
    assert decision.digest == approval_digest("pay", decision.arguments)
    arguments: dict[str, Any] = json.loads(decision.arguments)
    return arguments


@pytest.mark.parametrize(
    "payload", [{"approved": True}, {"accepted": True}, '{"approved": true}', {"accepted": True, "editedArgs": None}]
)
def test_an_approval_executes_what_was_shown(payload: Any) -> None:
    assert executed(payload) == SHOWN


@pytest.mark.parametrize("payload", [{"approved": False}, {"accepted": False}, {"approved": False, "unknown": 1}])
def test_a_rejection_needs_no_arguments_and_ignores_those_it_has(payload: Any) -> None:
    assert answer(payload) == Decision(Verdict.REJECT, "", digest("reject"))


@pytest.mark.parametrize("payload", [None, {"approved": True}, "anything"])
def test_a_cancellation_needs_no_payload(payload: Any) -> None:
    assert answer(payload, status="cancelled") == Decision(Verdict.CANCEL, "", digest("cancel"))


@pytest.mark.parametrize("payload", [{"approved": True, "accepted": False}, {"accepted": False, "approved": True}])
def test_two_verdicts_that_differ_are_no_verdict(payload: Any) -> None:
    refused = answer(payload)

    assert isinstance(refused, Refusal)
    assert refused.code is Code.RESUME_INVALID


def test_arguments_beside_the_verdict_replace_those_they_name() -> None:
    assert executed({"approved": True, "text": "b"}) == {**SHOWN, "text": "b"}


def test_edited_args_replace_all_arguments() -> None:
    edited = {**SHOWN, "text": "b", "list": []}

    assert executed({"approved": True, "editedArgs": edited}) == edited


@pytest.mark.parametrize(
    ("name", "value"),
    [("number", 2), ("whole", 2.5), ("list", []), ("object", {}), ("nothing", "now something"), ("flag", False)],
)
def test_an_edit_keeps_the_json_type_that_was_shown(name: str, value: Any) -> None:
    assert executed({"approved": True, name: value})[name] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("text", 1), ("text", None), ("number", "2"), ("number", True), ("flag", 1), ("list", {}), ("object", [])],
)
def test_an_edit_of_another_json_type_does_not_fit(name: str, value: Any) -> None:
    refused = answer({"approved": True, name: value})

    assert isinstance(refused, Refusal)
    assert (refused.code, f"'{name}'" in refused.message) == (Code.RESUME_INVALID_RESPONSE, True)


@pytest.mark.parametrize(
    ("payload", "status", "code"),
    [
        (None, "resolved", Code.RESUME_INVALID),
        ([], "resolved", Code.RESUME_INVALID),
        ("yes", "resolved", Code.RESUME_INVALID),
        ("[]", "resolved", Code.RESUME_INVALID),
        ({}, "resolved", Code.RESUME_INVALID),
        ({"approved": "true"}, "resolved", Code.RESUME_INVALID),
        ({"approved": 1}, "resolved", Code.RESUME_INVALID),
        ({"approved": None, "accepted": True}, "resolved", Code.RESUME_INVALID),
        ({"approved": True}, "approved", Code.RESUME_INVALID),
        ({"approved": True}, "", Code.RESUME_INVALID),
        ({"approved": True, "amount": 1}, "resolved", Code.RESUME_INVALID),
        ({"approved": True, "editedArgs": {**SHOWN, "amount": 1}}, "resolved", Code.RESUME_INVALID),
        ({"approved": True, "editedArgs": {"text": "b"}}, "resolved", Code.RESUME_INVALID_RESPONSE),
        ({"approved": True, "editedArgs": []}, "resolved", Code.RESUME_INVALID_RESPONSE),
        ({"approved": True, "editedArgs": "text"}, "resolved", Code.RESUME_INVALID_RESPONSE),
        ({"approved": True, "editedArgs": SHOWN, "text": "b"}, "resolved", Code.RESUME_INVALID_RESPONSE),
    ],
)
def test_what_is_no_decision_is_refused_in_one_sentence_that_names_the_card(
    payload: Any, status: str, code: Code
) -> None:
    refused = answer(payload, status=status)

    assert isinstance(refused, Refusal)
    assert refused.code is code
    assert refused.message.startswith("The answer for interruptId 'i1' ")
    assert refused.message.endswith(".")


@pytest.mark.parametrize("text", ['{"approved": true, "payee": "Z\\u0000"}', '{"approved": true, "payee": "\\ud800"}'])
def test_text_that_no_store_carries_is_no_answer_inside_text_either(text: str) -> None:
    refused = decide(
        Entry("i", "resolved", text, "resume"), tool="pay", arguments='{"payee":"ACME"}', takes_rules=False
    )

    assert isinstance(refused, Refusal)
    assert refused.code is Code.RESUME_INVALID


def test_a_call_without_arguments_can_be_approved_but_not_edited() -> None:
    assert isinstance(answer({"approved": True}, shown={}), Decision)
    assert isinstance(answer({"approved": True, "editedArgs": {}}, shown={}), Decision)
    assert isinstance(answer({"approved": True, "text": "b"}, shown={}), Refusal)


@given(payload=JSON_VALUES, status=st.sampled_from(["resolved", "cancelled", "other"]))
def test_whatever_is_sent_is_a_decision_or_a_refusal(payload: Any, status: str) -> None:
    found = answer(payload, status=status)

    assert isinstance(found, Decision | Refusal)
    if isinstance(found, Decision) and found.verdict is Verdict.APPROVE:
        assert set(json.loads(found.arguments)) == set(SHOWN)


@given(shown=st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_repeating_what_was_shown_is_the_same_decision_as_approving_it(shown: dict[str, Any]) -> None:
    plain = answer({"approved": True}, shown=shown)

    assert answer({"accepted": True, "editedArgs": shown}, shown=shown) == plain


@given(first=st.lists(st.text()), second=st.lists(st.text()))
def test_a_digest_tells_its_parts_apart(first: list[str], second: list[str]) -> None:
    assert (digest(*first) == digest(*second)) == (first == second)


def test_canonical_json_does_not_depend_on_order_or_spelling() -> None:
    assert canonical({"b": 1, "a": "é"}) == canonical(json.loads('{ "a": "\\u00e9", "b": 1 }')) == '{"a":"é","b":1}'
