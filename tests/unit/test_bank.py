"""The bank of the demonstration counts every effect, and only effects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from deploy.bank import create_bank

ORDER = {"invoice": "INV-1", "payee": "ACME"}


def client_of(database_url: str | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(create_bank(database_url)), base_url="http://bank")


@pytest.fixture
async def bank() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of() as client:
        yield client


async def counts(bank: httpx.AsyncClient, prefix: str = "") -> dict[str, int]:
    answer = await bank.get("/effects", params={"invoice_prefix": prefix})
    answer.raise_for_status()
    found: dict[str, int] = answer.json()["counts"]
    return found


async def test_same_key_gets_the_same_receipt_and_no_second_effect(bank: httpx.AsyncClient) -> None:
    first = await bank.post("/payments", json={"key": "k", **ORDER})
    second = await bank.post("/payments", json={"key": "k", **ORDER})

    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()
    assert await counts(bank) == {"payments": 1, "wires": 0, "refunds": 0}


async def test_same_key_for_another_order_is_refused_and_has_no_effect(bank: httpx.AsyncClient) -> None:
    await bank.post("/payments", json={"key": "k", **ORDER})
    other = await bank.post("/payments", json={"key": "k", "invoice": "INV-2", "payee": "ACME"})

    assert other.status_code == 422
    assert await counts(bank) == {"payments": 1, "wires": 0, "refunds": 0}


async def test_every_call_under_a_key_is_counted_the_refused_ones_too(bank: httpx.AsyncClient) -> None:
    for key, invoice in (("a", "INV-1"), ("a", "INV-1"), ("a", "INV-2"), ("b", "INV-1"), ("c", "OTHER-1")):
        await bank.post("/payments", json={"key": key, "invoice": invoice, "payee": "ACME"})
    await bank.post("/wires", json=ORDER)

    told = (await bank.get("/effects", params={"invoice_prefix": "INV-"})).json()

    assert {each["key"]: each["calls"] for each in told["payments"]} == {"a": 3, "b": 1}
    assert told["calls"] == 5


async def test_a_call_that_has_no_answer_yet_is_counted(bank: httpx.AsyncClient) -> None:
    await bank.put("/delays/INV-1", json={"seconds": 600})

    call = asyncio.create_task(bank.post("/payments", json={"key": "k", **ORDER}))
    async with asyncio.timeout(10):
        while (await bank.get("/effects")).json()["calls"] == 0:
            await asyncio.wait([call], timeout=0.01)

    assert not call.done()
    call.cancel()


async def test_payments_and_wires_tell_when_they_happened_and_a_repeat_changes_nothing(
    bank: httpx.AsyncClient,
) -> None:
    begun = time.time()
    await bank.post("/payments", json={"key": "k", **ORDER})
    await bank.post("/wires", json=ORDER)
    ended = time.time()
    first = (await bank.get("/effects")).json()

    await bank.post("/payments", json={"key": "k", **ORDER})
    second = (await bank.get("/effects")).json()

    assert begun <= first["payments"][0]["at"] <= first["wires"][0]["at"] <= ended
    assert second["payments"] == [{**first["payments"][0], "calls": 2}]


async def test_another_key_is_another_effect(bank: httpx.AsyncClient) -> None:
    receipts = {(await bank.post("/payments", json={"key": key, **ORDER})).json()["receipt"] for key in ("a", "b")}

    assert len(receipts) == 2
    assert await counts(bank) == {"payments": 2, "wires": 0, "refunds": 0}


async def test_every_wire_is_an_effect(bank: httpx.AsyncClient) -> None:
    receipts = {(await bank.post("/wires", json=ORDER)).json()["receipt"] for _ in range(3)}

    assert len(receipts) == 3
    assert await counts(bank) == {"payments": 0, "wires": 3, "refunds": 0}


@pytest.mark.parametrize("body", [{}, {"invoice": "INV-1"}, {**ORDER, "payee": ""}, {**ORDER, "amount": 1}])
async def test_incomplete_or_unknown_fields_have_no_effect(bank: httpx.AsyncClient, body: dict[str, object]) -> None:
    assert (await bank.post("/wires", json=body)).status_code == 422
    assert (await bank.post("/payments", json={"key": "k", **body})).status_code == 422
    assert await counts(bank) == {"payments": 0, "wires": 0, "refunds": 0}


async def test_effects_are_told_by_prefix_of_the_invoice(bank: httpx.AsyncClient) -> None:
    for invoice in ("run1-A", "run1-B", "run2-A"):
        await bank.post("/wires", json={"invoice": invoice, "payee": "ACME"})

    answer = (await bank.get("/effects", params={"invoice_prefix": "run1-"})).json()

    assert [wire["invoice"] for wire in answer["wires"]] == ["run1-A", "run1-B"]
    assert answer["counts"]["wires"] == 2


async def test_refunds_are_read_from_the_database_and_absent_before_the_table_is(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'hosts.db'}"
    engine = create_async_engine(url)
    async with client_of(url) as bank:
        assert await counts(bank) == {"payments": 0, "wires": 0, "refunds": 0}

        async with engine.begin() as connection:
            await connection.execute(text("create table demo_refunds (key text, invoice text, created_at real)"))
            await connection.execute(text("insert into demo_refunds values ('k', 'INV-1', 0), ('l', 'inv-1', 0)"))

        answer = (await bank.get("/effects", params={"invoice_prefix": "INV-"})).json()
        assert answer["refunds"] == [{"key": "k", "invoice": "INV-1"}]
        assert answer["counts"]["refunds"] == 1
    await engine.dispose()


@pytest.mark.parametrize(("path", "key"), [("/payments", {"key": "k"}), ("/wires", {})])
async def test_a_delayed_call_takes_effect_before_it_is_answered(
    bank: httpx.AsyncClient, path: str, key: dict[str, str]
) -> None:
    assert (await bank.put("/delays/INV-1", json={"seconds": 600})).status_code == 204

    call = asyncio.create_task(bank.post(path, json={**key, **ORDER}))
    async with asyncio.timeout(10):
        while sum((await counts(bank, "INV-1")).values()) == 0:
            await asyncio.wait([call], timeout=0.01)

    assert not call.done()
    call.cancel()


async def test_a_delay_binds_one_invoice_and_ends_when_set_to_zero(bank: httpx.AsyncClient) -> None:
    await bank.put("/delays/INV-1", json={"seconds": 600})
    async with asyncio.timeout(10):
        assert (await bank.post("/wires", json={"invoice": "INV-2", "payee": "ACME"})).status_code == 200
        await bank.put("/delays/INV-1", json={"seconds": 0})
        assert (await bank.post("/wires", json=ORDER)).status_code == 200


async def test_an_outage_lasts_as_often_as_it_was_told(bank: httpx.AsyncClient) -> None:
    assert (await bank.put("/outages/model", json={"remaining": 2})).status_code == 204

    answers = [(await bank.post("/outages/model/take")).json()["down"] for _ in range(4)]

    assert answers == [True, True, False, False]
    assert (await bank.post("/outages/other/take")).json() == {"down": False}


async def test_healthz_answers(bank: httpx.AsyncClient) -> None:
    assert (await bank.get("/healthz")).status_code == 200
