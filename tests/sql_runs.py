"""Runs a case of tests/sql in ways that are drawn: where its tables are cut, how the job lives and where its rows go.

A job is planned from SQL and runs through the product's task loops (moved_jobs.py, killed_jobs.py). Its rows go to a sink that
records them, or through the writer and the commits of a real connector to a table that is then read."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import random
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
from killed_jobs import run_killed_job
from moved_jobs import PLANNED_PARALLELISM, WRITTEN, Endless, Script, Scripted, Unmarked, run_job
from plan_harness import compile_script
from sql_cases import Case, CaseTable, table_of

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.planner.compile import CompiledPlan
from sqlstream.planner.relational.nodes import Sort
from sqlstream.runtime.connectors import connector, descriptors
from sqlstream.runtime.formats import descriptors as format_descriptors
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec, ValuesSpec
from sqlstream.spi.committable import Committable

AXES: dict[str, tuple[Any, ...]] = {
    "life": ("straight", "moved", "killed"),
    "parallelism": (1, 2, 3),
    "batch_rows": (1, 7, 65_536),
    "backend": ("hashmap", "mapped", "in turn"),
    "barriers": ("aligned", "unaligned", "several"),
    "told": ("rows", "changes", "upserts"),
    "splits": ("one", "cut", "dealt"),
    "phases": ("AUTO", "ONE_PHASE", "TWO_PHASE"),
    "sink": ("recorded", "json", "parquet", "retract", "upsert", "compacted", "duckdb", "jdbc"),
}
BACKENDS = {"hashmap": ("hashmap",), "mapped": ("mapped",), "in turn": ("hashmap", "mapped")}
SINKS = {
    "json": "'filesystem', 'path' = '{0}/out', 'format' = 'json'",
    "parquet": "'filesystem', 'path' = '{0}/out', 'format' = 'parquet', 'auto-compaction' = 'true'",
    "retract": "'filesystem', 'path' = '{0}/out', 'format' = 'json', 'changelog.mode' = 'retract', 'changelog.op-column' = 'op'",
    "upsert": "'filesystem', 'path' = '{0}/out', 'format' = 'json', 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op'",
    "compacted": "'filesystem', 'path' = '{0}/out', 'format' = 'parquet', 'changelog.mode' = 'compacted'",
    "debezium": "'filesystem', 'path' = '{0}/out', 'format' = 'debezium-json'",
    "duckdb": "'duckdb', 'path' = '{0}/out.duckdb', 'table-name' = 'written'",
    "jdbc": "'jdbc', 'url' = 'jdbc:sqlite:{0}/out.sqlite', 'table-name' = 'written'",
}
COVERS = 64
"""How many sets of draws there are: to find one takes as long as a run."""
KEYED = ("upsert", "compacted", "debezium", "jdbc")
APPENDED = ("json", "parquet")
_DELAY = re.compile(
    r"WATERMARK FOR `?(\w+)`? AS `?\1`?(?: - INTERVAL '([\d.]+)' (SECOND|MINUTE|HOUR))?\s*(?:,|$)"
)
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}


@dataclasses.dataclass(frozen=True)
class Draw:
    """One way to run a query: a value of each axis, and the seed of what happens."""

    life: str = "straight"
    parallelism: int = 1
    batch_rows: int = 65_536
    backend: str = "hashmap"
    barriers: str = "aligned"
    told: str = "rows"
    splits: str = "one"
    phases: str = "AUTO"
    sink: str = "recorded"
    seed: int = 0

    @property
    def parallelisms(self) -> tuple[int, ...]:
        first, second, third = self.parallelism, self.parallelism % 3 + 1, (self.parallelism + 1) % 3 + 1
        if self.life == "straight":
            return (first,)
        # Rows in flight go on at the parallelism that they have.
        return (first, first, second) if self.barriers == "unaligned" else (first, second, third)


def draws(key: str) -> list[Draw]:
    """Draws that have every pair of values of two axes, always the same ones for a key."""
    return _draws(zlib.crc32(key.encode()) % COVERS)


@functools.cache
def _draws(number: int) -> list[Draw]:
    fate = random.Random(number)
    names = list(AXES)
    pairs = (
        ((a, x), (b, y))
        for (a, xs), (b, ys) in itertools.combinations(AXES.items(), 2)
        for x in xs
        for y in ys
    )
    left = dict.fromkeys(sorted(pairs, key=repr))
    found = []
    while left:
        # From a pair that is left, so that each draw covers one at least.
        candidates = []
        for pair in fate.sample(list(left), min(12, len(left))):
            values = {name: fate.choice(AXES[name]) for name in names} | dict(pair)
            covered = left.keys() & set(itertools.combinations(values.items(), 2))
            candidates.append((len(covered), len(candidates), values, covered))
        _, _, values, covered = max(candidates, key=lambda c: c[:2])
        for pair in covered:
            del left[pair]
        found.append(Draw(**values, seed=len(found)))
    return found


@dataclasses.dataclass(frozen=True)
class Result:
    plan: CompiledPlan
    schema: Schema
    rows: pa.Table
    draw: Draw

    @property
    def is_ordered(self) -> bool:
        """Whether ORDER BY says in which order the rows are, and they were taken as they came."""
        (sink,) = self.plan.relational
        has_order = isinstance(sink.input, Sort) and bool(sink.input.order)
        return has_order and self.draw.life == "straight" and self.draw.sink == "recorded"


def run_case(case: Case, draw: Draw, directory: Path) -> Result:
    """The rows that the query leaves. UserError when it is refused. A draw that does not suit the query becomes one that does,
    which the result has."""
    draw = _suited(case, draw)
    try:
        plan = planned(case, draw.told, draw.phases, draw.batch_rows)
    except UserError:
        if draw.told == "rows":
            raise
        # Changes have no event time, and some windows need it.
        draw = dataclasses.replace(draw, told="rows")
        plan = planned(case, draw.told, draw.phases, draw.batch_rows)
    schema = plan.relational[0].schema
    specs = (o.spec for v in plan.job_graph.vertices for o in v.operators)
    if draw.life == "moved" and any(isinstance(spec, ValuesSpec) for spec in specs):
        # A cut between two rows keeps where scripts are read, and no other place.
        draw = dataclasses.replace(draw, life="killed")
    insert = None if draw.sink == "recorded" else _insert(case, draw, plan, directory)
    if insert is None:
        draw = dataclasses.replace(draw, sink="recorded")
        rows = _folded(_lived(case, draw, plan.job_graph, directory), to_arrow_schema(schema))
        return Result(plan, schema, rows, draw)
    create, graph = insert
    if draw.sink == "jdbc":
        _make_sqlite(graph, directory / "out.sqlite")
    _lived(case, draw, graph, directory)
    return Result(plan, schema, _read(create, directory, schema), draw)


def _suited(case: Case, draw: Draw) -> Draw:
    changed: dict[str, Any] = {}
    if case.is_free("arrival") or case.is_free("late") or case.is_free("count"):
        changed |= {"splits": "one", "told": "rows"}
    if case.is_free("late"):
        changed["batch_rows"] = 1
    if draw.sink != "recorded" and draw.life == "moved":
        changed["life"] = "killed"
    return dataclasses.replace(draw, **changed)


# --- planning


@functools.lru_cache(maxsize=4)
def planned(case: Case, told: str, phases: str, batch_rows: int) -> CompiledPlan:
    """The plan of the query alone."""
    (plan,) = _compiled(case, told, phases, batch_rows, case.sql)
    return plan


def _compiled(case: Case, told: str, phases: str, batch_rows: int, statement: str) -> list[CompiledPlan]:
    settings = {
        "parallelism.default": str(PLANNED_PARALLELISM),
        "execution.batch-rows": str(batch_rows),
        "table.optimizer.agg-phase-strategy": phases,
        **case.settings,
    }
    made = {c.identifier: c for c in (Scripted.descriptor, Unmarked.descriptor, Endless.descriptor)}
    tables = [_create(table, told) for table in case.tables.values()]
    given = ";\n".join([*tables, *case.given, ""])
    connectors = {**descriptors(), **made}
    return compile_script(statement, settings, connectors, dict(format_descriptors()), given)


def _create(table: CaseTable, told: str) -> str:
    if "=" in table.kind:
        return f"CREATE TABLE {table.name} ({table.columns}) WITH ({table.kind})"
    kind = table.kind or ("scripted" if _is_marked(table) else "unmarked")
    if not _is_told(table, told):
        return f"CREATE TABLE {table.name} ({table.columns}) WITH ('connector' = '{kind}')"
    stored = f"{table.name}_told"
    if told == "changes":
        codes = "'+I', 'INSERT', '-U', 'UPDATE_BEFORE', '+U', 'UPDATE_AFTER', '-D', 'DELETE'"
        return (
            f"CREATE TABLE {stored} (op STRING, {table.columns}) WITH ('connector' = '{kind}');\n"
            f"CREATE VIEW {table.name} AS SELECT * FROM FROM_CHANGELOG(input => TABLE {stored}, op_mapping => MAP[{codes}])"
        )
    names = ", ".join(f"`{name}`" for name in physical_rows(table).schema.names)
    return (
        f"CREATE TABLE {stored} (op STRING, `$number` INT, {table.columns}) WITH ('connector' = '{kind}');\n"
        f"CREATE VIEW {table.name} AS SELECT {names} FROM FROM_CHANGELOG(input => TABLE {stored} PARTITION BY `$number`,"
        " op_mapping => MAP['u', 'UPDATE_AFTER', 'd', 'DELETE'])"
    )


def _is_told(table: CaseTable, told: str) -> bool:
    """Whether the rows come as changes, with wrong ones that are put right."""
    return told != "rows" and not table.is_of_events and not table.parts and "=" not in table.kind


def _is_marked(table: CaseTable) -> bool:
    """Whether the reader can say the watermark."""
    return "WATERMARK" not in table.columns or bool(_DELAY.search(table.columns))


def _insert(case: Case, draw: Draw, plan: CompiledPlan, directory: Path) -> tuple[str, JobGraph] | None:
    """CREATE TABLE for a sink of the draw's kind, and the job that writes it; None where the kind does not take these rows."""
    mode = plan.physical[0].settled_mode
    if draw.sink in APPENDED and not mode.is_insert_only:
        return None
    key: tuple[int, ...] | None = ()
    if draw.sink in KEYED or case.is_free("key"):
        key = _key(case, plan)
        if key is None:
            return None
    fields = plan.relational[0].schema.fields
    columns = [f"c{place} {str(field.type).removesuffix(' NOT NULL')}" for place, field in enumerate(fields)]
    if key:
        columns.append(f"PRIMARY KEY ({', '.join(f'c{place}' for place in key)}) NOT ENFORCED")
    place = SINKS[draw.sink].format(directory)
    create = f"CREATE TABLE written ({', '.join(columns)}) WITH ('connector' = {place})"
    settings = f"{create};\nSET 'table.exec.sink.not-null-enforcer' = 'DROP';\n"
    try:
        (written,) = _compiled(
            case, draw.told, draw.phases, draw.batch_rows, f"{settings}INSERT INTO written {case.sql}"
        )
        for _, spec in _sinks(written.job_graph):
            connector(spec.connector).validate("written", spec.schema, spec.options)
    except UserError:
        return None
    return create, written.job_graph


