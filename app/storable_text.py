"""Refuses requests with text that not every store and stream can carry: NUL characters and lone surrogates."""

from __future__ import annotations

import re

from fastapi import HTTPException, Request, status

from app.answers import has_unstorable

_MAYBE = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""How JSON spells such characters; also pairs of surrogates and escaped backslashes, which are fine."""


async def storable_text(request: Request) -> None:
    """Pass a request on unless a text in it can not be stored. Raises HTTPException 422."""
    if not _MAYBE.search(await request.body()):
        return
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        return  # no JSON: the route's own validation says so
    if has_unstorable(body):
        detail = "The request has a text with a NUL character or half of a surrogate pair."
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, detail)
