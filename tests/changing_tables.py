"""Tables that change, for tests of recursive queries: after each batch the result is that of the rows that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
from hypothesis import strategies as st
from job_in_a_thread import JobInAThread
from operator_harness import Row

TABLES = {"starts": ("n",), "edges": ("s", "d", "w")}


def result(job: JobInAThread) -> Counter[Row]:
    return Counter({freeze(row): n for row, n in job.output.table(has_pairs=False).items()})


def freeze(row: Sequence[Any]) -> Row:
    return tuple(tuple(v) if isinstance(v, list) else v for v in row)


numbers = st.integers(0, 5)
Changes = list[tuple[str, Row]]


@st.composite
def scripts(draw: st.DrawFn, leads_on: bool, has_deletions: bool = True) -> list[Changes | str]:
    """Batches of changes of the tables, and in between what else happens."""
    live: dict[str, list[Row]] = {"starts": [], "edges": []}
    script: list[Changes | str] = []
    for _ in range(draw(st.integers(1, 6))):
        changes: Changes = []
        for _ in range(draw(st.integers(1, 6))):
            table = draw(st.sampled_from(["starts", "edges", "edges", "edges"]))
            if has_deletions and live[table] and draw(st.integers(0, 2)) == 0:
                row = live[table].pop(draw(st.integers(0, len(live[table]) - 1)))
                changes.append((table, ("-D", *row)))
            else:
                ends = draw(st.tuples(numbers, numbers))
                if leads_on:
                    ends = (min(ends), max(ends) + (ends[0] == ends[1]))
                row = (ends[0],) if table == "starts" else (*ends, draw(st.integers(1, 3)))
                live[table].append(row)
                changes.append((table, ("+I", *row)))
        script.append(changes)
        if draw(st.integers(0, 3)) == 0:
            script.append("restore")
    return script


def run(
    job: JobInAThread,
    recomputed: Callable[[dict[str, list[Row]]], Counter[Row]],
    script: list[Changes | str],
    ends_before: int = -1,
) -> None:
    """After each batch that is waited for, the answer is that of the rows that there are. Before one the edges may end."""
    ended: list[str] = []
    rows: dict[str, list[Row]] = {"starts": [], "edges": []}
    for number, changes in enumerate(script):
        if changes == "restore":
            job.flush()
            job.restore()
            for table in ended:
                job.end(table)
            continue
        if number == ends_before:
            ended.append("edges")
            job.end("edges")
        changes = [change for change in changes if change[0] not in ended]
        for table, row in changes:
            rows[table].append(row[1:]) if row[0] == "+I" else rows[table].remove(row[1:])
            job.change(table, [row])
        if number % 2 == 0 or number == len(script) - 1:
            job.flush()
            assert result(job) == recomputed(rows)
    job.flush()
    assert result(job) == recomputed(rows)


def load(connection: duckdb.DuckDBPyConnection, rows: dict[str, list[Row]]) -> None:
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{c} INT' for c in columns)})")
        if rows[table]:
            values = ", ".join(f"({', '.join(map(str, row))})" for row in rows[table])
            connection.execute(f"INSERT INTO {table} VALUES {values}")
