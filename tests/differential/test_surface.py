"""Queries of every kind, each a line of surface.sql or everyday.sql, have DuckDB's rows: over inserted rows and over changes."""

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
EVERYDAY = (Path(__file__).parent / "everyday.sql").read_text().splitlines()
"""Orders, visits and their arrays, maps and rows, as users of a batch engine write queries."""

Rows = list[tuple[Any, ...]]
COLUMNS = {
    "emp": {"id": "INT", "name": "STRING", "dept": "INT", "salary": "INT", "mgr": "INT", "hired": "DATE"},
    "dept": {"id": "INT", "dname": "STRING", "city": "STRING"},
    "t": {"k": "INT", "g": "INT", "s": "STRING"},
    "orders": {
        "id": "INT",
        "customer": "STRING",
        "product": "STRING",
        "qty": "INT",
        "price": "DECIMAL(8, 2)",
        "ordered": "TIMESTAMP(3)",
        "note": "STRING",
    },
    "visits": {
        "id": "INT",
        "who": "ROW<name STRING, city STRING>",
        "pages": "ARRAY<STRING>",
        "props": "MAP<STRING, INT>",
    },
}
THEIRS = {
    "TIMESTAMP(3)": "TIMESTAMP",
    "ROW<name STRING, city STRING>": "STRUCT(name STRING, city STRING)",
    "ARRAY<STRING>": "STRING[]",
    "MAP<STRING, INT>": "MAP(STRING, INT)",
}
"""DuckDB's names of types."""
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
    "orders": [
        (1, "ann", "tea", 2, 4.5, "2024-01-05 09:00:00", "a gift"),
        (2, "ann", "cup", 1, 12.25, "2024-01-05 09:30:00", None),
        (3, "bob", "tea", 5, 4.25, "2024-01-06 18:15:30.500", "50% off"),
        (4, "cid", "pot", 1, 39.99, "2024-01-31 23:59:59.999", "  big gift "),
        (5, "bob", "pot", 1, 35, "2024-02-29 00:00:00", ""),
        (6, "ann", "tea", 1, 4.5, "2024-02-29 12:00:00", "bulk gift wrap"),
        (7, "ann", "pot", 3, 39.99, "2024-12-30 08:00:00", None),
        (8, None, "cup", 7, 0.99, "2025-01-01 00:00:00", "5"),
        (9, "dee", "cup", 0, 12.25, "2024-01-05 09:30:00", "ünï 你好"),
    ],
    "visits": [
        (1, {"name": "Ann", "city": "Rome"}, ["a", "b"], {"x": 1, "y": None}),
        (2, {"name": "Bob", "city": None}, [], {}),
        (3, None, None, None),
        (4, {"name": "Ann", "city": "Rome"}, ["b", "a", "a"], {"x": 2}),
        (5, {"name": None, "city": "Oslo"}, ["a", "b"], {"y": 5, "x": 1}),
        (6, {"name": "Eve", "city": "Rome"}, [None, "c"], {"z": 0}),
    ],
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
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    path = tmp_path_factory.mktemp("database") / "rows.json"
    with duckdb.connect() as connection:
        for table, columns in COLUMNS.items():
            path.write_text(
                "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in TABLES[table])
            )
            declared = ", ".join(f"{name}: '{THEIRS.get(kind, kind)}'" for name, kind in columns.items())
            read = f"read_json('{path}', format = 'newline_delimited', columns = {{{declared}}})"
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {read}")
        yield connection


UPSERT = "'json', 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op'"
FORMATS = {
    "rows": "'json'",
    "events": "'debezium-json'",
    "retractions": UPSERT.replace("upsert", "retract"),
    "upserts": UPSERT,
}
HOLDS = {"emp": "upserts", "dept": "events", "t": "retractions", "orders": "retractions", "visits": "upserts"}
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


def retractions(table: str, draw: random.Random) -> list[dict[str, Any]]:
    """The changes of `events`, each a row of its own."""
    kinds = {"c": ("", "+I"), "u": ("-U", "+U"), "d": ("-D", "")}
    return [
        {"op": kind, **row}
        for event in events(table, draw)
        for kind, row in zip(kinds[event["op"]], (event["before"], event["after"]), strict=True)
        if kind
    ]


TOLD = {"events": events, "retractions": retractions, "upserts": upserts}


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
            objects = TOLD[holds](table, random.Random(table))
        (directory / f"{table}.json").write_text("".join(json.dumps(o) + "\n" for o in objects))
        declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        made.run(_create(table, declared, holds, directory))
    yield made
    made.close()


def comparable(value: Any) -> Any:
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return "NaN" if math.isnan(value) else round(float(value), 6)
    if isinstance(value, dict):
        return sorted((key, comparable(each)) for key, each in value.items())
    if isinstance(value, list):
        # A map is a list of pairs in Arrow.
        found = [comparable(each) for each in value]
        return sorted(found) if all(isinstance(each, tuple) for each in value) else found
    if isinstance(value, tuple):
        return tuple(map(comparable, value))
    return str(value) if isinstance(value, datetime.date) else value


def rows_of(rows: list[Any]) -> list[str]:
    return sorted(repr(tuple(comparable(value) for value in row)) for row in rows)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_duckdbs_rows(query: str, engine: Engine, database: duckdb.DuckDBPyConnection) -> None:
    check(query, engine, database)


@pytest.mark.parametrize(
    ("engine", "query"),
    [
        *(("changes", query) for query in EVERYDAY),
        *(pytest.param("rows", query, marks=pytest.mark.slow) for query in EVERYDAY),
    ],
    indirect=["engine"],
)
def test_an_everyday_query_has_duckdbs_rows(
    query: str, engine: Engine, database: duckdb.DuckDBPyConnection
) -> None:
    check(query, engine, database)


def check(query: str, engine: Engine, database: duckdb.DuckDBPyConnection) -> None:
    ours, _, theirs = query.partition(" -- duckdb: ")
    (finished,) = engine.run(f"{ours};")
    # Columns may have one name.
    columns = [column.to_pylist() for column in finished.table.columns]
    found = list(zip(*columns, strict=True))
    assert rows_of(found) == rows_of(database.execute(theirs or ours).fetchall())
