"""The demo agent: one tool that only looks and three that a person approves, one for each kind of effect."""

from __future__ import annotations

import time
import zlib
from typing import Annotated

import httpx
import sqlalchemy
from agent_framework import Agent, FunctionInvocationContext, SupportsChatGetResponse, tool
from pydantic import Field

from app.tools import DidNotHappen, effect_of, gated, idempotent, transactional, unsafe

_INSTRUCTIONS = "You settle invoices. Call a tool for each thing asked, and say in one sentence what came of each."

_KEY_LIFETIME_SECONDS = 30 * 24 * 3600.0
"""The demo's bank never forgets a key; a month is what payment services commonly promise."""

_REFUNDS = sqlalchemy.table(
    "demo_refunds", sqlalchemy.column("key"), sqlalchemy.column("invoice"), sqlalchemy.column("created_at")
)
_INSERT_REFUND = sqlalchemy.insert(_REFUNDS)

Invoice = Annotated[str, Field(description="Number of the invoice", min_length=1, max_length=64)]
Payee = Annotated[str, Field(description="Who gets the money", min_length=1, max_length=64)]


class PaymentTools:
    """The tools with the bank they use. Their schemas are built with the class, so binding them is cheap."""

    def __init__(self, bank: httpx.AsyncClient) -> None:
        self._bank = bank

    @tool(approval_mode="never_require")
    async def look_up_invoice(self, invoice: Invoice) -> str:
        """Say what an invoice is about."""
        return f"Invoice {invoice}: {zlib.crc32(invoice.encode()) % 1000 + 1} EUR."

    @gated(idempotent(key_lifetime_seconds=_KEY_LIFETIME_SECONDS))
    async def pay_invoice(self, invoice: Invoice, payee: Payee, context: FunctionInvocationContext) -> str:
        """Pay an invoice."""
        key = effect_of(context).idempotency_key
        receipt = await _post(self._bank, "/payments", {"key": key, "invoice": invoice, "payee": payee})
        return f"Paid {invoice} to {payee}, receipt {receipt}."

    @gated(transactional())
    async def refund_invoice(self, invoice: Invoice, context: FunctionInvocationContext) -> str:
        """Refund an invoice that was paid."""
        effect = effect_of(context)
        refund = {"key": effect.idempotency_key, "invoice": invoice, "created_at": time.time()}
        await effect.connection.execute(_INSERT_REFUND, refund)
        return f"Refunded {invoice}."

    @gated(unsafe())
    async def wire_transfer(self, invoice: Invoice, payee: Payee, context: FunctionInvocationContext) -> str:
        """Wire the amount of an invoice. The bank cannot recognise a repeat."""
        effect_of(context)  # refuses to wire outside an approved call, though a wire has no use for a key
        try:
            receipt = await _post(self._bank, "/wires", {"invoice": invoice, "payee": payee})
        except BankUnreachableError as error:
            # True here only because a wire is never repeated by itself: no earlier attempt can have arrived.
            raise DidNotHappen("The bank could not be reached; nothing was wired.") from error
        return f"Wired {invoice} to {payee}, receipt {receipt}."


class BankUnreachableError(ConnectionError):
    """No connection was made, so this attempt sent nothing; an earlier one may have."""


def build_agent(client: SupportsChatGetResponse, *, bank: httpx.AsyncClient, transactional: bool) -> Agent:
    """Build a new agent, for one request. `transactional`: the ledger can run a tool in its own transaction."""
    # A tool is bound by copying it, with the schema it has by then: read once here, it is not computed per request.
    for declared in (
        PaymentTools.look_up_invoice,
        PaymentTools.pay_invoice,
        PaymentTools.refund_invoice,
        PaymentTools.wire_transfer,
    ):
        declared.parameters()
    tools = PaymentTools(bank)
    offered = [tools.look_up_invoice, tools.pay_invoice, tools.wire_transfer]
    if transactional:
        offered.append(tools.refund_invoice)
    return Agent(client, _INSTRUCTIONS, name="payments", tools=offered)


async def _post(bank: httpx.AsyncClient, path: str, body: dict[str, str]) -> str:
    """Return the receipt. Raises DidNotHappen if the bank refused, TimeoutError or ConnectionError if nobody knows."""
    try:
        response = await bank.post(path, json=body)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as error:
        raise BankUnreachableError("The bank could not be reached.") from error
    except httpx.TimeoutException as error:
        raise TimeoutError("The bank did not answer in time.") from error
    except httpx.RequestError as error:
        raise ConnectionError("The connection to the bank was lost.") from error
    if response.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
        raise DidNotHappen("The bank refused this instruction, so it did nothing.")
    if not response.is_success:
        raise ConnectionError(f"The bank answered {response.status_code}, which does not say what it did.")
    try:
        return str(response.json()["receipt"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConnectionError("The bank accepted, but its receipt cannot be read.") from error
