"""What may have left a call in doubt: every fault of its time, but for a kill of which it is known what it hit."""

from __future__ import annotations

import pytest

from loadtests.history import Event, Fault, FaultKind, Mended
from loadtests.troubles import AFTERMATH_SECONDS, Troubles

KILLED = FaultKind.KILL


def troubles(*events: Event) -> Troubles:
    return Troubles.of(events)


def test_a_kill_at_random_explains_the_doubts_of_what_was_approved_before_it() -> None:
    found = troubles(Fault(10.0, "host-1", kind=KILLED), Mended(12.0, "host-1", KILLED))
    assert found.explain_doubt("any", 5.0, 11.0)
    assert found.explain_doubt("any", 5.0, 60.0)
    assert not found.explain_doubt("any", 5.0, 9.0)
    assert not found.explain_doubt("any", 11.0, 40.0)


def test_a_freeze_explains_doubts_until_who_was_frozen_is_heard_again() -> None:
    found = troubles(Fault(10.0, "host-1", kind=FaultKind.FREEZE), Mended(20.0, "host-1", FaultKind.FREEZE))
    assert found.explain_doubt("any", 19.0, 21.0)
    assert found.explain_doubt("any", 20.0 + AFTERMATH_SECONDS, 60.0)
    assert not found.explain_doubt("any", 21.0 + AFTERMATH_SECONDS, 60.0)


@pytest.mark.parametrize(
    ("step", "explains"),
    [
        ("after-claim", False),
        ("before-begin", True),
        ("after-effect", True),
        ("after-settle", True),
        ("before-model", False),
        ("before-answer", False),
    ],
)
def test_a_kill_at_a_known_step_explains_the_doubt_of_the_runs_it_hit_there(step: str, explains: bool) -> None:
    hit = Fault(10.0, "host-1", kind=KILLED, step=step, thread="hit", elsewhere=(("beside", step),))
    found = troubles(hit, Mended(12.0, "host-1", KILLED))
    assert [found.explain_doubt(thread, 5.0, 20.0) for thread in ("hit", "beside")] == [explains, explains]
    assert not found.explain_doubt("another", 5.0, 20.0)
    assert not found.explain_doubt("hit", 11.0, 20.0)
