"""Tables of change events: what queries that change write is read back as the table that they leave."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import Engine

from sqlstream.errors import UserError

OP = "'changelog.op-column' = 'op'"
FORMATS = {
    "debezium-json": "'debezium-json'",
    "canal-json": "'canal-json'",
    "maxwell-json": "'maxwell-json'",
    "ogg-json": "'ogg-json'",
    "changes in csv": f"'csv', 'csv.null-literal' = '', 'changelog.mode' = 'retract', {OP}",
    "changes by key in parquet": f"'parquet', 'changelog.mode' = 'upsert', {OP}",
    "rows by key in json": "'json', 'changelog.mode' = 'upsert'",
}


@pytest.mark.parametrize(
    ("identifier", "parallelism"), [(f, 3 if n % 2 else 1) for n, f in enumerate(FORMATS)]
)
def test_what_an_updating_query_writes_is_read_as_its_result(
    identifier: str, parallelism: int, tmp_path: Path
) -> None:
    draw = random.Random(identifier)
    rows = [(draw.randrange(9), draw.choice(["a", "b", None]), draw.randrange(100)) for _ in range(300)]
    (tmp_path / "rows.csv").write_text("".join(f"{k},{v or ''},{n}\n" for k, v, n in rows))
    engine = Engine(tmp_path / "engine")
    try:
        engine.configure(parallelism, 7)
        script = f"""
            CREATE TABLE t (k INT, v STRING, n INT)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/rows.csv', 'format' = 'csv',
                  'csv.null-literal' = '');
            CREATE TABLE best (k INT, v STRING, total BIGINT, PRIMARY KEY (k) NOT ENFORCED)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/best', 'format' = {FORMATS[identifier]});
            INSERT INTO best SELECT k, MAX(v), SUM(n) FROM t GROUP BY k;
            SELECT * FROM best;
            SELECT total, COUNT(*) AS c FROM best GROUP BY total;
        """
        _, stored, counted = engine.run(script)
    finally:
        engine.close()
    expected = [
        (
            key,
            max((v for k, v, _ in rows if k == key and v is not None), default=None),
            sum(n for k, _, n in rows if k == key),
        )
        for key in {k for k, _, _ in rows}
    ]
    found = [tuple(row.values()) for row in stored.table.to_pylist()]
    assert Counter(found) == Counter(expected)
    totals = {row["total"]: row["c"] for row in counted.table.to_pylist()}
    assert totals == Counter(total for _, _, total in expected)
    if "parquet" not in identifier:
        lines = sum(len(file.read_text().splitlines()) for file in (tmp_path / "best").glob("*.*"))
        assert lines > len(expected)


COLUMNS = ("id", "name", "n")
Rows = dict[int, dict[str, Any]]


def changes_of(draw: random.Random, count: int) -> tuple[list[tuple[str, Any, Any]], Rows]:
    """What happens to a table with the key `id`: the row before and after each change; and what is left."""
    rows: Rows = {}
    told: list[tuple[str, Any, Any]] = []
    for _ in range(count):
        key = draw.randrange(6)
        kind = draw.choice(["set", "set", "set", "delete", "move", "again"])
        old = rows.get(key)
        if kind == "delete" and old:
            told.append(("delete", rows.pop(key), None))
        elif kind == "move" and old:
            new = {**old, "id": 10 + draw.randrange(6)}
            if new["id"] not in rows:
                told.append(("update", rows.pop(key), new))
                rows[new["id"]] = new
        elif kind == "again" and old:
            told.append(("again", None, old))
        elif kind == "set":
            new = {"id": key, "name": draw.choice(["a", "b", None]), "n": draw.randrange(4)}
            told.append(("update" if old else "insert", old, new))
            rows[key] = new
    return told, rows


def changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in old.items() if new[name] != value}


def debezium(kind: str, old: Any, new: Any) -> Iterator[Any]:
    """As from Postgres with REPLICA IDENTITY DEFAULT: a change of the key is a deletion and an insertion."""
    if kind == "delete" or (kind == "update" and old["id"] != new["id"]):
        yield {"before": {**dict.fromkeys(COLUMNS), "id": old["id"]}, "after": None, "op": "d"}
        yield None
    if new is not None:
        unchanged = kind == "update" and old["id"] == new["id"] and old["name"] == new["name"] is not None
        after = {**new, "name": TOAST} if unchanged else new
        is_update = kind == "update" and old["id"] == new["id"]
        yield {"before": None, "after": after, "op": {"again": "r"}.get(kind, "u" if is_update else "c")}


def golden_gate(kind: str, old: Any, new: Any) -> Iterator[Any]:
    """As it is written by default, but for a change of the key, which is refused unless rows are logged whole."""
    if kind == "update":
        is_moved = old["id"] != new["id"]
        after = new if is_moved else {"id": new["id"], **{name: new[name] for name in changed(old, new)}}
        yield {"before": {"id": old["id"]}, "after": after, "op_type": "U"}
    elif kind == "delete":
        yield {"before": {"id": old["id"]}, "op_type": "D"}
    else:
        yield {"after": new, "op_type": "I"}


def maxwell(kind: str, old: Any, new: Any) -> Iterator[Any]:
    kinds = {"again": "bootstrap-insert"}
    event = {"data": new if kind != "delete" else old, "type": kinds.get(kind, kind)}
    yield {**event, "old": changed(old, new)} if kind == "update" else event


def canal(kind: str, old: Any, new: Any) -> Iterator[Any]:
    texts = {name: None if v is None else str(v) for name, v in (new or old).items()}
    before = (
        {name: None if v is None else str(v) for name, v in changed(old, new).items()}
        if kind == "update"
        else None
    )
    kinds = {"again": "INSERT"}
    yield {
        "data": [texts],
        "old": None if before is None else [before],
        "type": kinds.get(kind, kind.upper()),
        "isDdl": False,
    }


TOAST = "__debezium_unavailable_value"
TOOLS = {"debezium-json": debezium, "ogg-json": golden_gate, "maxwell-json": maxwell, "canal-json": canal}


@pytest.mark.parametrize("identifier", TOOLS)
def test_events_as_their_tools_write_them_leave_the_table(identifier: str, tmp_path: Path) -> None:
    """Whatever the sizes of batches, the parallelism and the mode; with events that come a second time."""
    draw = random.Random(identifier)
    told, left = changes_of(draw, 200)
    events = [event for each in told for event in TOOLS[identifier](*each)]
    # What was written since the last commit of the tool comes again.
    events += events[-20:]
    (tmp_path / "events.json").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    expected = Counter(tuple(row[name] for name in COLUMNS) for row in left.values())
    names = Counter(row["name"] for row in left.values())
    engine = Engine(tmp_path / "engine")
    try:
        for parallelism, batch_rows, mode in (
            (1, 1, "STREAMING"),
            (2, 2, "STREAMING"),
            (2, 8192, "STREAMING"),
            (1, 2, "BATCH"),
        ):
            engine.configure(parallelism, batch_rows, {"execution.runtime-mode": mode})
            rows, counted, joined = engine.run(f"""
                CREATE TABLE t (id INT, name STRING, n INT, PRIMARY KEY (id) NOT ENFORCED)
                WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/events.json', 'format' = '{identifier}');
                SELECT * FROM t;
                SELECT name, COUNT(*) AS c FROM t GROUP BY name;
                SELECT l.id, r.n FROM t AS l JOIN t AS r ON l.id = r.id;
            """)
            said = f"{identifier}, parallelism {parallelism}, {batch_rows} rows, {mode}"
            assert Counter(tuple(row.values()) for row in rows.table.to_pylist()) == expected, said
            assert {row["name"]: row["c"] for row in counted.table.to_pylist()} == names, said
            pairs = Counter(tuple(row.values()) for row in joined.table.to_pylist())
            assert pairs == Counter((key, n) for key, _, n in expected), said
    finally:
        engine.close()


def test_what_a_query_with_another_key_writes_is_read_by_the_key_of_the_table(tmp_path: Path) -> None:
    """Rows that replace one another may be written by several subtasks, whose files have an order of their own."""
    draw = random.Random(7)
    told, left = changes_of(draw, 150)
    (tmp_path / "names.csv").write_text("".join(f"{n},n{n}\n" for n in range(4)))
    events = [event for each in told for event in debezium(*each)]
    (tmp_path / "events.json").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    engine = Engine(tmp_path / "engine")
    try:
        engine.configure(3, 2)
        _, stored = engine.run(f"""
            CREATE TABLE t (id INT, name STRING, n INT, PRIMARY KEY (id) NOT ENFORCED)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/events.json', 'format' = 'debezium-json');
            CREATE TABLE names (n INT, name STRING)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/names.csv', 'format' = 'csv');
            CREATE TABLE copies (id INT, name STRING, label STRING, PRIMARY KEY (id) NOT ENFORCED)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/copies', 'format' = 'maxwell-json');
            INSERT INTO copies SELECT t.id, t.name, names.name FROM t JOIN names ON t.n = names.n;
            SELECT * FROM copies;
        """)
    finally:
        engine.close()
    expected = Counter((row["id"], row["name"], f"n{row['n']}") for row in left.values())
    assert Counter(tuple(row.values()) for row in stored.table.to_pylist()) == expected


def test_metadata_that_differs_between_a_row_and_its_retraction_needs_a_key(tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text(
        '{"after": {"id": 1}, "op": "c", "source": {"ts_ms": 1, "table": "t"}}\n'
    )
    engine = Engine(tmp_path / "engine")
    try:
        engine.configure(1, 2)
        table = f"""
            CREATE TABLE t (
              id INT, at TIMESTAMP_LTZ(3) METADATA FROM 'source.timestamp', origin STRING METADATA FROM 'source.table'
            ) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/events.json', 'format' = 'debezium-json');
        """
        (counted,) = engine.run(f"{table} SELECT origin, COUNT(*) AS c FROM t GROUP BY origin;")
        assert counted.table.to_pylist() == [{"origin": "t", "c": 1}]
        with pytest.raises(UserError, match="SS3498"):
            engine.run("SELECT at, COUNT(*) FROM t GROUP BY at;")
    finally:
        engine.close()
