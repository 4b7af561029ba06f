"""What the bank counted, as the effects of a history: nothing a host says has part in it."""

from __future__ import annotations

from typing import Any

from app.answers import canonical
from loadtests.history import Effect
from stores.records import EffectKind

PAY, WIRE, REFUND = "pay_invoice", "wire_transfer", "refund_invoice"
KINDS = {PAY: EffectKind.IDEMPOTENT, WIRE: EffectKind.UNSAFE, REFUND: EffectKind.TRANSACTIONAL}
"""The demo's gated tools, and what the far side of each can promise."""


def effects_of(told: dict[str, Any]) -> list[Effect]:
    """Return the effects in an answer of `GET /effects`. The key of a payment or refund is the interrupt's id."""
    return [
        *(_transfer(PAY, "Paid", each) for each in told["payments"]),
        *(_transfer(WIRE, "Wired", each) for each in told["wires"]),
        *(_refund(each) for each in told["refunds"]),
    ]


def _transfer(tool: str, verb: str, each: dict[str, Any]) -> Effect:
    arguments = canonical({"invoice": each["invoice"], "payee": each["payee"]})
    result = f"{verb} {each['invoice']} to {each['payee']}, receipt {each['receipt']}."
    return Effect(tool, arguments, each.get("key"), result, each.get("at"), each.get("calls", 1))


def _refund(each: dict[str, Any]) -> Effect:
    # When its transaction began is no news: it took effect when that was committed, and nobody noted the moment.
    return Effect(REFUND, canonical({"invoice": each["invoice"]}), each["key"], f"Refunded {each['invoice']}.")
