"""Over a table that does not change, a lookup join is the plain join, with every cache, in any split and from every place."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from oracle import Engine, Row, arrow_table, assert_same_rows, duckdb_answer, rows_of

from sqlstream.arrow import to_arrow_schema
from sqlstream.planner.rules.column_pruning import prune_columns

CUSTOMERS = "name STRING, region INT, city STRING, `rank` BIGINT, since TIMESTAMP(3), rate DECIMAL(10, 2), active BOOLEAN"
CUSTOMER_ROWS: list[Row] = [
    ("ann", 1, "Oslo", 1, "2020-01-01 00:00:00.001", "1.50", True),
    ("ann", 1, "Bergen", 2, None, "2.50", False),
    ("ann", 2, "Rome", 3, "2021-01-01 00:00:00", None, True),
    ("bob", 1, None, 4, "2022-01-01 00:00:00", "0.01", True),
    ("fay", None, "Bonn", 5, "2020-01-01 00:00:00", "9.99", True),
    (None, 1, "Nowhere", 6, None, None, None),
    ("zoë", 3, "it's", 7, "2023-01-01 00:00:00", "3.00", False),
]
ORDER_COLUMNS = "id INT, customer STRING, region INT, amount BIGINT, `at` TIMESTAMP(3), p AS PROCTIME()"
CACHES = {
    "none": "",
    "partial": "'lookup.cache' = 'PARTIAL'",
    "small": "'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '2'",
    "forgets_missing": "'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.cache-missing-key' = 'false'",
    "full": "'lookup.cache' = 'FULL'",
}
AS_OF = "JOIN customers FOR SYSTEM_TIME AS OF o.p AS c ON"
QUERIES = {
    "inner": f"SELECT o.id, c.city, c.`rank`, c.since, c.rate FROM orders AS o {AS_OF} o.customer = c.name",
    "left": f"SELECT o.id, c.city, c.rate FROM orders AS o LEFT {AS_OF} o.customer = c.name",
    "two_keys": f"SELECT o.id, c.city FROM orders AS o {AS_OF} o.customer = c.name AND c.region = o.region",
    "two_keys_left": f"SELECT o.id, c.city FROM orders AS o LEFT {AS_OF} o.customer = c.name AND c.region = o.region",
    "own_condition": f"SELECT o.id, c.city FROM orders AS o {AS_OF} o.customer = c.name AND c.active AND c.`rank` < 4",
    "own_condition_left":
        f"SELECT o.id, c.city FROM orders AS o LEFT {AS_OF} o.customer = c.name AND c.active AND c.city <> 'Oslo'",
    "residual": f"SELECT o.id, c.city FROM orders AS o {AS_OF} o.customer = c.name AND o.amount > c.`rank`",
    "residual_left": f"SELECT o.id, c.city FROM orders AS o LEFT {AS_OF} o.customer = c.name AND o.amount > c.`rank`",
    "where_behind": f"SELECT o.id, c.city FROM orders AS o LEFT {AS_OF} o.customer = c.name WHERE c.city IS NULL",
    "computed_key": f"SELECT o.id, c.name FROM orders AS o {AS_OF} MOD(o.id, 3) = c.region AND c.region IS NOT NULL",
    "by_time": f"SELECT o.id, c.name FROM orders AS o LEFT {AS_OF} o.`at` = c.since",
    "aggregate_behind":
        f"SELECT c.city, COUNT(*), SUM(o.amount), MAX(c.rate) FROM orders AS o LEFT {AS_OF} o.customer = c.name GROUP BY c.city",
    "twice":
        f"SELECT o.id, c.city, d.city FROM orders AS o {AS_OF} o.customer = c.name"
        " LEFT JOIN customers FOR SYSTEM_TIME AS OF o.p AS d ON c.region = d.region AND d.`rank` > c.`rank`",
    "shuffled": f"SELECT /*+ LOOKUP('table'='c', 'shuffle'='true') */ o.id, c.city FROM orders AS o {AS_OF} o.customer = c.name",
}  # fmt: skip


def orders(count: int = 60) -> list[Row]:
    draw = random.Random(7)
    moments = ["2020-01-01 00:00:00", "2022-01-01 00:00:00", "2020-01-01 00:00:00.001", None]
    return [
        (
            i,
            draw.choice(["ann", "bob", "fay", "gus", "zoë", None]),
            draw.choice([1, 2, None]),
            draw.randint(0, 6),
            draw.choice(moments),
        )
        for i in range(count)
    ]


_numbers = itertools.count()


def place(kind: str, directory: Path, rows: pa.Table) -> str:
    """Options of a table with these rows in a new place."""
    path = directory / f"customers_{next(_numbers)}.{kind}"
    if kind == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.register("rows", rows)
            connection.execute("CREATE TABLE customers AS SELECT * FROM rows")
    else:
        text = {"csv": "(HEADER)", "json": "(FORMAT json)", "parquet": "(FORMAT parquet)"}[kind]
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            connection.execute(f"COPY rows TO '{path}' {text}")
    return f"'connector' = 'duckdb', 'path' = '{path}'"


def check(
    engine: Engine, directory: Path, query: str, cache: str, kind: str = "duckdb", batch_rows: int = 7
) -> None:
    engine.configure(2, batch_rows)
    tables = {"orders": engine.create("orders", ORDER_COLUMNS, orders(), 3)}
    engine.run(f"CREATE TABLE customers ({CUSTOMERS}) WITH ('connector' = 'blackhole')")
    tables["customers"] = arrow_table(
        to_arrow_schema(engine.table("customers").physical_schema()), CUSTOMER_ROWS
    )
    options = ", ".join(part for part in (place(kind, directory, tables["customers"]), cache) if part)
    engine.run(f"DROP TABLE customers; CREATE TABLE customers ({CUSTOMERS}) WITH ({options})")
    (found,) = engine.run(query)
    # Nobody reads the processing time itself, which a batch does not have.
    (pruned,) = prune_columns(found.plan.relational)
    expected = duckdb_answer(pruned, found.schema, tables)
    assert expected
    assert_same_rows(rows_of(found.table), expected)


@pytest.mark.parametrize("query", QUERIES)
def test_a_lookup_join_is_the_plain_join(query: str, engine: Engine, tmp_path: Path) -> None:
    check(engine, tmp_path, QUERIES[query], CACHES["none"])


@pytest.mark.parametrize("cache", CACHES)
def test_every_cache_gives_the_same_rows(cache: str, engine: Engine, tmp_path: Path) -> None:
    for query in ("two_keys_left", "residual_left", "own_condition"):
        check(engine, tmp_path, QUERIES[query], CACHES[cache], batch_rows=5)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_files_are_looked_up_as_a_database_is(kind: str, engine: Engine, tmp_path: Path) -> None:
    check(engine, tmp_path, QUERIES["left"], CACHES["full"], kind)
    check(engine, tmp_path, QUERIES["two_keys"], CACHES["none"], kind, batch_rows=1_000)


def test_updating_rows_look_up_a_table_that_is_loaded_once(engine: Engine, tmp_path: Path) -> None:
    query = (
        "SELECT c.city, SUM(o.n) FROM (SELECT customer, COUNT(*) AS n, PROCTIME() AS p FROM orders GROUP BY customer) AS o"
        f" LEFT {AS_OF} o.customer = c.name GROUP BY c.city"
    )
    check(engine, tmp_path, query, CACHES["full"])
