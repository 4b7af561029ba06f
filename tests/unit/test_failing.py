"""Hosts do not fail by themselves: nearly every cut, and every outage that is told, had met a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtests.failing import FEW, failures_without_cause
from loadtests.history import Exchange, Fault, FaultKind, Mended, Replied, Sent
from loadtests.threads import CONFLICT, IN_PROGRESS, RUN_FAILED, STORE_UNAVAILABLE
from loadtests.troubles import Troubles

FAILED: list[dict[str, object]] = [
    {"is_cut": True},
    {"code": RUN_FAILED},
    {"code": STORE_UNAVAILABLE},
    {"code": "HTTP 502", "status": 502, "replica": ""},
]


def told(times: int, **reply: object) -> list[Exchange]:
    """Let so many requests be told the same, one a second."""
    exchanges = [Exchange(Sent(at, f"r{at}", "alice", "t"), Replied(at + 0.5, f"r{at}")) for at in range(times)]
    return [replace(each, replied=replace(each.replied, **{"replica": "a", **reply})) for each in exchanges]  # type: ignore[arg-type]  # fields of Replied


@pytest.mark.parametrize("reply", FAILED)
def test_more_than_a_few_failures_without_a_fault_are_too_many(reply: dict[str, object]) -> None:
    nothing = Troubles.of([])

    assert list(failures_without_cause(told(FEW, **reply), nothing)) == []
    assert len(list(failures_without_cause(told(FEW + 1, **reply), nothing))) == 1


def test_one_of_a_hundred_may_fail_without_a_fault() -> None:
    nothing = Troubles.of([])

    assert list(failures_without_cause([*told(990), *told(10, is_cut=True)], nothing)) == []
    assert list(failures_without_cause([*told(989), *told(11, is_cut=True)], nothing))


def test_who_leaves_has_not_been_cut_off() -> None:
    assert list(failures_without_cause(told(100, is_cut=True, has_left=True), Troubles.of([]))) == []


@pytest.mark.parametrize("code", [CONFLICT, IN_PROGRESS, None])
def test_what_is_told_when_nothing_fails_is_no_failure(code: str | None) -> None:
    assert list(failures_without_cause(told(100, code=code), Troubles.of([]))) == []


def test_a_fault_explains_the_failures_at_its_replica_alone() -> None:
    kind = FaultKind.FREEZE
    troubles = Troubles.of([Fault(0.0, "a", kind=kind), Mended(100.0, "a", kind)])

    assert list(failures_without_cause(told(100, is_cut=True), troubles)) == []
    assert list(failures_without_cause(told(100, is_cut=True, replica="b"), troubles))


def test_while_any_replica_is_away_the_load_balancer_may_refuse() -> None:
    refused = told(100, code="HTTP 502", status=502, replica="")
    killed = Fault(0.0, "a", kind=FaultKind.KILL)

    assert list(failures_without_cause(refused, Troubles.of([killed, Mended(99.0, "a", FaultKind.KILL)]))) == []
    assert list(failures_without_cause(refused, Troubles.of([killed, Mended(50.0, "a", FaultKind.KILL)])))
