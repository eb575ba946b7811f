"""Lists of a command."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.client.commands.remote import server_arguments
from sqlstream.client.commands.remote.server_arguments import (
    duration_text,
    moment_text,
    print_json,
    print_table,
    savepoint_steps,
)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        *((0, "0.00 s"), (59_990, "59.99 s"), (60_000, "1 min 0 s"), (3_599_999, "59 min 59 s")),
        *(
            (3_600_000, "1 h 0 min"),
            (86_399_000, "23 h 59 min"),
            (86_400_000, "1 d 0 h"),
            (180_000_000, "2 d 2 h"),
        ),
    ],
)
def test_a_duration_has_its_two_largest_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_a_moment_is_local_time_and_empty_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert moment_text(1_709_208_000_999) == "2024-02-29 13:00:00"
        assert moment_text(1) == "1970-01-01 01:00:00"
        assert (moment_text(0), moment_text(-1)) == ("", "")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_numbers_stand_on_the_right_and_texts_on_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "rows"), [("a", 7), ("b", None)])
    assert capsys.readouterr().out.splitlines()[3:5] == ["| a    |      7 |", "| b    | <NULL> |"]
    print_table(("name", "rows"), [("a", 7), ("b", 12345)])
    assert capsys.readouterr().out.splitlines()[1:5:2] == ["| name |  rows |", "| a    |     7 |"]


def test_a_list_without_rows_has_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "rows"), [])
    assert "| name | rows |" in capsys.readouterr().out


def test_json_is_indented_and_keeps_letters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"ä": [1]})
    text = capsys.readouterr().out
    assert text == '{\n  "ä": [\n    1\n  ]\n}\n'
    assert json.loads(text) == {"ä": [1]}


def test_who_awaits_a_savepoint_is_told_once_which_tasks_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_arguments, "SAID_AFTER_S", 0.0)
    counts = {"RUNNING": 2, "SCHEDULED": 0}
    vertices = [{"tasks": {"FINISHED": 1}}, {"tasks": counts}]
    cluster: Any = SimpleNamespace(of_job=lambda job_id: {"vertices": vertices})
    with savepoint_steps(cluster, "4f1c") as on_step:
        on_step("")
        assert capsys.readouterr().err == ""
        counts |= {"RUNNING": 1, "SCHEDULED": 1}
        on_step("")
        on_step("")
    said = "1 of 3 tasks do not run, and the savepoint waits for them: sqlstream diagnose 4f1c\n"
    assert capsys.readouterr().err == said


def test_who_gives_up_a_savepoint_is_told_that_the_server_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster: Any = None
    with pytest.raises(KeyboardInterrupt), savepoint_steps(cluster, "4f1c"):
        raise KeyboardInterrupt
    assert (
        "the server takes the savepoint all the same: sqlstream checkpoints 4f1c" in capsys.readouterr().err
    )
