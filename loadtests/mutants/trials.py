"""Short campaigns with a deliberate bug each, after the same without any: what breaks without a bug proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from loadtests.checker import Verdict
from loadtests.conditions import APPROVALS, BANK, FAULTS
from loadtests.mutants import MUTANTS, Mutant
from loadtests.options import Options

PATIENCE_SECONDS = 12.0
"""Who gets no answer gives up soon: a bug may never answer, and each campaign is short."""
NEEDS_BROKEN, NEEDS_WHOLE = (BANK,), (BANK, APPROVALS, FAULTS)
"""What a campaign has to have done to show that something is broken, and to show that nothing is."""
Judge = Callable[[Options, str], Verdict]
"""Runs one campaign, of this name, and judges it. Raises RuntimeError if something of the test itself failed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one campaign. `is_good`: a bug was caught, or nothing was broken without one.

    `broken` counts all violations by rule, `named` are those of the rules that decide. `what`: why there is no verdict.
    """

    name: str
    verdict: str
    is_good: bool
    named: tuple[str, ...] = ()
    broken: Counter[str] = field(default_factory=Counter)
    what: str = ""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The name, what it shows, how often any rule was broken, and the verdict in a word or two."""
        return self.name, self.what or "; ".join(self.named), str(self.broken.total()), self.verdict


def trials(names: Sequence[str], options: Options, judge: Judge) -> Iterator[Trial]:
    """Run one campaign without a bug for each plan that these bugs use, at all its steps; then one with each bug.

    `options` say all but the plan, the bug and the patience; its `hits` are for the plan that kills.
    Raises ValueError for a name that is unknown.
    """
    if unknown := [name for name in names if name not in MUTANTS]:
        raise ValueError(f"No deliberate bug is called '{unknown[0]}'; there are {', '.join(MUTANTS)}.")
    bugs = [MUTANTS[name] for name in names]
    for plan in dict.fromkeys(bug.plan for bug in bugs):
        yield _control(plan, _of(options, plan), judge)
    for bug in bugs:
        # Where the nemesis has to aim for it, few of its strikes show the bug: all the time there is makes enough.
        seconds_min = options.seconds_max if bug.steps else options.seconds_min
        broken = replace(_of(options, bug.plan), mutant=bug.name, steps=bug.steps, seconds_min=seconds_min)
        yield _with(bug, broken, judge)


def _of(options: Options, plan: str) -> Options:
    hits = options.hits if plan == "kill-one" else 0
    return replace(options, plan=plan, hits=hits, patience_seconds=PATIENCE_SECONDS)


def _control(plan: str, options: Options, judge: Judge) -> Trial:
    name = f"control ({plan})"
    verdict = _judged(judge, options, f"control-{plan}", NEEDS_WHOLE)
    if isinstance(verdict, str):
        return Trial(name, "NO VERDICT", is_good=False, what=verdict)
    broken = Counter(each.rule for each in verdict.violations)
    if broken:
        return Trial(name, "NOT CLEAN", is_good=False, named=tuple(broken), broken=broken)
    return Trial(name, "clean", is_good=True, broken=broken)


def _with(bug: Mutant, options: Options, judge: Judge) -> Trial:
    verdict = _judged(judge, options, bug.name, NEEDS_BROKEN)
    if isinstance(verdict, str):
        return Trial(bug.name, "NO VERDICT", is_good=False, what=verdict)
    broken = Counter(each.rule for each in verdict.violations)
    seen = tuple(rule for rule in bug.rules if broken[rule])
    return Trial(bug.name, "caught" if seen else "MISSED", is_good=bool(seen), named=seen, broken=broken)


def _judged(judge: Judge, options: Options, name: str, needs: Sequence[str]) -> Verdict | str:
    """Return the verdict, or why there is none."""
    try:
        verdict = judge(options, name)
    except RuntimeError as error:
        return str(error)
    # What is seen broken is broken, however little was tried.
    lacks = [each.what for each in verdict.shortfalls if each.condition in needs and not verdict.violations]
    return "; ".join(lacks) or verdict
