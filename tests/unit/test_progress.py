"""When a chaos run may stop: what counts as answered, hit and moved."""

from __future__ import annotations

from loadtests.history import Answer, Card, Fault, FaultKind, Replied, Sent
from loadtests.progress import Progress
from stores.records import EffectKind, Verdict


def _progress() -> Progress:
    card = Card("i-1", "c-1", "wire_transfer", EffectKind.UNSAFE, "{}", float("inf"))
    progress = Progress()
    progress.add([Sent(1.0, "ask", "s", "t"), Replied(2.0, "ask", cards=(card,), is_paused=True, replica="host-1")])
    return progress


def _answer(progress: Progress, request: str, **reply: object) -> None:
    answers = (Answer("i-1", Verdict.APPROVE, "{}"),)
    progress.add([Sent(3.0, request, "s", "t", answers), Replied(4.0, request, **reply)])  # type: ignore[arg-type]


def test_an_approval_counts_once_when_a_client_knows_its_end() -> None:
    progress = _progress()
    _answer(progress, "cut", is_cut=True, replica="host-2")
    _answer(progress, "refused", code="APPROVAL_RESUME_IN_PROGRESS", replica="host-3")
    assert (progress.answered, progress.live) == (set(), 0)

    _answer(progress, "ended", replica="host-3")
    _answer(progress, "replayed", replica="host-1", is_replay=True)
    assert (progress.answered, progress.live, progress.crossed) == ({"i-1"}, 1, 1)


def test_a_resume_that_ends_where_it_paused_did_not_move() -> None:
    progress = _progress()
    _answer(progress, "ended", replica="host-1")
    assert (progress.live, progress.crossed) == (1, 0)


def test_a_resume_whose_end_is_known_from_a_replay_alone_is_answered_and_moved_nowhere() -> None:
    progress = _progress()
    _answer(progress, "replayed", replica="host-2", is_replay=True)
    assert (progress.answered, progress.live, progress.crossed) == ({"i-1"}, 0, 0)


def test_only_a_kill_of_a_resume_in_progress_is_a_hit() -> None:
    progress = _progress()
    progress.add(
        [
            Fault(1.0, "host-1", kind=FaultKind.KILL),
            Fault(2.0, "host-1", kind=FaultKind.FREEZE, is_resume=True),
            Fault(3.0, "host-1", kind=FaultKind.KILL, is_resume=True),
        ]
    )
    assert (progress.faults, progress.hits) == (3, 1)


def test_it_is_enough_when_every_count_and_every_kind_of_fault_is_reached() -> None:
    progress = _progress()
    _answer(progress, "ended", replica="host-1")
    progress.add([Fault(3.0, "host-1", kind=FaultKind.KILL, is_resume=True)])
    assert progress.is_enough(approvals=1, hits=1, kinds={FaultKind.KILL})
    assert not progress.is_enough(approvals=2, hits=1, kinds={FaultKind.KILL})
    assert not progress.is_enough(approvals=1, hits=2, kinds={FaultKind.KILL})
    assert not progress.is_enough(approvals=1, hits=1, kinds={FaultKind.CUT})
