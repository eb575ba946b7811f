"""The `sqlstream` command as a user meets it: a real process, its output and its exit code."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from command_harness import (
    ROOT,
    SQLSTREAM,
    TIMEOUT_S,
    Process,
    environment,
    run_to_end,
    sqlstream,
    task_managers_of,
)

VIEW = "CREATE VIEW v AS SELECT 1 AS a -- no semicolon"
UNBOUNDED = """
SET 'parallelism.default' = '2';
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.n.kind' = 'sequence',
  'fields.n.start' = '0', 'fields.n.end' = '1000000000');
CREATE TABLE screen (n BIGINT) WITH ('connector' = 'print');
INSERT INTO screen SELECT n FROM ticks;
"""


def test_a_select_prints_its_final_table(script) -> None:  # type: ignore[no-untyped-def]
    text = (
        "SELECT name, SUM(v) AS total FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) AS t(name, v) GROUP BY name;"
    )
    done = sqlstream("run", script(text))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "+------+-------+",
        "| name | total |",
        "+------+-------+",
        "| a    |     4 |",
        "| b    |     2 |",
        "+------+-------+",
        "2 rows in set",
    ]


def test_json_is_one_object_a_row_and_changelog_puts_op_first(script) -> None:  # type: ignore[no-untyped-def]
    text = "SELECT v, CAST(NULL AS STRING) AS nothing FROM (VALUES (1), (2)) AS t(v);"
    rows = [
        json.loads(line) for line in sqlstream("run", "--format", "json", script(text)).stdout.splitlines()
    ]
    assert rows == [{"v": 1, "nothing": None}, {"v": 2, "nothing": None}]
    changes = sqlstream("run", "--format", "json", "--changelog", script(text)).stdout.splitlines()
    assert [list(json.loads(line)) for line in changes] == [["op", "v", "nothing"]] * 2
    assert json.loads(changes[0])["op"] == "+I"


def test_csv_has_a_header_and_quotes_what_needs_it(script) -> None:  # type: ignore[no-untyped-def]
    done = sqlstream(
        "run", "--format", "csv", script("SELECT 'a,b' AS x, TRUE AS y, CAST(NULL AS INT) AS z;")
    )
    assert done.stdout == 'x,y,z\n"a,b",TRUE,\n'


def test_a_script_comes_from_standard_input_too() -> None:
    assert "|   2 |" in sqlstream("run", "-", stdin="SELECT 1 + 1 AS two;").stdout


def test_statements_come_from_the_command_line_too_behind_those_of_a_file() -> None:
    done = sqlstream(
        "run", "--format", "csv", "-", "-c", "SELECT * FROM v", "-c", "SELECT 2 AS b;", stdin=VIEW
    )
    assert (done.returncode, done.stdout) == (0, "a\n1\nb\n2\n")
    assert sqlstream("run", "--format", "csv", "-c", "SELECT 3 AS c").stdout == "c\n3\n"


def test_each_text_is_a_script_of_its_own_and_all_are_read_before_one_runs() -> None:
    done = sqlstream("run", "-", "-c", "SELECT 'a", "-c", "b'", stdin=f"{VIEW}; SELECT 1;")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1:3] == ["  1 | SELECT 'a", "    |        ^^"]


def test_settings_of_flinks_own_machinery_are_taken_with_a_note() -> None:
    words = (
        "--set",
        "pipeline.object-reuse=true",
        "-c",
        "SET 'table.exec.mini-batch.size' = '5000'; SELECT 1 AS n",
    )
    done = sqlstream("run", "--format", "csv", *words)
    assert (done.returncode, done.stdout) == (0, "n\n1\n")
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        "note",
        "note",
    ]
    assert "'pipeline.object-reuse' has no effect here: " in done.stderr
    assert sqlstream("run", "--quiet", "--format", "csv", *words).stderr == ""


def test_a_wrong_statement_is_underlined_and_exits_with_2(script) -> None:  # type: ignore[no-untyped-def]
    text = "CREATE VIEW clicks AS SELECT 1 AS user_id;\nSELECT usr_id FROM clicks;\n"
    done = sqlstream("run", script(text))
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        'error[SS2003]: column "usr_id" does not exist in table "clicks"',
        "  2 | SELECT usr_id FROM clicks;",
        "    |        ^^^^^^",
        'hint: did you mean "user_id"?',
    ]


def test_a_job_that_fails_says_where_and_exits_with_1(script) -> None:  # type: ignore[no-untyped-def]
    done = sqlstream("run", script("SELECT CAST(x AS INT) AS n FROM (VALUES ('1'), ('one')) AS t(x);"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[:3] == [
        'error[SS5102]: cannot cast "one" to INT',
        "  1 | SELECT CAST(x AS INT) AS n FROM (VALUES ('1'), ('one')) AS t(x);",
        "    |        ^^^^^^^^^^^^^^",
    ]
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "FILE"),
        (("run", "no_such_file.sql"), "no_such_file.sql"),
        (("nonsense",), "invalid choice"),
        (("run", "--set", "parallelism", "-"), "KEY=VALUE"),
        (("bench", "nexmark", "--queries", "q99"), "q99"),
        (("bench", "batch"), "choose from"),
        (("bench", "nexmark", "--json", "no/such/directory.json"), "no/such/directory.json"),
        (("run", "--task-managers", "0", "-"), "no whole number from 1"),
        (("explain", "-"), "no statement"),
        (
            ("-Dparallelism.default=2", "run", "-"),
            "options such as -Dparallelism.default=2 stand behind a command",
        ),
        (("run", ""), 'cannot read "": no such file'),
        (("run", "--config=~/no/such.yaml", "-"), f'"{os.path.expanduser("~")}/no/such.yaml"'),
        (("demo", ""), "folder is empty"),
        (("config", "show"), "sqlstream config lists all options"),
        (("run", "-c", "SET 'foo.bar' = '1'"), "sqlstream config lists the options"),
    ],
)
def test_wrong_usage_exits_with_2(words: tuple[str, ...], said: str) -> None:
    done = sqlstream(*words, stdin="")
    assert done.returncode == 2
    assert said.lower() in done.stderr.lower()


def test_a_file_that_cannot_be_used_is_named_and_a_full_output_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = sqlstream("token", "list", "--data-dir", f"{tmp_path}/file")
    said = f'error[SS5001]: could not use "{tmp_path}/file/tokens.json": not a directory\nhint: '
    assert (done.returncode, done.stderr[: len(said)]) == (1, said)
    full = run_to_end(f"{' '.join(SQLSTREAM)} config > /dev/full", shell=True)
    assert (full.returncode, full.stderr.splitlines()[0]) == (
        1,
        "error[SS5001]: could not write the output: no space left on device",
    )


def test_the_version_is_told_in_the_usual_ways() -> None:
    assert sqlstream("--version").stdout == sqlstream("version").stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_stream_that_is_closed_is_one_that_nobody_reads(script, closed: str) -> None:  # type: ignore[no-untyped-def]
    path = script("SELECT 1 AS one;")
    done = run_to_end(f"{' '.join(SQLSTREAM)} run --format csv {path} {closed}", shell=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("" if closed == ">&-" else "one\n1\n")


def test_what_a_statement_says_of_a_table_is_not_cut(script) -> None:  # type: ignore[no-untyped-def]
    declared = "ROW<`first_of_them` INT, `second_of_them` STRING>"
    done = sqlstream(
        "run", script(f"CREATE TABLE t (r {declared}) WITH ('connector' = 'blackhole'); DESCRIBE t;")
    )
    assert f" {declared} " in done.stdout


def test_explain_prints_every_stage(script) -> None:  # type: ignore[no-untyped-def]
    done = sqlstream("explain", str(ROOT / "queries/nexmark/q5.sql"))
    assert done.returncode == 0
    for stage in ("Abstract Syntax Tree", "Optimized Physical Plan", "Stream Graph", "Job Graph"):
        assert f"== {stage} ==" in done.stdout
    assert "changelogMode=[I]" in done.stdout


def test_explain_takes_statements_after_those_of_a_file(script) -> None:  # type: ignore[no-untyped-def]
    table = script("CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen');")
    done = sqlstream("explain", table, "-c", "SELECT n + 1 AS m FROM t", "-c", "SELECT m FROM t")
    assert (done.returncode, done.stdout.count("== Job Graph ==")) == (2, 1)
    assert "($0 + 1)" in done.stdout
    assert 'column "m" does not exist' in done.stderr


def test_chains_of_5000_operands_run(script) -> None:  # type: ignore[no-untyped-def]
    numbers = range(5000)
    columns = [
        " + ".join(["a"] * 5000),
        "CHAR_LENGTH(" + " || ".join(["s"] * 5000) + ")",
        " OR ".join(f"a = {n}" for n in numbers),
        " AND ".join(f"a < {n + 3}" for n in numbers),
    ]
    text = f"SELECT {', '.join(columns)} FROM (VALUES (2, 'x'), (7, 'yz')) AS t (a, s);"
    done = sqlstream("run", "--format", "csv", script(text))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["10000,5000,TRUE,TRUE", "35000,10000,TRUE,FALSE"]


def test_bench_writes_its_figures_as_json(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    done = sqlstream("bench", "nexmark", "--queries", "gen,q5", "--events", "50000", "--json", str(out))
    assert done.returncode == 0, done.stderr
    generator, q5 = json.loads(out.read_text())
    assert generator["query"] == "gen"
    assert (q5["query"], q5["events"], q5["parallelism"]) == ("q5", 50_000, 2)
    assert q5["result_rows"] > 0
    assert len(q5["result_checksum"]) == 16
    assert (
        min(q5[name] for name in ("wall_s", "events_per_s", "cpu_s", "events_per_cpu_s", "peak_rss_bytes"))
        > 0
    )


def test_bench_against_duckdb_compares_answers_and_cpu(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    done = sqlstream(
        *(
            "bench",
            "nexmark",
            "--against",
            "duckdb",
            "--queries",
            "q3",
            "--events",
            "50000",
            "--json",
            str(out),
        )
    )
    assert done.returncode == 0, done.stderr
    (q3,) = json.loads(out.read_text())
    assert (q3["query"], q3["parallelism"], q3["is_same_answer"]) == ("q3", 1, True)
    assert q3["result_rows"] == q3["duckdb_rows"] > 0
    assert q3["duckdb_ns"] > 0
    assert q3["net_ns"] == pytest.approx(max(0.0, q3["gross_ns"] - q3["source_ns"]), abs=0.11)


@pytest.fixture
def start() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts the command on a script; whatever the test finds, nothing of it is left running."""
    started: list[subprocess.Popen[str]] = []

    def start_one(path: str) -> subprocess.Popen[str]:
        command = [*SQLSTREAM, "run", "--task-managers", "2", path]
        pipe = subprocess.PIPE
        started.append(Process(command, env=environment(), text=True, stdout=pipe, stderr=pipe))
        return started[-1]

    yield start_one
    for process in started:
        # Its TaskManagers end with it.
        process.kill()
        process.wait()


