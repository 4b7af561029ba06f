"""Deliberate bugs, one at a time: what a checker has to catch, or its "passed" says nothing. No host knows of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from loadtests.mutants.ledger import LEDGER_MUTANTS
from loadtests.mutants.mutant import Mutant
from loadtests.mutants.rules import RULE_MUTANTS
from loadtests.mutants.threads import THREAD_MUTANTS

__all__ = ["MUTANTS", "Mutant", "put_in"]

MUTANTS: dict[str, Mutant] = {each.name: each for each in (*THREAD_MUTANTS, *LEDGER_MUTANTS, *RULE_MUTANTS)}

_log = logging.getLogger(__name__)


def put_in(name: str, *, put: Callable[[object, str, object], None] = setattr) -> None:
    """Break this very process before its host is built, for good. Raises ValueError for a name that is unknown.

    `put` does it otherwise: a test that wants to undo it has a `setattr` of its own.
    """
    if name not in MUTANTS:
        raise ValueError(f"No deliberate bug is called '{name}'; there are {', '.join(MUTANTS)}.")
    _log.warning("This host has a deliberate bug: %s", name)
    for owner, attribute, replacement in MUTANTS[name].replacements():
        put(owner, attribute, replacement)
