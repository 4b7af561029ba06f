"""The host as it is, run so that it can be killed at a named step: what the cluster of these tests serves."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import FastAPI

from app.main import create_app
from app.settings import Settings
from stores.records import ThreadKey
from tests.e2e.kill_orders import KillOrders

ORDERS_VARIABLE = "E2E_KILL_ORDERS"


def create_killable_app() -> FastAPI:
    """Build a host that carries out the kill orders in the folder that the environment names."""
    orders = KillOrders(Path(os.environ[ORDERS_VARIABLE]))

    async def on_step(name: str, key: ThreadKey) -> None:
        orders.carry_out(key.thread_id, name)

    return create_app(Settings(), on_step=on_step)
