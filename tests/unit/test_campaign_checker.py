"""The judge of the kill campaign, on campaigns that are forged: it accepts a clean one and catches every violation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deploy.agui_client import Reply
from tests.e2e.approvals import IDEMPOTENT, INDETERMINATE, TRANSACTIONAL, UNSAFE, Approval, BankEffects, Kind
from tests.e2e.campaign import Campaign
from tests.e2e.checker import violations
from tests.e2e.kill_orders import Hit

Json = dict[str, Any]

ASKED_ON, ANSWERED_ON = "replica-1", "replica-2"
ASKED_AT, KILLED_AT, ANSWERED_AT = 10.0, 20.0, 30.0
CUT = Reply(200, ASKED_ON, ({"type": "RUN_STARTED"},))


def finished(text: str, result: str, **metadata: Any) -> Reply:
    events = (
        {"type": "TOOL_CALL_RESULT", "content": result},
        {"type": "TEXT_MESSAGE_CONTENT", "delta": text},
        {"type": "RUN_FINISHED", "metadata": metadata},
    )
    return Reply(200, ANSWERED_ON, events)


def failed(code: str, **metadata: Any) -> Reply:
    return Reply(200, ANSWERED_ON, ({"type": "RUN_ERROR", "code": code, "metadata": metadata},))


@dataclass(slots=True)
class Forged:
    """A campaign in which every promise was kept, until a test breaks one."""

    approvals: dict[str, Approval] = field(default_factory=dict)
    hits: dict[str, Hit] = field(default_factory=dict)
    told: dict[str, list[Json]] = field(default_factory=lambda: {"payments": [], "wires": [], "refunds": []})

    def kill(self, approval: Approval) -> None:
        """Kill the replica that carries an approval out at the step that was ordered."""
        self.hits[approval.invoice] = Hit(KILLED_AT, approval.thread_id, approval.step, ASKED_ON, {})

    def effect(self, kind: Kind, invoice: str) -> Json:
        """Enter one more effect into the bank's books."""
        effects = self.told[kind.counted]
        effects.append({"invoice": invoice, "receipt": f"{kind.name}-receipt-{len(effects)}"})
        return effects[-1]

    def forge(self, kind: Kind, invoice: str, step: str) -> Approval:
        """Add an approval that lost its replica at a step, sent the same again and waits for its end."""
        asked = Reply(200, ASKED_ON)
        approval = Approval(kind, invoice, step, asked=asked, asked_at=ASKED_AT, answered_at=ANSWERED_AT)
        approval.replies = [CUT, Reply(), Reply(502), failed("APPROVAL_RESUME_IN_PROGRESS")]
        self.approvals[invoice] = approval
        self.kill(approval)
        return approval

    def answer(self, approval: Approval) -> None:
        """Let an approval have its effect and its answer."""
        result = approval.kind.result.format(**self.effect(approval.kind, approval.invoice))
        approval.replies.append(finished(f"Done: {result}", result))
        approval.duplicate = finished(f"Done: {result}", result, replay=True)

    def doubt(self, approval: Approval) -> None:
        """Let an approval be reported as one that may have had its effect."""
        approval.replies.append(failed(INDETERMINATE, definite=False))
        approval.duplicate = failed(INDETERMINATE, definite=False)

    def violations(self) -> list[str]:
        """Let the campaign be judged."""
        campaign = Campaign(list(self.approvals.values()), list(self.hits.values()), BankEffects(self.told))
        return violations(campaign, hits_min=5)


@pytest.fixture
def forged() -> Forged:
    forged = Forged()
    forged.answer(forged.forge(IDEMPOTENT, "payment", "after-effect"))
    forged.answer(forged.forge(TRANSACTIONAL, "refund", "before-settle"))
    forged.answer(forged.forge(UNSAFE, "wire", "before-claim"))
    doubtful = forged.forge(UNSAFE, "doubtful", "after-effect")
    forged.effect(UNSAFE, doubtful.invoice)
    forged.doubt(doubtful)
    forged.doubt(forged.forge(UNSAFE, "undone", "after-begin"))
    return forged


def test_a_clean_campaign_breaks_no_promise(forged: Forged) -> None:
    assert forged.violations() == []


def loses_no_replica(forged: Forged) -> None:
    del forged.hits["payment"]


def stays_where_it_was(forged: Forged) -> None:
    for approval in list(forged.approvals.values())[:3]:
        approval.asked = replace(approval.asked, replica=ANSWERED_ON)


def pays_twice(forged: Forged) -> None:
    forged.effect(IDEMPOTENT, "payment")


def refunds_twice(forged: Forged) -> None:
    forged.effect(TRANSACTIONAL, "refund")


def wires_twice(forged: Forged) -> None:
    forged.effect(UNSAFE, "wire")


def wires_twice_in_doubt(forged: Forged) -> None:
    forged.effect(UNSAFE, "doubtful")


def refunds_what_nobody_approved(forged: Forged) -> None:
    forged.effect(TRANSACTIONAL, "other")


