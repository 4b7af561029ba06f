"""What an exception at the edge of a run means to its client: a code and a sentence without internals."""

from __future__ import annotations

import asyncio
import logging

from app.errors import Code, Refusal, RunRefused
from stores.errors import StoreError, UnknownFormat

_log = logging.getLogger(__name__)

_SENTENCES: dict[type[BaseException], tuple[Code, str]] = {
    UnknownFormat: (Code.STORE_UNAVAILABLE, "A stored value was written by another version of this host."),
    StoreError: (Code.STORE_UNAVAILABLE, "A store gave no answer; send the same again."),
    TimeoutError: (Code.RUN_FAILED, "A time limit of the run passed; send the same again."),
    asyncio.CancelledError: (Code.RUN_FAILED, "The replica is shutting down; send the same again."),
}


def refusal_for(error: BaseException, run_id: str) -> Refusal:
    """Return what the client is told; what nobody expected is logged once, with its traceback."""
    for cause in (error, error.__cause__):
        if isinstance(cause, RunRefused):
            return cause.refusal
        known = next((known for kind, known in _SENTENCES.items() if isinstance(cause, kind)), None)
        if known is not None:
            return Refusal(*known)
    _log.error("Run %s failed", run_id, exc_info=error)
    return Refusal(Code.RUN_FAILED, "The model or a service behind the agent failed; send the same again.")