def task_managers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The two child processes, once they are there."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        children = task_managers_of(process.pid)
        if len(children) == 2 and process.poll() is None:
            return children
        time.sleep(0.05)
    raise AssertionError("the TaskManagers did not come up")


def wait_for_work(process: subprocess.Popen[str]) -> None:
    """Until the job has printed a row, which it does once all of it is deployed."""
    assert process.stdout is not None
    assert process.stdout.readline()


def wait_until_full(reading: int) -> None:
    """Until whoever prints into the pipe waits for a reader."""
    writing = os.open(f"/proc/self/fd/{reading}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while select.select([], [writing], [], 0)[1]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.close(writing)


def are_gone(children: list[psutil.Process]) -> bool:
    return not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated"),
    ],
)
def test_a_signal_cancels_the_job_and_leaves_nothing_behind(  # type: ignore[no-untyped-def]
    script, start, tmp_path, number: int, code: int, said: str
) -> None:
    files = tmp_path / "files"
    path = script(
        UNBOUNDED.replace("INSERT INTO screen SELECT n FROM ticks;", "")
        + f"""
        CREATE TABLE files (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{files}', 'format' = 'csv');
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO screen SELECT n FROM ticks;
          INSERT INTO files SELECT n FROM ticks;
        END;
        """
    )
    process = start(path)
    children = task_managers(process)
    wait_for_work(process)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code
    assert said in stderr
    assert "Traceback" not in stderr
    assert are_gone(children)
    assert not files.exists() or list(files.iterdir()) == []