def _make_sqlite(graph: JobGraph, path: Path) -> None:
    """The table that connector jdbc writes, which it does not make."""
    ((_, spec),) = _sinks(graph)
    columns = ", ".join(spec.schema.names)
    key = ", ".join(spec.schema.names[place] for place in spec.primary_key)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE written ({columns}, PRIMARY KEY ({key}))")
        database.commit()


def _key(case: Case, plan: CompiledPlan) -> tuple[int, ...] | None:
    """Columns that identify the rows of the result, none of them NULL."""
    rows = [msgspec.json.decode(line) for line in case.expected[1:]]
    (sink,) = plan.physical
    for key in sorted(sink.inputs[0].node.traits.unique_keys, key=lambda k: (len(k), sorted(k))):
        found = [tuple(map(repr, (row[place] for place in sorted(key)))) for row in rows]
        has_null = any(row[place] is None for row in rows for place in key)
        if key and not has_null and len(set(found)) == len(found):
            return tuple(sorted(key))
    return None


@functools.lru_cache(maxsize=200)
def physical_rows(table: CaseTable) -> pa.Table:
    """The rows of a table in the columns that they have."""
    (plan,) = compile_script(
        f"CREATE TABLE {table.name} ({table.columns}) WITH ('connector' = 'scripted'); SELECT * FROM {table.name};",
        {}, {"scripted": Scripted.descriptor},
    )  # fmt: skip
    sources = (o.spec for v in plan.job_graph.vertices for o in v.operators)
    schema = next(spec.schema for spec in sources if isinstance(spec, SourceSpec))
    return table_of(table, to_arrow_schema(schema))


