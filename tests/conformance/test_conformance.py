"""docs/sql/conformance.md says what of Flink's SQL runs: every example is run here, and the page holds what came out.

`*.sql` has a section in each file: `-- # title`, and for each feature `-- : name` with its example below, whose last statement
answers. `functions.txt` has the functions by family: an expression on a line, or behind @ names whose example is that of
DESCRIBE FUNCTION.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from conformance_page import cell, code, features, short

from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.rendering.render import final_rows
from sqlstream.client.rendering.sql_text import sql_texts
from sqlstream.client.sessions.outcomes import Job, Outcome, Rows
from sqlstream.client.sessions.session import Session
from sqlstream.errors import SqlStreamError
from sqlstream.functions import CALLABLE
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import Show, ShowKind
from sqlstream.schema import Schema

PLACE = Path(__file__).parent
PAGE = PLACE.parent.parent / "docs" / "sql" / "conformance.md"
TIMEOUT_S = 60
ROWS_SHOWN = 4

HEAD = """# Conformance

What of Flink's SQL runs, with an example of each and what it answers. The tests run every example and write this page, so it says
what is. A feature that is refused has the code and the sentence of its error; the pages beside this one explain the others.

The examples read these tables:

```text
{tables}
```

and functions.py has these functions:

```python
{functions}
```
"""

DATA: dict[str, list[dict[str, object]]] = {
    "emp": [
        {"id": 1, "name": "Ann", "dept": 10, "salary": 1000, "hired": "2020-01-15"},
        {"id": 2, "name": "Bob", "dept": 10, "salary": 1500, "hired": "2020-02-20"},
        {"id": 3, "name": "Cid", "dept": 20, "salary": 900, "hired": "2021-03-05"},
        {"id": 4, "name": "Dee", "dept": None, "salary": 1200, "hired": "2021-03-05"},
    ],
    "dept": [{"id": 10, "dname": "Sales"}, {"id": 20, "dname": "Tech"}, {"id": 30, "dname": "Legal"}],
    "orders": [
        {
            "id": 1,
            "item": "pen",
            "price": 2.5,
            "qty": 4,
            "tags": ["a", "b"],
            "attrs": {"k": "v"},
            "ts": "2024-01-01 10:00:00",
        },
        {
            "id": 2,
            "item": "ink",
            "price": 5,
            "qty": 1,
            "tags": ["b"],
            "attrs": {},
            "ts": "2024-01-01 10:00:07",
        },
        {
            "id": 3,
            "item": "pen",
            "price": 2.0,
            "qty": 2,
            "tags": None,
            "attrs": None,
            "ts": "2024-01-01 10:00:12",
        },
    ],
    "trades": [
        {"id": 1, "currency": "EUR", "amount": 2, "ts": "2024-01-01 10:00:05"},
        {"id": 2, "currency": "USD", "amount": 3, "ts": "2024-01-01 10:00:11"},
    ],
    "rates": [
        {"currency": "EUR", "rate": 110, "ts": "2024-01-01 10:00:00"},
        {"currency": "EUR", "rate": 115, "ts": "2024-01-01 10:00:08"},
    ],
    "instants": [{"ts": "2024-01-01T14:00:00Z"}, {"ts": "2024-01-01T16:00:00Z"}],
    "changes": [
        {"op": "c", "before": None, "after": {"k": 1, "v": 10, "ts": "2024-01-01 10:00:00"}},
        {"op": "c", "before": None, "after": {"k": 2, "v": 20, "ts": "2024-01-01 10:00:01"}},
        {
            "op": "u",
            "before": {"k": 1, "v": 10, "ts": "2024-01-01 10:00:00"},
            "after": {"k": 1, "v": 15, "ts": "2024-01-01 10:00:00"},
        },
        {"op": "d", "before": {"k": 2, "v": 20, "ts": "2024-01-01 10:00:01"}, "after": None},
    ],
}
COLUMNS = {
    "emp": "id INT, name STRING, dept INT, salary INT, hired DATE",
    "dept": "id INT, dname STRING",
    "orders": "id INT, item STRING, price DECIMAL(10, 2), qty INT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, "
    "ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
    "trades": "id INT, currency STRING, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
    "rates": "currency STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (currency) NOT ENFORCED",
    "instants": "ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts",
    "changes": "k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
}
OTHERS = """
CREATE TABLE rates_log (currency STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'rates.json', 'format' = 'json');
CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE TABLE dim (id INT, dname STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'duckdb', 'path' = 'dim.db', 'table-name' = 'dim');
CREATE TABLE out (id INT, s STRING) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
CREATE TABLE sink (id INT, s STRING) WITH ('connector' = 'blackhole');
"""


FUNCTIONS = """from collections.abc import Iterator

