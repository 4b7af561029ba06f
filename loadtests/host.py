"""The host as it is, run so that a nemesis can strike it: orders, a deliberate bug, a way of its own to the stores."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI

from app.main import create_app
from app.settings import Settings
from app.steps import OnStep, no_step
from loadtests.orders import SPARED_VARIABLE, Orders
from stores.records import ThreadKey

ORDERS_VARIABLE = "CHAOS_ORDERS"
"""The folder with the orders; unset: none are carried out."""
MUTANT_VARIABLE = "CHAOS_MUTANT"
"""The name of a deliberate bug to put in; unset: none."""
PORTS_VARIABLE = "CHAOS_STORE_PORTS"
"""The ports by which replicas reach their stores, as JSON: {"host-1": {"sql": 5001, "redis": 5002}, …}.

A replica that is not named, and a store that its entry does not name, is reached as its URL says.
"""
_URLS = {"sql": "database_url", "redis": "redis_url"}


def create_chaos_app() -> FastAPI:
    """Build a host from AGUI_* variables as ever, and from those above and CHAOS_SPARED."""
    if mutant := os.environ.get(MUTANT_VARIABLE):
        # Only who asks for a bug loads the code of any.
        import_module("loadtests.mutants").put_in(mutant)
    return create_app(Settings(**own_urls(os.environ)), on_step=_on_step(os.environ.get(ORDERS_VARIABLE)))


def own_urls(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings by which this very replica reaches its stores, where it has a way of its own.

    Raises ValueError for a URL that names no host whose port could be another.
    """
    ports = json.loads(environment.get(PORTS_VARIABLE) or "{}").get(environment.get("AGUI_REPLICA_NAME"), {})
    urls = {setting: environment.get(f"AGUI_{setting.upper()}") for setting in _URLS.values()}
    return {_URLS[store]: _with_port(urls[_URLS[store]] or "", port) for store, port in ports.items()}


def _with_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if not parts.hostname or "," in place:
        raise ValueError(f"{PORTS_VARIABLE} names a port for a store whose URL does not name one host.")
    return parts._replace(netloc=f"{user}{at}{parts.hostname}:{port}").geturl()


def _on_step(folder: str | None) -> OnStep:
    if not folder or os.environ.get("AGUI_REPLICA_NAME") == os.environ.get(SPARED_VARIABLE, ""):
        return no_step
    orders = Orders(Path(folder))

    async def on_step(name: str, key: ThreadKey) -> None:
        orders.carry_out(key.thread_id, name)

    return on_step
