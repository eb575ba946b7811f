"""The shell as a user sees it: keys in, a screen out."""

from __future__ import annotations

import json
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet
import pytest
from command_harness import children_of
from shell_harness import CTRL_C, CTRL_D, CTRL_R, DOWN, ENTER, PROMPT, RIGHT, TAB, UP, ShellOnTerminal

ENDLESS = """CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '200',
  'fields.n.kind' = 'random', 'fields.n.min' = '1', 'fields.n.max' = '3');"""


@pytest.fixture
def shell(one_shell: ShellOnTerminal) -> Iterator[ShellOnTerminal]:
    yield one_shell
    one_shell.send(CTRL_C)
    one_shell.wait_for_prompt()


@pytest.fixture(scope="module")
def one_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShellOnTerminal]:
    """One shell for the tests that leave it as they find it: with table `ticks`, which never ends."""
    home = tmp_path_factory.mktemp("home")
    (home / "init.sql").write_text(ENDLESS)
    with ShellOnTerminal(home, "-f", str(home / "init.sql")) as shell:
        shell.wait_for_prompt()
        yield shell


@pytest.fixture
def other_shell(tmp_path: Path) -> Iterator[ShellOnTerminal]:
    with ShellOnTerminal(tmp_path) as shell:
        shell.wait_for_prompt()
        yield shell


def test_a_statement_is_answered_below_the_prompt(shell: ShellOnTerminal) -> None:
    assert shell.run("SELECT 1 AS a, 'x' AS b;") == [
        *("+---+---+", "| a | b |", "+---+---+", "| 1 | x |", "+---+---+"),
        "1 row in set",
    ]


def test_enter_begins_another_line_until_the_statement_ends(shell: ShellOnTerminal) -> None:
    shell.run("\\x off")
    shell.send("SELECT 1" + ENTER)
    shell.wait(lambda: shell.lines[-1].strip() == "->")
    shell.send("  + 1 AS n; SELECT 3 AS m;" + ENTER)
    shell.wait_for_prompt()
    values = [line for line in shell.lines if re.fullmatch(r"\| +\w \|", line)]
    assert values == ["| n |", "| 2 |", "| m |", "| 3 |"]


def test_the_menu_completes_keywords_and_names(shell: ShellOnTerminal) -> None:
    shell.run("\\x off")
    shell.send("SELECT * FROM tic")
    shell.wait_for("ticks  table")
    shell.send(TAB)
    shell.wait_for(f"{PROMPT} SELECT * FROM ticks")
    shell.send(ENTER + " wh")
    shell.wait_for("where")
    shell.send(TAB + " n")
    shell.wait(lambda: any(line.startswith(f"{PROMPT} SELECT * FROM ticks where n") for line in shell.lines))
    shell.send(CTRL_C)
    shell.wait_for_prompt()


def test_an_error_is_underlined(shell: ShellOnTerminal) -> None:
    assert shell.run("SELECT nn FROM ticks;") == [
        'error[SS2003]: column "nn" does not exist in table "ticks"',
        "  1 | SELECT nn FROM ticks;",
        "    |        ^^",
        *shell.lines[4:-1],
    ]


def test_a_vertical_end_prints_one_line_per_column(shell: ShellOnTerminal) -> None:
    assert shell.run("SELECT 1 AS a, 'long' AS name\\G") == [
        *("-[ row 1 ]-", "a    | 1", "name | long", "1 row in set"),
    ]


@pytest.fixture
def shell_of_changes(shell: ShellOnTerminal) -> Iterator[ShellOnTerminal]:
    shell.run("SET 'sql-client.execution.result-mode' = 'changelog';")
    yield shell
    shell.run("RESET 'sql-client.execution.result-mode';")
    assert shell.run("SELECT 4 AS still_here;")[3] == "|          4 |"


def test_ctrl_c_cancels_the_query_and_not_the_shell(shell_of_changes: ShellOnTerminal) -> None:
    shell = shell_of_changes
    shell.send("SELECT n FROM ticks;" + ENTER)
    shell.wait(lambda: shell.text.count("| +I |") > 3)
    shell.send(CTRL_C)
    shell.wait_for_prompt()
    assert re.fullmatch(r"SELECT: job [0-9a-f]{32} was cancelled", shell.lines[-2])
    assert shell.run("SELECT 4 AS still_here;")[3] == "| +I |           4 |"
    assert not [job for job in shell.run("\\jobs") if "RUNNING" in job]


