"""A host serves an agent only if what its tools promise can be kept by the ledger it has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest
from agent_framework import Agent, tool

from app.agents.models import make_model
from app.agents.payments import build_agent
from app.gated_tools import GatedTool
from app.registration import Registration
from app.settings import Environment, ScopeResolver, Settings
from app.tools import gated, idempotent, transactional, unsafe
from stores.memory import MemoryWorld, memory_stores
from stores.ports import Stores
from stores.records import EffectKind

DURABLE = replace(memory_stores(MemoryWorld(lambda: 0.0)), durable=True)
FORGETFUL = replace(DURABLE, durable=False)
MODEL = make_model(Settings(environment=Environment.DEVELOPMENT, scope=ScopeResolver.FIXED))


@gated(idempotent(key_lifetime_seconds=60.0))
async def pay() -> str:
    """Pay."""
    return "paid"


@gated(unsafe())
async def wire() -> str:
    """Wire."""
    return "wired"


@gated(transactional())
async def refund() -> str:
    """Refund."""
    return "refunded"


@tool(approval_mode="always_require")
async def undeclared() -> str:
    """Do something that nobody declared."""
    return "done"


def agent(*tools: Any, **fields: Any) -> Agent[Any]:
    return Agent(MODEL, "", name="agent", tools=list(tools), **fields)


def check(
    served: object, stores: Stores = DURABLE, *, claim_seconds: float = 1.0, is_development: bool = False
) -> Mapping[str, GatedTool]:
    return Registration(stores, claim_seconds=claim_seconds, is_development=is_development).check(served)


@pytest.mark.parametrize("unsafe_tool", [wire, undeclared])
def test_an_unsafe_tool_is_refused_where_the_ledger_may_lose_what_it_acknowledged(unsafe_tool: Any) -> None:
    with pytest.raises(ValueError, match=f"'{unsafe_tool.name}' is unsafe") as refused:
        check(agent(pay, unsafe_tool), FORGETFUL, claim_seconds=1.0, is_development=False)

    assert all(word in str(refused.value) for word in ("AGUI_EFFECTS_STORE=sql", "idempotent", "transactional"))


def test_development_is_warned_instead(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="app.registration"):
        check(agent(wire), FORGETFUL, claim_seconds=1.0, is_development=True)

    (record,) = caplog.records
    assert all(
        word in record.getMessage() for word in ("'wire' is unsafe", "AGUI_EFFECTS_STORE=sql", "would not start")
    )


@pytest.mark.parametrize(
    ("tools", "stores"),
    [
        ((pay,), FORGETFUL),
        ((pay, wire, undeclared), DURABLE),
        ((refund,), replace(FORGETFUL, transactional=True)),
    ],
)
def test_what_the_ledger_can_keep_is_served(
    tools: tuple[Any, ...], stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    check(agent(*tools), stores, claim_seconds=1.0, is_development=False)

    assert caplog.records == []


@pytest.mark.parametrize("is_development", [True, False])
def test_a_transactional_tool_needs_a_ledger_in_sql(is_development: bool) -> None:
    with pytest.raises(ValueError, match=r"'refund' is transactional.*AGUI_EFFECTS_STORE=sql"):
        check(agent(refund), DURABLE, claim_seconds=1.0, is_development=is_development)


async def test_the_demo_agent_has_an_unsafe_tool() -> None:
    async with httpx.AsyncClient() as bank:
        with pytest.raises(ValueError, match="'wire_transfer' is unsafe"):
            check(
                build_agent(MODEL, bank=bank, transactional=False), FORGETFUL, claim_seconds=1.0, is_development=False
            )


def test_an_agent_that_runs_its_tools_by_itself_is_refused() -> None:
    with pytest.raises(TypeError, match="runs its tools by itself"):
        check(object(), DURABLE, claim_seconds=1.0, is_development=True)


def test_a_key_that_may_end_before_a_call_starts_is_refused() -> None:
    @gated(idempotent(key_lifetime_seconds=60.0))
    async def quick(invoice: str) -> str:
        """Pay."""
        return invoice

    check(agent(quick), DURABLE, claim_seconds=59.0, is_development=True)
    with pytest.raises(ValueError, match="'quick' lives 60 s, and a call may still start 60 s after"):
        check(agent(quick), DURABLE, claim_seconds=60.0, is_development=True)


def test_a_gated_tool_is_known_by_what_it_declared() -> None:
    @gated(idempotent(key_lifetime_seconds=60.0), expires_seconds=5.0)
    async def brief() -> str:
        """Pay."""
        return "paid"

    found = check(agent(brief, wire, undeclared), claim_seconds=20.0)

    facts = {name: (each.kind, each.key_lifetime_seconds, each.expires_seconds) for name, each in found.items()}
    assert facts == {
        # A claim may pass before the call starts, and its key must live until then.
        "brief": (EffectKind.IDEMPOTENT, 40.0, 5.0),
        "wire": (EffectKind.UNSAFE, None, None),
        "undeclared": (EffectKind.UNSAFE, None, None),
    }


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_an_approval_is_open_for_some_time_and_not_for_ever(seconds: float) -> None:
    with pytest.raises(ValueError, match="can not be open for"):
        gated(unsafe(), expires_seconds=seconds)


def test_an_agent_that_is_built_once_for_all_runs_is_refused() -> None:
    once = agent(pay)
    registration = Registration(DURABLE, claim_seconds=1.0, is_development=True)

    with pytest.raises(TypeError, match="Build a new Agent in every call"):
        registration.built_by(lambda: once)
    assert registration.built_by(lambda: agent(pay)) is not once
