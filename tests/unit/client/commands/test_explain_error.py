"""`sqlstream explain-error CODE` and HELP CODE say what the table of codes says."""

from __future__ import annotations

import json

import pytest

from sqlstream.client.main import main
from sqlstream.client.shell.help_topics import help_text

SLOTS = """\
SS6003: There are too few slots.
what to do: Lower parallelism.default, stop a job, or start more TaskManagers.
who can mend it: job"""


@pytest.mark.parametrize("written", ["SS6003", "ss6003", "6003", "error[SS6003]"])
def test_a_code_is_explained_however_it_is_written(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-error", written]) == 0
    assert capsys.readouterr().out == f"{SLOTS}\n"


def test_as_json_it_has_the_reason_that_restarts_go_by(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-error", "SS6003", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["code"], found["families"], found["reason"]) == ("SS6003", ["JOB"], "NO_RESOURCES")


def test_a_code_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-error", "SS0001"]) == 2
    assert 'there is no error code "SS0001"' in capsys.readouterr().err


def test_the_help_of_the_shell_takes_codes_too() -> None:
    assert help_text("ss6003") == SLOTS
