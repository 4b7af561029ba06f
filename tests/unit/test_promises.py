"""The demonstration's judge: what happened is what was approved, or a sentence says where it is not."""

from __future__ import annotations

import pytest
from rich.console import Console

from deploy.promises import Approved, Effects, Promises, misfits, payment_calls

APPROVED = (Approved("payments", "INV-1"), Approved("wires", "INV-2"))


def effects(payments: tuple[str, ...] = (), wires: tuple[str, ...] = (), refunds: tuple[str, ...] = ()) -> Effects:
    kinds = {"payments": payments, "wires": wires, "refunds": refunds}
    return {kind: [{"invoice": invoice} for invoice in invoices] for kind, invoices in kinds.items()}


def test_one_effect_for_each_approved_call_fits() -> None:
    assert misfits(effects(payments=("INV-1",), wires=("INV-2",)), APPROVED) == []


@pytest.mark.parametrize(
    ("happened", "sentence"),
    [
        (effects(payments=("INV-1", "INV-1"), wires=("INV-2",)), "INV-1: 2 payments happened, 1 approved"),
        (effects(payments=("INV-1",)), "INV-2: 0 wires happened, 1 approved"),
        (effects(payments=("INV-1", "INV-9"), wires=("INV-2",)), "INV-9: 1 payment happened, 0 approved"),
        (effects(payments=("INV-1",), wires=("INV-2",), refunds=("INV-1",)), "INV-1: 1 refund happened, 0 approved"),
    ],
    ids=["twice", "missing", "not approved", "of another kind"],
)
def test_misfit_is_named(happened: Effects, sentence: str) -> None:
    assert misfits(happened, APPROVED) == [sentence]


@pytest.mark.parametrize(("calls", "total"), [((), 0), ((1,), 1), ((2,), 2), ((1, 1), 2)])
def test_calls_to_pay_an_invoice_are_added_over_its_keys(calls: tuple[int, ...], total: int) -> None:
    payments = [{"invoice": "INV-1", "calls": each} for each in calls]

    assert payment_calls({"payments": [*payments, {"invoice": "INV-2", "calls": 7}]}, "INV-1") == total


def test_broken_promises_are_kept_in_mind_and_kept_ones_are_not() -> None:
    promises = Promises(Console(quiet=True))

    promises.check("one payment", True)
    promises.check("one wire", False)

    assert promises.broken == ["one wire"]