from sqlstream import (
    SET_SEMANTIC_TABLE,
    Change,
    ChangelogMode,
    PredictFunction,
    ProcessTableFunction,
    RowKind,
    SideOutput,
    TableArgument,
    ValueState,
    udf,
    udtf,
)


@udf
def initial(name: str) -> str:
    return name[0]


@udtf
def letters(text: str) -> Iterator[str]:
    yield from text


class Numbered(ProcessTableFunction):
    result_type = "ROW<n BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    count = ValueState("BIGINT", default=0)
    second = SideOutput("STRING")

    def eval(self, ctx, row):
        self.count.value += 1
        yield self.count.value
        if self.count.value == 2:
            yield self.second(row["name"])


class Last(ProcessTableFunction):
    result_type = "ROW<name STRING>"
    changelog_mode = ChangelogMode.UPSERT
    input = TableArgument(SET_SEMANTIC_TABLE)

    def eval(self, ctx, row):
        yield Change(RowKind.UPDATE_AFTER, row["name"])


class Twice(PredictFunction):
    def predict(self, batch):
        return [[2 * value for value in batch.column(0).to_pylist()]]
"""


class Examples:
    """Runs examples, each in a session of its own over the same tables; files that it writes are removed behind it."""

    def __init__(self, directory: Path, clusters: LocalClusterClient) -> None:
        self._directory, self._clusters = directory, clusters
        for table, rows in DATA.items():
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (directory / f"{table}.json").write_text(lines)
        (directory / "functions.py").write_text(FUNCTIONS)
        with duckdb.connect(directory / "dim.db") as database:
            database.execute("CREATE TABLE dim (id INT PRIMARY KEY, dname STRING)")
            database.execute("INSERT INTO dim VALUES (1, 'one'), (2, 'two')")
        self._own = set(os.listdir(directory))
        self._session: Session | None = None

    def answer(self, example: str) -> tuple[bool, str]:
        """Whether the example runs, and what its last statement answers or the error of the first that is refused."""
        outcome: Outcome | None = None
        shown = ""
        session = self._session or self._opened()
        # A query alone leaves the session as it is.
        is_query = example.lstrip("(").startswith(("SELECT", "VALUES", "WITH", "SHOW", "DESCRIBE", "EXPLAIN"))
        self._session = session if is_query else None
        try:
            for statement in parse_statements(example):
                outcome = session.execute(statement)
                is_list_of_jobs = isinstance(statement, Show) and statement.kind is ShowKind.JOBS
                shown = "the jobs of the cluster" if is_list_of_jobs else self._shown(outcome)
        except SqlStreamError as error:
            return False, f"{error.code}: {error.message}"
        finally:
            self._clear()
        return True, shown

    def refusal(self, query: str) -> str | None:
        """The error of a query that cannot be planned."""
        self._session = self._session or self._opened()
        try:
            (statement,) = parse_statements(query)
            self._session.compile(statement, "0" * 32)
        except SqlStreamError as error:
            return f"{error.code}: {error.message}"
        return None

    def run(self, query: str) -> list[list[str]]:
        """The texts of a query's columns."""
        (statement,) = parse_statements(query)
        job = (self._session or self._opened()).execute(statement)
        assert isinstance(job, Job)
        assert job.schema is not None
        return texts(job.schema, final_rows(job.schema, job.results()))

    def _opened(self) -> Session:
        session = Session(self._clusters, {"table.local-time-zone": "UTC"})
        for table, columns in COLUMNS.items():
            kind = "debezium-json" if table == "changes" else "json"
            if table == "instants":
                kind = "json', 'json.timestamp-format.standard' = 'ISO-8601"
            options = f"'connector' = 'filesystem', 'path' = '{table}.json', 'format' = '{kind}'"
            run_all(session, f"CREATE TABLE {table} ({columns}) WITH ({options});")
        run_all(session, OTHERS)
        return session

    def _shown(self, outcome: Outcome) -> str:
        if isinstance(outcome, Rows):
            columns = texts(outcome.schema, outcome.batches)
            return listed(columns) if columns and columns[0] else outcome.done or "no row"
        if not isinstance(outcome, Job):
            return "a text"
        shown = (
            ""
            if outcome.schema is None
            else listed(texts(outcome.schema, final_rows(outcome.schema, outcome.results())))
        )
        status, error = outcome.wait(TIMEOUT_S)
        if error is not None:
            raise error.to_job_error()
        assert status is JobStatus.FINISHED
        return shown if outcome.schema is not None else "a job"

    def _clear(self) -> None:
        for name in set(os.listdir(self._directory)) - self._own:
            path = self._directory / name
            # A job that has finished may still be removing what it staged.
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def run_all(session: Session, script: str) -> None:
    for statement in parse_statements(script):
        session.execute(statement)