def wires_what_nobody_approved(forged: Forged) -> None:
    forged.effect(UNSAFE, "other")


def refunds_nothing(forged: Forged) -> None:
    forged.told["refunds"].clear()


def wires_nothing(forged: Forged) -> None:
    forged.told["wires"] = [effect for effect in forged.told["wires"] if effect["invoice"] != "wire"]


def says_a_receipt_that_the_bank_does_not_know(forged: Forged) -> None:
    forged.told["payments"][0]["receipt"] = "another"


def keeps_the_result_to_itself(forged: Forged) -> None:
    payment = forged.approvals["payment"]
    (result,) = payment.answer.tool_results
    payment.replies[-1] = finished("Done.", result)
    payment.duplicate = finished("Done.", result, replay=True)


def _end(forged: Forged, invoice: str, reply: Reply) -> None:
    approval = forged.approvals[invoice]
    approval.replies[-1] = approval.duplicate = reply


def forgets_a_payment(forged: Forged) -> None:
    _end(forged, "payment", failed("APPROVAL_RESUME_NOT_FOUND"))


def never_answers(forged: Forged) -> None:
    _end(forged, "wire", CUT)


def doubts_a_payment(forged: Forged) -> None:
    _end(forged, "payment", failed(INDETERMINATE, definite=False))


def fails_on_the_way(forged: Forged) -> None:
    forged.approvals["payment"].replies.insert(0, Reply(500, ASKED_ON))


def loses_it_on_the_way(forged: Forged) -> None:
    forged.approvals["refund"].replies.insert(0, failed("APPROVAL_RESUME_NOT_FOUND"))


def carries_the_duplicate_out(forged: Forged) -> None:
    payment = forged.approvals["payment"]
    payment.duplicate = payment.answer


def refuses_the_duplicate(forged: Forged) -> None:
    refund = forged.approvals["refund"]
    (result,) = refund.answer.tool_results
    refund.duplicate = replace(finished(refund.answer.text, result), events=failed("APPROVAL_RESUME_CONFLICT").events)


def answers_the_duplicate_in_other_words(forged: Forged) -> None:
    payment = forged.approvals["payment"]
    payment.duplicate = finished("Something else.", *payment.answer.tool_results, replay=True)


def answers_after_a_kill_in_the_middle_of_a_wire(forged: Forged) -> None:
    wire = forged.approvals["wire"]
    wire.step = "after-effect"
    forged.kill(wire)


def doubts_what_was_not_begun(forged: Forged) -> None:
    undone = forged.approvals["undone"]
    undone.step = "after-load"
    forged.kill(undone)


def is_sure_of_its_doubt(forged: Forged) -> None:
    _end(forged, "doubtful", failed(INDETERMINATE, definite=True))


@pytest.mark.parametrize(
    ("violate", "findings"),
    [
        (loses_no_replica, ["only 4 of 5 approvals lost"]),
        (stays_where_it_was, ["only 2 of 5 approvals were ended by another process"]),
        (pays_twice, ["2 effects for 1 approvals of idempotent calls", "payment, ordered after-effect: 2 effects"]),
        (refunds_twice, ["2 effects for 1 approvals of transactional", "refund, ordered before-settle: 2 effects"]),
        (wires_twice, ["wire, ordered before-claim: 2 effects"]),
        (wires_twice_in_doubt, ["doubtful, ordered after-effect: 2 effects"]),
        (refunds_what_nobody_approved, ["2 effects for 1 approvals of transactional calls"]),
        (wires_what_nobody_approved, ["1 unsafe effects that nobody approved"]),
        (refunds_nothing, ["0 effects for 1 approvals of transactional calls", "answered without an effect"]),
        (wires_nothing, ["wire, ordered before-claim: answered without an effect"]),
        (says_a_receipt_that_the_bank_does_not_know, ["receipt another.' is missing in"]),
        (keeps_the_result_to_itself, ["is missing in"]),
        (forgets_a_payment, ["ended with"]),
        (never_answers, ["ended with"]),
        (doubts_a_payment, ["ended with"]),
        (fails_on_the_way, ["was told on the way"]),
        (loses_it_on_the_way, ["was told on the way"]),
        (carries_the_duplicate_out, ["a duplicate got"]),
        (refuses_the_duplicate, ["a duplicate got APPROVAL_RESUME_CONFLICT", "a duplicate replays"]),
        (answers_the_duplicate_in_other_words, ["a duplicate replays"]),
        (answers_after_a_kill_in_the_middle_of_a_wire, ["which nobody reported as doubt"]),
        (doubts_what_was_not_begun, ["in doubt, but no replica died"]),
        (is_sure_of_its_doubt, ["yet reported as definite"]),
    ],
)
def test_a_violation_is_caught_and_nothing_else_is(
    forged: Forged, violate: Callable[[Forged], None], findings: list[str]
) -> None:
    violate(forged)

    found = forged.violations()

    assert len(found) == len(findings), found
    assert all(finding in each for each, finding in zip(found, findings, strict=True)), found
