"""VERIFY through every door, and an operator that is wrong on purpose."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from command_harness import sqlstream
from server_harness import RunningServer

import sqlstream as engine
from sqlstream.client.main import main
from sqlstream.client.verification.ties import EACH_ROW
from sqlstream.runtime.connectors import CONNECTORS

ROWS = (
    "1,10,2020-01-01 00:00:01\n1,11,2020-01-01 00:00:02\n2,12,2020-01-01 00:00:25\n1,13,2020-01-01 00:00:03\n"
)
WINDOWS = (
    "SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    " GROUP BY k, window_start, window_end"
)


def table(directory: Path, connector: str = "filesystem", options: str = "") -> str:
    path = directory / "t.csv"
    path.write_text(ROWS)
    return (
        "CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH"
        f" ('connector' = '{connector}', 'path' = '{path}', 'format' = 'csv'{options});\n"
    )


ON_EVENT = ", 'scan.watermark.emit.strategy' = 'on-event'"


@dataclasses.dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """The `sqlstream` command in this process, which spares a start for each test."""

    def run(*words: str) -> Ended:
        return Ended(main(words), *capsys.readouterr())

    return run


def test_equal_rows_are_said_so_with_their_counts(tmp_path: Path, command: Command) -> None:
    ended = command(
        *("verify", "-c", table(tmp_path)),
        *("-c", "SELECT k, SUM(v) AS s FROM t GROUP BY k;\nSELECT * FROM t", "--using", "duckdb"),
    )
    assert ended.returncode == 0, ended.stderr
    grouped, all_rows = ended.stdout.strip().split("\n\n")
    assert grouped.startswith("SELECT at line 1: equal: 2 rows as a stream (")
    assert all_rows.startswith("SELECT at line 2: equal: 4 rows as a stream (")
    assert "4 rows in batch on duckdb (" in all_rows


def test_late_rows_are_the_reason_and_the_rows_of_the_window_are_shown(
    tmp_path: Path, command: Command
) -> None:
    ended = command("verify", "--json", "-c", table(tmp_path, options=ON_EVENT) + WINDOWS)
    assert ended.returncode == 1, ended.stderr
    (found,) = json.loads(ended.stdout)
    assert found["stream_seconds"] > 0
    assert found["batch_seconds"] > 0
    del found["stream_seconds"], found["batch_seconds"]
    start = "2020-01-01 00:00:00.000"
    assert found == {
        "statement": "SELECT",
        "is_equal": False,
        "engine": "duckdb",
        "stream_rows": 2,
        "batch_rows": 2,
        "surplus_rows": 1,
        "missing_rows": 1,
        "near_rows": 0,
        "tolerance": 0.0,
        "differences": [
            {
                "key": {"k": "1", "window_start": start},
                "stream": [{"k": "1", "window_start": start, "n": "2"}],
                "batch": [{"k": "1", "window_start": start, "n": "3"}],
                "inputs": [
                    {
                        "table": "t",
                        "rows": [{"k": "1", "ts": f"2020-01-01 00:00:0{second}.000"} for second in (1, 2, 3)],
                        "is_complete": True,
                        "not_traced": "",
                    }
                ],
            }
        ],
        "reasons": [{"kind": "late-rows", "text": "1 row was late and dropped; a batch has no late rows"}],
        "table": None,
        "choice": "",
    }


def test_an_insert_is_verified_and_writes_nothing(tmp_path: Path, command: Command) -> None:
    out = tmp_path / "out"
    script = table(tmp_path) + (
        f"CREATE TABLE o (k BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv');\n"
        "INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;\n"
        "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT k, v FROM t; INSERT INTO o SELECT v, k FROM t; END"
    )
    ended = command("verify", "-c", script)
    assert ended.returncode == 0, ended.stderr
    assert [line.split(" rows")[0].split(": table")[0] for line in ended.stdout.splitlines() if line] == [
        "INSERT INTO o at line 3: equal: 2",
        "the table was not read back: the statement is refused as a stream",
        "INSERT INTO o at line 4: equal: 4",
        "the table shows these",
        "INSERT INTO o at line 4: equal: 4",
        "the table shows these",
    ]
    assert not out.exists()


KEY = "k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED"
KEYED = {
    "duckdb": "'connector' = 'duckdb', 'path' = '{0}.duckdb'",
    "sqlite": "'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{0}.sqlite', 'table-name' = 'o'",
    "compacted": "'connector' = 'filesystem', 'path' = '{0}', 'format' = 'csv', 'changelog.mode' = 'compacted'",
    "upsert": "'connector' = 'filesystem', 'path' = '{0}', 'format' = 'json', 'changelog.mode' = 'upsert', "
    "'changelog.op-column' = 'op'",
    "debezium": "'connector' = 'filesystem', 'path' = '{0}', 'format' = 'debezium-json'",
}


def test_the_table_of_an_insert_is_read_back_from_a_copy_whatever_keeps_it(
    tmp_path: Path, command: Command
) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "o.sqlite")) as database:
        database.execute("CREATE TABLE o (k INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n < 3))")
    made = [
        f"CREATE TABLE {name} ({KEY}) WITH ({place.format(tmp_path / 'o')})" for name, place in KEYED.items()
    ]
    inserts = [
        f"INSERT INTO {name} SELECT k, COUNT(*) FROM t GROUP BY k HAVING COUNT(*) < 3" for name in KEYED
    ]
    inserts.append("INSERT INTO duckdb SELECT k, v FROM t")
    inserts.append("INSERT INTO p SELECT k, v FROM t")
    script = ";\n".join(
        [table(tmp_path), *made, "CREATE TABLE p (k BIGINT, v BIGINT) WITH ('connector' = 'print')"]
    )
    ended = command(
        "verify", "--json", "-c", script, "-c", ";\n".join(inserts), "--set", "execution.batch-rows=1"
    )
    assert ended.returncode == 0, ended.stderr
    found = [each["table"] for each in json.loads(ended.stdout)]
    assert [(t["rows"], t["not_read"]) for t in found[:-2]] == [(1, "")] * len(KEYED)
    assert [t["not_read"] for t in found[-2:]] == [
        "it keeps one row of each primary key, and the query may give several",
        'a table of connector "print" cannot be read',
    ]
    assert sorted(p.name for p in tmp_path.glob("o*")) == ["o.sqlite"]


def test_a_table_that_shows_other_rows_than_its_query_is_different(tmp_path: Path, command: Command) -> None:
    # A file of a CSV table tells an empty text from NULL by quotes alone, which this delimiter of rows leaves out.
    place = (
        f"'connector' = 'filesystem', 'path' = '{tmp_path / 'o'}', 'format' = 'csv', 'csv.null-literal' = 'x'"
    )
    script = f"CREATE TABLE o (a STRING, b INT) WITH ({place}); INSERT INTO o VALUES ('x', 1), ('y', 2)"
    ended = command("verify", "-c", script)
    assert ended.returncode == 1, ended.stderr
    assert "equal: 2 rows as a stream" in ended.stdout
    assert (
        "different: the table shows 2 rows\n1 row only in the table, 1 row only in the batch" in ended.stdout
    )
    assert "| table | <NULL> | 1 |" in ended.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE TABLE n (n BIGINT) WITH ('connector' = 'datagen'); SELECT COUNT(*) FROM n",
            'error[SS3303]: table "n" never ends, so its rows cannot be verified',
        ),
        (
            "SELECT LISTAGG(a) FROM (VALUES ('x')) AS t(a)",
            "error[SS3301]: LISTAGG has no exact counterpart in DuckDB",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_with_its_place(text: str, message: str, command: Command) -> None:
    ended = command("verify", "--using", "duckdb", "-c", text)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "^" in ended.stderr


LEAKY = "CREATE TABLE u (a INT, b INT) WITH ('connector' = 'leaky', 'path' = '{}', 'format' = 'csv');\n"


@pytest.mark.parametrize(
    ("query", "is_equal", "choice"),
    [
        ("SELECT a, b FROM u ORDER BY b LIMIT 1", True, EACH_ROW),
        ("SELECT a FROM u ORDER BY b LIMIT 1", True, EACH_ROW),
        # 14 and 15, where only 13 and 14 can stand.
        ("SELECT a FROM u ORDER BY b LIMIT 2", False, ""),
        (
            "SELECT a + 1 FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY b) AS n FROM u) WHERE n = 1",
            True,
            EACH_ROW,
        ),
        ("SELECT n, a FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY b) AS n FROM u) WHERE n <= 2", False, ""),
    ],
)
def test_ties_leave_a_choice_of_the_rows_that_could_stand_there_and_of_no_others(
    query: str, is_equal: bool, choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    # As a stream the table lacks 13.
    monkeypatch.setitem(CONNECTORS, "leaky", "leaky_connector:Leaky")
    (tmp_path / "u.csv").write_text("13,1\n14,1\n15,2\n")
    ended = command("verify", "--json", "-c", LEAKY.format(tmp_path / "u.csv") + query)
    (found,) = json.loads(ended.stdout)
    assert (found["is_equal"], found["choice"], ended.returncode) == (is_equal, choice, 0 if is_equal else 1)
    assert {"kind": "ties", "text": "rows are equal in b, and any of them may come first: b = 1"} in found[
        "reasons"
    ]


TIED = (
    "SELECT k, SUM(n) FROM (SELECT k, SUM(v * i) OVER (PARTITION BY k ORDER BY v ROWS 3 PRECEDING) AS n FROM u) GROUP BY k",
    "SELECT k, MAX(i) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM u) WHERE n = 1 GROUP BY k",
    "SELECT k, i, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM u) WHERE n <= 3",
    "SELECT k, i, LAST_VALUE(i) OVER (PARTITION BY k ORDER BY v ROWS 1 PRECEDING) FROM u",
)


@pytest.mark.parametrize("query", TIED)
def test_an_answer_that_ties_leave_open_is_right_whichever_it_is(
    query: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "u.csv").write_text("".join(f"{i % 7},{i},{i % 5}\n" for i in range(400)))
    place = f"'connector' = 'filesystem', 'path' = '{tmp_path / 'u.csv'}', 'format' = 'csv'"
    script = f"CREATE TABLE u (k INT, i INT, v INT) WITH ({place}); {query}"
    settings = ("--set", "execution.batch-rows=7", "--set", "parallelism.default=2")
    ended = command("verify", "--json", "-c", script, *settings)
    (found,) = json.loads(ended.stdout)
    assert (ended.returncode, found["is_equal"]) == (0, True), ended.stdout
    assert bool(found["choice"]) is (found["surplus_rows"] > 0)


def test_a_source_that_loses_a_row_as_a_stream_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setitem(CONNECTORS, "leaky", "leaky_connector:Leaky")
    (tmp_path / "u.csv").write_text("13,5,y\n1,5,x\n2,6,z\n3,5,w\n")
    (tmp_path / "names.csv").write_text("5,five\n6,six\n")
    script = (
        f"CREATE TABLE u (a INT, b INT, c STRING) WITH ('connector' = 'leaky', 'path' = '{tmp_path / 'u.csv'}',"
        " 'format' = 'csv');\n"
        f"CREATE TABLE names (b INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'names.csv'}',"
        " 'format' = 'csv');\n"
        "SELECT u.b, COUNT(*) AS n FROM u JOIN names ON u.b = names.b GROUP BY u.b;"
    )
    ended = command("verify", "-c", script)
    assert ended.returncode == 1
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("SELECT at line 3: different: 2 rows as a stream (")
    assert lines[1:] == [
        "1 row only in the stream, 1 row only in the batch",
        "",
        "difference 1: b = 5",
        "+--------+---+---+",
        "|        | b | n |",
        "+--------+---+---+",
        "| stream | 5 | 2 |",
        "| batch  | 5 | 3 |",
        "+--------+---+---+",
        'table "u": 3 rows contribute',
        "+---+",
        "| b |",
        "+---+",
        "| 5 |",
        "| 5 |",
        "| 5 |",
        "+---+",
        'table "names": 1 row contributes',
        "+---+",
        "| b |",
        "+---+",
        "| 5 |",
        "+---+",
        "",
    ]


def test_floats_that_differ_in_their_last_digits_are_named_and_may_be_taken_as_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setitem(CONNECTORS, "leaky", "leaky_connector:Leaky")
    (tmp_path / "x.csv").write_text("1e-12\n5\n7\n")
    script = (
        f"CREATE TABLE u (x DOUBLE) WITH ('connector' = 'leaky', 'path' = '{tmp_path / 'x.csv'}', 'format' = 'csv');\n"
        "SELECT SUM(x) AS s FROM u"
    )
    exact = command("verify", "--json", "-c", script)
    assert exact.returncode == 1
    (found,) = json.loads(exact.stdout)
    assert [reason["kind"] for reason in found["reasons"]] == ["floats"]
    assert found["differences"][0]["inputs"][0]["not_traced"] == "no column of the table follows from the row"
    near = command("verify", "--tolerance", "1e-9", "-c", script)
    assert near.returncode == 0
    assert "1 row differs in floats within the tolerance of 1e-09" in near.stdout


def test_what_was_found_before_a_wrong_statement_is_printed(command: Command) -> None:
    ended = command("verify", "--json", "-c", "VALUES (1); SELECT b FROM (VALUES (1)) AS t(a); VALUES (2)")
    assert ended.returncode == 2
    assert [each["is_equal"] for each in json.loads(ended.stdout)] == [True]
    assert 'column "b" does not exist' in ended.stderr


def test_a_script_that_verifies_ends_with_1_where_rows_differ(tmp_path: Path, command: Command) -> None:
    ended = command("run", "-c", table(tmp_path, options=ON_EVENT) + f"VERIFY {WINDOWS}")
    assert ended.returncode == 1
    assert "reason: 1 row was late" in ended.stdout
    assert "difference 1: k = 1, window_start = 2020-01-01 00:00:00.000" in ended.stdout


def test_the_shell_shows_what_was_found(tmp_path: Path) -> None:
    ended = sqlstream("shell", stdin=table(tmp_path) + "VERIFY SELECT k FROM t USING duckdb;\n")
    assert ended.returncode == 0, ended.stderr
    assert "equal: 4 rows as a stream (" in ended.stdout


def test_python_verifies_a_job_of_its_session(tmp_path: Path) -> None:
    with engine.connect("embedded://") as connection:
        cursor = connection.cursor()
        cursor.execute(table(tmp_path).strip().rstrip(";"))
        cursor.execute("SELECT k, COUNT(*) AS n FROM t GROUP BY k").fetchall()
        ((job_id, *_),) = cursor.execute("SHOW JOBS").fetchall()
        ((text,),) = cursor.execute(f"VERIFY JOB '{job_id}' USING duckdb").fetchall()
        assert text.startswith("equal: 2 rows as a stream (")
        with pytest.raises(engine.Error, match=r'job "nobody" is not known'):
            cursor.execute("VERIFY JOB 'nobody'")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("server") / "data", is_forked=False) as started:
        yield started


def test_the_gateway_verifies_and_knows_the_jobs_of_a_session_alone(
    server: RunningServer, tmp_path: Path
) -> None:
    session = server.open_session()
    server.execute(session, table(tmp_path))
    ((text,),) = server.execute(session, f"VERIFY {WINDOWS} USING duckdb")
    assert text.startswith("equal: 2 rows as a stream (")
    (job, *_) = server.statuses()
    with pytest.raises(AssertionError, match="SS6039"):
        server.execute(server.open_session(), f"VERIFY JOB '{job}'")


def test_the_process_of_a_server_computes_nothing_of_it(server: RunningServer, tmp_path: Path) -> None:
    session = server.open_session()
    definition = table(tmp_path, options=ON_EVENT).replace("CREATE TABLE", "CREATE TEMPORARY TABLE")
    server.execute(session, definition.rstrip().rstrip(";"))
    ((text,),) = server.execute(session, f"VERIFY {WINDOWS} USING duckdb")
    assert "reason: 1 row was late" in text
    assert 'table "t": 3 rows contribute' in text
    assert server.execute(session, f"SELECT COUNT(*) FROM '{tmp_path}/t.csv'") == [[4]]
    names = [job["name"] for job in server.get("/jobs/overview")["jobs"]]
    assert {"verify", "infer"} <= set(names)
    loaded = {
        process: any("duckdb" in m.path for m in process.memory_maps())
        for process in (psutil.Process(server.process.pid), *server.children())
    }
    # DuckDB compares the rows and looks at the file, and is loaded where tasks run alone.
    assert next(iter(loaded.values())) is False
    assert any(loaded.values())


def test_a_verification_that_is_cancelled_leaves_no_job(server: RunningServer) -> None:
    session = server.open_session()
    slow = "'connector' = 'datagen', 'number-of-rows' = '100000', 'rows-per-second' = '10'"
    server.execute(session, f"CREATE TEMPORARY TABLE slow (n BIGINT) WITH ({slow})")
    operation = server.submit(session, "VERIFY SELECT COUNT(*) AS n FROM slow").json()["operationHandle"]

    def running() -> set[str]:
        return {job for job, status in server.statuses().items() if status == "RUNNING"}

    _wait(running)
    server.request("POST", f"/v3/sessions/{session}/operations/{operation}/cancel")
    _wait(lambda: not running())


def _wait(condition: Callable[[], object], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)
