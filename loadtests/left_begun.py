"""Which calls had a dead replica certainly begun and certainly not settled? Such an unsafe call must stay in doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from app.steps import Step
from loadtests.history import Event, Fault, FaultKind
from loadtests.threads import Thread

AIMED_AT = frozenset({f"before-{Step.EFFECT}", f"after-{Step.EFFECT}", f"before-{Step.SETTLE}"})
"""Begun, and not settled: the process ended itself right there. (`after-begin` is passed also where the begin was
refused, since another had taken the thread over.)"""
SEEN_LAST = frozenset({f"before-{Step.EFFECT}", f"after-{Step.EFFECT}"})
"""The same for a run that the process only had in progress: one that came to `before-settle` may have settled since."""
ON_ITS_WAY_SECONDS = 5.0
"""What a replica had sent to a tool's far side when it was killed is there by then."""


def left_begun(history: Sequence[Event], threads: Mapping[tuple[str, str], Thread]) -> dict[str, float]:
    """Return the calls that were left so, each with the time after which no effect of it may come.

    A machine knows them. Of a killed replica no more is known than the thread and the step of a run: that is enough
    where the pause which the run resumed had one approved call alone.
    """
    named: defaultdict[str, list[Thread]] = defaultdict(list)
    for (_, name), thread in threads.items():
        if thread.cards:
            named[name].append(thread)
    found: dict[str, float] = {}
    for fault in (event for event in history if isinstance(event, Fault)):
        for name in fault.left_begun:
            found.setdefault(name, fault.at)
        for thread_name, at in _in_the_middle(fault):
            calls = [_only_call(thread, fault.at) for thread in named[thread_name]]
            if len(calls) == 1 and calls[0] is not None:
                found.setdefault(calls[0], at)
    return found


def _in_the_middle(fault: Fault) -> Iterator[tuple[str, float]]:
    """Return the threads that had a call between begin and settle, and when all of it had arrived."""
    if fault.kind is not FaultKind.KILL:
        return
    if fault.step in AIMED_AT:
        yield fault.thread, fault.at
    for thread, step in fault.elsewhere:
        if step in SEEN_LAST:
            yield thread, fault.at + ON_ITS_WAY_SECONDS


def _only_call(thread: Thread, at: float) -> str | None:
    """Return the call that a resume was about then, if one alone was approved and not known to be over."""
    approved = [
        name
        for name, pause in thread.pauses.items()
        if not any(thread.taken_at.get(each, at) < at for each in pause)
        and any(each.sent.at < at for _, each in thread.approvals([name]))
    ]
    return approved[0] if len(approved) == 1 else None
