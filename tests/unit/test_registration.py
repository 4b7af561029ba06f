"""A host serves an agent only if what its tools promise can be kept by the ledger it has."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import httpx
import pytest
from agent_framework import Agent, tool

from app.agents.models import make_model
from app.agents.payments import build_agent
from app.registration import check_agent
from app.settings import Environment, ScopeResolver, Settings
from app.tools import gated, idempotent, transactional, unsafe
from stores.memory import MemoryWorld, memory_stores
from stores.ports import Stores

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


def agent(*tools: Any) -> Agent:
    return Agent(MODEL, "", name="agent", tools=list(tools))


@pytest.mark.parametrize("unsafe_tool", [wire, undeclared])
def test_an_unsafe_tool_is_refused_where_the_ledger_may_lose_what_it_acknowledged(unsafe_tool: Any) -> None:
    with pytest.raises(ValueError, match=f"'{unsafe_tool.name}' is unsafe") as refused:
        check_agent(agent(pay, unsafe_tool), FORGETFUL, claim_seconds=1.0, is_development=False)

    assert all(word in str(refused.value) for word in ("AGUI_EFFECTS_STORE=sql", "idempotent", "transactional"))


def test_development_is_warned_instead(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="app.registration"):
        check_agent(agent(wire), FORGETFUL, claim_seconds=1.0, is_development=True)

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
    check_agent(agent(*tools), stores, claim_seconds=1.0, is_development=False)

    assert caplog.records == []


@pytest.mark.parametrize("is_development", [True, False])
def test_a_transactional_tool_needs_a_ledger_in_sql(is_development: bool) -> None:
    with pytest.raises(ValueError, match=r"'refund' is transactional.*AGUI_EFFECTS_STORE=sql"):
        check_agent(agent(refund), DURABLE, claim_seconds=1.0, is_development=is_development)


async def test_the_demo_agent_has_an_unsafe_tool() -> None:
    async with httpx.AsyncClient() as bank:
        with pytest.raises(ValueError, match="'wire_transfer' is unsafe"):
            check_agent(
                build_agent(MODEL, bank=bank, transactional=False), FORGETFUL, claim_seconds=1.0, is_development=False
            )


def test_an_agent_that_runs_its_tools_by_itself_is_refused() -> None:
    with pytest.raises(TypeError, match="runs its tools by itself"):
        check_agent(object(), DURABLE, claim_seconds=1.0, is_development=True)


def test_a_key_that_may_end_before_a_call_starts_is_refused() -> None:
    @gated(idempotent(key_lifetime_seconds=60.0))
    async def quick(invoice: str) -> str:
        """Pay."""
        return invoice

    check_agent(agent(quick), DURABLE, claim_seconds=59.0, is_development=True)
    with pytest.raises(ValueError, match="'quick' lives 60 s, and a call may still start 60 s after"):
        check_agent(agent(quick), DURABLE, claim_seconds=60.0, is_development=True)
