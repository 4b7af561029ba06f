"""Which replies a client has to reckon with, by why it sent something: the others are failures in the statistics."""

from __future__ import annotations

from http import HTTPStatus

from deploy.agui_client import Reply
from loadtests.history import Intent
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND

_DECIDED_OR_EXPIRED = frozenset({CONFLICT, EXPIRED})
"""Another decision came first, or the time was over, while this one was on its way."""
_CODES = {
    Intent.ANSWER: _DECIDED_OR_EXPIRED,
    Intent.AGAIN: _DECIDED_OR_EXPIRED,
    Intent.ELSEWHERE: _DECIDED_OR_EXPIRED,
    Intent.CONFLICT: frozenset({CONFLICT}),
    Intent.LATE: frozenset({EXPIRED}),
    Intent.FORGE: frozenset({NOT_FOUND}),
    Intent.INTRUDE: frozenset({NOT_FOUND}),
}


def endings(intent: Intent) -> frozenset[str]:
    """Return the codes that answer such a request as much as an end of its run does: there is no more to ask for."""
    return _CODES.get(intent, frozenset()) | {IN_DOUBT}


def is_expected(intent: Intent, reply: Reply) -> bool:
    """Say whether a reply is none to wonder at: an end, a reason to send the same again, a doubt, or the right no."""
    if reply.is_to_repeat:
        return True
    if reply.status != HTTPStatus.OK:
        return False
    return reply.code is None or reply.code in endings(intent)
