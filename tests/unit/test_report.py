"""The files and the terminal summary that a chaos run leaves: what they say, and what they never let through."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from junitparser import Failure, JUnitXml
from rich.console import Console

from loadtests.checker import APPROVALS, CONDITIONS, HITS, RULES, Expected, Verdict, check
from loadtests.history import Began, Fault, FaultKind, Intent, Phase, Replied, Result, Sent
from loadtests.report import show, write_report
from loadtests.report.run import ChaosRun
from loadtests.report.words import LOOK_AT
from loadtests.target import Sample
from tests.unit.chaos_runs import ABOUT, BEGAN_AT, Forged, card

EXPECTED = Expected(approvals_min=2, hits_min=1, approvals_per_minute_min=1, bound_seconds=60)
PAGE, SUMMARY, JUNIT = "report.html", "report.json", "junit.xml"
HOSTILE = "<script>alert(1)</script>\"' ]]> {{ 7 * 7 }} [bold]b[/bold] \x1b[31m\x00\u202e\ud800 &amp;"


def forged() -> Forged:
    """Two approvals that moved to another replica, a kill that hit a resume, one that hit none, and a freeze."""
    made = Forged()
    made.approved(1, 1)
    made.approved(5, 2, paused_on="host-2", ended_on="host-3")
    made.fault(6.1, FaultKind.KILL, "host-2", is_resume=True, step="before-settle", thread="thread-2")
    made.fault(8, FaultKind.KILL, "host-3")
    made.fault(9, FaultKind.FREEZE, lasts=6)
    for at, phase in ((20, Phase.QUIET), (21, Phase.LAST_LOOK), (22, Phase.END)):
        made.events.append(Began(BEGAN_AT + at, phase))
    return made


def judged(made: Forged, expected: Expected = EXPECTED, **fields: object) -> ChaosRun:
    verdict = check(made.history, made.effects, expected, is_bank_reached=True)
    run = ChaosRun(ABOUT, made.history, made.effects, verdict)
    return replace(run, **fields)  # type: ignore[arg-type]  # fields of ChaosRun


def broken() -> ChaosRun:
    """The same with a second effect, and less of everything than was wanted."""
    made = forged()
    made.happen_again(1)
    return judged(made, replace(EXPECTED, approvals_min=50, hits_min=50))


def hostile() -> ChaosRun:
    """A server that sends what would act in a page, in XML or in a terminal, wherever it can."""
    made = forged()
    shown = replace(card(3), interrupt_id=f"af-call-3{HOSTILE}", tool=HOSTILE, arguments=f'{{"invoice":"{HOSTILE}"}}')
    made.exchange(10, HOSTILE, scope=HOSTILE, is_paused=True, cards=(shown,), replica=HOSTILE)
    made.exchange(11, HOSTILE, scope=HOSTILE, code=HOSTILE, definite=True, replica=HOSTILE)
    results = (Result(shown.call_id, HOSTILE),)
    made.exchange(12, HOSTILE, scope=HOSTILE, results=results, text=HOSTILE, intent=Intent.LOOK, replica=HOSTILE)
    made.fault(13, FaultKind.KILL, HOSTILE, thread=HOSTILE, step=HOSTILE, is_resume=True)
    run = judged(made)
    violation = replace(broken().verdict.violations[0], approval=shown.interrupt_id, what=HOSTILE)
    everywhere = (violation, replace(violation, approval=HOSTILE, rule=HOSTILE))
    verdict = replace(run.verdict, violations=everywhere, excused=everywhere)
    return replace(run, about={HOSTILE: HOSTILE}, verdict=verdict, samples=sampled(HOSTILE))


def sampled(*names: str) -> list[Sample]:
    return [Sample(BEGAN_AT + at, dict.fromkeys(names, 110_000_000), 20, 9_000_000) for at in (0, 5, 10)]


def shown(run: ChaosRun, folder: Path | None = None) -> str:
    written = io.StringIO()
    show(run, Console(file=written, width=120, force_terminal=True, color_system=None), folder)
    return written.getvalue()


def written(run: ChaosRun, folder: Path) -> str:
    """Write a report, and return its page."""
    write_report(folder, run)
    return (folder / PAGE).read_text(encoding="utf-8")


def spoken(page: str) -> str:
    """Return the text of a page, as a reader sees it."""
    body = page[page.index("<body>") :]
    return " ".join(
        html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL))).split()
    )


def test_a_run_that_passed_says_so_everywhere_and_what_that_means(tmp_path: Path):
    run = judged(forged())
    page = written(run, tmp_path)
    assert run.verdict.is_passed
    assert "<title>PASSED: chaos run on sqlite</title>" in page
    assert "PASSED 2 approvals, 3 faults, 1 kill in the middle of a resume" in spoken(page)
    assert "It does not mean that unsafe tools run exactly once" in spoken(page)
    assert json.loads((tmp_path / SUMMARY).read_text())["passed"] is True
    assert shown(run, tmp_path).splitlines()[-1] == f"PASSED: {tmp_path / PAGE}"
    assert "FAILED" not in page + shown(run)


def test_a_run_that_broke_a_promise_says_so_everywhere(tmp_path: Path):
    run = broken()
    page, terminal = written(run, tmp_path), shown(run, tmp_path)
    assert "<title>FAILED: chaos run on sqlite</title>" in page
    assert "1 promise broken, 1 time in all" in spoken(page)
    assert json.loads((tmp_path / SUMMARY).read_text())["passed"] is False
    assert terminal.splitlines()[-1] == f"FAILED: {tmp_path / PAGE}"
    assert "BROKEN af-call-1: at most one effect per approval: 2 effects" in terminal
    assert "look at its ledger row" in terminal
    assert "PASSED" not in page + terminal


def test_a_run_that_tried_too_little_failed_and_says_what_is_missing(tmp_path: Path):
    run = judged(forged(), replace(EXPECTED, hits_min=50))
    page, terminal = spoken(written(run, tmp_path)), shown(run)
    assert "FAILED Nothing was seen broken, but too little was tried" in page
    assert "only 1 kills hit a resume in progress" in page
    assert "TOO LITTLE kills of resumes in progress: only 1 kills" in terminal
    assert terminal.splitlines()[-1] == "FAILED"


def test_a_violation_is_told_as_the_story_of_its_thread(tmp_path: Path):
    page = spoken(written(broken(), tmp_path))
    begin = page.index("The story of thread thread-1 in scope alice")
    story = page[begin : page.index("What became of the approvals")]
    events = (
        "0.00 user-1 ask (user-1:1): a message",
        "0.50 host-1 to user-1:1: ok, shows af-call-1: pay_invoice (idempotent)",
        "1.00 user-1 answer (user-1:2): approve af-call-1",
        "1.20 bank effect of pay_invoice",
        "1.30 bank effect of pay_invoice",
        "1.50 host-2 to user-1:2: ok, result Paid INV-1.",
        "2.00 user-1 twice (user-1:3): approve af-call-1",
        "2.50 host-2 to user-1:3: replay, result Paid INV-1.",
    )
    places = [story.find(event) for event in events]
    assert -1 not in places
    assert places == sorted(places)
    assert "thread-2" not in story


def test_a_fault_during_a_thread_is_part_of_its_story(tmp_path: Path):
    made = forged()
    made.happen_again(2)
    assert "1.10 nemesis kill of host-2 at before-settle of thread thread-2" in spoken(written(judged(made), tmp_path))


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path):
    page = written(judged(forged(), samples=sampled("host-1", "host-2")), tmp_path)
    names_of_formats = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"[a-z]+://[^\s\"'<>]*", page)) <= names_of_formats
    assert not re.findall(r"<(?:script|link|iframe|img|object|embed|base|use|image)\b", page)
    assert not re.findall(r"@import|url\(|\s(?:src|href|xlink:href|on\w+)\s*=", page)


def test_the_page_can_be_read_without_seeing_it(tmp_path: Path):
    page = written(judged(forged(), samples=sampled("host-1")), tmp_path)
    plots = re.findall(r"<svg\b[^>]*>", page)
    assert '<html lang="en">' in page
    assert len(plots) == 9
    assert all('role="img"' in plot and re.search(r'aria-label="[^"]{20,}"', plot) for plot in plots)
    assert len({re.search(r'id="([^"]+)"', plot)[1] for plot in plots}) == len(plots)  # type: ignore[index]
    assert all("<th" in table for table in re.findall(r"<table.*?</table>", page, re.DOTALL))


def test_kills_are_on_the_time_axis_those_that_hit_a_resume_apart(tmp_path: Path):
    page = written(judged(forged()), tmp_path)
    [plot] = re.findall(r'<svg[^>]*id="chart-outcomes".*?</svg>', page, re.DOTALL)
    assert "<title>6.1 s: kill of host-2 at before-settle of thread thread-2</title>" in plot
    assert "<title>8.0 s: kill of host-3</title>" in plot
    assert "<title>9.0 s: freeze of host-1, for 6.0 s</title>" in plot
    assert 'aria-label="Replies per second over 22 seconds, by how they ended.' in plot
    assert "kill that hit a resume: 1, other kill: 1, fault that lasts: 1." in plot


def test_what_a_server_sent_does_not_act_in_the_page(tmp_path: Path):
    page = written(hostile(), tmp_path)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert not re.findall("[\x00-\x09\x0b-\x1f\u202e]", page)


def test_what_a_server_sent_does_not_act_in_the_terminal():
    terminal = shown(hostile())
    refusals = terminal[terminal.index("Refusals") : terminal.index("How long it took")]
    assert refusals.count("[bold]b[/bold]") == 1
    assert "[bold]b[/bold]" in terminal[terminal.index("BROKEN") :]
    assert not re.findall("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800]", terminal)


def test_what_a_server_sent_is_the_same_in_the_files_for_programs(tmp_path: Path):
    run = hostile()
    write_report(tmp_path, run)
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert [each["what"] for each in summary["violations"]] == [HOSTILE, HOSTILE]
    names = {case.name for suite in JUnitXml.fromfile(str(tmp_path / JUNIT)) for case in suite}
    assert any("<script>alert(1)</script>" in name for name in names)


def test_each_rule_and_each_condition_is_a_test_case(tmp_path: Path):
    write_report(tmp_path, judged(forged()))
    report = JUnitXml.fromfile(str(tmp_path / JUNIT))
    assert [case.name for suite in report for case in suite] == [*RULES, *CONDITIONS]
    count = len(RULES) + len(CONDITIONS)
    assert f'<testsuites tests="{count}" failures="0"' in (tmp_path / JUNIT).read_text()


def test_what_is_wrong_is_a_failed_test_case(tmp_path: Path):
    run = broken()
    write_report(tmp_path, run)
    report = JUnitXml.fromfile(str(tmp_path / JUNIT))
    failed = {case.name: case.result[0] for suite in report for case in suite if case.result}
    assert set(failed) == {"at most one effect per approval", APPROVALS, HITS}
    assert report.failures == 3
    assert all(isinstance(each, Failure) for each in failed.values())
    assert "af-call-1: 2 effects" in (failed["at most one effect per approval"].text or "")
    assert "only 1 kills" in (failed[HITS].text or "")


def test_a_rule_that_is_not_in_the_list_fails_all_the_same(tmp_path: Path):
    run = broken()
    strange = replace(run.verdict.violations[0], rule="memory is flat")
    write_report(tmp_path, replace(run, verdict=replace(run.verdict, violations=(strange,), shortfalls=())))
    assert JUnitXml.fromfile(str(tmp_path / JUNIT)).failures == 1


def test_the_summary_has_every_number_of_the_run(tmp_path: Path):
    run = judged(forged(), samples=sampled("host-1"))
    write_report(tmp_path, run)
    summary = json.loads((tmp_path / SUMMARY).read_text())
    counts = asdict(run.verdict.counts)
    assert summary["about"] == ABOUT
    assert summary["counts"].keys() | summary["times"].keys() == counts.keys() | {"crossed_share"}
    assert summary["counts"]["faults"] == {"kill": 2, "freeze": 1}
    assert summary["times"]["finish_seconds"] == pytest.approx(
        {"count": 2, "p50": 0.5, "p95": 0.5, "p99": 0.5, "max": 0.5}
    )
    assert summary["moves"]["host-2"]["host-3"] == 1
    assert [fault["until"] - fault["at"] for fault in summary["faults"]] == pytest.approx([0, 0, 6])
    assert summary["growth"]["memory_bytes"] == {"host-1": [110_000_000] * 3}


def test_the_moves_are_the_resumes_that_the_checker_counted(tmp_path: Path):
    made = forged()
    made.exchange(10, "thread-3", is_paused=True, cards=(card(3), card(4)), replica="host-1")
    made.exchange(11, "thread-3", [], code="HTTP 503", status=503)
    made.approved(12, 5, paused_on="host-2", ended_on="host-2")
    run = judged(made)
    write_report(tmp_path, run)
    moved = json.loads((tmp_path / SUMMARY).read_text())["moves"]
    assert sum(count for row in moved.values() for count in row.values()) == run.verdict.counts.resumes == 3
    stayed = sum(moved[name][name] for name in moved)
    assert run.verdict.counts.resumes - stayed == run.verdict.counts.crossed == 2


def test_the_same_run_is_written_the_same_twice(tmp_path: Path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        write_report(folder, broken())
    first, second = ([(folder / name).read_bytes() for name in (PAGE, SUMMARY, JUNIT)] for folder in folders)
    assert first == second


def test_every_rule_of_the_checker_has_something_to_look_at():
    assert LOOK_AT.keys() == {*RULES}


@pytest.mark.parametrize(
    "history",
    [
        [],
        [Sent(BEGAN_AT, "a", "s", "t")],
        [Replied(BEGAN_AT, "nobody sent this")],
        [Fault(BEGAN_AT, "host-1"), Fault(BEGAN_AT, "", kind=FaultKind.SLOW_STORE)],
    ],
    ids=["empty", "one POST without a reply", "a reply to nothing", "faults only"],
)
def test_a_history_with_next_to_nothing_in_it_has_a_report(history: list[Sent | Replied | Fault], tmp_path: Path):
    verdict: Verdict = check(history, [], EXPECTED, is_bank_reached=False)
    run = ChaosRun({}, history, [], verdict)
    assert "FAILED" in spoken(written(run, tmp_path))
    assert "the bank" in shown(run)


def test_a_page_of_very_many_violations_shows_the_first_and_says_how_many_there_are(tmp_path: Path):
    run = broken()
    verdict = replace(run.verdict, violations=run.verdict.violations * 500)
    page = spoken(written(replace(run, verdict=verdict), tmp_path))
    assert "at most one effect per approval: 500 Look at" in page
    assert "And 450 more: report.json has all of them." in page
    assert page.count("af-call-1 2 effects") == 50
    assert len(json.loads((tmp_path / SUMMARY).read_text())["violations"]) == 500


def test_what_a_run_uses_is_plotted_where_it_was_sampled(tmp_path: Path):
    assert "What it uses" not in written(judged(forged()), tmp_path)
    assert "What it uses" in written(judged(forged(), samples=sampled("host-1")), tmp_path)


def test_what_a_long_run_could_not_show_is_said_wherever_its_verdict_is(tmp_path: Path):
    limit = "no replica lived long enough to show a slow leak within one process"
    short_lives = [replace(sampled("host-1" if at % 60 else "")[0], at=BEGAN_AT + at) for at in range(0, 601, 5)]
    one_life = [replace(each, memory_bytes={"host-1": 110_000_000}) for each in short_lives]
    for samples, is_said in ((short_lives, True), (one_life, False), (short_lives[:50], False)):
        run = judged(forged(), samples=samples)
        page = spoken(written(run, tmp_path))
        assert json.loads((tmp_path / SUMMARY).read_text())["unseen"] == ([limit] if is_said else [])
        assert [limit in page, limit in shown(run)] == [is_said] * 2
