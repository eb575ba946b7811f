"""The job of the chaos runs: four statements over two watched directories, and what DuckDB answers over the same files."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.runtime.connectors.files.table_log import TableLog
from sqlstream.runtime.host.files import LocalFiles

Rows = Counter[tuple[Any, ...]]

CATEGORIES = ("books", "food", "garden", "music", "tools", "toys")
END = "end"
"""The category of the last row of each table: it closes all windows before it, and no result has it."""

FILE_SPAN_MS = 2_000
"""Event time that one file covers; its rows are out of order by up to half of it."""

READERS = 2
"""Subtasks of each source."""

TABLES = """
CREATE TABLE orders (
  order_id BIGINT, category STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{directory}/orders', 'format' = 'parquet'{watched});
CREATE TABLE payments (
  payment_id BIGINT, order_id BIGINT, paid BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{directory}/payments', 'format' = 'parquet'{watched});
CREATE TABLE windows (starts TIMESTAMP(3), category STRING, orders BIGINT, amount BIGINT)
  WITH ('connector' = 'filesystem', 'path' = '{directory}/windows', 'format' = 'parquet');
CREATE TABLE matched (order_id BIGINT, payment_id BIGINT, amount BIGINT, paid BIGINT)
  WITH ('connector' = 'filesystem', 'path' = '{directory}/matched', 'format' = 'parquet');
CREATE TABLE totals (category STRING, payments BIGINT, amount BIGINT, paid BIGINT, PRIMARY KEY (category) NOT ENFORCED)
  WITH ('connector' = 'duckdb', 'path' = '{directory}/out.duckdb', 'table-name' = 'totals');
CREATE TABLE best (category STRING, place BIGINT, order_id BIGINT, amount BIGINT, PRIMARY KEY (category, place) NOT ENFORCED)
  WITH ('connector' = 'duckdb', 'path' = '{directory}/out.duckdb', 'table-name' = 'best')
"""

STATEMENTS = """
EXECUTE STATEMENT SET BEGIN
INSERT INTO windows
  SELECT window_start, category, COUNT(*), SUM(amount)
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))
  WHERE category <> 'end' GROUP BY window_start, window_end, category;
INSERT INTO matched
  SELECT o.order_id, p.payment_id, o.amount, p.paid FROM orders AS o, payments AS p
  WHERE o.order_id = p.order_id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '5' SECOND AND o.category <> 'end';
INSERT INTO totals
  SELECT o.category, COUNT(*), SUM(o.amount), SUM(p.paid) FROM orders AS o JOIN payments AS p ON o.order_id = p.order_id
  WHERE o.category <> 'end' GROUP BY o.category;
INSERT INTO best
  SELECT category, place, order_id, amount FROM (
    SELECT category, order_id, amount, ROW_NUMBER() OVER (PARTITION BY category ORDER BY amount DESC, order_id) AS place
    FROM orders WHERE category <> 'end')
  WHERE place <= 3;
END
"""

ANSWERS = {
    "windows": """SELECT time_bucket(INTERVAL '10 seconds', ts) AS starts, category, COUNT(*), SUM(amount)::BIGINT FROM orders
        WHERE category <> 'end' GROUP BY ALL""",
    "matched": """SELECT o.order_id, p.payment_id, o.amount, p.paid FROM orders AS o JOIN payments AS p ON o.order_id = p.order_id
        AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '5 seconds' WHERE o.category <> 'end'""",
    "totals": """SELECT o.category, COUNT(*), SUM(o.amount)::BIGINT, SUM(p.paid)::BIGINT FROM orders AS o
        JOIN payments AS p ON o.order_id = p.order_id WHERE o.category <> 'end' GROUP BY ALL""",
    "best": """SELECT category, place, order_id, amount FROM (SELECT category, order_id, amount,
        row_number() OVER (PARTITION BY category ORDER BY amount DESC, order_id) AS place FROM orders
        WHERE category <> 'end') WHERE place <= 3""",
}
"""By sink: the same question in DuckDB's SQL, written by hand."""

_SEQUENCES = {"best"}