def test_a_signal_ends_a_job_whose_lines_nobody_reads(script, start) -> None:  # type: ignore[no-untyped-def]
    process = start(script(UNBOUNDED.replace("'1000'", "'1000000'")))
    children = task_managers(process)
    wait_for_work(process)
    wait_until_full(process.stdout.fileno())
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130
    assert are_gone(children)


def test_a_job_whose_lines_nobody_reads_any_more_ends_quietly(script, start) -> None:  # type: ignore[no-untyped-def]
    process = start(script(UNBOUNDED))
    children = task_managers(process)
    wait_for_work(process)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(TIMEOUT_S) == 141
    assert are_gone(children)


def test_a_killed_task_manager_fails_the_job_with_the_reason(script, start) -> None:  # type: ignore[no-untyped-def]
    process = start(script(UNBOUNDED))
    children = task_managers(process)
    wait_for_work(process)
    children[0].kill()
    _, stderr = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "TaskManager" in stderr
    assert are_gone(children)


def test_more_parallelism_than_cores_runs(script) -> None:  # type: ignore[no-untyped-def]
    text = """
    CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'rows-per-second' = '1000000',
      'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000');
    SELECT COUNT(*) AS rows_in, SUM(n) AS total FROM ticks;
    """
    done = sqlstream("run", "--format", "csv", "--set", "parallelism.default=4", script(text))
    assert done.stdout == "rows_in,total\n1000,500500\n"


def test_arrow_is_a_stream_that_pyarrow_reads(script) -> None:  # type: ignore[no-untyped-def]
    import pyarrow as pa

    path = script("SELECT v, v * 2 AS twice FROM (VALUES (1), (2)) AS t(v);")
    done = subprocess.run(
        [*SQLSTREAM, "run", "--format", "arrow", path],
        env=environment(),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    table = pa.ipc.open_stream(done.stdout).read_all()
    assert table.to_pydict() == {"v": [1, 2], "twice": [2, 4]}


def test_a_changelog_table_shows_updates_as_they_come(script) -> None:  # type: ignore[no-untyped-def]
    text = "SELECT SUM(v) AS total FROM (VALUES (1), (2)) AS t(v);"
    done = sqlstream("run", "--changelog", "--set", "execution.batch-rows=1", script(text))
    rows = [line.split("|")[1:3] for line in done.stdout.splitlines() if line.startswith(("| +", "| -"))]
    assert [[cell.strip() for cell in row] for row in rows] == [["+I", "1"], ["-U", "1"], ["+U", "3"]]
    assert done.stdout.endswith("Received a total of 3 rows\n")
