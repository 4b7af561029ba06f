"""Hosts do not fail by themselves: nearly every cut, and every outage that is told, had met a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtests.cases import cases
from loadtests.failing import FEW, failures_without_cause, too_many_told_failures
from loadtests.history import Exchange, Fault, FaultKind, Mended, Replied, Sent
from loadtests.threads import CONFLICT, EXPIRED, IN_PROGRESS, RUN_FAILED, STORE_UNAVAILABLE
from loadtests.troubles import Troubles
from tests.unit.forged import Timed, approval, result

FAILED: list[dict[str, object]] = [
    {"is_cut": True},
    {"code": RUN_FAILED},
    {"code": STORE_UNAVAILABLE},
    {"code": "HTTP 502", "status": 502, "replica": ""},
]


def told(times: int, *, fine: int = 0, **reply: object) -> list[Exchange]:
    """Let so many requests be told the same, one a second, and of as many as are `fine` beside them an end."""
    exchanges = [Exchange(Sent(at, f"r{at}", "alice", "t"), Replied(at + 0.5, f"r{at}")) for at in range(times)]
    beside = [Exchange(Sent(at, f"f{at}", "alice", "fine"), Replied(at + 0.5, f"f{at}")) for at in range(fine)]
    failed = [replace(each, replied=replace(each.replied, **{"replica": "a", **reply})) for each in exchanges]  # type: ignore[arg-type]  # fields of Replied
    return [*failed, *beside]


@pytest.mark.parametrize("reply", FAILED)
def test_more_than_a_few_failures_without_a_fault_are_too_many(reply: dict[str, object]) -> None:
    nothing = Troubles.of([])

    assert list(failures_without_cause(told(FEW, fine=90, **reply), nothing)) == []
    assert list(failures_without_cause(told(FEW + 1, fine=90, **reply), nothing))


def test_one_of_a_hundred_may_fail_without_a_fault() -> None:
    nothing = Troubles.of([])

    assert list(failures_without_cause(told(10, fine=990, is_cut=True), nothing)) == []
    assert list(failures_without_cause(told(11, fine=989, is_cut=True), nothing))


def test_who_leaves_has_not_been_cut_off() -> None:
    assert list(failures_without_cause(told(100, is_cut=True, has_left=True), Troubles.of([]))) == []


@pytest.mark.parametrize("code", [CONFLICT, EXPIRED, None])
def test_what_is_told_when_nothing_fails_is_no_failure(code: str | None) -> None:
    assert list(failures_without_cause(told(100, code=code), Troubles.of([]))) == []


def test_a_fault_explains_the_failures_at_its_replica_alone() -> None:
    kind = FaultKind.FREEZE
    troubles = Troubles.of([Fault(0.0, "a", kind=kind), Mended(100.0, "a", kind)])

    assert list(failures_without_cause(told(100, fine=300, is_cut=True), troubles)) == []
    assert list(failures_without_cause(told(100, fine=300, is_cut=True, replica="b"), troubles))


def test_while_any_replica_is_away_the_load_balancer_may_refuse() -> None:
    refused = told(100, fine=300, code="HTTP 502", status=502, replica="")
    killed = Fault(0.0, "a", kind=FaultKind.KILL)

    assert list(failures_without_cause(refused, Troubles.of([killed, Mended(99.0, "a", FaultKind.KILL)]))) == []
    assert list(failures_without_cause(refused, Troubles.of([killed, Mended(50.0, "a", FaultKind.KILL)])))


@pytest.mark.parametrize(("fine", "is_too_much"), [(200, False), (199, True)])
def test_no_fault_explains_that_more_than_a_third_of_all_fails(fine: int, is_too_much: bool) -> None:
    troubles = Troubles.of([Fault(0.0, "a", kind=FaultKind.FREEZE)])

    assert bool(list(failures_without_cause(told(100, fine=fine, is_cut=True), troubles))) is is_too_much


def test_a_thread_that_is_busy_for_nobody_has_failed() -> None:
    nothing = Troubles.of([])

    assert list(failures_without_cause(told(FEW, fine=90, code=IN_PROGRESS), nothing)) == []
    assert list(failures_without_cause(told(FEW + 1, fine=90, code=IN_PROGRESS), nothing))


@pytest.mark.parametrize(("times", "is_too_much"), [(FEW, False), (FEW + 1, True)])
def test_a_call_is_hardly_ever_told_as_failed(times: int, is_too_much: bool) -> None:
    run = Timed()
    for number in range(times + 10):
        name, is_failed = f"wire-{number}", number < times
        run.show(1.0, 2.0, f"t-{number}", name)
        said = replace(result(name), content="Error: nothing was wired.", is_error=True) if is_failed else result(name)
        run.send(3.0, 4.0, f"t-{number}", approval(name), results=(said,))

    found, _ = cases(run.history, run.effects)
    assert bool(list(too_many_told_failures(found))) is is_too_much