# --- a run


def _lived(case: Case, draw: Draw, graph: JobGraph, directory: Path) -> list[pa.RecordBatch]:
    scripts = _scripts(case, draw, graph)
    backends = BACKENDS[draw.backend]
    small = patch("sqlstream.runtime.memory.mapped_memory.MAPPED_BYTES_MIN", 64)
    scarce = patch("sqlstream.runtime.memory.mapped_memory.MappedMemory.is_scarce", draw.seed % 2 == 1)
    with small, scarce:
        if draw.life != "killed" and draw.sink == "recorded":
            return run_job(_written(graph), scripts, draw.parallelisms, draw.seed, backends=backends)
        return run_killed_job(
            _written(graph), scripts, draw.parallelisms, draw.seed, directory / "checkpoints",
            is_unaligned=draw.barriers == "unaligned",
            aligned_timeout_ms=20 * (draw.seed % 4),
            concurrent_max=3 if draw.barriers == "several" else 1,
            backends=backends,
            commits=Commits(graph),
        )  # fmt: skip


def _sinks(graph: JobGraph) -> Iterator[tuple[int, SinkSpec]]:
    for vertex in graph.vertices:
        yield from ((o.id, o.spec) for o in vertex.operators if isinstance(o.spec, SinkSpec))


def _written(graph: JobGraph) -> JobGraph:
    """The graph whose sinks record, or write through the real connector."""
    vertices = []
    for vertex in graph.vertices:
        operators = []
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                name = "scripted" if operator.spec.connector == "collect" else WRITTEN
                options = {**operator.spec.options, "connector": operator.spec.connector}
                spec = msgspec.structs.replace(operator.spec, connector=name, options=options)
                operator = msgspec.structs.replace(operator, spec=spec)
            operators.append(operator)
        vertices.append(msgspec.structs.replace(vertex, operators=tuple(operators)))
    return msgspec.structs.replace(graph, vertices=tuple(vertices))


