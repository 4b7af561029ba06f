"""Streams of a real host, as a client kept them, in the words of a history."""

from __future__ import annotations

from typing import Any

from app.end_texts import REJECTED_TEXT
from deploy.agui_client import Reply
from loadtests.history import Card, Replied, Result
from loadtests.shown import NEVER, card, replied
from stores.records import EffectKind

Json = dict[str, Any]

PAID = "Paid INV-1 to ACME, receipt payment-1."
CANCELLED = "The approval was cancelled; the call was not run."
EXPIRES_AT = 1796088077.565118


def _interrupt(name: str, tool: str, arguments: Json) -> Json:
    call = {"call_id": f"call_{name}", "name": tool, "arguments": arguments}
    request = {"type": "function_approval_request", "function_call": call}
    return {
        "id": f"af-call-{name}",
        "reason": "tool_call",
        "message": f"Approve running {tool}?",
        "toolCallId": f"call_{name}",
        "expiresAt": "2026-12-01T01:21:17.565118+00:00",
        "metadata": {"agent_framework": {**request, "value": request}, "agui": {"pauseId": "1c7393bf"}},
    }


PAY = _interrupt("1", "pay_invoice", {"payee": "ACME", "invoice": "INV-1"})
PAUSED: Json = {
    "metadata": {"approvals": [{"interruptId": "af-call-1", "state": "pending"}]},
    "type": "RUN_FINISHED",
    "threadId": "t",
    "runId": "r",
    "outcome": {"type": "interrupt", "interrupts": [PAY]},
}
FINISHED: Json = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
CONFLICT: Json = {
    "metadata": {"definite": True},
    "type": "RUN_ERROR",
    "message": "Another decision is recorded for interruptId 'af-call-1'. Reload the thread.",
    "code": "APPROVAL_RESUME_CONFLICT",
}


def _shown(*events: Json, status: int = 200) -> Replied:
    return replied("u:1", Reply(status, "host-2", events), at=7.0)


def _result(content: str) -> Json:
    return {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "call_1", "content": content, "role": "tool"}


def _picture(*messages: Json) -> Json:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}


def _is_error(content: str) -> bool:
    [result] = _shown(_result(content), FINISHED).results
    return result.is_error


def test_a_pause_shows_its_cards_and_what_is_open() -> None:
    shown = Card(
        "af-call-1",
        "call_1",
        "pay_invoice",
        EffectKind.IDEMPOTENT,
        '{"invoice":"INV-1","payee":"ACME"}',
        EXPIRES_AT,
    )
    assert _shown({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}, PAUSED) == Replied(
        7.0, "u:1", is_paused=True, cards=(shown,), open=("af-call-1",), replica="host-2", names=("INV-1",)
    )


def test_a_card_may_have_its_arguments_as_text_and_no_end_of_its_time() -> None:
    interrupt = _interrupt("2", "wire_transfer", {})
    interrupt["metadata"]["agent_framework"]["function_call"]["arguments"] = '{"payee": "ACME", "invoice": "INV-2"}'
    del interrupt["expiresAt"]
    shown = card(interrupt)
    assert (shown.kind, shown.arguments, shown.expires_at) == (
        EffectKind.UNSAFE,
        '{"invoice":"INV-2","payee":"ACME"}',
        NEVER,
    )


def test_an_end_has_its_results_and_words_and_says_whether_it_is_a_replay() -> None:
    words = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta} for delta in ("Here ", "it is.")]
    shown = _shown(_result(PAID), *words, {**FINISHED, "metadata": {"replay": True}})
    assert shown == Replied(
        7.0,
        "u:1",
        is_replay=True,
        results=(Result("call_1", PAID),),
        text="Here it is.",
        replica="host-2",
        names=("INV-1",),
    )


def test_a_page_shows_the_results_of_its_last_picture() -> None:
    asked = {"id": "1", "role": "user", "content": "pay INV-1 and INV-2 to ACME"}
    paid = {"id": "2", "role": "tool", "content": PAID, "toolCallId": "call_1"}
    shown = _shown(_picture(asked), _picture(asked, paid), FINISHED)
    assert (shown.page, shown.names) == ((Result("call_1", PAID),), ("INV-1", "INV-2"))


def test_an_invoice_is_seen_whatever_event_speaks_of_it() -> None:
    state = {"type": "STATE_SNAPSHOT", "snapshot": {"seen": [{"of": "INV-7"}]}}
    assert _shown(state, FINISHED).names == ("INV-7",)


def test_a_name_that_comes_in_two_parts_is_one() -> None:
    parts = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta} for delta in ("INV-1", "2 is paid.")]
    other = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "n", "delta": "INV-3"}
    assert _shown(parts[0], other, parts[1], FINISHED).names == ("INV-12", "INV-3")


def test_who_left_is_cut_and_who_was_answered_before_has_not_left() -> None:
    assert replied("u:1", Reply(200, "a", ()), at=7.0, has_left=True).has_left
    assert not replied("u:1", Reply(200, "a", (FINISHED,)), at=7.0, has_left=True).has_left


def test_only_what_failed_is_an_error_and_not_what_a_person_did_not_want() -> None:
    assert _is_error("Error: Function failed.")
    assert not any(map(_is_error, (PAID, CANCELLED, REJECTED_TEXT)))


def test_a_refusal_has_its_code_and_may_be_definite() -> None:
    assert _shown(CONFLICT) == Replied(7.0, "u:1", code="APPROVAL_RESUME_CONFLICT", definite=True, replica="host-2")


def test_a_refusal_by_http_is_never_definite_and_no_stream_that_was_cut() -> None:
    assert _shown(status=503) == Replied(7.0, "u:1", code="HTTP 503", status=503, replica="host-2")


def test_a_stream_without_its_end_is_cut_and_so_is_no_reply_at_all() -> None:
    assert _shown(_result(PAID)).outcome == "info"
    assert _shown(_result(PAID)).is_cut
    assert replied("u:1", Reply(), at=7.0) == Replied(7.0, "u:1", is_cut=True, status=0)