def test_the_live_table_is_updated_in_place(shell: ShellOnTerminal) -> None:
    shell.send("SELECT n, COUNT(*) AS c FROM ticks GROUP BY n;" + ENTER)

    def counts() -> list[int]:
        rows = [re.fullmatch(r"\| +\d \| +(\d+) \|", line) for line in shell.lines[4:7]]
        return [int(row[1]) for row in rows if row]

    shell.wait(lambda: shell.lines[0].startswith(" SELECT  running") and len(counts()) == 3, "three counts")
    first = counts()
    shell.wait(
        lambda: len(counts()) == 3 and all(a > b for a, b in zip(counts(), first, strict=True)),
        "higher counts",
    )
    assert shell.lines[-1].startswith(" rows 1-3 of 3")
    shell.send("q")
    shell.wait_for_prompt()
    assert re.fullmatch(r"query stopped after [\d.]+ s: [\d,]+ changes, 3 rows at last", shell.lines[-2])


def test_the_live_table_is_paged(shell: ShellOnTerminal) -> None:
    shell.send("SELECT n FROM ticks;" + ENTER)
    shell.wait(lambda: re.search(r"rows (\d{2,})-\d+ of [\d,]+ following", shell.text), "the end of the rows")
    shell.send("g")
    shell.wait_for(" rows 1-18 of ")
    shell.send(DOWN + DOWN)
    shell.wait_for(" rows 3-20 of ")
    shell.send(" ")
    shell.wait_for(" rows 21-38 of ")
    shell.send(CTRL_C)
    shell.wait_for_prompt()


def test_a_finished_query_over_tables_is_one_table(shell: ShellOnTerminal) -> None:
    lines = shell.run("SELECT w, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS t (w) GROUP BY w;")
    assert lines[-4:] == ["| a | 2 |", "| b | 1 |", "+---+---+", "2 rows in set"]


