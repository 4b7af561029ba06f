"""Bugs of the host's own rules: whose life counts, which decision it is, what a duplicate causes."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial
from typing import Any
from uuid import uuid4

import httpx

import app.answers
import app.effects
import app.pairing
import app.runner
import app.wire
from app.answers import Entry, approval_digest
from app.errors import Refusal
from app.replicas import Replica
from app.tools import EffectCall
from loadtests.banked import WIRE
from loadtests.mutants.mutant import Mutant
from stores.records import Decision, Json, OccurrenceState, Run, Verdict


def _calls_again() -> None:
    honest = app.wire.replay

    async def replay(run: Run, *arguments: Any, **named: Any) -> Any:
        async with httpx.AsyncClient(base_url=os.environ["AGUI_BANK_URL"], trust_env=False) as bank:
            for outcome in run.outcomes:
                if outcome.tool == WIRE and outcome.state is OccurrenceState.FINISHED and outcome.decision:
                    await bank.post("/wires", content=outcome.decision.arguments, headers=_JSON)
        return await honest(run, *arguments, **named)

    app.wire.replay = replay


def _nobody_lives() -> None:
    async def dead(self: Replica, holders: Collection[str]) -> frozenset[str]:
        return frozenset(holders) - {self.holder}

    async def alive(self: Replica) -> frozenset[str]:
        return frozenset({self.holder})

    Replica.dead, Replica.alive = dead, alive  # type: ignore[method-assign]


def _new_key_each_time() -> None:
    app.effects.EffectCall = partial(_with_new_key, app.effects.EffectCall)  # type: ignore[attr-defined, assignment]


def _with_new_key(honest: type[EffectCall], key: str, *rest: Any) -> EffectCall:
    return honest(f"{key}-{uuid4().hex[:6]}", *rest)


def _approves_rejections() -> None:
    honest = app.answers.decide

    def decide(entry: Entry, *, tool: str, arguments: str, takes_rules: bool = False) -> Decision | Refusal:
        decision = honest(entry, tool=tool, arguments=arguments, takes_rules=takes_rules)
        if isinstance(decision, Decision) and decision.verdict is Verdict.REJECT:
            return Decision(Verdict.APPROVE, arguments, approval_digest(tool, arguments))
        return decision

    app.pairing.decide = decide  # type: ignore[attr-defined]  # what it imported is what it calls


def _ignores_edits() -> None:
    def edited(entry: Entry, payload: Json, shown: Json) -> Json | Refusal:
        return shown

    app.answers._edited = edited  # noqa: SLF001  # a deliberate bug goes where no door is


def _is_always_sure() -> None:
    async def is_definite(*_arguments: Any, **_named: Any) -> bool:
        return True

    app.runner.is_definite = is_definite  # type: ignore[attr-defined]  # what it imported is what it calls


_JSON = {"content-type": "application/json"}

RULE_MUTANTS = (
    Mutant(
        "replay-runs-again",
        "A duplicate makes the unsafe calls of its answer once more.",
        ("at most one effect per approval",),
        _calls_again,
    ),
    Mutant(
        "lease-ignored",
        "Every other replica is taken for dead, so its work is taken over while it goes on.",
        ("a doubt has a cause",),
        _nobody_lives,
        # Nothing fails that could explain a doubt.
        plan="balancer-reload",
    ),
    Mutant(
        "key-new-per-attempt",
        "The far side gets another idempotency key at each try.",
        ("no effect without an approval",),
        _new_key_each_time,
    ),
    Mutant(
        "rejection-executed",
        "A rejected call is carried out.",
        ("what was rejected, cancelled or expired has no effect", "no effect without an approval"),
        _approves_rejections,
    ),
    Mutant(
        "edited-arguments-ignored",
        "The call is made as it was shown, not as it was approved.",
        ("executed arguments are the approved ones", "an answered approval has its effect"),
        _ignores_edits,
    ),
    Mutant(
        "refusal-that-lies",
        "Every refusal says that nothing happened.",
        ("a definite refusal has no effect", "a doubt has a cause"),
        _is_always_sure,
    ),
)
