"""What a report says in words: what a verdict means and does not mean, and where to look when a rule was broken."""

from __future__ import annotations

from loadtests.checker import FLAT, IN_TIME, Verdict
from loadtests.counts import Counts

MEANING = (
    "A pass means: in this run every approved call had at most one effect, whatever failed around it. Those of "
    "idempotent tools (the far side recognises the key that they hand on) and of transactional tools (they write in "
    "the hosts' own database) had exactly one where a client was told an answer. An unsafe tool can do neither: where "
    "its replica died in the middle it stopped as indeterminate and waits for a person, and was not run again. What "
    "was rejected, cancelled or expired had no effect, and no answer was left without an end."
)
LIMITS = (
    "It does not mean that unsafe tools run exactly once, or that tools which nobody approves do: those may run again. "
    "And it speaks of what was tried: these stores, these faults, this load, on one machine. What no client could have "
    "noticed and the bank did not count, nobody judged."
)
_GENERAL = "the approval's and its thread's lines in history.jsonl"

LOOK_AT: dict[str, str] = {
    "no effect without an approval": "who called the tool: app/guard.py, and the claim that it trusts",
    "at most one effect per approval": "its ledger row: who reserved and who began it, in stores/*/effects.py",
    "executed arguments are the approved ones": "where the resume is rebuilt from the record, in app/carry_out.py",
    "an answered approval has its effect": "which result was settled, and whether its effect was committed with it",
    "a definite refusal has no effect": "app/definite.py, and what had been read from the ledger by then",
    "what was rejected, cancelled or expired has no effect": "the order of closing: ledger first, record second",
    "a duplicate replays the one answer": "the outcome that was recorded, and who ran the second time",
    "a conflicting repeat is refused": "the input digests of the two runs, and the compare of the claim",
    "an unsafe call never runs again after a doubt": "the take-over: what reserve answered for a row that was begun",
    "a doubt has a cause": "who released the claim and named the call indeterminate, in app/releases.py",
    "no pause without an open question": "what the snapshot shows, against what the record holds open",
    "nothing acknowledged is lost": "the commit of the pause: it comes before its events are sent",
    "other scopes and threads see nothing": "the keys of the stores: scope, agent and thread are in every one",
    "what was decided stays decided": "the record's own life of the approval, in app/lifecycle.py",
    "a conflict has another decision": "what the refusal was compared with, in app/admission.py",
    "every reply is one that clients know": "app/errors.py, and what a balancer answers in a replica's place",
    "a forged answer is told nothing": "how an id is looked up: by scope, agent and thread, in app/authority.py",
    "a far side is given the approval's own key": "which key the tool was handed, in app/effects.py",
    "a call is made once but after a failure": "what begin had answered to the second, in app/effects.py",
    "a failure has a cause": "the log of the replica that answered, and what its stores did then",
    "doubts are rare": "whether releases and take-overs read a settled row as one that was only begun",
    "a reply speaks of its own thread alone": "whose record and snapshot were read: the keys of the stores",
    "a page shows what was told": "the snapshot that was saved with the run, and what it is merged with when loaded",
    "a question is asked as it was said": "how a question becomes calls and cards, and what of it a repeat keeps",
    "a last look shows the page": "what answered in the page's place after all was mended: that replica's log",
    FLAT: "the curves of what it uses, in report.html: which of them rises, and since when",
    "a refusal fits what was sent": "what the request was compared with, in app/admission.py",
    "a card stays as it was shown": "the snapshot of the pause, and who wrote it after that",
    "what is under way does not expire": "what the claim recorded, and the expiry in app/upkeep.py",
    IN_TIME: "who held the thread after the last fault, and what the reconciler did with it",
}


def look_at(rule: str) -> str:
    """Return what to look at when a rule was broken."""
    return LOOK_AT.get(rule, _GENERAL)


def headline(verdict: Verdict) -> str:
    """Return the verdict as one word."""
    return "PASSED" if verdict.is_passed else "FAILED"


def sentence(verdict: Verdict) -> str:
    """Return the verdict as a sentence for whoever reads the first report of their life."""
    tried = _tried(verdict.counts)
    if verdict.violations:
        broken = _number(len({each.rule for each in verdict.violations}), "promise")
        return f"{broken} broken, {_number(len(verdict.violations), 'time')} in all. Tried: {tried}."
    if verdict.shortfalls:
        return f"Nothing was seen broken, but too little was tried to say that nothing is: {tried}."
    effects = _number(sum(each.effects for each in verdict.counts.kinds.values()), "effect")
    return (
        f"{tried}: {effects}, none of them twice, none that nobody had approved, and no answer was left without an end."
    )


def crossings(counts: Counts) -> str:
    """Return how many resumes moved to another replica, and of how many that can not be told, as sentences."""
    live, others = _number(counts.live, "resume"), _number(counts.resumes - counts.live, "other")
    share = f"{100 * counts.crossed_share:.0f} %"
    return (
        f"{counts.crossed:,} of {live} that ended live ({share}) did on another replica than the one that had paused. "
        f"The end of {others} was told by a replay or as a doubt, for {counts.retold:,} of them elsewhere: who had "
        "carried those out is not known."
    )


def _tried(counts: Counts) -> str:
    numbers = (
        _number(counts.approvals, "approval"),
        _number(sum(counts.faults.values()), "fault"),
        f"{_number(counts.hits, 'kill')} in the middle of a resume",
    )
    return ", ".join(numbers)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
