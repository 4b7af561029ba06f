"""What people ask for and decide about a card, as a history has it and as it is sent. Pure."""

from __future__ import annotations

import json
from uuid import uuid4

from app.answers import canonical
from deploy.agui_client import Json, approve, cancel, reject
from loadtests.history import Answer, Card
from loadtests.shown import names_in
from stores.records import Verdict

OTHER_PAYEE = "Globex"
THEN = " then "


def calls_in(words: str) -> int:
    """Return for how many calls a question asks at once; what comes "then" is asked for later."""
    return len(names_in(words.split(THEN, maxsplit=1)[0]))


def approval(shown: Card) -> Answer:
    """Approve a call as it is shown."""
    return Answer(shown.interrupt_id, Verdict.APPROVE, shown.arguments)


def edited(shown: Card) -> Answer:
    """Approve a call with another payee, where it has one."""
    arguments = json.loads(shown.arguments)
    if "payee" in arguments:
        arguments["payee"] = OTHER_PAYEE
    return Answer(shown.interrupt_id, Verdict.APPROVE, canonical(arguments))


def rejection(shown: Card) -> Answer:
    """Reject a call."""
    return Answer(shown.interrupt_id, Verdict.REJECT)


def cancellation(shown: Card) -> Answer:
    """Withdraw the question."""
    return Answer(shown.interrupt_id, Verdict.CANCEL)


def forged() -> Answer:
    """Approve something that nobody was ever asked."""
    return Answer(f"af-call-{uuid4().hex}", Verdict.APPROVE, "{}")


def decision(answer: Answer) -> Json:
    """Return a decision as it is sent; an approval with all arguments that it is for."""
    match answer.verdict:
        case Verdict.APPROVE if answer.arguments != "{}":
            return approve(answer.interrupt_id, editedArgs=json.loads(answer.arguments))
        case Verdict.APPROVE:
            return approve(answer.interrupt_id)
        case Verdict.CANCEL:
            return cancel(answer.interrupt_id)
        case _:
            return reject(answer.interrupt_id)


def in_short(answer: Answer, shown: Card) -> Json:
    """Return the same decision as most pages send it: an approval with nothing but the arguments that it changes."""
    if answer.verdict is not Verdict.APPROVE:
        return decision(answer)
    was, approved = json.loads(shown.arguments), json.loads(answer.arguments)
    return approve(answer.interrupt_id, **{name: value for name, value in approved.items() if value != was[name]})
