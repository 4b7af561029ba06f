"""/livez looks at the process, /readyz at what it needs: stores that take a write, and a host that is not draining.

A host that is full is ready. It refuses more runs at once, before anything is read or written, and another try finds
room or another host; taken off the balancer's list it could not show threads nor take the answers it keeps places for,
and a load that fills every host would leave none on the list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse

from app.drain import Drain
from stores.errors import StoreError

DRAINING_RETRY_SECONDS = 1


def health_routes(drain: Drain, check_stores: Callable[[], Awaitable[None]]) -> APIRouter:
    """Return the two probes."""
    routes = APIRouter(tags=["health"])

    @routes.get("/livez")
    async def livez() -> dict[str, str]:
        return {"status": "alive"}

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        if drain.is_draining:
            return JSONResponse({"status": "draining"}, status_code=503)
        try:
            await check_stores()
        except StoreError as error:
            return JSONResponse({"status": "not ready", "reason": str(error)}, status_code=503)
        return JSONResponse({"status": "ready"})

    return routes


def not_draining(drain: Drain) -> Callable[[], Awaitable[None]]:
    """Return a route dependency that turns new runs away while the host drains."""

    async def check() -> None:
        if drain.is_draining:
            headers = {"Retry-After": str(DRAINING_RETRY_SECONDS)}
            raise HTTPException(503, "This replica is shutting down; send the same again.", headers)

    return check
