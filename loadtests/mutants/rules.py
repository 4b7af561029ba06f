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
from app.errors import MEANINGS, Refusal
from app.replicas import Replica
from app.tools import EffectCall
from loadtests.banked import WIRE
from loadtests.mutants.mutant import IN_THE_EFFECT, Mutant, Replacement
from stores.ports import Stores
from stores.records import Decision, Json, OccurrenceState, Run, ThreadKey, Verdict


def _calls_again() -> tuple[Replacement, ...]:
    honest = app.wire.replay

    async def replay(run: Run, *arguments: Any, **named: Any) -> Any:
        async with httpx.AsyncClient(base_url=os.environ["AGUI_BANK_URL"], trust_env=False) as bank:
            for outcome in run.outcomes:
                if outcome.tool == WIRE and outcome.state is OccurrenceState.FINISHED and outcome.decision:
                    await bank.post("/wires", content=outcome.decision.arguments, headers=_JSON)
        return await honest(run, *arguments, **named)

    return ((app.wire, "replay", replay),)


def _nobody_lives() -> tuple[Replacement, ...]:
    async def dead(self: Replica, holders: Collection[str]) -> frozenset[str]:
        return frozenset(holders) - {self.holder}

    async def alive(self: Replica) -> frozenset[str]:
        return frozenset({self.holder})

    return ((Replica, "dead", dead), (Replica, "alive", alive))


def _new_key_each_time() -> tuple[Replacement, ...]:
    return ((app.effects, "EffectCall", partial(_with_new_key, EffectCall)),)


def _with_new_key(honest: type[EffectCall], key: str, *rest: Any) -> EffectCall:
    return honest(f"{key}-{uuid4().hex[:6]}", *rest)


def _approves_rejections() -> tuple[Replacement, ...]:
    honest = app.answers.decide

    def decide(entry: Entry, *, tool: str, arguments: str, takes_rules: bool = False) -> Decision | Refusal:
        decision = honest(entry, tool=tool, arguments=arguments, takes_rules=takes_rules)
        if isinstance(decision, Decision) and decision.verdict is Verdict.REJECT:
            return Decision(Verdict.APPROVE, arguments, approval_digest(tool, arguments))
        return decision

    return ((app.pairing, "decide", decide),)


def _ignores_edits() -> tuple[Replacement, ...]:
    def edited(entry: Entry, payload: Json, shown: Json) -> Json | Refusal:
        return shown

    return ((app.answers, "_edited", edited),)


def _is_always_sure() -> tuple[Replacement, ...]:
    async def is_definite(_stores: Stores, _key: ThreadKey, refusal: Refusal, **_named: Any) -> bool:
        return MEANINGS[refusal.code].can_be_definite

    return ((app.runner, "is_definite", is_definite),)


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
        ("at most one effect per approval",),
        _new_key_each_time,
        steps=IN_THE_EFFECT,
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
        ("executed arguments are the approved ones",),
        _ignores_edits,
    ),
    Mutant(
        "refusal-that-lies",
        "Every refusal that can say that nothing happened says so, and asks nobody.",
        ("a definite refusal has no effect",),
        _is_always_sure,
    ),
)
