"""What may have left a call in doubt, or have cut a request off: what its thread had met, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from loadtests.history import Event, Exchange, Fault, FaultKind, Mended, Replied, Sent
from loadtests.threads import IN_PROGRESS, RUN_FAILED
from loadtests.troubles import (
    AFTERMATH_SECONDS,
    KILL_AFTERMATH_SECONDS,
    STORE_AFTERMATH_SECONDS,
    Cause,
    Troubles,
)
from tests.unit.forged import approval

KILLED, FROZEN = FaultKind.KILL, FaultKind.FREEZE
APPROVED_AT, DOUBTED_AT = 10.0, 30.0


def troubles(*events: Event) -> Troubles:
    return Troubles.of(sorted(events, key=lambda event: event.at))


def asked(
    at: float = APPROVED_AT,
    replica: str = "a",
    *,
    thread: str = "hit",
    names: Sequence[str] = ("wire-1",),
    **reply: object,
) -> Exchange:
    """Approve something at a replica; the stream was cut, if nothing else is said."""
    replied = Replied(at + 1.0, "r", is_cut=not reply, replica=replica)
    sent = Sent(at, "r", "alice", thread, tuple(map(approval, names)))
    return Exchange(sent, replace(replied, **reply))  # type: ignore[arg-type]  # fields of Replied


def cause(found: Troubles, *requests: Exchange) -> Cause | None:
    return found.cause_of_doubt(requests or (asked(),), APPROVED_AT, DOUBTED_AT)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("after-claim", None),
        ("before-begin", Cause.HIT),
        ("after-effect", Cause.HIT),
        ("after-settle", Cause.HIT),
        ("before-model", None),
        ("before-answer", None),
    ],
)
def test_a_kill_at_a_known_step_explains_the_doubt_of_the_runs_it_hit_there(step: str, expected: Cause | None) -> None:
    hit = Fault(12.0, "a", kind=KILLED, step=step, thread="hit", elsewhere=(("beside", step),))
    found = troubles(hit, Mended(14.0, "a", KILLED))

    pair = ("wire-1", "pay-1")
    assert [cause(found, asked(thread=thread, names=pair)) for thread in ("hit", "beside")] == [expected, expected]
    assert cause(found, asked(thread="another")) is None, "it is known whom it hit"
    assert found.cause_of_doubt([asked(13.0)], 13.0, DOUBTED_AT) is None, "it was approved later"
    assert found.cause_of_doubt([asked()], APPROVED_AT, 11.5) is None, "it was in doubt before"


@pytest.mark.parametrize("step", ["before-begin", "after-settle"])
def test_of_one_call_alone_nothing_was_begun_right_before_its_begin_nor_after_its_settle(step: str) -> None:
    found = troubles(Fault(12.0, "a", kind=KILLED, step=step, thread="hit", elsewhere=(("beside", step),)))

    assert cause(found, asked()) is None
    assert cause(found, asked(thread="beside")) is Cause.HIT, "of it, only the last step is known"


def test_a_freeze_of_its_run_explains_a_doubt_whatever_the_step() -> None:
    assert cause(troubles(Fault(12.0, "b", kind=FROZEN, step="after-claim", thread="hit"))) is Cause.HIT


@pytest.mark.parametrize(("at", "expected"), [(9.0, None), (10.5, Cause.HIT), (12.0, Cause.NEAR), (31.0, None)])
def test_a_kill_at_random_explains_the_doubt_of_what_was_at_its_replica(at: float, expected: Cause | None) -> None:
    found = troubles(Fault(at, "a", kind=KILLED), Mended(at + 2, "a", KILLED))

    assert cause(found) is expected
    assert cause(found, asked(replica="b")) is None


def test_who_left_before_the_kill_was_not_cut_by_it() -> None:
    found = troubles(Fault(10.5, "a", kind=KILLED), Mended(12.5, "a", KILLED))

    assert cause(found, asked(is_cut=True, has_left=True)) is Cause.NEAR


@pytest.mark.parametrize(
    ("fault", "reply", "expected"),
    [
        (Fault(10.5, "a", kind=KILLED), {}, Cause.HIT),
        (Fault(10.5, "a", kind=KILLED), {"is_cut": False, "code": RUN_FAILED}, Cause.NEAR),
        (Fault(10.5, "a", kind=FROZEN), {}, Cause.NEAR),
        (Fault(10.5 - KILL_AFTERMATH_SECONDS, "a", kind=KILLED, done_at=10.5), {}, Cause.HIT),
        (Fault(10.5, "a", kind=KILLED, step="before-effect", thread="another"), {}, None),
    ],
)
def test_only_a_kill_at_random_that_cut_its_stream_has_hit_it(
    fault: Fault, reply: dict[str, object], expected: Cause | None
) -> None:
    assert cause(troubles(fault), asked(**{"is_cut": True, **reply})) is expected  # type: ignore[arg-type]  # fields of Replied


def test_a_stream_that_is_cut_long_after_a_kill_was_not_cut_by_it() -> None:
    cut = asked()
    late = replace(cut, replied=replace(cut.replied, at=10.5 + KILL_AFTERMATH_SECONDS + 0.1))

    assert cause(troubles(Fault(10.5, "a", kind=KILLED)), late) is Cause.NEAR


def test_a_failure_counts_from_the_approval_on_and_while_it_was_asked_for() -> None:
    assert cause(troubles(Fault(7.0, "a", kind=KILLED)), asked(5.0, code=RUN_FAILED)) is None, "before the approval"
    assert cause(troubles(Fault(15.0, "a", kind=KILLED)), asked(20.0, code=RUN_FAILED)) is None, "before it was sent"
    assert cause(troubles(Fault(12.0, "a", kind=FROZEN)), asked(DOUBTED_AT + 1.0, code=RUN_FAILED)) is None, (
        "afterwards"
    )


def test_a_kill_at_random_may_come_as_late_as_it_is_known_to_be_done() -> None:
    assert cause(troubles(Fault(9.9, "a", kind=KILLED, done_at=10.1))) is Cause.HIT
    assert cause(troubles(Fault(9.8, "a", kind=KILLED, done_at=9.9))) is None

    was_told = asked(code=RUN_FAILED)
    assert cause(troubles(Fault(9.9, "a", kind=KILLED, done_at=10.1)), was_told) is Cause.NEAR
    assert cause(troubles(Fault(9.8, "a", kind=KILLED, done_at=9.9)), was_told) is None


def test_a_freeze_explains_doubts_until_who_was_frozen_is_heard_again() -> None:
    def frozen(until: float) -> Troubles:
        return troubles(Fault(until - 3.0, "a", kind=FROZEN), Mended(until, "a", FROZEN))

    assert cause(frozen(APPROVED_AT - AFTERMATH_SECONDS + 0.1)) is Cause.NEAR
    assert cause(frozen(APPROVED_AT - AFTERMATH_SECONDS - 0.1)) is None


def test_a_fault_is_over_with_the_first_mending_that_came_when_it_was_done() -> None:
    of_others = (Mended(10.0, "b", FROZEN), Mended(11.0, "a", FaultKind.CUT))
    mendings = (Mended(9.0, "a", FROZEN), Mended(12.0, "a", FROZEN), Mended(40.0, "a", FROZEN))
    [found] = troubles(Fault(8.5, "a", kind=FROZEN, done_at=9.5), *of_others, *mendings).all

    assert found.mended_at == 12.0


def test_a_fault_that_is_never_mended_explains_nothing_at_another_replica() -> None:
    assert cause(troubles(Fault(12.0, "b", kind=FROZEN))) is None


def test_a_fault_of_no_kind_is_never_over_and_strikes_all() -> None:
    found = troubles(Fault(1.0, "b"))

    assert cause(found) is Cause.NEAR
    assert found.have_met([asked()], APPROVED_AT, DOUBTED_AT)
    assert found.explain_failure(asked())


def test_a_request_that_nobody_answered_may_have_been_at_any_replica() -> None:
    assert cause(troubles(Fault(12.0, "b", kind=KILLED)), asked(replica="")) is Cause.NEAR


@pytest.mark.parametrize("reply", [{"code": IN_PROGRESS}, {"is_replay": True}])
def test_a_replica_that_carried_nothing_out_leaves_no_doubt(reply: dict[str, object]) -> None:
    request = asked(**reply)  # type: ignore[arg-type]  # fields of Replied

    assert cause(troubles(Fault(12.0, "a", kind=KILLED)), request) is None


def test_a_run_that_was_frozen_and_is_told_that_another_has_it_may_have_left_a_doubt() -> None:
    found = troubles(Fault(10.5, "a", kind=FROZEN), Mended(19.0, "a", FROZEN))
    frozen = replace(asked(), replied=Replied(19.1, "r", code=IN_PROGRESS, replica="a"))

    assert cause(found, frozen) is Cause.NEAR


def test_a_replica_that_failed_with_the_run_may_have_left_it_in_doubt() -> None:
    assert cause(troubles(Fault(12.0, "a", kind=KILLED)), asked(code=RUN_FAILED)) is Cause.NEAR


def test_after_a_hit_whoever_took_over_may_have_failed_too() -> None:
    hit = Fault(12.0, "a", kind=KILLED, step="before-claim", thread="hit")

    assert cause(troubles(hit, Fault(20.0, "c", kind=KILLED))) is Cause.NEAR
    assert cause(troubles(hit, Fault(11.0, "c", kind=KILLED))) is None, "it came before the hit"
    assert cause(troubles(hit, Fault(DOUBTED_AT + 1.0, "c", kind=KILLED))) is None, "it was in doubt already"
    assert cause(troubles(hit)) is None


@pytest.mark.parametrize(
    ("mended_at", "expected"), [(APPROVED_AT - 1.0, Cause.NEAR), (APPROVED_AT - STORE_AFTERMATH_SECONDS - 1.0, None)]
)
def test_a_store_that_failed_explains_doubts_at_every_replica(mended_at: float, expected: Cause | None) -> None:
    kind = FaultKind.STORE_RESTART
    found = troubles(Fault(2.0, "", kind=kind), Mended(mended_at, "", kind))

    assert [cause(found, asked(replica=replica)) for replica in ("a", "b")] == [expected, expected]


def test_a_balancer_that_is_reloaded_leaves_no_doubt_but_may_cut_a_stream() -> None:
    kind = FaultKind.BALANCER_RELOAD
    found = troubles(Fault(10.5, "", kind=kind), Mended(10.6, "", kind))

    assert cause(found) is None
    assert found.explain_failure(asked())


def test_a_kill_explains_that_a_stream_of_its_replica_is_cut_then_and_not_later() -> None:
    found = troubles(Fault(10.5, "a", kind=KILLED, step="after-claim", thread="other"), Mended(14.0, "a", KILLED))

    assert found.explain_failure(asked())
    assert not found.explain_failure(asked(replica="b"))
    assert not found.explain_failure(asked(10.5 + KILL_AFTERMATH_SECONDS + 0.1))
    assert not found.explain_failure(asked(8.0)), "it was cut before"


def test_until_a_replica_is_back_nobody_may_answer() -> None:
    found = troubles(Fault(5.0, "a", kind=KILLED), Mended(14.0, "a", KILLED))

    assert found.explain_failure(asked(13.0, replica=""))
    assert not found.explain_failure(asked(14.5, replica=""))


def test_something_was_met_only_while_it_was_asked_for() -> None:
    found = troubles(Fault(12.0, "a", kind=KILLED, step="before-claim", thread="hit"))

    assert found.have_met([asked()], APPROVED_AT, DOUBTED_AT)
    assert found.have_met([asked(replica="b")], APPROVED_AT, DOUBTED_AT), "its run was hit at another"
    assert not found.have_met([asked()], APPROVED_AT, 11.0)
    assert not found.have_met([asked(replica="b", thread="another")], APPROVED_AT, DOUBTED_AT)