def test_source_runs_a_file_and_places_its_errors(shell: ShellOnTerminal, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 5 AS five;\n\nSELECT 6 AS six\\G\nSELECT oops;\nSELECT 7;\n")
    lines = shell.run(f"SOURCE '{tmp_path}/a.sql'")
    text = "\n".join(lines)
    assert "|    5 |" in text
    assert "six | 6" in text
    assert "  4 | SELECT oops;" in text
    assert "7" not in text.partition("SELECT oops")[2].replace("SS7", "")


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_rows_go_to_a_file(shell: ShellOnTerminal, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.{suffix}"
    shell.run(f"\\o {path}")
    shell.run("SELECT * FROM (VALUES (1, 'a'), (2, CAST(NULL AS STRING))) AS t (n, s);")
    match suffix:
        case "csv":
            assert path.read_text() == "n,s\n1,a\n2,\n"
        case "json":
            assert [json.loads(line) for line in path.read_text().splitlines()] == [
                {"n": 1, "s": "a"},
                {"n": 2, "s": None},
            ]
        case _:
            assert pyarrow.parquet.read_table(path).to_pylist() == [{"n": 1, "s": "a"}, {"n": 2, "s": None}]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    # The next query is shown again.
    assert shell.run("SELECT 1 AS a;")[1] == "| a |"


def test_a_failed_query_leaves_the_file_as_it_was(shell: ShellOnTerminal, tmp_path: Path) -> None:
    path = tmp_path / "kept.csv"
    path.write_text("before")
    shell.run(f"\\o {path}")
    assert "error[" in "\n".join(shell.run("SELECT CAST(s AS INT) AS n FROM (VALUES ('1'), ('x')) AS t (s);"))
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.csv"]


def test_an_endless_query_is_written_until_ctrl_c(shell: ShellOnTerminal, tmp_path: Path) -> None:
    path = tmp_path / "ticks.csv"
    shell.run(f"\\o {path}")
    shell.send("SELECT n FROM ticks;" + ENTER)
    shell.wait(lambda: any(p.stat().st_size > 50 for p in tmp_path.iterdir()), "rows in the file")
    assert not path.exists()
    shell.send(CTRL_C)
    shell.wait_for_prompt()
    lines = path.read_text().splitlines()
    assert lines[0] == "n"
    assert set(lines[1:]) <= {"1", "2", "3"}
    assert f'{len(lines) - 1:,} rows were written to "' in shell.text


def test_switches_and_wrong_commands(shell: ShellOnTerminal) -> None:
    assert shell.run("\\timing on") == ["timing is on"]
    assert re.fullmatch(r"time: \d+\.\d{3} s", shell.run("SELECT 1 AS a;")[-1])
    assert shell.run("\\timing") == ["timing is off"]
    assert shell.run("\\tming") == [
        'error[SS4051]: there is no command "\\tming"',
        'hint: did you mean "\\timing"?',
    ]
    assert shell.run("\\o file.txt")[0] == 'error[SS4050]: the name "file.txt" says no format'


def test_commands_of_psql_are_known(shell: ShellOnTerminal) -> None:
    assert "| ticks      |" in shell.run("\\dt")
    assert any(line.startswith("| n ") for line in shell.run("\\d ticks"))
    assert "| ticks      |" in shell.run("\\dt tic*")
    assert "Empty set" in shell.run("\\dv")
    assert any("default_database" in line for line in shell.run("\\l"))


def test_clear_leaves_an_empty_screen(shell: ShellOnTerminal) -> None:
    shell.send("SELECT 1 AS a;" + ENTER)
    shell.wait_for("1 row in set")
    shell.send("clear" + ENTER)
    shell.wait(lambda: shell.lines == [PROMPT], "an empty screen")


def test_help_explains_commands_and_statements(shell: ShellOnTerminal) -> None:
    shell.run("\\pager off")
    assert any("CREATE [TEMPORARY] VIEW" in line for line in shell.run("HELP create view"))
    assert shell.run("help selct")[0] == 'there is no help on "selct"; did you mean "SELECT"?'


def test_control_characters_of_data_are_shown_and_not_obeyed(shell: ShellOnTerminal) -> None:
    lines = shell.run("SELECT U&'\\001b[2J\\202e' AS evil;")
    assert "| \\x1b[2J\\u202e |" in lines


def test_an_insert_runs_on_and_its_end_is_told(other_shell: ShellOnTerminal, tmp_path: Path) -> None:
    shell = other_shell
    shell.run(f"CREATE TABLE t (n INT) WITH ('connector'='filesystem','format'='csv','path'='{tmp_path}/t');")
    lines = shell.run("INSERT INTO t VALUES (1), (2);")
    assert re.fullmatch(r"INSERT INTO t: job [0-9a-f]{32} was submitted", lines[0])
    told = "\n".join(lines)
    for _ in range(100):
        if "INSERT INTO t: read" in told:
            break
        told = "\n".join(shell.run("\\x off"))
    assert re.search(r"job [0-9a-f]{32}: INSERT INTO t: read 2 rows, wrote 2", told.replace("\n", ""))
    shell.run("SET 'table.dml-sync' = 'true';")
    assert shell.run("INSERT INTO t VALUES (3);")[0].startswith("INSERT INTO t: read")
    assert shell.run("SELECT COUNT(*) AS n FROM t;")[3] == "| 3 |"


def test_leaving_with_running_jobs_is_asked_for(other_shell: ShellOnTerminal) -> None:
    shell = other_shell
    shell.run(ENDLESS.replace("\n", " "))
    shell.run("CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');")
    shell.run("INSERT INTO nowhere SELECT n FROM ticks;")
    shell.send(CTRL_D)
    shell.wait_for("[w]ait for them")
    shell.send("s" + ENTER)
    shell.wait_for_prompt()
    shell.send("QUIT;" + ENTER)
    shell.wait(lambda: shell.text.count("[w]ait for them") == 2)
    shell.send("c" + ENTER)
    assert shell.end() == 0


def test_history_is_kept_for_this_user_without_secrets(tmp_path: Path) -> None:
    with ShellOnTerminal(tmp_path) as shell:
        shell.wait_for_prompt()
        shell.run("SELECT 41 + 1 AS answer;")
        shell.run("CREATE TABLE s (n INT) WITH ('connector'='print', 'password'='hunter22');")
        shell.send(CTRL_D)
        assert shell.end() == 0
    (path,) = (tmp_path / "sqlstream").iterdir()
    assert "hunter22" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with ShellOnTerminal(tmp_path) as shell:
        shell.wait_for_prompt()
        # The history is read behind the prompt; its first line is where pressing the key again stays.
        shell.press_until(UP, f"{PROMPT} SELECT 41 + 1 AS answer;")
        shell.send(CTRL_C)
        shell.wait_for_prompt()
        shell.send(CTRL_R + "answ")
        shell.wait(lambda: shell.text.count("SELECT 41 + 1 AS answer;") == 2, "what was found")
        shell.send(CTRL_C)
        shell.wait_for_prompt()
        shell.send("SELECT 41")
        shell.wait(lambda: shell.text.count("SELECT 41 + 1 AS answer;") == 2, "the suggestion")
        shell.send(RIGHT + ENTER)
        shell.wait_for("|     42 |")


def test_a_narrow_terminal_without_colours(tmp_path: Path) -> None:
    with ShellOnTerminal(tmp_path, columns=40, lines=14, NO_COLOR="1") as shell:
        shell.wait_for_prompt()
        lines = shell.run("SELECT 'one two three four five six seven' AS a, 'eight nine ten eleven' AS b;")
        assert max(map(len, lines)) <= 40
        assert any("…" in line for line in lines)
        shell.send(ENDLESS.replace("\n", " ") + ENTER)
        shell.wait_for_prompt()
        shell.send("SELECT n, 'abcdefghijklmnopqrstuvwxyz' AS s, n AS m FROM ticks;" + ENTER)
        shell.wait(lambda: len(shell.lines) == 14 and "following" in shell.lines[-1], "a page")
        assert all(len(line) <= 40 for line in shell.lines)
        shell.send("q")
        shell.wait_for_prompt()
        assert re.search(rb"\x1b\[[0-9;]*3[1-7]m", shell.written) is None
        shell.send(CTRL_D)
        assert shell.end() == 0


def test_long_results_are_paged(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\necho left the pager\n")
    pager.chmod(0o755)
    numbers = "CREATE TABLE numbers (n INT) WITH ('connector'='datagen','number-of-rows'='100',"
    with ShellOnTerminal(tmp_path, PAGER=str(pager)) as shell:
        shell.wait_for_prompt()
        shell.run(numbers + "'fields.n.kind'='sequence','fields.n.start'='1','fields.n.end'='100');")
        assert shell.run("SELECT n, REPEAT('x', 200) AS wide FROM numbers;")[-1] == "left the pager"
        lines = (tmp_path / "paged").read_text().splitlines()
        assert (len(lines), len(lines[50])) == (105, 210)
        assert shell.run("SELECT 1 AS n;")[1] == "| n |"


@pytest.mark.slow
def test_printed_lines_stand_above_the_prompt(other_shell: ShellOnTerminal) -> None:
    shell = other_shell
    shell.run("CREATE TABLE screen (s STRING) WITH ('connector' = 'print');")
    shell.run(
        "CREATE TABLE slow (n BIGINT) WITH ('connector'='datagen','rows-per-second'='5','number-of-rows'='10',"
        "'fields.n.kind'='sequence','fields.n.start'='1','fields.n.end'='10');"
    )
    shell.run("INSERT INTO screen SELECT CAST(n AS STRING) || U&'\\001b[31m' FROM slow;")
    shell.send("SELECT 'typed")
    shell.wait_for("+I[10\\x1b[31m]")
    shell.wait(lambda: shell.lines[-1] == f"{PROMPT} SELECT 'typed", "the prompt as it was")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_prompt_ends_the_shell(tmp_path: Path, number: signal.Signals) -> None:
    with ShellOnTerminal(tmp_path) as shell:
        shell.wait_for_prompt()
        shell.process.kill(number)
        assert shell.end() == 128 + number


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGHUP])
def test_a_signal_ends_the_shell_and_its_children(tmp_path: Path, number: signal.Signals) -> None:
    with ShellOnTerminal(tmp_path) as shell:
        shell.wait_for_prompt()
        shell.run(ENDLESS.replace("\n", " "))
        shell.run("SET 'sql-client.execution.result-mode' = 'changelog';")
        shell.send("SELECT n FROM ticks;" + ENTER)
        shell.wait(lambda: shell.text.count("| +I |") > 3)
        children = children_of(shell.process.pid)
        shell.process.kill(number)
        assert shell.end() == 128 + number
    _, alive = psutil.wait_procs(children, 10)
    assert not alive
