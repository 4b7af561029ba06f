"""Which resumes this process has in progress, and the step that each of them took last."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass

from app.steps import Step

_BEGINNINGS = {
    f"before-{Step.OPEN}": False,
    f"before-{Step.LOAD}": True,
    # Without a load of its own: the take-over of a thread whose decisions are recorded.
    f"before-{Step.RESERVE}": True,
    f"before-{Step.CLAIM}": True,
}
"""The first step of a run tells whether it is a resume. One that only reads takes none; upkeep takes others."""


@dataclass(slots=True, eq=False)
class RunInProgress:
    """One run that this process carries out."""

    thread_id: str
    is_resume: bool
    step: str


_run: ContextVar[RunInProgress | None] = ContextVar("run", default=None)


class Resumes:
    """Told of every step, in the task that takes it. What it knows of a run, it forgets with the run's task."""

    def __init__(self) -> None:
        self._runs: set[RunInProgress] = set()

    def step(self, thread_id: str, step: str) -> RunInProgress | None:
        """Note a step, and return the run that took it; None if it belongs to none, as the steps of upkeep do."""
        run = _run.get()
        if run is None and step in _BEGINNINGS:
            run = self._begin(thread_id, step)
        if run is None or run not in self._runs:
            return None
        run.step = step
        return run

    def others(self, run: RunInProgress | None) -> tuple[tuple[str, str], ...]:
        """Return the resumes in progress but for one: the thread of each, and the step that it took last."""
        return tuple((each.thread_id, each.step) for each in self._runs if each.is_resume and each is not run)

    def _begin(self, thread_id: str, step: str) -> RunInProgress:
        """Note a new run; tasks that its own task starts from now on, for calls or a release, belong to it."""
        task = asyncio.current_task()
        assert task is not None, "a step is taken in a task"
        run = RunInProgress(thread_id, _BEGINNINGS[step], step)
        _run.set(run)
        self._runs.add(run)
        task.add_done_callback(lambda _: self._runs.discard(run))
        return run
