"""Every code on the wire has one meaning, and the README tells the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.errors import MEANINGS, Code

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `([A-Za-z_]+)` \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)


@pytest.mark.parametrize("code", list(Code))
def test_every_code_says_when_it_comes_and_what_the_client_may_do(code: Code) -> None:
    meaning = MEANINGS[code]

    assert meaning.meaning
    assert meaning.client_may


def test_no_meaning_is_left_over() -> None:
    assert set(MEANINGS) == set(Code)


def test_what_may_have_run_or_was_not_looked_up_is_never_called_definite() -> None:
    never = {code for code, meaning in MEANINGS.items() if not meaning.can_be_definite}

    assert never == {
        Code.RESUME_NOT_FOUND,
        Code.RESUME_IN_PROGRESS,
        Code.RUN_IN_PROGRESS,
        Code.OUTCOME_INDETERMINATE,
        Code.RUN_FAILED,
        Code.MIDDLEWARE_FAILURE,
        Code.STORE_UNAVAILABLE,
    }


def test_the_readme_has_the_same_table() -> None:
    rows = ROW.findall((ROOT / "README.md").read_text())

    assert rows == [
        (code.value, meaning.meaning, "if the ledger agrees" if meaning.can_be_definite else "no", meaning.client_may)
        for code, meaning in MEANINGS.items()
    ]


@pytest.mark.parametrize("code", list(Code))
def test_every_code_is_reached_by_a_test_of_the_hosts(code: Code) -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests" / "host").glob("test_*.py"))

    assert f'"{code.value}"' in tests
