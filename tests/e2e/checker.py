"""The judge of a campaign: reads what clients saw, which replicas died where, and what the bank counted."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.agui_client import RETRYABLE_CODES
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval
from tests.e2e.campaign import Campaign

BALANCER_STATUSES = {502, 503, 504}

IN_DOUBT = {"after-begin", "before-effect", "after-effect", "before-settle"}
"""Begun for certain and certainly not settled: a replica killed here leaves an unsafe call in doubt."""
MAYBE_IN_DOUBT = IN_DOUBT | {"before-begin", "after-settle"}
"""A replica that had come here when it was killed may have begun, and may not have settled."""


def violations(campaign: Campaign, *, hits_min: int) -> list[str]:
    """Return every promise that was broken, and every sign that the campaign tried too little.

    An order is not carried out where an approval came to its end without that step: after the death of a replica that
    was ordered for another one, in doubt or with its result settled.
    """
    return [*_tried_too_little(campaign, hits_min), *_miscounted(campaign), *_of_each_approval(campaign)]


def _tried_too_little(campaign: Campaign, hits_min: int) -> Iterator[str]:
    count, hits = len(campaign.approvals), len(campaign.hits)
    if hits < hits_min:
        yield f"only {hits} of {count} approvals lost their replica"
    moved = sum(map(campaign.is_moved, campaign.approvals))
    if moved <= count / 2:
        yield f"only {moved} of {count} approvals were ended by another process than they paused on"


def _miscounted(campaign: Campaign) -> Iterator[str]:
    for kind in (IDEMPOTENT, TRANSACTIONAL):
        effects, approvals = campaign.bank.count(kind), len(campaign.of(kind))
        if effects != approvals:
            yield f"{effects} effects for {approvals} approvals of {kind.name} calls"
    approved = sum(len(campaign.bank.of(approval)) for approval in campaign.of(UNSAFE))
    if campaign.bank.count(UNSAFE) != approved:
        yield f"{campaign.bank.count(UNSAFE) - approved} unsafe effects that nobody approved"


def _of_each_approval(campaign: Campaign) -> Iterator[str]:
    for approval in campaign.approvals:
        found = [*_effects(approval, campaign), *_replies(approval), *_duplicate(approval)]
        if approval.kind is UNSAFE:
            found += _doubt(approval, campaign)
        yield from (f"{approval.invoice}, ordered {approval.step}: {what}" for what in found)


def _effects(approval: Approval, campaign: Campaign) -> Iterator[str]:
    effects = campaign.bank.of(approval)
    if len(effects) > 1:
        yield f"{len(effects)} effects"
    if approval.is_answered and not effects:
        yield "answered without an effect"
    if approval.is_answered and len(effects) == 1:
        # With the receipt of the very effect that the bank has in its books.
        result = approval.kind.result.format(**effects[0])
        if approval.answer.tool_results != [result] or result not in approval.answer.text:
            yield f"{result!r} is missing in {approval.answer.tool_results} {approval.answer.text!r}"


def _replies(approval: Approval) -> Iterator[str]:
    if not approval.is_answered and not (approval.kind is UNSAFE and approval.is_in_doubt):
        yield f"ended with {approval.answer}"
    for reply in approval.replies[:-1]:
        if not (reply.is_cut or reply.status in BALANCER_STATUSES or reply.code in RETRYABLE_CODES):
            yield f"was told on the way: {reply}"


def _duplicate(approval: Approval) -> Iterator[str]:
    answer, duplicate = approval.answer, approval.duplicate
    if duplicate.is_replay != approval.is_answered or duplicate.code != answer.code:
        yield f"a duplicate got {duplicate.code or duplicate.end}"
    if (duplicate.text, duplicate.tool_results) != (answer.text, answer.tool_results):
        yield f"a duplicate replays {duplicate.tool_results} {duplicate.text!r}, the answer was {answer.text!r}"


def _doubt(approval: Approval, campaign: Campaign) -> Iterator[str]:
    """An unsafe call is in doubt where a replica died between its begin and its settle, and nowhere else."""
    killed = {hit.step for hit in campaign.hits if hit.thread_id == approval.thread_id}
    if killed & IN_DOUBT and not approval.is_in_doubt:
        yield f"its replica was killed {killed}, which nobody reported as doubt"
    deaths = campaign.deaths(approval)
    if approval.is_in_doubt and not any(MAYBE_IN_DOUBT.intersection(steps) for steps in deaths):
        told = [reply.code or reply.end or reply.status for reply in approval.replies]
        yield f"in doubt, but no replica died between its begin and its settle: {deaths=} {told=}"
    if approval.is_in_doubt and approval.answer.metadata.get("definite") is not False:
        yield f"in doubt, yet reported as definite: {approval.answer.end}"