def texts(schema: Schema, batches: Iterable[pa.RecordBatch]) -> list[list[str]]:
    """The values of each column as they are shown to a user."""
    found = list(batches)
    width = len(schema.fields)
    columns: list[list[str]] = [[] for _ in range(width)]
    for batch in found:
        for index, field in enumerate(schema.fields):
            shown = sql_texts(batch.column(index), field.type, "UTC").to_pylist()
            columns[index] += ["NULL" if text is None else str(text) for text in shown]
    return columns


def listed(columns: list[list[str]]) -> str:
    """The first of the rows in one line, sorted."""
    rows = [", ".join(row) for row in zip(*columns, strict=True)]
    rows.sort()
    more = f" … ({len(rows)} rows)" if len(rows) > ROWS_SHOWN else ""
    return " · ".join(short(row) for row in rows[:ROWS_SHOWN]) + more if rows else "no row"


def families() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Families of functions: the name of each function, and an expression that calls it."""
    title, found = "", list[tuple[str, str]]()
    for line in (PLACE / "functions.txt").read_text().splitlines():
        if line.startswith("# "):
            if found:
                yield title, found
            title, found = line.removeprefix("# "), []
        elif line.startswith("@ "):
            for name in line.split()[1:]:
                described = CALLABLE.get(name)
                found.append((name, described.example if described and described.example else f"{name}()"))
        else:
            found.append((line, line))
    yield title, found


def table(rows: list[tuple[str, str, bool, str]]) -> list[str]:
    lines = ["| feature | example | answer |", "| --- | --- | --- |"]
    for name, example, is_supported, answer in rows:
        shown = code(answer) if is_supported else "**refused** " + cell(short(answer))
        lines.append(f"| {cell(name)} | {code(example.removesuffix(';'))} | {shown} |")
    return lines


def function_rows(
    examples: Examples, title: str, calls: list[tuple[str, str]]
) -> list[tuple[str, str, bool, str]]:
    """All calls of a family that can be planned in one query, and each of the others alone."""
    source = " FROM emp" if "ggregates" in title else ""
    known: dict[str, tuple[bool, str]] = {}
    planned = []
    for _, example in calls:
        refusal = examples.refusal(query_of(example, source))
        if refusal is None:
            planned.append(example)
        else:
            known[example] = False, refusal
    if planned:
        for group in (
            [e for e in planned if " OVER " in e],
            [e for e in planned if e.startswith("GROUP")],
            [e for e in planned if " OVER " not in e and not e.startswith("GROUP")],
        ):
            if group:
                answers = examples.run(query_of(", ".join(group), source))
                known |= {
                    e: (True, short(sorted(column)[0])) for e, column in zip(group, answers, strict=True)
                }
    return [(name, example, *known[example]) for name, example in calls]


def query_of(expressions: str, source: str) -> str:
    grouped = " GROUP BY ROLLUP (dept)" if expressions.startswith("GROUP") else ""
    return f"SELECT {expressions}{source}{grouped}"


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    monkeypatch.chdir(tmp_path)
    clusters = LocalClusterClient()
    yield Examples(tmp_path, clusters)
    clusters.close()


def page(examples: Examples) -> str:
    declared = [f"{name} ({columns})" for name, columns in COLUMNS.items()]
    lines = [HEAD.format(tables="\n".join(declared), functions=FUNCTIONS.rstrip())]
    counts = []
    for file in sorted(PLACE.glob("*.sql")):
        title, remark, found = features(file)
        rows = [(name, example, *examples.answer(example)) for name, example in found]
        counts.append((title, rows))
        lines += [f"## {title}", "", *([remark, ""] if remark else []), *table(rows), ""]
    lines += ["## Functions", ""]
    for title, calls in families():
        rows = function_rows(examples, title, calls)
        counts.append((title, rows))
        lines += [f"### {title}", "", *table(rows), ""]
    summary = ["| section | features | supported |", "| --- | --- | --- |"]
    summary += [f"| {title} | {len(rows)} | {sum(r[2] for r in rows)} |" for title, rows in counts]
    total = sum(len(rows) for _, rows in counts), sum(r[2] for _, rows in counts for r in rows)
    summary.append(f"| all | {total[0]} | {total[1]} |")
    return "\n".join([lines[0], *summary, "", *lines[1:]]).rstrip() + "\n"


def test_the_page_says_what_runs(examples: Examples, golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, page(examples))