class Commits:
    """What a JobMaster does with the committables of the sinks of real connectors. State: the last commit, which is repeated
    when the job goes on."""

    def __init__(self, graph: JobGraph) -> None:
        self._specs = {id: spec for id, spec in _sinks(graph) if spec.connector != "collect"}
        self._files = LocalFiles()
        self._last: tuple[int, list[Committable]] | None = None

    def commit(self, operator_id: int, committables: Sequence[Committable]) -> None:
        spec = self._specs.get(operator_id)
        if spec is not None:
            checkpoint_id = max(c.checkpoint_id for c in committables)
            self._last = operator_id, list(committables)
            connector(spec.connector).commit(spec, checkpoint_id, list(committables), self._files)

    def go_on(self) -> None:
        """The job has been killed: its last commit is repeated, as it may have been broken off."""
        if self._last is not None:
            self.commit(*self._last)


def _scripts(case: Case, draw: Draw, graph: JobGraph) -> dict[str, list[Script]]:
    sources = (o.spec for v in graph.vertices for o in v.operators)
    schemas = {
        spec.table.rpartition(".")[2].strip("`"): spec.schema
        for spec in sources
        if isinstance(spec, SourceSpec)
    }
    found = {}
    for table in case.tables.values():
        for name, is_told in ((table.name, False), (f"{table.name}_told", True)):
            if name in schemas:
                found[name] = _splits(table, to_arrow_schema(schemas[name]), is_told, case, draw)
    return found


def _splits(table: CaseTable, schema: pa.Schema, is_told: bool, case: Case, draw: Draw) -> list[Script]:
    if is_told:
        tell = retractions if draw.told == "changes" else upserts
        rows = tell(table.rows, random.Random(f"{case}{draw.seed}"))
        return [_script(table_of(dataclasses.replace(table, rows=rows), schema), table, draw)]
    whole = table_of(table, schema)
    if table.parts:
        ends = table.parts
        parts = [whole.slice(begin, end - begin) for begin, end in zip((0, *ends), ends, strict=False)]
    elif draw.splits == "one" or not _is_marked(table):
        parts = [whole]
    elif draw.splits == "cut":
        half = len(whole) // 2
        parts = [whole.slice(0, half), whole.slice(half)]
    else:
        parts = [whole.take(pa.array(range(part, len(whole), 3), pa.int64())) for part in range(3)]
    return [_script(part, table, draw) for part in parts]


