"""A pause in which one approval has expired: the answers go on without it; and what a run alone can know of a tool."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app import admission
from app.answers import Entry
from app.errors import Code, Refusal
from app.gated_tools import GatedTool
from app.lifecycle import EXPIRY, Grant
from app.pairing import Replay
from stores.ports import Loaded
from stores.records import EffectKind, Occurrence
from tests.unit.threads import (
    APPROVAL,
    CANCELLATION,
    NOW,
    TOOLS,
    approve,
    cancel,
    code_of,
    decided,
    loaded,
    occurrence,
    reject,
)


def late(name: str, seconds: float = 0.0) -> Occurrence:
    return occurrence(name, expires_at=NOW - seconds)


def resume(thread: Loaded, *entries: Entry) -> Grant | Replay | Refusal:
    return admission.resume(thread, entries, run_id="new", tools=TOOLS, dead=())


def interrupts_of(answer: Grant | Replay | Refusal) -> tuple[str, ...]:
    assert isinstance(answer, Refusal), answer
    return answer.interrupts


def test_what_expired_is_left_out_and_ends_with_the_answers_to_the_rest() -> None:
    granted = resume(loaded(late("i1"), occurrence("i2"), late("i3", 1.0)), approve("i2"))

    assert isinstance(granted, Grant)
    assert [each.decision for each in granted.occurrences] == [EXPIRY, APPROVAL, EXPIRY]


@pytest.mark.parametrize("answer", [approve, reject, cancel])
def test_an_answer_to_what_expired_is_refused_with_all_of_it_named(answer: Callable[[str], Entry]) -> None:
    thread = loaded(late("i1"), occurrence("i2"), late("i3"))

    refused = resume(thread, answer("i1"), answer("i2"), answer("i3"))

    assert (code_of(refused), interrupts_of(refused)) == (Code.RESUME_EXPIRED, ("i1", "i3"))


def test_what_expired_beside_a_recorded_decision_stays_expired() -> None:
    thread = loaded(decided("i1", EXPIRY), decided("i2"))

    assert code_of(resume(thread, approve("i1"), approve("i2"))) is Code.RESUME_EXPIRED
    granted = resume(thread, approve("i2"))
    assert isinstance(granted, Grant)
    assert [each.decision for each in granted.occurrences] == [EXPIRY, APPROVAL]


def test_the_rest_may_be_cancelled_even_if_the_pause_lost_a_part() -> None:
    granted = resume(loaded(late("i1"), occurrence("i2"), pause_id=None), cancel("i2"))

    assert isinstance(granted, Grant)
    assert [each.decision for each in granted.occurrences] == [EXPIRY, CANCELLATION]


def test_every_open_interrupt_that_was_left_out_is_named() -> None:
    refused = resume(loaded(late("i1"), *map(occurrence, ("i2", "i3", "i4"))), approve("i3"))

    assert (code_of(refused), interrupts_of(refused)) == (Code.RESUME_MISSING_INTERRUPT, ("i2", "i4"))
    assert isinstance(refused, Refusal)
    assert refused.message == "Resume omitted pending interruptIds 'i2', 'i4'."


def test_the_digest_of_an_answer_speaks_of_what_expired() -> None:
    with_late, without = (resume(loaded(other, occurrence("i2")), approve("i2")) for other in (late("i1"), late("i3")))

    assert isinstance(with_late, Grant)
    assert isinstance(without, Grant)
    assert with_late.input_digest != without.input_digest


GONE = occurrence(tool="shelf", provided=True)


def test_a_tool_that_a_provider_offers_is_looked_at_in_the_run() -> None:
    assert isinstance(resume(loaded(GONE), approve()), Grant)
    assert code_of(resume(loaded(occurrence(tool="shelf")), approve())) is Code.TOOL_UNAVAILABLE


def test_a_provided_tool_that_became_the_agents_own_is_held_to_it() -> None:
    own = {"shelf": GatedTool(EffectKind.IDEMPOTENT)}

    refused = admission.resume(loaded(GONE), [approve()], run_id="new", tools=own, dead=())

    assert code_of(refused) is Code.TOOL_UNAVAILABLE


@pytest.mark.parametrize(("retries", "is_stuck"), [(0, False), (1, True)])
def test_a_decided_call_of_a_provided_tool_is_left_once_a_run_has_failed(retries: int, is_stuck: bool) -> None:
    thread = loaded(decided(tool="shelf", provided=True), retries=retries)

    assert leaves_stuck(thread, cancel()) is is_stuck
    assert not leaves_stuck(loaded(decided(), retries=retries), cancel())


def test_a_stuck_thread_is_left_without_naming_what_expired() -> None:
    thread = loaded(decided("i1", EXPIRY), decided("i2"), retries=10)

    assert leaves_stuck(thread, cancel("i2"))
    assert not leaves_stuck(thread, cancel("i1"))


def leaves_stuck(thread: Loaded, *entries: Entry) -> bool:
    return admission.leaves_stuck(thread, entries, tools=TOOLS, dead=(), retries_max=9, lost_effects=())
