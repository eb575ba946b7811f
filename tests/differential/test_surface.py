"""Queries of every kind, each a line of surface.sql, have DuckDB's rows: over inserted rows alone, and over change events."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from oracle import Engine

QUERIES = (Path(__file__).parent / "surface.sql").read_text().splitlines()

Rows = list[tuple[Any, ...]]
COLUMNS = {
    "emp": {"id": "INT", "name": "STRING", "dept": "INT", "salary": "INT", "mgr": "INT", "hired": "DATE"},
    "dept": {"id": "INT", "dname": "STRING", "city": "STRING"},
    "t": {"k": "INT", "g": "INT", "s": "STRING"},
}
TABLES: dict[str, Rows] = {
    "emp": [
        (1, "Ann", 10, 1000, None, "2020-01-15"),
        (2, "Bob", 10, 1500, 1, "2020-02-20"),
        (3, "Cid", 20, 1500, 1, "2021-03-05"),
        (4, "Dee", 20, 900, 3, "2021-03-05"),
        (5, "Eve", 30, 2000, 1, "2019-07-01"),
        (6, "Fay", None, 700, 5, "2022-11-30"),
        (7, "Gus", 40, 1200, 5, "2020-02-20"),
    ],
    "dept": [(10, "Sales", "Rome"), (20, "Tech", "Oslo"), (30, "HR", None), (50, "Legal", "Rome")],
    "t": [(1, 1, "a"), (2, 1, "b"), (3, 2, None), (4, None, "a"), (5, 2, "c"), (5, 2, "c")],
}


def events(table: str, draw: random.Random) -> list[dict[str, Any]]:
    """Change events that leave the rows of the table, after wrong values, rows that come again, and one that goes for good."""
    rows, names = TABLES[table], list(COLUMNS[table])

    def event(kind: str, before: tuple[Any, ...] | None, after: tuple[Any, ...] | None) -> dict[str, Any]:
        made = [None if row is None else dict(zip(names, row, strict=True)) for row in (before, after)]
        return {"before": made[0], "after": made[1], "op": kind}

    stories = []
    for row in rows:
        wrong = (row[0], *(draw.choice(rows)[i] for i in range(1, len(row))))
        story = [event("c", None, wrong)] + ([event("u", wrong, row)] if wrong != row else [])
        if draw.random() < 0.4:
            story += [event("d", row, None), event("c", None, row)]
        stories.append(story)
    passing = (99, *draw.choice(rows)[1:])
    stories.append([event("c", None, passing), event("d", passing, None)])
    told = []
    while stories := [story for story in stories if story]:
        told.append(draw.choice(stories).pop(0))
    return told


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for table, columns in COLUMNS.items():
            declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            connection.execute(f"CREATE TABLE {table} ({declared})")
            for row in TABLES[table]:
                connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        yield connection


UPSERT = "'json', 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op'"
FORMATS = {"rows": "'json'", "events": "'debezium-json'", "upserts": UPSERT}
HOLDS = {"emp": "upserts", "dept": "events", "t": "events"}
"""How the changes of each table are told."""


def upserts(table: str, draw: random.Random) -> list[dict[str, Any]]:
    """Changes by the number of a row that leave the rows of the table; a deletion names nothing but that."""
    names, told = list(COLUMNS[table]), []
    for number, row in enumerate(TABLES[table]):
        wrong = (row[0], *(draw.choice(TABLES[table])[i] for i in range(1, len(row))))
        story: list[dict[str, Any]] = [
            {"op": "+I", **dict(zip(names, wrong, strict=True))},
            {"op": "-D"},
            {"op": "-D"},
            {"op": "+U", **dict(zip(names, draw.choice([wrong, row]), strict=True))},
            {"op": "+U", **dict(zip(names, row, strict=True))},
        ]
        told.append([{**change, "number": number} for change in story[draw.choice([0, 2, 3]) :]])
    told.append([{"op": "+I", "number": 99}, {"op": "d", "number": 99}])
    changes = []
    while told := [story for story in told if story]:
        changes.append(draw.choice(told).pop(0))
    return changes


def _create(table: str, declared: str, holds: str, directory: Path) -> str:
    stored = f"WITH ('connector' = 'filesystem', 'path' = '{directory}/{table}.json', 'format' = {FORMATS[holds]});"
    if holds != "upserts":
        return f"CREATE TABLE {table} ({declared}) {stored}"
    return f"""
        CREATE TABLE {table}_changes ({declared}, number INT, PRIMARY KEY (number) NOT ENFORCED) {stored}
        CREATE VIEW {table} AS SELECT {", ".join(COLUMNS[table])} FROM {table}_changes;"""


@pytest.fixture(scope="module", params=["rows", "changes"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("tables")
    made = Engine(directory / "engine")
    made.configure(2, 3)
    for table, columns in COLUMNS.items():
        holds = HOLDS[table] if request.param == "changes" else "rows"
        objects = [dict(zip(columns, row, strict=True)) for row in TABLES[table]]
        if holds != "rows":
            objects = (events if holds == "events" else upserts)(table, random.Random(table))
        (directory / f"{table}.json").write_text("".join(json.dumps(o) + "\n" for o in objects))
        declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        made.run(_create(table, declared, holds, directory))
    yield made
    made.close()


def comparable(value: Any) -> Any:
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return "NaN" if math.isnan(value) else round(float(value), 6)
    return str(value) if isinstance(value, datetime.date) else value


def rows_of(rows: list[Any]) -> list[str]:
    return sorted(repr(tuple(comparable(value) for value in row)) for row in rows)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_duckdbs_rows(query: str, engine: Engine, database: duckdb.DuckDBPyConnection) -> None:
    ours, _, theirs = query.partition(" -- duckdb: ")
    (finished,) = engine.run(f"{ours};")
    found = [tuple(row.values()) for row in finished.table.to_pylist()]
    assert rows_of(found) == rows_of(database.execute(theirs or ours).fetchall())
