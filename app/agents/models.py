"""The chat client that the settings name."""

from __future__ import annotations

from typing import Any

from agent_framework import SupportsChatGetResponse

from app.agents.scripted import ScriptedChatClient
from app.settings import Settings


def make_model(settings: Settings) -> SupportsChatGetResponse[Any]:
    """Build the chat client, once per process. Raises ValueError for a name that is not known."""
    if settings.model == "scripted":
        return ScriptedChatClient(bank_url=settings.bank_url)
    raise ValueError(f"AGUI_MODEL={settings.model} is not known: the only model is `scripted`.")
