"""Places for runs: how many there are for whom, and that each is given back once, whatever becomes of its request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException, Request

from app.concurrency import ConcurrencyLimits, RunSlots, door, requests_slot
from stores.records import Scope

ALICE, BOB = Scope("alice"), Scope("bob")
START = {"messages": [{"role": "user", "content": "hello"}]}


def slots(runs_max: int, *, per_scope: int = 100, share: float = 0.0) -> RunSlots:
    return RunSlots(ConcurrencyLimits(runs_max, per_scope, share), on_refusal=lambda setting: None)


def fill(places: RunSlots, scope: Scope, *, is_resume: bool) -> int:
    """Take places until one is refused; answers how many there were."""
    before = places.taken
    with suppress(HTTPException):
        for _ in range(1_000):
            places.take(scope, is_resume=is_resume)
    with pytest.raises(HTTPException) as refused:
        places.take(scope, is_resume=is_resume)
    assert refused.value.headers == {"Retry-After": "1"}
    return places.taken - before


@pytest.mark.parametrize(
    ("runs_max", "share", "starts", "resumes"),
    [
        (10, 0.2, 8, 2),
        (10, 0.0, 10, 0),
        (30, 0.1, 27, 3),
        (3, 0.2, 2, 1),
        (2, 0.2, 2, 0),
        (1, 0.2, 1, 0),
        (1, 0.9, 1, 0),
    ],
)
def test_a_share_of_all_places_and_of_a_scopes_is_for_resumes_only(
    runs_max: int, share: float, starts: int, resumes: int
) -> None:
    for places in (slots(runs_max, share=share), slots(100, per_scope=runs_max, share=share)):
        assert fill(places, ALICE, is_resume=False) == starts
        assert fill(places, ALICE, is_resume=True) == resumes
        assert places.taken == runs_max


def test_resumes_may_take_every_place() -> None:
    places = slots(10, share=0.2)

    assert fill(places, ALICE, is_resume=True) == 10
    assert fill(places, ALICE, is_resume=False) == 0


def test_the_callers_own_limit_is_told_first_and_each_refusal_is_counted() -> None:
    counted: list[str] = []
    places = RunSlots(ConcurrencyLimits(2, 2, 0.0), on_refusal=counted.append)
    fill(places, ALICE, is_resume=False)

    with pytest.raises(HTTPException) as own:
        places.take(ALICE, is_resume=False)
    with pytest.raises(HTTPException) as others:
        places.take(BOB, is_resume=False)

    assert (own.value.status_code, others.value.status_code) == (429, 503)
    assert counted[-2:] == ["AGUI_RUNS_PER_SCOPE_MAX", "AGUI_RUNS_MAX"]


async def test_a_place_is_kept_until_its_run_has_ended_and_given_back_once() -> None:
    places, go = slots(3), asyncio.Event()
    slot = places.take(ALICE, is_resume=False)
    run = asyncio.create_task(go.wait())
    slot.hold(run)

    slot.leave()
    assert places.taken == 1
    go.set()
    await run
    await asyncio.sleep(0)
    assert places.taken == 0


async def test_a_cancelled_run_gives_its_place_back() -> None:
    places = slots(3)
    run = asyncio.create_task(asyncio.Event().wait())
    places.take(ALICE, is_resume=True).hold(run)

    run.cancel()
    await asyncio.wait([run])
    await asyncio.sleep(0)

    assert places.taken == 0


async def resolver(request: Request) -> Scope:
    if "scope" not in request.headers:
        raise HTTPException(401)
    return Scope(request.headers["scope"])


def host(places: RunSlots, act: Callable[[], Awaitable[None]]) -> FastAPI:
    """A host with one route behind the door."""
    app = FastAPI()

    @app.post("/", dependencies=[Depends(door(places, resolver))])
    async def route(body: dict[str, list[dict[str, str]]]) -> int:
        await act()
        return places.taken

    return app


@pytest.fixture
async def gone() -> AsyncIterator[asyncio.Event]:
    """An event that comes only once the test is over."""
    never = asyncio.Event()
    yield never
    never.set()


async def test_1000_requests_of_every_kind_leave_no_place_taken(gone: asyncio.Event) -> None:
    places = slots(5)
    turns = iter(range(1_000))

    async def act() -> None:
        match next(turns) % 3:
            case 0:
                raise HTTPException(409)
            case 1:
                raise RuntimeError("a bug")
            case _:
                await asyncio.wait_for(gone.wait(), 0)

    transport = httpx.ASGITransport(host(places, act), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://host", headers={"scope": "alice"}) as client:
        for _ in range(200):
            await client.post("/", json=START)
            await client.post("/", json=START, headers={"scope": ""})
            await client.post("/", json={"messages": [5]})
            await client.post("/", content=b"{")
            leaving = asyncio.create_task(client.post("/", json=START))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait([leaving])

    assert places.taken == 0


async def test_whoever_comes_next_in_the_same_context_does_not_find_a_place() -> None:
    places = slots(5)
    seen: list[bool] = []

    async def act() -> None:
        seen.append(requests_slot() is not None)

    transport = httpx.ASGITransport(host(places, act))
    async with httpx.AsyncClient(transport=transport, base_url="http://host", headers={"scope": "alice"}) as client:
        taken = [(await client.post("/", json=body)).json() for body in (START, {"messages": []}, START)]

    # Looking at a thread takes none.
    assert (taken, seen) == ([1, 0, 1], [True, False, True])
    assert requests_slot() is None