def retractions(rows: Sequence[list[Any]], fate: random.Random) -> tuple[list[Any], ...]:
    """Changes that leave these rows, after wrong values, rows that come again and one that goes for good."""
    stories = []
    for row in rows:
        wrong = _wrong(row, rows, fate)
        # The two halves of an update come together.
        story = [[["+I", *row]]] if wrong == row else [[["+I", *wrong]], [["-U", *wrong], ["+U", *row]]]
        if fate.random() < 0.3:
            story += [[["-D", *row]], [["+I", *row]]]
        stories.append(story)
    if rows:
        gone = [[["+I", *rows[0]]], [["-D", *rows[0]]]]
        if _has_key(rows):
            stories[0] = gone + stories[0]
        else:
            stories.append(gone)
    return tuple(itertools.chain(*_shuffled(stories, fate)))


def upserts(rows: Sequence[list[Any]], fate: random.Random) -> tuple[list[Any], ...]:
    """Changes by the number of a row that leave these rows. A deletion names nothing but that, and may find no row."""
    stories = []
    for number, row in enumerate(rows):
        wrong, gone = _wrong(row, rows, fate), ["d", number, *[None] * len(row)]
        story = [["u", number, *wrong], gone, gone, ["u", number, *wrong], ["u", number, *row]]
        stories.append(story[fate.choice([0, 2, 3, 4]) :])
    if rows and not _has_key(rows):
        stories.append([["u", len(rows), *rows[0]], ["d", len(rows), *[None] * len(rows[0])]])
    return tuple(_shuffled(stories, fate))


def _has_key(rows: Sequence[list[Any]]) -> bool:
    """Whether the first column is a key: then a query may keep one row of each, and no other row has it meanwhile."""
    return len({str(row[0]) for row in rows}) == len(rows)


def _wrong(row: list[Any], rows: Sequence[list[Any]], fate: random.Random) -> list[Any]:
    return [*row[:1], *(fate.choice(rows)[place] for place in range(1, len(row)))]


def _shuffled(stories: list[list[Any]], fate: random.Random) -> Iterator[Any]:
    """Each story in its order, some of the others between."""
    while stories := [story for story in stories if story]:
        yield fate.choice(stories).pop(0)


def _script(rows: pa.Table, table: CaseTable, draw: Draw) -> Script:
    match = _DELAY.search(table.columns)
    steps, latest_ms, delay_ms = [], WATERMARK_MIN, 0
    if match and match[2]:
        delay_ms = round(float(match[2]) * 1000 * _SECONDS[match[3]])
    # A batch of the filesystem is one of these.
    for batch in rows.combine_chunks().to_batches(max_chunksize=min(draw.batch_rows, 1000)):
        if match:
            times = batch.column(batch.schema.names.index(match[1])).cast(pa.timestamp("ms")).cast(pa.int64())
            latest_ms = max([latest_ms, *(time - delay_ms for time in times.to_pylist() if time is not None)])
        steps.append((batch, latest_ms))
    return Script(steps)


# --- what is left


def _folded(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows that are left after all changes, in the order in which they came."""
    if not batches:
        return schema.empty_table()
    kinds = [kind for b in batches for kind in (row_kinds(b) if is_changelog(b) else [0] * b.num_rows)]
    plain = [without_row_kinds(b) if is_changelog(b) else b for b in batches]
    data = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in plain], schema
    )
    added: dict[str, list[int]] = {}
    gone: Counter[str] = Counter()
    columns = [column.to_pylist() for column in data.columns]
    for place, (kind, row) in enumerate(zip(kinds, zip(*columns, strict=True), strict=True)):
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            added.setdefault(repr(row), []).append(place)
        else:
            gone[repr(row)] += 1
    for row, times in gone.items():
        left = len(added.get(row, ())) - times
        assert left >= 0, f"retracted, but not there: {row}"
        added[row] = added[row][times:]
    return data.take(pa.array(sorted(itertools.chain(*added.values())), pa.int64()))


def _read(create: str, directory: Path, schema: Schema) -> pa.Table:
    """What the table holds, as a query reads it."""
    from oracle import Engine

    with contextlib.closing(Engine(directory)) as engine:
        engine.configure(1, 65_536)
        *_, found = engine.run(f"{create}; SELECT * FROM written")
        arrow = to_arrow_schema(schema)
        table = found.table
        return pa.Table.from_arrays(
            [c.cast(f.type) for c, f in zip(table.columns, arrow, strict=True)], schema=arrow
        )
