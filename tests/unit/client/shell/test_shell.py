"""Statements and commands of a shell without a terminal: text in, lines and exit codes out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.client.connection.embedded import embedded_connection
from sqlstream.client.shell.display import ShellDisplay
from sqlstream.client.shell.shell import OpeningConnection, Shell

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def opening() -> Iterator[OpeningConnection]:
    made = OpeningConnection(embedded_connection)
    yield made
    made.close()


@pytest.fixture
def shell(opening: OpeningConnection) -> Shell:
    return Shell(opening, ShellDisplay(is_interactive=False))


def test_statements_are_answered_in_order_and_the_first_error_ends_all(
    shell: Shell, capsys: Captured
) -> None:
    lines = ["SELECT 1 AS a;\n", "SELECT\n", "2 AS b;\n", "SELECT nope;\n", "SELECT 3 AS c;\n"]
    assert shell.run_lines(lines) == 2
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if "|" in line] == ["| a |", "| 1 |", "| b |", "| 2 |"]
    assert err.startswith('error[SS2003]: column "nope" does not exist\n  1 | SELECT nope;\n')


def test_a_job_that_fails_has_another_exit_code(shell: Shell, capsys: Captured) -> None:
    assert shell.run_lines(["SELECT CAST(n AS INT) FROM (VALUES ('x')) AS t (n)"]) == 1
    assert "error[SS5102]" in capsys.readouterr().err


def test_quit_ends_a_script_without_an_error(shell: Shell, capsys: Captured) -> None:
    assert shell.run_lines(["SELECT 1 AS a;\n", "QUIT;\n", "SELECT nope;\n"]) == 0
    assert shell.run_lines(["\\q\n", "SELECT nope;\n"]) == 0
    assert capsys.readouterr().err == ""


def test_a_vertical_end_writes_a_line_per_column(shell: Shell, capsys: Captured) -> None:
    assert shell.run_lines(["SELECT 1 AS a, 'x' AS b\\G\n"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == ["-[ row 1 ]-", "a | 1", "b | x", "1 row in set"]


def test_a_switch_holds_until_it_is_switched_again(shell: Shell, capsys: Captured) -> None:
    shell.run_text("\\x\nSELECT 1 AS a;")
    assert "a | 1\n" in capsys.readouterr().out
    shell.run_text("\\x off\nSELECT 1 AS a;")
    assert "| a |" in capsys.readouterr().out
    shell.run_text("\\x ON\n\\timing\nSELECT 1 AS a;")
    out, err = capsys.readouterr()
    assert "a | 1\n" in out
    assert err.startswith("time: ")
    assert err.count("time: ") == 1
    assert (shell.display.is_vertical, shell.display.is_timed, shell.display.is_paged) == (True, True, True)
    shell.run_text("\\pager\n\\timing off")
    assert (shell.display.is_timed, shell.display.is_paged) == (False, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\\nope", 'there is no command "\\nope"'),
        ("\\x maybe", '"maybe" is neither on nor off'),
        ("\\x on off", "\\x takes on or off"),
        ("\\i", "\\i takes the path of a file"),
        (".read", ".read takes the path of a file"),
        ("SOURCE", "SOURCE takes the path of a file"),
        (".reed x", 'there is no command ".reed"'),
        ("\\d a b", "\\d takes the name of a table"),
        ("\\dt a b", "\\dt takes one pattern"),
        ("\\c", "\\c takes a database"),
        ("\\o a b", "\\o takes one file"),
        (".mode tabel", 'there is no output mode "tabel"'),
        ("\\mode csv json", "\\mode takes an output mode"),
        ("\\null a b", "\\null takes what stands for NULL"),
        ("\\i 'a", 'a quote is open in "\\i \'a"'),
    ],
)
def test_a_wrong_command_is_refused(shell: Shell, capsys: Captured, text: str, words: str) -> None:
    assert shell.run_lines([text + "\n"]) == 2
    assert f"error[SS4051]: {words}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (".read", "write .read FILE"),
        ("\\i", "write \\i FILE"),
        (".reed x", 'did you mean ".read"?'),
        (".mode tabel", 'did you mean "table"?'),
        ("\\mode a b", "write \\mode auto|table|vertical|json|csv"),
    ],
)
def test_a_wrong_command_is_answered_with_its_form(
    shell: Shell, capsys: Captured, text: str, hint: str
) -> None:
    assert shell.run_lines([text + "\n"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"hint: {hint}"


PEOPLE = "SELECT * FROM (VALUES (1, 'NULL'), (2, CAST(NULL AS STRING))) AS t (a, b) ORDER BY a;"


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        ("json", ['{"a":1,"b":"NULL"}', '{"a":2,"b":null}']),
        ("csv", ["a,b", "1,NULL", "2,"]),
        ("table", ["| a | b      |", "| 1 | NULL   |", "| 2 | <NULL> |"]),
        (
            "vertical",
            ["-[ row 1 ]-", "a | 1", "b | NULL", "-[ row 2 ]-", "a | 2", "b | <NULL>", "2 rows in set"],
        ),
    ],
)
def test_rows_are_shown_in_the_mode_that_was_chosen(
    shell: Shell, capsys: Captured, mode: str, lines: list[str]
) -> None:
    shell.run_text(f".mode {mode}\n{PEOPLE}")
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if mode != "table" or line.startswith("|")] == lines
    shell.run_text("\\mode")
    assert capsys.readouterr().out == f"{mode}\n"


def test_a_text_of_the_users_stands_for_null_until_it_is_taken_back(shell: Shell, capsys: Captured) -> None:
    shell.run_text(f"\\null '(none)'\n{PEOPLE}")
    assert "| 2 | (none) |" in capsys.readouterr().out
    shell.run_text(f".nullvalue\n{PEOPLE}")
    assert "| 2 | <NULL> |" in capsys.readouterr().out


def test_rows_wider_than_the_screen_are_shown_one_line_per_column(
    shell: Shell, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShellDisplay, "columns", 40)
    columns = ", ".join(f"{n} AS column_{n}" for n in range(6))
    shell.run_text(f"\\x auto\nSELECT {columns};\nSELECT 1 AS a;")
    out = capsys.readouterr().out
    assert "column_5 | 5\n" in out
    assert "| a |\n" in out
    shell.run_text(f"\\x off\nSELECT {columns};")
    out = capsys.readouterr().out
    assert "| column_0 |" in out
    assert out.endswith("1 row in set, wider than the terminal (try \\x)\n")


def test_the_prompt_begins_with_tables_that_fit_and_a_pipe_with_tables() -> None:
    assert ShellDisplay(is_interactive=True).mode == "auto"
    assert ShellDisplay(is_interactive=False).mode == "table"


def test_commands_stand_for_statements(shell: Shell, capsys: Captured) -> None:
    shell.run_text("CREATE TEMPORARY TABLE shelf (a INT) WITH ('connector' = 'datagen');")
    shell.run_text("CREATE TEMPORARY VIEW shown AS SELECT 1 AS one;")
    for command, wanted, other in (
        ("\\dt", "| shelf", "default_catalog"),
        ("\\dt she*", "| shelf", "| shown"),
        ("\\dv", "| shown", "| shelf"),
        ("\\df UPP*", "| upper", "| lower"),
        ("\\l", "| default_database", "| shelf"),
        ("\\d", "| shelf", "| INT"),
        ("\\d shelf", "| INT", "| shown"),
        ("\\d+ shelf", "CREATE TEMPORARY TABLE", "| shown"),
        ("\\d+ shown", "CREATE TEMPORARY VIEW", "| shelf"),
        ("\\d+", "| shown", "| INT"),
        (".schema shelf", "CREATE TEMPORARY TABLE", "| INT"),
        (".tables she*", "| shelf", "| shown"),
        (".databases", "| default_database", "| shelf"),
    ):
        capsys.readouterr()
        shell.run_text(command)
        out = capsys.readouterr().out
        assert wanted in out, command
        assert other not in out, command
    shell.run_text("\\c default_database\nDROP TEMPORARY TABLE shelf; DROP TEMPORARY VIEW shown;")


def test_where_statements_run_is_told(shell: Shell, capsys: Captured) -> None:
    shell.run_text("\\conninfo")
    assert capsys.readouterr().out == "statements run on a cluster of this shell; history: not kept\n"
    shell.history_path = Path("/h")
    shell.run_text("\\conninfo")
    assert capsys.readouterr().out == "statements run on a cluster of this shell; history: /h\n"


def test_scripts_run_scripts_until_they_are_too_deep(shell: Shell, tmp_path: Path, capsys: Captured) -> None:
    for depth in range(1, 11):
        (tmp_path / f"{depth}.sql").write_text(f"SOURCE '{tmp_path}/{depth - 1}.sql';")
    (tmp_path / "0.sql").write_text("SELECT 7 AS seven;")
    shell.run_text(f"SOURCE '{tmp_path}/9.sql'")
    assert "| seven |" in capsys.readouterr().out
    assert shell.run_lines([f"SOURCE '{tmp_path}/10.sql'\n"]) == 2
    assert "scripts run scripts more than 10 deep" in capsys.readouterr().err
    shell.run_text(f"SOURCE '{tmp_path}/9.sql'")
    assert shell.run_lines([f"\\i {tmp_path}/none.sql\n"]) == 2
    assert "error[SS5001]" in capsys.readouterr().err


def test_rows_go_to_a_file_once(shell: Shell, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "rows.csv"
    shell.run_text(f"\\o {path}\nSELECT a FROM (VALUES (1), (2)) AS t (a);")
    assert sorted(path.read_text().split()) == ["1", "2", "a"]
    assert capsys.readouterr().err == f'2 rows were written to "{path}"\n'
    shell.run_text("SELECT 5 AS five;")
    assert "| five |" in capsys.readouterr().out
    shell.run_text(f"\\o {path}\n\\o\nSELECT 6 AS six;")
    assert "| six |" in capsys.readouterr().out


def test_a_script_waits_for_its_jobs(shell: Shell, tmp_path: Path, capsys: Captured) -> None:
    shell.run_text(
        f"CREATE TEMPORARY TABLE kept (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv');"
        "INSERT INTO kept VALUES (1), (2), (3);"
        "SELECT COUNT(*) AS n FROM kept;"
    )
    assert "| 3 |" in capsys.readouterr().out
    shell.run_text("\\jobs")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{'job':32}  status        duration  name"
    assert any(
        "FINISHED" in line and line.endswith("insert-into_default_catalog.default_database.kept")
        for line in lines
    )
    shell.run_text("DROP TEMPORARY TABLE kept;")


def test_changes_are_shown_as_they_come_when_the_session_says_so(shell: Shell, capsys: Captured) -> None:
    query = "SELECT w, COUNT(*) AS n FROM (VALUES ('a'), ('a')) AS t (w) GROUP BY w;"
    shell.run_text(
        f"SET 'execution.batch-rows' = '1'; SET 'sql-client.execution.result-mode' = 'CHANGELOG'; {query}"
    )
    out = capsys.readouterr().out
    assert "| op | w  " in out
    assert "| +I | a  " in out
    shell.run_text(f"RESET 'execution.batch-rows'; RESET 'sql-client.execution.result-mode'; {query}")
    out = capsys.readouterr().out
    assert "op" not in out
    assert "| a | 2 |" in out


def test_a_connection_opens_once_and_its_error_is_told_each_time() -> None:
    made = []

    def fail() -> None:
        made.append(1)
        raise KeyError("no")

    broken = OpeningConnection(fail)  # type: ignore[arg-type]
    broken.close()
    assert made == []
    for _ in range(2):
        with pytest.raises(KeyError):
            broken.get()
    broken.close()
    assert (made, broken.opened) == ([1], None)
