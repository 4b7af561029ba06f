"""The files and the terminal summary that a chaos run leaves: what they say, and what they never let through."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from junitparser import Failure, JUnitXml

from loadtests.checker import CONDITIONS, FLAT, RULES, Verdict, check
from loadtests.conditions import APPROVALS, EFFECTS, HITS
from loadtests.history import Fault, FaultKind, Intent, Replied, Result, Sent
from loadtests.report import write_report
from loadtests.report.run import ChaosRun
from loadtests.report.words import LOOK_AT
from tests.unit.chaos_runs import BEGAN_AT, card
from tests.unit.reports import EXPECTED, JUNIT, PAGE, SUMMARY, broken, forged, judged, sampled, shown, spoken, written

HOSTILE = "<script>alert(1)</script>\"' ]]> {{ 7 * 7 }} [bold]b[/bold] \x1b[31m\x00\u202e\ud800 &amp;"


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


def test_a_run_that_passed_says_so_everywhere_and_what_that_means(tmp_path: Path) -> None:
    run = judged(forged())
    page = written(run, tmp_path)
    assert run.verdict.is_passed
    assert "<title>PASSED: chaos run on sqlite</title>" in page
    assert "PASSED 2 approvals, 3 faults, 1 kill in the middle of a resume" in spoken(page)
    assert "It does not mean that unsafe tools run exactly once" in spoken(page)
    assert json.loads((tmp_path / SUMMARY).read_text())["passed"] is True
    assert shown(run, tmp_path).splitlines()[-1] == f"PASSED: {tmp_path / PAGE}"
    assert "FAILED" not in page + shown(run)


def test_a_run_that_broke_a_promise_says_so_everywhere(tmp_path: Path) -> None:
    run = broken()
    page, terminal = written(run, tmp_path), shown(run, tmp_path)
    assert "<title>FAILED: chaos run on sqlite</title>" in page
    assert "1 promise broken, 1 time in all" in spoken(page)
    assert json.loads((tmp_path / SUMMARY).read_text())["passed"] is False
    assert terminal.splitlines()[-1] == f"FAILED: {tmp_path / PAGE}"
    assert "BROKEN af-call-1: at most one effect per approval: 2 effects" in terminal
    assert "look at its ledger row" in terminal
    assert "PASSED" not in page + terminal


def test_a_run_that_tried_too_little_failed_and_says_what_is_missing(tmp_path: Path) -> None:
    run = judged(forged(), replace(EXPECTED, hits_min=50))
    page, terminal = spoken(written(run, tmp_path)), shown(run)
    assert "FAILED Nothing was seen broken, but too little was tried" in page
    assert "only 1 kills hit a resume in progress" in page
    assert "TOO LITTLE kills of resumes in progress: only 1 kills" in terminal
    assert terminal.splitlines()[-1] == "FAILED"


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = written(judged(forged(), samples=sampled("host-1", "host-2")), tmp_path)
    names_of_formats = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"[a-z]+://[^\s\"'<>]*", page)) <= names_of_formats
    assert not re.findall(r"<(?:script|link|iframe|img|object|embed|base|use|image)\b", page)
    assert not re.findall(r"@import|url\(|\s(?:src|href|xlink:href|on\w+)\s*=", page)


def test_the_page_can_be_read_without_seeing_it(tmp_path: Path) -> None:
    page = written(judged(forged(), samples=sampled("host-1")), tmp_path)
    plots = re.findall(r"<svg\b[^>]*>", page)
    assert '<html lang="en">' in page
    assert len(plots) == 9
    assert all('role="img"' in plot and re.search(r'aria-label="[^"]{20,}"', plot) for plot in plots)
    assert len({re.search(r'id="([^"]+)"', plot)[1] for plot in plots}) == len(plots)  # type: ignore[index]
    assert all("<th" in table for table in re.findall(r"<table.*?</table>", page, re.DOTALL))


def test_what_a_server_sent_does_not_act_in_the_page(tmp_path: Path) -> None:
    page = written(hostile(), tmp_path)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    assert not re.findall("[\x00-\x09\x0b-\x1f\u202e]", page)


def test_what_a_server_sent_does_not_act_in_the_terminal() -> None:
    terminal = shown(hostile())
    refusals = terminal[terminal.index("Refusals") : terminal.index("How long it took")]
    assert refusals.count("[bold]b[/bold]") == 1
    assert "[bold]b[/bold]" in terminal[terminal.index("BROKEN") :]
    assert not re.findall("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800]", terminal)


def test_what_a_server_sent_is_the_same_in_the_files_for_programs(tmp_path: Path) -> None:
    run = hostile()
    write_report(tmp_path, run)
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert [each["what"] for each in summary["violations"]] == [HOSTILE, HOSTILE]
    names = {case.name for suite in JUnitXml.fromfile(str(tmp_path / JUNIT)) for case in suite}
    assert any("<script>alert(1)</script>" in name for name in names)


def test_each_rule_and_each_condition_is_a_test_case(tmp_path: Path) -> None:
    write_report(tmp_path, judged(forged()))
    report = JUnitXml.fromfile(str(tmp_path / JUNIT))
    assert [case.name for suite in report for case in suite] == [*RULES, *CONDITIONS]
    count = len(RULES) + len(CONDITIONS)
    assert f'<testsuites tests="{count}" failures="0"' in (tmp_path / JUNIT).read_text()


def test_what_is_wrong_is_a_failed_test_case(tmp_path: Path) -> None:
    run = broken()
    write_report(tmp_path, run)
    report = JUnitXml.fromfile(str(tmp_path / JUNIT))
    failed = {case.name: case.result[0] for suite in report for case in suite if case.result}
    assert set(failed) == {"at most one effect per approval", APPROVALS, EFFECTS, HITS}
    assert report.failures == 4
    assert all(isinstance(each, Failure) for each in failed.values())
    assert "af-call-1: 2 effects" in (failed["at most one effect per approval"].text or "")
    assert "only 1 kills" in (failed[HITS].text or "")


def test_a_rule_that_is_not_in_the_list_fails_all_the_same(tmp_path: Path) -> None:
    run = broken()
    strange = replace(run.verdict.violations[0], rule="memory is flat")
    write_report(tmp_path, replace(run, verdict=replace(run.verdict, violations=(strange,), shortfalls=())))
    assert JUnitXml.fromfile(str(tmp_path / JUNIT)).failures == 1


def test_the_same_run_is_written_the_same_twice(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        write_report(folder, broken())
    first, second = ([(folder / name).read_bytes() for name in (PAGE, SUMMARY, JUNIT)] for folder in folders)
    assert first == second


def test_every_rule_of_the_checker_has_something_to_look_at() -> None:
    assert LOOK_AT.keys() == {*RULES, FLAT}


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
def test_a_history_with_next_to_nothing_in_it_has_a_report(
    history: list[Sent | Replied | Fault], tmp_path: Path
) -> None:
    verdict: Verdict = check(history, [], EXPECTED, is_bank_reached=False)
    run = ChaosRun({}, history, [], verdict)
    assert "FAILED" in spoken(written(run, tmp_path))
    assert "the bank" in shown(run)


def test_a_run_that_passed_says_what_it_showed(tmp_path: Path) -> None:
    page = spoken(written(judged(forged()), tmp_path))
    assert (
        ": 2 effects, none of them twice, none that nobody had approved, and no answer was left without an end." in page
    )
    assert "loadtests/README.md" not in page
