"""A table that a query is written into shows what the query shows, whatever way the table takes its changes."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import check_first, writes_on, written

import sqlstream

Rows = Counter

TABLES = {
    "duckdb": "'connector' = 'duckdb', 'path' = '{0}/d.duckdb'",
    "compacted": "'connector' = 'filesystem', 'path' = '{0}/k', 'format' = 'json', 'changelog.mode' = 'compacted'",
    "upsert": "'connector' = 'filesystem', 'path' = '{0}/u', 'format' = 'csv', 'changelog.mode' = 'upsert',"
    " 'changelog.op-column' = 'op'",
    "tombstones": "'connector' = 'filesystem', 'path' = '{0}/n', 'format' = 'json', 'changelog.mode' = 'upsert'",
    "retract": "'connector' = 'filesystem', 'path' = '{0}/r', 'format' = 'csv', 'changelog.mode' = 'retract',"
    " 'changelog.op-column' = 'op'",
    "debezium": "'connector' = 'filesystem', 'path' = '{0}/z', 'format' = 'debezium-json'",
}
BY_KEY = ("duckdb", "compacted", "upsert", "tombstones")
SETTINGS = list(itertools.product(("1", "2", "100000"), ("1", "2")))
QUICK = {("1", "1"): 0, ("2", "2"): 1}
"""Settings with which every other query runs in make test, from which one on; the others run in make nightly."""

QUERIES = {
    "a filter": "SELECT id, v FROM t WHERE v > 3",
    "a filter of a key": "SELECT id, v FROM t WHERE id <> 3",
    "a filter of a sum": "SELECT g, SUM(v) FROM t GROUP BY g HAVING SUM(v) > 9",
    "a condition of a join": "SELECT t.id, t.v FROM t JOIN b ON t.g = b.g AND t.v < b.v",
    "an outer join": "SELECT t.id, COALESCE(b.v, -1) FROM t LEFT JOIN b ON t.g = b.g AND t.v < b.v",
    "a semi join": "SELECT id, v FROM t WHERE g IN (SELECT g FROM b WHERE v > 4)",
    "an anti join": "SELECT id, v FROM t WHERE NOT EXISTS (SELECT * FROM b WHERE b.g = t.g AND b.v > t.v)",
    "the best rows": "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v, id) AS n FROM t)"
    " WHERE n <= 2 AND v > 2",
    "ranks": "SELECT CAST(n AS INT), id FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY v DESC, id) AS n FROM t) WHERE n <= 4",
    "a filter of a union": "SELECT id, v FROM (SELECT id, v FROM t UNION ALL SELECT g + 100, v FROM b) WHERE v > 3",
    "rows of a changed key": "SELECT id, v FROM e",
    "a filter of changed keys": "SELECT id, v FROM e WHERE v > 3",
    "sums of changed keys": "SELECT v, CAST(COUNT(*) AS INT) FROM e GROUP BY v HAVING COUNT(*) < 2",
    "changes of whole rows": "SELECT id, v FROM w WHERE v > 3",
    "a running sum": "SELECT id, CAST(s AS INT) FROM (SELECT id, v, SUM(v) OVER (PARTITION BY g ORDER BY id) AS s FROM t)"
    " WHERE s > 5",
}


def upserts(rng: random.Random, count: int, with_id: bool) -> str:
    """Changes by key, as text: `id, g, v` or `g, v`."""
    lines, alive = [], set()
    for _ in range(count):
        key = rng.randrange(8)
        fields = [key, rng.randrange(3), rng.randrange(9)] if with_id else [key % 3, rng.randrange(9)]
        key = fields[0]
        if key in alive and rng.random() < 0.2:
            alive.discard(key)
            # Half an update is a deletion too.
            op = rng.choice(["-D", "-U"])
        else:
            op = "+U" if key in alive else "+I"
            alive.add(key)
        lines.append(",".join(map(str, [op, *fields])))
    return "\n".join(lines) + "\n"


def events(rng: random.Random, count: int) -> tuple[str, str]:
    """Change events of `id, v` whose updates may change the key, as ogg-json, and the same as changes of whole rows."""
    rows: dict[int, int] = {}
    lines, whole = [], []
    for _ in range(count):
        key, v = rng.randrange(8), rng.randrange(9)
        if key in rows and rng.random() < 0.2:
            lines.append({"op_type": "D", "before": {"id": key, "v": rows[key]}})
            whole.append(f"-D,{key},{rows.pop(key)}")
        elif key in rows:
            other = (
                next((k for k in rng.sample(range(8), 8) if k not in rows), key)
                if rng.random() < 0.5
                else key
            )
            before = {"id": key, "v": rows.pop(key)}
            rows[other] = v
            lines.append({"op_type": "U", "before": before, "after": {"id": other, "v": v}})
            whole += [f"-U,{key},{before['v']}", f"+U,{other},{v}"]
        else:
            rows[key] = v
            lines.append({"op_type": "I", "after": {"id": key, "v": v}})
            whole.append(f"+I,{key},{v}")
    return "\n".join(map(json.dumps, lines)) + "\n", "\n".join(whole) + "\n"


def sources(directory: Path, seed: int) -> str:
    rng = random.Random(seed)
    (directory / "t.csv").write_text(upserts(rng, 40, True))
    (directory / "b.csv").write_text(upserts(rng, 12, False))
    told, whole = events(rng, 40)
    (directory / "e.json").write_text(told)
    (directory / "w.csv").write_text(whole)
    by_key = "'changelog.mode' = 'upsert', 'changelog.op-column' = 'op'"
    return f"""
        CREATE TABLE t (id INT, g INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
          WITH ('connector' = 'filesystem', 'path' = '{directory}/t.csv', 'format' = 'csv', {by_key});
        CREATE TABLE b (g INT, v INT, PRIMARY KEY (g) NOT ENFORCED)
          WITH ('connector' = 'filesystem', 'path' = '{directory}/b.csv', 'format' = 'csv', {by_key});
        CREATE TABLE e (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
          WITH ('connector' = 'filesystem', 'path' = '{directory}/e.json', 'format' = 'ogg-json');
        CREATE TABLE w (id INT, v INT) WITH ('connector' = 'filesystem', 'path' = '{directory}/w.csv',
          'format' = 'csv', 'changelog.mode' = 'retract', 'changelog.op-column' = 'op')"""


@pytest.fixture
def connection() -> Iterator[sqlstream.Connection]:
    with sqlstream.connect("embedded://") as made:
        yield made


def run(connection: sqlstream.Connection, *statements: str) -> None:
    for statement in statements:
        connection.cursor().execute(statement)


def shown(connection: sqlstream.Connection, query: str) -> Rows:
    return Counter(connection.cursor().execute(query).fetchall())


@pytest.mark.parametrize(
    ("batch_rows", "parallelism", "names"),
    [
        *(
            pytest.param(*setting, list(QUERIES)[first::2], id="-".join(setting))
            for setting, first in QUICK.items()
        ),
        *(
            pytest.param(*setting, list(QUERIES), id=f"{'-'.join(setting)}-all", marks=pytest.mark.slow)
            for setting in SETTINGS
        ),
    ],
)
def test_every_table_shows_what_the_query_shows(
    connection: sqlstream.Connection, tmp_path: Path, batch_rows: str, parallelism: str, names: list[str]
) -> None:
    run(connection, "SET 'execution.batch-rows' = '100000'", *sources(tmp_path, 7).split(";"))
    expected = {name: shown(connection, QUERIES[name]) for name in names}
    assert all(expected.values())
    run(
        connection,
        f"SET 'execution.batch-rows' = '{batch_rows}'",
        f"SET 'parallelism.default' = '{parallelism}'",
    )
    wrong = []
    for number, name in enumerate(names):
        query = QUERIES[name]
        place = tmp_path / str(number)
        place.mkdir()
        columns = "(k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)"
        for kind, options in TABLES.items():
            run(connection, f"CREATE TABLE {kind}{number} {columns} WITH ({options.format(place)})")
        conflict = dict.fromkeys(BY_KEY, "ON CONFLICT DO DEDUPLICATE")
        inserts = [f"INSERT INTO {kind}{number} {query} {conflict.get(kind, '')};" for kind in TABLES]
        run(connection, f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END")
        parts = [f"SELECT '{kind}', k, v FROM {kind}{number}" for kind in TABLES]
        found = {kind: Rows() for kind in (*TABLES, "query")}
        for kind, *row in connection.cursor().execute(
            " UNION ALL ".join([*parts, f"SELECT 'query', k, v FROM ({query}) AS q (k, v)"])
        ):
            found[kind][tuple(row)] += 1
        found["changelog"] = Rows()
        for op, *row in told(connection, query, "", "DELETE, UPDATE_BEFORE"):
            found["changelog"][tuple(row)] += 1 if op == "set" else -1
        found["changelog"] = +found["changelog"]
        by_key: dict[object, object] = {}
        for key, op, v in told(connection, query, "PARTITION BY k", "DELETE"):
            by_key.pop(key, None)
            if op == "set":
                by_key[key] = v
        found["changelog by key"] = Rows(by_key.items())
        wrong += [
            (name, kind, expected[name], rows) for kind, rows in found.items() if rows != expected[name]
        ]
    assert not wrong, wrong


def told(connection: sqlstream.Connection, query: str, partition: str, gone: str) -> sqlstream.Cursor:
    return connection.cursor().execute(
        f"WITH q AS (SELECT k, v FROM ({query}) AS q (k, v)) SELECT * FROM TO_CHANGELOG(input => TABLE q {partition},"
        f" op_mapping => MAP['INSERT, UPDATE_AFTER', 'set', '{gone}', 'gone'])"
    )


KEPT: dict[str, tuple[object, ...]] = {
    "SELECT COUNT(*), COUNT(DISTINCT u) FROM (SELECT id, UUID() AS u FROM c)": (1, 1),
    "SELECT COUNT(*), MIN(n) FROM (SELECT r, COUNT(*) AS n FROM (SELECT RAND() AS r FROM c) GROUP BY r)": (
        1,
        1,
    ),
    "SELECT COUNT(*), COUNT(*) FROM (SELECT DISTINCT UUID() FROM c)": (1, 1),
    "SELECT COUNT(*) BETWEEN 0 AND 1, 1 FROM (SELECT id FROM c WHERE RAND() < 0.5)": (True, 1),
    "SELECT COUNT(*), COUNT(DISTINCT window_start) FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(p), INTERVAL '0.001' SECOND))": (
        1,
        1,
    ),
}


@pytest.mark.parametrize("batch_rows", ["1", "100000"])
def test_values_that_differ_each_time_are_kept_for_the_retraction(
    connection: sqlstream.Connection, tmp_path: Path, batch_rows: str
) -> None:
    (tmp_path / "c.csv").write_text("+I,1,1\n+U,1,2\n+U,1,3\n+I,2,1\n-D,2,\n")
    run(
        connection,
        "CREATE TABLE c (id INT, v INT, p AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem',"
        f" 'path' = '{tmp_path}/c.csv', 'format' = 'csv', 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op')",
        f"SET 'execution.batch-rows' = '{batch_rows}'",
    )
    assert {query: connection.cursor().execute(query).fetchall() for query in KEPT} == {
        query: [row] for query, row in KEPT.items()
    }
    joined = "SELECT a.id FROM c AS a JOIN c AS b ON a.id = b.id AND RAND() < 0.5"
    with pytest.raises(
        sqlstream.ProgrammingError, match="RAND in the condition of a join may answer otherwise"
    ):
        connection.cursor().execute(joined)


@pytest.mark.parametrize("batch_rows", ["1", "100000"])
def test_partitioned_changelogs_have_their_keys_first_and_all_changes(
    connection: sqlstream.Connection, tmp_path: Path, batch_rows: str
) -> None:
    (tmp_path / "l.csv").write_text("a,u,1\nb,u,2\nb,d,2\na,b,1\na,u,2\na,b,2\n")
    run(
        connection,
        "CREATE TABLE l (v STRING, op STRING, id INT)"
        f" WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/l.csv', 'format' = 'csv')",
        f"SET 'execution.batch-rows' = '{batch_rows}'",
    )
    rows = (
        "FROM_CHANGELOG(input => TABLE l PARTITION BY id,"
        " op_mapping => MAP['u', 'UPDATE_AFTER', 'd', 'DELETE', 'b', 'UPDATE_BEFORE'])"
    )
    query = f"WITH c AS (SELECT * FROM {rows}) SELECT * FROM TO_CHANGELOG(input => TABLE c PARTITION BY id)"
    cursor = connection.cursor().execute(query)
    assert [column[0] for column in cursor.description or ()] == ["id", "op", "v"]
    assert cursor.fetchall() == [
        (1, "INSERT", "a"),
        (2, "INSERT", "b"),
        (2, "DELETE", "b"),
        (1, "DELETE", "a"),
        (2, "INSERT", "a"),
        (2, "DELETE", "a"),
    ]


RATE = 500
SUMS = "SELECT CAST(n % 41 AS INT), CAST(SUM(CASE WHEN n % 3 = 0 THEN -2 ELSE 1 END) AS INT) FROM g GROUP BY n % 41"
"""Sums that change their sign again and again."""


def sums_above(least: int, numbers: list[int]) -> Rows:
    found: dict[int, int] = {}
    for n in numbers:
        found[n % 41] = found.get(n % 41, 0) + (-2 if n % 3 == 0 else 1)
    return Rows((key, value) for key, value in found.items() if value > least)


def test_tables_show_the_query_although_task_managers_are_killed(tmp_path: Path) -> None:
    columns = "(k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)"
    with RunningServer(tmp_path / "server") as server:
        session = server.open_session()
        server.execute(
            session,
            f"CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{RATE}', "
            "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000000')",
        )
        server.execute(
            session,
            f"CREATE TABLE read (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv')",
        )
        for kind, options in TABLES.items():
            server.execute(session, f"CREATE TABLE {kind} {columns} WITH ({options.format(tmp_path)})")
        for setting in (
            "'execution.checkpointing.interval' = '100 ms'",
            "'parallelism.default' = '2'",
            "'execution.batch-rows' = '64'",
            "'restart-strategy.type' = 'fixed-delay'",
            "'restart-strategy.fixed-delay.attempts' = '20'",
            "'restart-strategy.fixed-delay.delay' = '10 ms'",
        ):
            server.execute(session, f"SET {setting}")
        inserts = " ".join(
            f"INSERT INTO {kind} {SUMS} HAVING SUM(CASE WHEN n % 3 = 0 THEN -2 ELSE 1 END) > -1;"
            for kind in TABLES
        )
        job = server.insert(
            session, f"EXECUTE STATEMENT SET BEGIN {inserts} INSERT INTO read SELECT n FROM g; END"
        )
        for _ in range(2):
            done = completed(server, job)
            wait_until(lambda done=done: completed(server, job) > done)
            # Whichever of them runs the tasks.
            for child in server.task_managers():
                child.kill()
            writes_on(tmp_path)
        count = server.finish(job)
        restarts = server.get(f"/jobs/{job}/metrics?get=numRestarts")
        assert int(restarts[0]["value"]) >= 1
        numbers = written(tmp_path)
        assert len(numbers) == count, "all tables are written from one source"
        check_first(numbers, RATE)
        expected = sums_above(-1, numbers)
        assert expected
        with sqlstream.connect(server.gateway) as connection:
            found = {kind: shown(connection, f"SELECT k, v FROM {kind}") for kind in TABLES}
        assert found == dict.fromkeys(TABLES, expected)


def completed(server: RunningServer, job: str) -> int:
    return int(server.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])