class InputFiles:
    """Puts one file after the other into the directories of the two tables, whole at once. State: the next row and time."""

    def __init__(self, directory: Path, seed: int, rows_per_file: int) -> None:
        self._directory = directory
        self._random = random.Random(seed)
        self._rows_per_file = rows_per_file
        self._file = 0
        self._order_id = 0
        self.rows = 0
        for table in ("orders", "payments"):
            (directory / table).mkdir(parents=True)

    def add(self) -> None:
        """One file of orders and one of payments, which pay orders of this file and of earlier ones, some twice."""
        start_ms = self._file * FILE_SPAN_MS
        rng, first = self._random, self._order_id
        orders = [
            (
                first + i,
                rng.choice(CATEGORIES),
                rng.randrange(1_000_000),
                start_ms + self._time_ms(i),
            )
            for i in range(self._rows_per_file)
        ]
        self._order_id += len(orders)
        payments = [
            (
                first + i,
                rng.randrange(max(0, self._order_id - 3 * self._rows_per_file), self._order_id),
                rng.randrange(1_000_000),
                start_ms + self._time_ms(i),
            )
            for i in range(self._rows_per_file)
        ]
        self._write(orders, payments)

    def end(self) -> None:
        """Rows of each table an hour behind the others, in as many files and of such a size that every reader gets some: each one
        holds the watermark."""
        time_ms = self._file * FILE_SPAN_MS + 3_600_000
        for _ in range(2 * READERS):
            self._write(
                [(-1, END, 0, time_ms)] * self._rows_per_file, [(-1, -1, 0, time_ms)] * self._rows_per_file
            )

    def _time_ms(self, row: int) -> int:
        in_order_ms = row * FILE_SPAN_MS // self._rows_per_file
        return max(0, in_order_ms - self._random.randrange(900))

    def _write(self, orders: list[tuple[Any, ...]], payments: list[tuple[Any, ...]]) -> None:
        tables = {
            "orders": (("order_id", "category", "amount"), orders),
            "payments": (("payment_id", "order_id", "paid"), payments),
        }
        for table, (names, rows) in tables.items():
            *columns, times = zip(*rows, strict=True)
            arrays = [pa.array(c) for c in columns] + [pa.array(times, pa.timestamp("ms"))]
            hidden = self._directory / table / f".{self._file:06}.parquet"
            pq.write_table(pa.table(arrays, names=[*names, "ts"]), hidden)
            os.replace(hidden, self._directory / table / f"{self._file:06}.parquet")
            self.rows += len(rows)
        self._file += 1


def script(directory: Path, is_watched: bool = True) -> tuple[list[str], str]:
    """The CREATE TABLEs, and the statement of the job."""
    watched = ", 'source.monitor-interval' = '100 ms'" if is_watched else ""
    tables = TABLES.format(directory=directory, watched=watched).split(";")
    return [text.strip() for text in tables], STATEMENTS.strip()


def answers(directory: Path) -> dict[str, Rows]:
    """What a batch engine answers over the files of the two tables."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table in ("orders", "payments"):
            connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{directory}/{table}/*.parquet')"
            )
        return {sink: Counter(connection.execute(sql).fetchall()) for sink, sql in ANSWERS.items()}


def found(directory: Path) -> dict[str, Rows]:
    """What readers of the sinks see."""
    rows = {sink: _in_files(directory / sink) for sink in ("windows", "matched")}
    return rows | _in_database(directory / "out.duckdb", ("totals", "best"))


def _in_files(path: Path) -> Rows:
    files = LocalFiles()
    hidden = TableLog(str(path), files).view().hidden
    visible = [f.path for f in files.list_files(str(path))] if path.exists() else []
    rows: Rows = Counter()
    for name in visible:
        if os.path.normpath(name) not in hidden:
            rows.update(zip(*pq.read_table(name).to_pydict().values(), strict=True))
    return rows


def _in_database(path: Path, tables: tuple[str, ...]) -> dict[str, Rows]:
    if not path.exists():
        return {table: Counter() for table in tables}
    with duckdb.connect(str(path), read_only=True) as connection:
        present = {
            name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        return {
            table: Counter(
                connection.execute(f"SELECT * FROM {table}").fetchall() if table in present else ()
            )
            for table in tables
        }
