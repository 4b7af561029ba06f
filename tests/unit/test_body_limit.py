"""A request body over the limit gets 413 and a reason, however it arrives; everything else passes untouched."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from app.body_limit import BodyLimit

BYTES_MAX = 100


class Body(BaseModel):
    text: str


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.add_middleware(BodyLimit, bytes_max=BYTES_MAX)

    @app.post("/parsed")
    async def parsed(body: Body) -> int:
        return len(body.text)

    @app.post("/raw")
    async def raw(request: Request) -> int:
        return len(await request.body())

    @app.post("/stream")
    async def stream(body: Body) -> StreamingResponse:
        return StreamingResponse(in_parts(10 * BYTES_MAX))

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://host") as client:
        yield client


async def in_parts(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x"


async def test_a_body_of_just_the_limit_passes(client: httpx.AsyncClient) -> None:
    answer = await client.post("/raw", content=b"x" * BYTES_MAX)

    assert (answer.status_code, answer.json()) == (200, BYTES_MAX)


@pytest.mark.parametrize("path", ["/raw", "/parsed"])
async def test_one_byte_more_is_too_large_and_the_setting_is_named(client: httpx.AsyncClient, path: str) -> None:
    content = b'{"text": "' + b"x" * BYTES_MAX + b'"}'

    answer = await client.post(path, content=content, headers={"content-type": "application/json"})

    assert answer.status_code == 413
    assert answer.json() == {"detail": "The request body is larger than 100 bytes (AGUI_BODY_BYTES_MAX)."}


async def test_a_body_without_a_length_is_counted_as_it_arrives(client: httpx.AsyncClient) -> None:
    fits = await client.post("/raw", content=in_parts(BYTES_MAX))
    too_large = await client.post("/raw", content=in_parts(BYTES_MAX + 1))

    assert (fits.status_code, too_large.status_code) == (200, 413)


async def test_a_length_that_lies_does_not_help(client: httpx.AsyncClient) -> None:
    answer = await client.post("/raw", content=in_parts(BYTES_MAX + 1), headers={"content-length": "1"})

    assert answer.status_code == 413


async def test_a_response_may_be_as_long_as_it_likes(client: httpx.AsyncClient) -> None:
    answer = await client.post("/stream", json={"text": "x"})

    assert answer.content == b"x" * 10 * BYTES_MAX


async def test_a_body_that_is_small_and_wrong_is_left_to_the_app(client: httpx.AsyncClient) -> None:
    answer = await client.post("/parsed", content=b"{", headers={"content-type": "application/json"})

    assert answer.status_code == 422
