"""Agents of a test's own, served by its hosts in place of the demo's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from agent_framework import Agent, SupportsChatGetResponse

from app.agents.payments import PaymentTools

Build = Callable[[SupportsChatGetResponse, PaymentTools], Agent[Any]]


def serve(monkeypatch: pytest.MonkeyPatch, build: Build) -> None:
    """Let all hosts that start from now on serve this agent, newly built for every run."""

    def build_agent(client: SupportsChatGetResponse, *, bank: httpx.AsyncClient, transactional: bool) -> Agent[Any]:
        return build(client, PaymentTools(bank))

    monkeypatch.setattr("app.main.build_agent", build_agent)
