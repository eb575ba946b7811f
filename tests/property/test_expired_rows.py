"""What `t$expired` has agrees with the ledger's count of expired rows at each checkpoint of jobs that are killed and rescaled."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from killed_jobs import run_killed_job
from moved_jobs import plan_job
from moved_tables import BATCHES_OF_KILLED, CASES, QUERIES, ROWS, TABLES, scripts, written_scripts

from sqlstream import types as sql
from sqlstream.expired_rows import KeptRows
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.ledger import SIDES, JobLedger
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState
from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
from sqlstream.runtime.checkpoint.saved_tables import SavedTables
from sqlstream.runtime.connectors.expired_rows import rows_of
from sqlstream.runtime.host.private_files import PrivateFiles

PARALLELISMS = (1, 2, 3, 1)
KEPT = {"sqlstream.state.expired-rows.retention": "1 d"}
EXPIRING = {
    "a join": "SELECT b.id, a.id FROM bids b JOIN asks a ON b.k = a.k",
    "a join of two times to live": (
        "SELECT /*+ STATE_TTL('b' = '20 ms', 'a' = '1 s') */ b.id, a.id FROM bids b LEFT JOIN asks a ON b.k = a.k AND b.v < a.v"
    ),
    "a table with itself": "SELECT b.id, a.id FROM bids b JOIN bids a ON b.k = a.k AND b.g = a.g",
    "a join of joins": (
        "SELECT b.id, a.v FROM bids b JOIN asks a ON b.k = a.k AND b.g = a.g JOIN line l ON a.k = l.k AND l.g = b.g"
    ),
    "computed keys": "SELECT b.v + 1, a.v + 1 FROM bids b JOIN asks a ON b.v + 1 = a.v + 1",
    "rows and groups": "SELECT b.id, t.n FROM bids b JOIN (SELECT k, COUNT(*) AS n FROM asks GROUP BY k) t ON b.k = t.k",
    "groups": "SELECT k, g, COUNT(*), COUNT(DISTINCT v) FROM bids GROUP BY k, g",
    "first rows": "SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, g ORDER BY p) AS n FROM bids) WHERE n = 1",
    "last rows, counted": (
        "SELECT g, COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY rt DESC) AS n FROM bids)"
        " WHERE n = 1 GROUP BY g"
    ),
    "best rows": (
        "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS n FROM bids) WHERE n <= 2"
    ),
    "best groups": (
        "SELECT k, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY c DESC, k) AS n FROM"
        " (SELECT k, g, COUNT(*) AS c FROM bids GROUP BY k, g)) WHERE n <= 2"
    ),
    "rows over the last two": (
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY p ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM bids"
    ),
    "rows before and after": (
        "SELECT id, LEAD(v) OVER (PARTITION BY k ORDER BY rt), MIN(v) OVER (PARTITION BY k ORDER BY rt"
        " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) FROM bids"
    ),
    "a running sum": "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY p) FROM bids",
    "versions": QUERIES["temporal join"],
    "the right side as it is": QUERIES["snapshot join"],
}
COLUMNS = (
    ("$operator", sql.STRING),
    ("id", sql.BIGINT),
    ("k", sql.STRING),
    ("g", sql.INT),
    ("v", sql.BIGINT),
)
WRITTEN = ("bids", "asks", "line", "unmarked", "endless")
OTHERWISE = {"process table function by row"}
"""The function fails when a state of its is dropped before another."""


@functools.cache
def planned(query: str, ttl: str) -> JobGraph:
    return plan_job(query, {**KEPT, "table.exec.state.ttl": ttl}, TABLES)


def stored(graph: JobGraph, directory: str, states: Mapping[str, tuple[SubtaskState, ...]]) -> SavedTables:
    vertices = tuple(
        VertexState(
            vertex.id,
            vertex.name,
            len(states[vertex.id]),
            vertex.max_parallelism,
            tuple(OperatorIdentity(o.id, o.uid, o.name, o.description, o.state) for o in vertex.operators),
            states[vertex.id],
            (False,) * len(states[vertex.id]),
        )
        for vertex in graph.vertices
    )
    manifest = CheckpointManifest("", "", 1, CheckpointKind.CHECKPOINT, 0, 0, vertices, {}, ())
    return SavedTables(PrivateFiles(), StoredCheckpoint(directory, directory, manifest))


def identities(operator: ChainedOperator) -> dict[str, tuple[str, ...]]:
    """By the lines of an operator in SHOW LEDGER the tables that it keeps expired rows of."""
    return {
        f"{operator.name} {kept.state}" if kept.state in SIDES else operator.name: kept.tables
        for kept in (operator.state.expired if operator.state is not None else ())
    }


def is_running(line: str, graph: JobGraph, states: Mapping[str, tuple[SubtaskState, ...]]) -> bool:
    """Whether no subtask of the operator has ended: such a one has no state any more."""
    return all(
        any(saved.operator_id == o.id for saved in subtask.operators)
        for vertex in graph.vertices
        for o in vertex.operators
        if o.name == line.split(" ")[0]
        for subtask in states[vertex.id]
    )


def counted(ledger: JobLedger) -> dict[str, int]:
    sides = {
        f"{e.name} {side.name}": side.parts.get("expired", 0) for e in ledger.entries for side in e.sides
    }
    return {e.name: e.parts.get("expired", 0) for e in ledger.entries} | sides


def check(query: str, seed: int, directory: Path, ttl: str = "60 ms") -> Counter[str]:
    """How many rows each operator had let go at the last checkpoint."""
    graph = planned(query, ttl)
    rows = {
        table: {row["id"]: row for script in written_scripts(seed, BATCHES_OF_KILLED)[table] for b, _ in script.steps
                for row in b.to_pylist()}
        for table in WRITTEN
    }  # fmt: skip
    lines = {
        line: tables for v in graph.vertices for o in v.operators for line, tables in identities(o).items()
    }
    named = {c.table: c.name.split(".")[0] for v in graph.vertices for o in v.operators if o.state is not None
             for kept in o.state.expired for c in kept.columns}  # fmt: skip
    seen: Counter[str] = Counter()

    def completing(place: str, states: Mapping[str, tuple[SubtaskState, ...]], ledger: JobLedger) -> None:
        seen.clear()
        saved, counts = stored(graph, place, states), counted(ledger)
        for identity in {table for tables in lines.values() for table in tables}:
            read = KeptRows(identity, {name: name for name, _ in COLUMNS[1:]}, ())
            found = rows_of(saved, read, COLUMNS, "expired").to_pylist()
            by_line = Counter(
                row["$operator"] for row in found if is_running(row["$operator"], graph, states)
            )
            of_table = {
                line: counts[line]
                for line, tables in lines.items()
                if identity in tables and is_running(line, graph, states)
            }
            assert +Counter(of_table) == by_line
            seen.update(by_line)
            if identity in named:
                check_values(found, rows[named[identity]])

    run_killed_job(
        graph, scripts(seed, BATCHES_OF_KILLED), PARALLELISMS, seed, directory, completing=completing
    )
    return seen


def check_values(found: list[dict[str, Any]], rows: Mapping[int, Mapping[str, Any]]) -> None:
    """Each row has the values of one that has come, as far as they are known."""
    for row in found:
        known = {name: row[name] for name in ROWS.names if row.get(name) is not None}
        candidates = [rows[known["id"]]] if "id" in known else rows.values()
        assert any(known.items() <= dict(candidate).items() for candidate in candidates)


@pytest.mark.parametrize("name", EXPIRING)
def test_the_expired_rows_are_those_of_the_ledger(name: str, tmp_path: Path) -> None:
    assert check(EXPIRING[name], 1, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EXPIRING)
def test_the_expired_rows_are_those_of_the_ledger_with_many_seeds(name: str, tmp_path: Path) -> None:
    for seed in range(2, 12):
        check(EXPIRING[name], seed, tmp_path / str(seed))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if not case.settings and n not in OTHERWISE])
def test_the_expired_rows_of_every_query_are_those_of_the_ledger(name: str, tmp_path: Path) -> None:
    check(QUERIES[name], 1, tmp_path)
