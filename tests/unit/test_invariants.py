"""The invariants, on forged histories: a clean one breaks none, and for each rule there is one that breaks it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.history import Answer, Fault, Replied, Sent
from loadtests.invariants import Violation, violations
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND, REQUIRED
from stores.records import Verdict
from tests.unit.forged import approval, card, result
from tests.unit.plain import Forged, plain_history


@pytest.fixture
def forged() -> Forged:
    return plain_history()


def test_a_clean_history_breaks_no_rule(forged: Forged) -> None:
    assert violations(forged.events, forged.effects) == []


def pays_what_nobody_was_asked_for(forged: Forged) -> None:
    forged.happen("pay-1", key="another", arguments='{"invoice":"pay-9"}')


def pays_under_another_key(forged: Forged) -> None:
    forged.effects[0] = replace(forged.effects[0], key="pay-1-again")


def pays_what_is_not_answered_yet(forged: Forged) -> None:
    forged.happen("pay-2")


def pays_before_the_approval(forged: Forged) -> None:
    forged.effects[0] = replace(forged.effects[0], at=1.0)


def refunds_twice(forged: Forged) -> None:
    forged.happen("refund-1", at=None)


def pays_with_other_arguments(forged: Forged) -> None:
    forged.effects[0] = replace(forged.effects[0], arguments="{}")


def refunds_as_shown_what_was_edited(forged: Forged) -> None:
    forged.show("edit", "refund-9")
    forged.happen("refund-9", at=None)
    forged.answer("edit", approval("refund-9", arguments='{"invoice":"refund-8"}'))


def answers_without_paying(forged: Forged) -> None:
    del forged.effects[0]


def answers_with_another_result(forged: Forged) -> None:
    forged.effects[1] = replace(forged.effects[1], result="done otherwise")


def refuses_definitely_after_the_effect(forged: Forged) -> None:
    forged.send("both", Answer("pay-1", Verdict.CANCEL), code=CONFLICT, definite=True)


def wires_what_it_definitely_refused(forged: Forged) -> None:
    forged.show("busy", "wire-9")
    forged.send("busy", approval("wire-9"), code="THREAD_BUSY", definite=True)
    forged.happen("wire-9")
    forged.look("busy", "wire-9")


def wires_what_was_rejected(forged: Forged) -> None:
    forged.show("two", "wire-9")
    forged.send("two", approval("wire-9"), is_cut=True)
    forged.happen("wire-9")
    forged.answer("two", Answer("wire-9", Verdict.REJECT))


def wires_what_expired(forged: Forged) -> None:
    forged.show("busy", "wire-9")
    forged.send("busy", approval("wire-9"), is_cut=True)
    forged.happen("wire-9", at=None)
    forged.events.append(Sent(1001.0, "too late", "alice", "busy", (approval("wire-9"),)))
    forged.events.append(Replied(1002.0, "too late", code=EXPIRED))


def pays_what_was_approved_too_late(forged: Forged) -> None:
    forged.events.append(Sent(1005.0, "too late", "alice", "over", (approval("pay-3"),)))
    forged.events.append(Replied(1006.0, "too late", results=(result("pay-3"),), text="done"))
    forged.happen("pay-3", at=1005.5)


def replays_in_other_words(forged: Forged) -> None:
    both = (approval("pay-1"), approval("refund-1"))
    forged.send("both", *both, is_replay=True, results=(result("pay-1"), result("refund-1")), text="Something else.")


def carries_the_duplicate_out(forged: Forged) -> None:
    forged.answer("both", approval("pay-1"), approval("refund-1"))


def takes_a_conflicting_repeat(forged: Forged) -> None:
    first = next(event for event in forged.events if isinstance(event, Replied) and event.code == CONFLICT)
    told = next(event for event in forged.events if isinstance(event, Replied) and event.is_replay)
    forged.events[forged.events.index(first)] = replace(told, at=first.at, request=first.request)
    # An edit, since a rejection that is told a result is broken in another way too.
    sent = next(event for event in forged.events if isinstance(event, Sent) and event.request == first.request)
    edit = (approval("pay-1", arguments="{}"),)
    forged.events[forged.events.index(sent)] = replace(sent, answers=edit)


def wires_again_after_a_doubt(forged: Forged) -> None:
    forged.happen("wire-1")


def answers_after_a_death_in_the_middle(forged: Forged) -> None:
    forged.happen("wire-1", at=None)
    forged.answer("doubt", approval("wire-1"))


def doubts_what_is_not_unsafe(forged: Forged) -> None:
    forged.send("open", approval("pay-2"), code=IN_DOUBT)


def doubts_without_a_cause(forged: Forged) -> None:
    forged.events = [event for event in forged.events if not isinstance(event, Fault)]


def is_sure_of_its_doubt(forged: Forged) -> None:
    forged.send("doubt", approval("wire-1"), code=IN_DOUBT, definite=True)


def waits_for_nothing(forged: Forged) -> None:
    forged.send("open", is_paused=True)


def shows_a_card_after_its_end(forged: Forged) -> None:
    forged.look("no", "wire-2")


def shows_a_card_after_its_time(forged: Forged) -> None:
    forged.events.append(Sent(1003.0, "later", "alice", "late", looks=True))
    forged.events.append(Replied(1004.0, "later", cards=(card("wire-3"),)))


def says_that_it_is_open_after_its_end(forged: Forged) -> None:
    forged.send("no", looks=True, open=("wire-2",))


def demands_an_answer_where_all_are_given(forged: Forged) -> None:
    forged.send("no", is_cut=True)
    forged.send("no", code=REQUIRED)


def forgets_a_card(forged: Forged) -> None:
    forged.look("open")


def does_not_find_a_card(forged: Forged) -> None:
    forged.send("open", approval("pay-2"), code=NOT_FOUND)


def forgets_a_card_that_is_not_over_yet(forged: Forged) -> None:
    forged.look("open", "pay-2")
    forged.events.append(Sent(999.0, "early", "alice", "open", looks=True))
    forged.events.append(Replied(999.5, "early"))


def expires_before_its_time(forged: Forged) -> None:
    forged.send("open", approval("pay-2"), code=EXPIRED, definite=True)


def shows_a_card_to_another_scope(forged: Forged) -> None:
    forged.send("open", scope="bob", looks=True, open=("pay-2",))


def tells_another_scope_a_result(forged: Forged) -> None:
    forged.send("both", scope="bob", looks=True, results=(result("refund-1"),))


def tells_another_scope_that_there_is_such_a_card(forged: Forged) -> None:
    forged.send("open", approval("pay-2"), scope="bob", code=CONFLICT)


def answers_in_another_thread(forged: Forged) -> None:
    forged.send("other", Answer("pay-2", Verdict.REJECT))


BROKEN = [
    (pays_what_nobody_was_asked_for, "", "no effect without an approval"),
    (pays_under_another_key, "pay-1", "a far side is given the approval's own key"),
    (pays_what_is_not_answered_yet, "pay-2", "no effect without an approval"),
    (pays_before_the_approval, "pay-1", "no effect without an approval"),
    (refunds_twice, "refund-1", "at most one effect per approval"),
    (pays_with_other_arguments, "pay-1", "executed arguments are the approved ones"),
    (refunds_as_shown_what_was_edited, "refund-9", "executed arguments are the approved ones"),
    (answers_without_paying, "pay-1", "an answered approval has its effect"),
    (answers_with_another_result, "refund-1", "an answered approval has its effect"),
    (refuses_definitely_after_the_effect, "pay-1", "a definite refusal has no effect"),
    (wires_what_it_definitely_refused, "wire-9", "a definite refusal has no effect"),
    (wires_what_was_rejected, "wire-9", "what was rejected, cancelled or expired has no effect"),
    (wires_what_expired, "wire-9", "what was rejected, cancelled or expired has no effect"),
    (pays_what_was_approved_too_late, "pay-3", "what was rejected, cancelled or expired has no effect"),
    (replays_in_other_words, "pay-1", "a duplicate replays the one answer"),
    (carries_the_duplicate_out, "pay-1", "a duplicate replays the one answer"),
    (takes_a_conflicting_repeat, "pay-1", "a conflicting repeat is refused"),
    (wires_again_after_a_doubt, "wire-1", "an unsafe call never runs again after a doubt"),
    (answers_after_a_death_in_the_middle, "wire-1", "an unsafe call never runs again after a doubt"),
    (doubts_what_is_not_unsafe, "pay-2", "a doubt has a cause"),
    (doubts_without_a_cause, "wire-1", "a doubt has a cause"),
    (is_sure_of_its_doubt, "wire-1", "every reply is one that clients know"),
    (waits_for_nothing, "pay-2", "no pause without an open question"),
    (shows_a_card_after_its_end, "wire-2", "no pause without an open question"),
    (shows_a_card_after_its_time, "wire-3", "no pause without an open question"),
    (says_that_it_is_open_after_its_end, "wire-2", "no pause without an open question"),
    (demands_an_answer_where_all_are_given, "wire-2", "no pause without an open question"),
    (forgets_a_card, "pay-2", "nothing acknowledged is lost"),
    (forgets_a_card_that_is_not_over_yet, "pay-2", "nothing acknowledged is lost"),
    (does_not_find_a_card, "pay-2", "nothing acknowledged is lost"),
    (expires_before_its_time, "pay-2", "nothing acknowledged is lost"),
    (shows_a_card_to_another_scope, "pay-2", "other scopes and threads see nothing"),
    (tells_another_scope_a_result, "refund-1", "other scopes and threads see nothing"),
    (tells_another_scope_that_there_is_such_a_card, "pay-2", "other scopes and threads see nothing"),
    (answers_in_another_thread, "pay-2", "other scopes and threads see nothing"),
]


@pytest.mark.parametrize(("violate", "approval", "rule"), BROKEN)
def test_a_broken_rule_is_named_with_its_approval_and_no_other_is(
    forged: Forged, violate: Callable[[Forged], None], approval: str, rule: str
) -> None:
    violate(forged)

    found = violations(forged.events, forged.effects)

    assert (approval, rule) in {(each.approval, each.rule) for each in found}, found
    assert {each.rule for each in found} == {rule}, found


def test_a_violation_says_which_approval_broke_which_rule(forged: Forged) -> None:
    forged.happen("refund-1", at=None)

    (found,) = violations(forged.events, forged.effects)

    assert found == Violation("refund-1", "at most one effect per approval", "2 effects of one transactional call")
