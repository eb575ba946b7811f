"""`t$expired`: the rows that the state of running jobs has let go, also of one that goes on from a savepoint elsewhere."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_harness import sqlstream as command
from server_harness import RunningServer
from spark_harness.processes import wait_until

import sqlstream

PAGE = Path(__file__).parents[2] / "docs" / "why.md"
TABLES = """
CREATE TABLE orders (id INT, who STRING, amount INT, twice AS amount * 2, place STRING METADATA FROM 'file.name')
  WITH ('connector' = 'filesystem', 'path' = '{path}/orders', 'format' = 'csv', 'source.monitor-interval' = '50 ms');
CREATE TABLE people (name STRING, city STRING)
  WITH ('connector' = 'filesystem', 'path' = '{path}/people', 'format' = 'csv', 'source.monitor-interval' = '50 ms');
CREATE TABLE written (id INT) WITH ('connector' = 'blackhole');
CREATE VIEW large AS SELECT * FROM orders WHERE amount > 5;
SET 'execution.checkpointing.interval' = '100 ms';
SET 'execution.checkpointing.dir' = '{path}/checkpoints';
SET 'execution.checkpointing.savepoint-dir' = '{path}/savepoints';
SET 'table.exec.state.ttl' = '200 ms';
SET 'sqlstream.state.expired-rows.retention' = '1 h';
"""
JOINED = "INSERT INTO written SELECT id FROM orders JOIN people ON who = name WHERE amount <> 7"
BEST = """
INSERT INTO written SELECT id FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY who ORDER BY amount, place) AS n FROM large) WHERE n = 1
"""


@pytest.fixture
def cursor(tmp_path: Path) -> Iterator[sqlstream.Cursor]:
    for name in ("orders", "people"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders" / "a.csv").write_text("".join(f"{n},u{n % 3},{n}\n" for n in range(10)))
    (tmp_path / "people" / "a.csv").write_text("u0,Bern\nu1,Rom\n")
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in TABLES.format(path=tmp_path).split(";\n")[:-1]:
            cursor.execute(statement)
        yield cursor


def read(cursor: sqlstream.Cursor, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    return cursor.fetchall()


def ledger(cursor: sqlstream.Cursor, job: str) -> dict[str, int]:
    """The rows that have expired, by the lines of the ledger that have any; of a join those of its sides."""
    rows = [(row[2], row[8]) for row in read(cursor, f"SHOW LEDGER FOR JOB '{job}'")]
    of_joins = {name.split(" ")[0] for name, _ in rows if name.endswith((" left", " right"))}
    return {name: count for name, count in rows if count and name not in of_joins}


def kept(cursor: sqlstream.Cursor, table: str, job: str) -> dict[str, int]:
    counted = f"SELECT `$operator`, COUNT(*) FROM {table}$expired WHERE `$job` = '{job}' GROUP BY `$operator`"
    return dict(read(cursor, counted))


def running(cursor: sqlstream.Cursor) -> list[str]:
    return [row[0] for row in read(cursor, "SHOW JOBS") if row[2] == "RUNNING"]


def start(cursor: sqlstream.Cursor, insert: str) -> str:
    before = set(running(cursor))
    cursor.execute(insert)
    wait_until(lambda: len({*running(cursor)} - before) == 1)
    (job,) = {*running(cursor)} - before
    return job


def test_expired_rows_are_those_that_the_ledger_counts(cursor: sqlstream.Cursor, tmp_path: Path) -> None:
    with pytest.raises(sqlstream.Error, match=r"(?s)SS3570.*no job that runs keeps.*expired-rows.retention"):
        read(cursor, "SELECT * FROM orders$expired")
    job = start(cursor, JOINED)
    wait_until(lambda: ledger(cursor, job) == {"Join[4] left": 9, "Join[4] right": 2})
    assert kept(cursor, "orders", job) == {"Join[4] left": 9}
    assert kept(cursor, "people", job) == {"Join[4] right": 2}
    # The join keeps no column but those that it reads.
    rows = read(
        cursor, "SELECT id, who, amount, twice, place, `$expired_at` > `$last_used` FROM orders$expired"
    )
    assert sorted(rows) == [(n, f"u{n % 3}", None, None, None, True) for n in range(10) if n != 7]
    assert sorted(read(cursor, "SELECT name, city FROM people$expired")) == [("u0", None), ("u1", None)]
    other = start(cursor, BEST)
    wait_until(lambda: sum(ledger(cursor, other).values()) == 3)
    assert kept(cursor, "orders", other) == ledger(cursor, other)
    best = f"SELECT id, who, amount, twice, place FROM orders$expired WHERE `$job` = '{other}'"
    assert sorted(read(cursor, best)) == [
        (6, "u0", 6, 12, "a.csv"),
        (7, "u1", 7, 14, "a.csv"),
        (8, "u2", 8, 16, "a.csv"),
    ]


def test_the_page_shows_what_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Expired rows")[1]
    script, query = re.findall(r"(?ms)^```sql\n(.*?)^```", section)
    shown = [line.strip("| ").split("|") for line in section.splitlines() if "Join[3]" in line]
    monkeypatch.chdir(tmp_path)
    Path("orders.csv").write_text("1,ann,10\n2,bob,20\n3,ann,30\n4,cid,-5\n")
    Path("people.csv").write_text("ann,Bern\nbob,Rom\n")
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in re.split(r";\n+", script)[:-1]:
            cursor.execute(statement)
        (job,) = running(cursor)
        wait_until(lambda: ledger(cursor, job) == {"Join[3] left": 4, "Join[3] right": 2})
        rows = [[_as_shown(value) for value in row] for row in read(cursor, query)]
    assert rows == [[cell.strip() for cell in line] for line in shown]


def test_no_plan_in_a_file_reads_expired_rows(cursor: sqlstream.Cursor, tmp_path: Path) -> None:
    start(cursor, JOINED)
    insert = "INSERT INTO written SELECT id FROM orders$expired"
    with pytest.raises(sqlstream.Error, match="SS3572"):
        cursor.execute(f"COMPILE PLAN '{tmp_path}/plan.json' FOR {insert}")
    assert not (tmp_path / "plan.json").exists()


def test_a_job_that_goes_on_elsewhere_has_what_it_had_and_names_the_job_that_let_it_go(
    cursor: sqlstream.Cursor, tmp_path: Path
) -> None:
    first = start(cursor, JOINED)
    wait_until(lambda: ledger(cursor, first) == {"Join[4] left": 9, "Join[4] right": 2})
    ((savepoint,),) = read(cursor, f"STOP JOB '{first}' WITH SAVEPOINT")
    with pytest.raises(sqlstream.Error, match="SS3570"):
        read(cursor, "SELECT * FROM orders$expired")
    cursor.execute(f"SET 'execution.state-recovery.path' = '{savepoint}'")
    cursor.execute("SET 'parallelism.default' = '2'")
    second = start(cursor, JOINED)
    cursor.execute("RESET 'execution.state-recovery.path'")
    (tmp_path / "orders" / "b.csv").write_text("20,u0,20\n21,u9,21\n")
    wait_until(lambda: ledger(cursor, second) == {"Join[4] left": 2})
    assert kept(cursor, "orders", second) == {"Join[4] left": 2}
    assert kept(cursor, "orders", first) == {"Join[4] left": 9}
    assert kept(cursor, "people", first) == {"Join[4] right": 2}


def test_a_job_without_checkpoints_and_a_hint_are_refused(cursor: sqlstream.Cursor) -> None:
    cursor.execute("SET 'execution.checkpointing.interval' = '0 ms'")
    start(cursor, JOINED)
    with pytest.raises(sqlstream.Error, match=r"(?s)SS3570.*takes none.*execution.checkpointing.interval"):
        read(cursor, "SELECT * FROM orders$expired")
    with pytest.raises(sqlstream.Error, match=r"(?s)SS4003.*takes no OPTIONS hint"):
        read(cursor, "SELECT * FROM orders$expired /*+ OPTIONS('path' = 'x') */")
    with pytest.raises(sqlstream.Error, match=r"(?s)SS3003.*is a sink only"):
        read(cursor, "SELECT * FROM written$expired")
    with pytest.raises(sqlstream.Error, match="SS4004"):
        read(cursor, "CREATE TABLE x (id INT) WITH ('connector' = 'expired-rows', 'read' = '{}')")
    # Another table at another place has no rows of this one.
    cursor.execute("CREATE TABLE others WITH ('path' = 'elsewhere') LIKE orders")
    with pytest.raises(sqlstream.Error, match="SS3570"):
        read(cursor, "SELECT * FROM others$expired")


@pytest.mark.timeout(300)
def test_a_job_that_is_killed_and_rescaled_keeps_each_row_once(tmp_path: Path) -> None:
    place = tmp_path / "numbers"
    place.mkdir()
    with RunningServer(tmp_path / "server") as server:
        session = server.open_session()
        settings = {
            "execution.checkpointing.interval": "200 ms",
            "table.exec.state.ttl": "300 ms",
            "sqlstream.state.expired-rows.retention": "1 h",
            "parallelism.default": "1",
        }
        for key, value in settings.items():
            server.execute(session, f"SET '{key}' = '{value}'")
        server.execute(
            session,
            f"CREATE TABLE numbers (n INT) WITH ('connector' = 'filesystem', 'path' = '{place}', 'format' = 'csv',"
            " 'source.monitor-interval' = '50 ms')",
        )
        server.execute(session, "CREATE TABLE written (a INT, b INT) WITH ('connector' = 'blackhole')")
        insert = "INSERT INTO written SELECT a.n, b.n FROM numbers a JOIN numbers b ON a.n = b.n"
        job_id = server.insert(session, insert)

        def expired() -> dict[str, int]:
            return {row[2]: row[8] for row in server.execute(session, f"SHOW LEDGER FOR JOB '{job_id}'")}

        for number in range(4):
            rows = range(500 * number, 500 * number + 500)
            (place / f".{number}").write_text("".join(f"{n}\n" for n in rows))
            (place / f".{number}").rename(place / f"{number}.csv")
            wait_until(lambda n=rows.stop: _of_sides(expired()) == [n, n])
            found = server.execute(
                session,
                "SELECT `$operator`, COUNT(*), COUNT(DISTINCT n), MAX(n) FROM numbers$expired GROUP BY `$operator`",
            )
            count = rows.stop
            assert sorted(row[1:] for row in found) == 2 * [[count, count, count - 1]]
            assert {row[0].split(" ")[1] for row in found} == {"left", "right"}
            if number == 0:
                workers = server.task_managers()
                workers[0].kill()
                wait_until(lambda: server.get(f"/jobs/{job_id}/checkpoints")["counts"]["restored"] > 0)
            elif number == 1:
                server.wait_for(job_id, "RUNNING")
                server.execute(session, f"CALL sys.rescale_job('{job_id}', 3)")
            elif number == 2:
                server.signal(signal.SIGKILL)
                server.start()
                session = server.open_session()
            server.wait_for(job_id, "RUNNING")
        listed = command("ledger", "--server", server.rest, job_id)
        (left,) = (line.split("|") for line in listed.stdout.splitlines() if " left " in line)
        assert [cell.strip() for cell in left[2:4]] == ["2000", "<NULL>"]


def _as_shown(value: object) -> str:
    return "<NULL>" if value is None else "TRUE" if value is True else str(value)


def _of_sides(expired: dict[str, int]) -> list[int]:
    return [count for name, count in sorted(expired.items()) if name.endswith((" left", " right"))]
