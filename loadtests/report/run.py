"""One chaos run with its verdict: all that a report is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadtests.checker import Verdict
from loadtests.history import Effect, Event
from loadtests.target import Sample


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """What was run, what happened, and how it is judged.

    `about` says what it takes to run it again: stores, plan, seed, replicas, lease, settings, versions. `history` is in
    the order of its times; `effects` are the bank's; `samples` may be empty.
    """

    about: Mapping[str, str]
    history: Sequence[Event]
    effects: Sequence[Effect]
    verdict: Verdict
    samples: Sequence[Sample] = field(default_factory=tuple)
