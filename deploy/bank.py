"""The far side of the demonstration: a process of its own that counts what really happened, in memory.

`POST /payments` recognises an idempotency key, `POST /wires` recognises nothing, and `GET /effects` tells the truth
about both: what happened, and how many calls it took. It also tells refunds, which are rows in the hosts' own database.
Delays and outages are switches for whoever wants to see what the hosts do when the far side is slow or the model is
down. The cluster never restarts the bank.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, column, func, inspect, make_url, select, table
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

_REFUNDS = table("demo_refunds", column("key"), column("invoice"), column("created_at"))

Text = Annotated[str, Field(min_length=1, max_length=200)]


class Wire(BaseModel):
    """An order to pay an invoice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    invoice: Text
    payee: Text


class Payment(Wire):
    """An order to pay an invoice, once per key."""

    key: Text


class Delay(BaseModel):
    """How long calls for an invoice wait for their answer after they took effect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float = Field(ge=0, le=600)


class Outage(BaseModel):
    """How many times a named party is still down when it is asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    remaining: int = Field(ge=0, le=1000)


@dataclass(frozen=True, slots=True)
class _Booked:
    order: Wire
    receipt: str
    at: float


class Bank:
    """Every effect so far, in the order it happened; its public methods are the endpoints."""

    def __init__(self, engine: AsyncEngine | None) -> None:
        self._engine = engine
        self._payments: dict[str, _Booked] = {}
        self._calls: Counter[str] = Counter()
        self._wires: list[_Booked] = []
        self._delays: dict[str, float] = {}
        self._outages: dict[str, int] = {}

    async def pay(self, payment: Payment) -> dict[str, str]:
        """Pay once per key; a key that was used for another order is refused. Every call is counted."""
        self._calls[payment.key] += 1
        booked = self._payments.get(payment.key)
        if booked is None:
            booked = self._payments[payment.key] = _Booked(payment, f"payment-{len(self._payments) + 1}", time.time())
        if booked.order != payment:
            raise HTTPException(422, "This key was used for another payment.")
        return await self._answer(booked)

    async def wire(self, wire: Wire) -> dict[str, str]:
        """Pay once per call."""
        booked = _Booked(wire, f"wire-{len(self._wires) + 1}", time.time())
        self._wires.append(booked)
        return await self._answer(booked)

    async def read_effects(self, invoice_prefix: str = "") -> dict[str, Any]:
        """Tell all effects on invoices that start so, how many of each kind, and how many calls were received.

        `at` is when a payment or a wire happened, in seconds since the epoch. The `calls` of a payment are all that
        came under its key: the first, the repeats and the refused ones.
        """
        payments = [
            {**each, "calls": self._calls[each["key"]]} for each in _told(self._payments.values(), invoice_prefix)
        ]
        wires = _told(self._wires, invoice_prefix)
        effects = {"payments": payments, "wires": wires, "refunds": await self._refunds(invoice_prefix)}
        calls = sum(each["calls"] for each in payments) + len(wires)
        return {**effects, "counts": {kind: len(each) for kind, each in effects.items()}, "calls": calls}

    async def set_delay(self, invoice: str, delay: Delay) -> None:
        """Answer calls for this invoice only so long after they took effect."""
        self._delays[invoice] = delay.seconds

    async def set_outage(self, name: str, outage: Outage) -> None:
        """Let a named party be down the next so many times that it is asked for."""
        self._outages[name] = outage.remaining

    async def take_outage(self, name: str) -> dict[str, bool]:
        """Tell whether a named party is down, and count this as one of its failures."""
        remaining = self._outages.get(name, 0)
        self._outages[name] = max(0, remaining - 1)
        return {"down": remaining > 0}

    async def tell_health(self) -> dict[str, str]:
        """Tell that the bank is open."""
        return {"status": "ok"}

    async def _answer(self, booked: _Booked) -> dict[str, str]:
        await asyncio.sleep(self._delays.get(booked.order.invoice, 0))
        return {"receipt": booked.receipt}

    async def _refunds(self, invoice_prefix: str) -> list[dict[str, str]]:
        if self._engine is None:
            return []
        async with self._engine.connect() as connection:
            return await connection.run_sync(_read_refunds, invoice_prefix)


def _told(booked: Iterable[_Booked], invoice_prefix: str) -> list[dict[str, Any]]:
    return [
        {**each.order.model_dump(), "receipt": each.receipt, "at": each.at}
        for each in booked
        if each.order.invoice.startswith(invoice_prefix)
    ]


def _read_refunds(connection: Connection, invoice_prefix: str) -> list[dict[str, str]]:
    if not inspect(connection).has_table(_REFUNDS.name):
        return []
    # Not LIKE: it ignores case on SQLite.
    starts_so = func.substr(_REFUNDS.c.invoice, 1, len(invoice_prefix)) == invoice_prefix
    rows = connection.execute(select(_REFUNDS.c.key, _REFUNDS.c.invoice).where(starts_so))
    return [{"key": row.key, "invoice": row.invoice} for row in rows]


def _engine(database_url: str) -> AsyncEngine:
    url = make_url(database_url)
    # The hosts' driver, also where the URL names none.
    driver = {"postgresql": "postgresql+psycopg", "sqlite": "sqlite+aiosqlite"}[url.get_backend_name()]
    # The database may have been restarted since: a connection is tried before it is used.
    return create_async_engine(url.set(drivername=driver), pool_size=2, pool_pre_ping=True)


def create_bank(database_url: str | None = None) -> FastAPI:
    """Build the bank's application; `database_url` is where the hosts keep refunds (None: there are no refunds)."""
    engine = _engine(database_url) if database_url else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if engine is not None:
            await engine.dispose()

    bank = Bank(engine)
    bank_app = FastAPI(title="Bank", lifespan=lifespan)
    bank_app.add_api_route("/payments", bank.pay, methods=["POST"])
    bank_app.add_api_route("/wires", bank.wire, methods=["POST"])
    bank_app.add_api_route("/effects", bank.read_effects, methods=["GET"])
    bank_app.add_api_route("/delays/{invoice}", bank.set_delay, methods=["PUT"], status_code=204)
    bank_app.add_api_route("/outages/{name}", bank.set_outage, methods=["PUT"], status_code=204)
    bank_app.add_api_route("/outages/{name}/take", bank.take_outage, methods=["POST"])
    bank_app.add_api_route("/healthz", bank.tell_health, methods=["GET"])
    return bank_app


def main() -> None:
    """Serve the bank on a local port."""
    parser = argparse.ArgumentParser(prog="python -m deploy.bank", description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database-url", help="the database that holds refunds, as in AGUI_DATABASE_URL")
    arguments = parser.parse_args()
    uvicorn.run(create_bank(arguments.database_url), host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
