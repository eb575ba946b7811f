"""`sqlstream explain-error CODE` and HELP CODE say what the table of codes says."""

from __future__ import annotations

import json

import pytest

from sqlstream.client.main import main
from sqlstream.client.shell.help_topics import help_text

SLOTS = """\
SS6003: There are too few slots.
what to do: Lower parallelism.default, stop a job, or start more TaskManagers.
who can mend it: job
all codes: docs/errors.md"""


@pytest.mark.parametrize("written", ["SS6003", "ss6003", "6003", "error[SS6003]"])
def test_a_code_is_explained_however_it_is_written(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-error", written]) == 0
    assert capsys.readouterr().out == f"{SLOTS}\n"


def test_as_json_it_has_all_that_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-error", "SS6003", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "code": "SS6003",
        "families": ["JOB"],
        "mended_by": "job",
        "reason": "NO_RESOURCES",
        "retry": "NEVER",
        "meaning": "There are too few slots.",
        "remedy": "Lower parallelism.default, stop a job, or start more TaskManagers.",
        "hint": None,
    }


@pytest.mark.parametrize(
    ("code", "hint"),
    [("SS20003", 'did you mean "SS2003"?'), ("what", "write a code such as SS2003; docs/errors.md has all")],
)
def test_a_code_that_there_is_not_is_refused(
    code: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain-error", code]) == 2
    assert capsys.readouterr().err == f'error[SS4002]: there is no error code "{code}"\nhint: {hint}\n'


def test_the_help_of_the_shell_takes_codes_too() -> None:
    assert help_text("ss6003") == SLOTS
