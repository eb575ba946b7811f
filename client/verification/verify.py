"""Runs one query as a stream and in batch, in one job that compares the rows, and finds what the differing ones were made of."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from sqlstream import config as options
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.client.statements.batch import compile_in_batch
from sqlstream.client.verification.contributing import Tracer
from sqlstream.client.verification.outcome import Difference, Reason, Verification, WrittenTable, shown_rows
from sqlstream.client.verification.run import run_to_end
from sqlstream.client.verification.ties import is_admissible
from sqlstream.client.verification.written_table import verify_written
from sqlstream.errors import JobError, SqlStreamError, UserError
from sqlstream.expressions import AggregateCall, Call, InputRef, Literal, walk
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.batch import CompiledBatch, is_bounded
from sqlstream.planner.bind.sink import collecting_sink
from sqlstream.planner.compile import CompiledPlan, compile_statements
from sqlstream.planner.lower.query import scans_of
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.node import Key, RelationalNode
from sqlstream.planner.relational.nodes import Sink
from sqlstream.planner.verification import BATCH_IDS, verifying_job
from sqlstream.schema import Field, Schema
from sqlstream.specs import CompareRowsSpec
from sqlstream.specs.compare_rows import EXPLAINED_BY_FLOATS, ComparisonReport, found_schema
from sqlstream.specs.sink import COLLECT
from sqlstream.types import BOOLEAN

if TYPE_CHECKING:
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.graph.job_graph import JobGraph
    from sqlstream.messages.rpc import JobMetrics
    from sqlstream.planner.bind.context import BindContext
    from sqlstream.runtime.host.files import LocalFiles


@dataclasses.dataclass(frozen=True)
class DifferingRows:
    """Rows with one key that differ: `stream` and `batch` are row numbers in a batch of rows, each as often as its side has it
    more than the other."""

    stream: tuple[int, ...]
    batch: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FoundRows:
    """The report, and the first differing rows in the types of the result. `keys` groups them."""

    report: ComparisonReport
    rows: pa.RecordBatch
    keys: tuple[DifferingRows, ...]


def found_rows(batches: Sequence[pa.RecordBatch], spec: CompareRowsSpec) -> FoundRows:
    """`batches` are all rows of the job, in the shape of `found_schema`. A row is given as often as keys may be at most."""
    whole = pa.Table.from_batches(batches, to_arrow_schema(found_schema(spec.schema))).combine_chunks()
    (found,) = whole.to_batches()
    report = msgspec.json.decode(found.column(0)[0].as_py(), type=ComparisonReport)
    rows = found.slice(1)
    keys: dict[int, tuple[list[int], list[int]]] = {}
    for place, (key, n) in enumerate(
        zip(rows.column(1).to_pylist(), rows.column(2).to_pylist(), strict=True)
    ):
        stream, batch = keys.setdefault(key, ([], []))
        (stream if n > 0 else batch).extend([place] * min(abs(n), spec.keys_max))
    data = pa.RecordBatch.from_arrays(rows.columns[3:], schema=to_arrow_schema(spec.schema))
    return FoundRows(report, data, tuple(DifferingRows(tuple(s), tuple(b)) for s, b in keys.values()))


ENGINE = "execution.batch.engine"
KEYS_MAX = "sqlstream.verify.keys-max"
CONTRIBUTING_MAX = "sqlstream.verify.contributing-rows-max"
TOLERANCE = "sqlstream.verify.float-tolerance"


def verify_sinks(
    session: PlanningSession, sinks: Iterable[Sink], context: BindContext, engine: str = ""
) -> list[Verification]:
    """Verify the query of each sink; nothing is written. `engine` overrides that of the settings.

    UserError SS3303 for a table that never ends, SS3301 for what no engine answers exactly; JobError when a side fails or the
    statement is given up."""
    if engine:
        context = dataclasses.replace(context, config={**context.config, ENGINE: engine})
    return [_verify(session, sink, context) for sink in sinks]


def _verify(session: PlanningSession, sink: Sink, context: BindContext) -> Verification:
    _refuse_unbounded(sink)
    collected = _collected(sink, context)
    # Both are planned before either runs, so that what cannot be compared is refused at once.
    batch = _in_batch(collected, context, session.files())
    stream = compile_statements((collected,), context, secrets.token_hex(16))
    spec = _comparison(collected, batch, context)
    metrics, found = _compared(session, context, stream.job_graph, batch, spec)
    report = found.report
    is_equal = not report.surplus and not report.missing
    choice = "" if is_equal else _choice(session, collected, stream, batch, context)
    table, writing = _written(session, sink, batch, context, spec) if is_equal else (None, None)
    is_shown = table is None or table.is_equal
    return Verification(
        statement=_name(sink),
        is_equal=(is_equal or bool(choice)) and is_shown,
        engine=batch.engine,
        stream_rows=report.stream_rows,
        batch_rows=report.batch_rows,
        stream_seconds=report.stream_ms / 1000,
        batch_seconds=report.batch_ms / 1000,
        surplus_rows=report.surplus,
        missing_rows=report.missing,
        near_rows=report.near,
        tolerance=spec.tolerance,
        differences=() if is_equal else _differences(session, batch, context, spec.key, found),
        reasons=()
        if is_equal and is_shown
        else _reasons(session, batch, context, writing or metrics, report),
        table=table,
        choice=choice,
    )


def _choice(
    session: PlanningSession, sink: Sink, stream: CompiledPlan, batch: CompiledBatch, context: BindContext
) -> str:
    """Why rows that differ are equally right; empty when they may be wrong."""

    def compare(first: Sink, second: Sink) -> ComparisonReport:
        one = compile_statements((first,), context, secrets.token_hex(16))
        other = _in_batch(second, context, session.files())
        spec = _comparison(second, other, context)
        return _compared(session, context, one.job_graph, other, spec)[1].report

    return is_admissible(session, sink, stream, batch, context, compare)


def _comparison(sink: Sink, batch: CompiledBatch, context: BindContext) -> CompareRowsSpec:
    return CompareRowsSpec(
        schema=sink.schema,
        key=result_key(batch.optimised[0]),
        tolerance=float(options.get(context.config, TOLERANCE)),
        keys_max=int(options.get(context.config, KEYS_MAX)),
    )


def _compared(
    session: PlanningSession,
    context: BindContext,
    stream: JobGraph,
    batch: CompiledBatch,
    spec: CompareRowsSpec,
) -> tuple[JobMetrics, FoundRows]:
    """Run both sides in one job, which compares their rows."""
    graph = verifying_job(stream, batch.job_graph, spec, secrets.token_hex(16))
    batches: list[pa.RecordBatch] = []
    metrics = run_to_end(session.submit_graph(session.with_python_files(graph, context)), batches.append)
    return metrics, found_rows(batches, spec)


def _written(
    session: PlanningSession, sink: Sink, batch: CompiledBatch, context: BindContext, spec: CompareRowsSpec
) -> tuple[WrittenTable | None, JobMetrics | None]:
    """What the table of an INSERT shows, and the figures of the job that has written it."""
    if dict(sink.options).get("connector") == COLLECT:
        return None, None

    def compare(reading: Sink) -> WrittenTable:
        stream = compile_statements((reading,), context, secrets.token_hex(16))
        again = dataclasses.replace(batch, job_graph=replace(batch.job_graph, job_id=secrets.token_hex(16)))
        _, found = _compared(session, context, stream.job_graph, again, spec)
        report = found.report
        is_equal = not report.surplus and not report.missing
        differences = () if is_equal else _differences(session, batch, context, spec.key, found)
        return WrittenTable(report.stream_rows, report.surplus, report.missing, differences)

    return verify_written(session, sink, batch, context, compare)


def _refuse_unbounded(sink: Sink) -> None:
    if is_bounded((sink,)):
        return
    scan = next(scan for scan in scans_of(sink) if not scan.is_bounded)
    raise UserError(
        "SS3303", f'table "{scan.table.path.name}" never ends, so its rows cannot be verified', span=scan.span
    )


def _collected(sink: Sink, context: BindContext) -> Sink:
    """The sink of the same rows that writes nothing: they have the types of the table that they are for."""
    if dict(sink.options).get("connector") == COLLECT:
        return sink
    return collecting_sink(sink.input, context, sink.span)


def _in_batch(sink: Sink, context: BindContext, files: LocalFiles) -> CompiledBatch:
    try:
        return compile_in_batch((sink,), context, secrets.token_hex(16), files)
    except UserError as error:
        if error.code == "SS3301":
            error.hint = "verify a query without it, or USING another engine if that has it (docs/batch.md)"
        raise


def _name(sink: Sink) -> str:
    is_query = dict(sink.options).get("connector") == COLLECT
    return "SELECT" if is_query else f"INSERT INTO {sink.table.path.name}"


def _differences(
    session: PlanningSession,
    batch: CompiledBatch,
    context: BindContext,
    key: tuple[int, ...] | None,
    found: FoundRows,
) -> tuple[Difference, ...]:
    """The first differing keys with their rows, and what these were made of."""
    (sink,) = batch.optimised
    tracer = Tracer(session, context, int(options.get(context.config, CONTRIBUTING_MAX)))
    time_zone = str(options.get(context.config, "table.local-time-zone"))
    made = []
    for rows in found.keys:
        taken = found.rows.take(pa.array([*rows.stream, *rows.batch], pa.int64()))
        shown = shown_rows(taken, sink.schema, time_zone)
        made.append(
            Difference(
                key={sink.schema.names[i]: shown[0][sink.schema.names[i]] for i in key or ()},
                stream=shown[: len(rows.stream)],
                batch=shown[len(rows.stream) :],
                inputs=tracer.inputs(sink, key, taken),
            )
        )
    return tuple(made)


def _reasons(
    session: PlanningSession,
    batch: CompiledBatch,
    context: BindContext,
    metrics: JobMetrics,
    report: ComparisonReport,
) -> tuple[Reason, ...]:
    reasons = [*run_reasons(metrics), *plan_reasons(session, batch.optimised[0], context)]
    if report.explained:
        reasons.append(near_reason(report.explained, EXPLAINED_BY_FLOATS))
    return tuple(reasons)


# The columns by which the rows of a result are told apart.


def result_key(node: RelationalNode) -> Key | None:
    """Columns whose values occur in one row of a finished result at most; None when no such columns are known, and () when
    the result has one row at most.

    Grouping keys, of which one bound of a window is enough, the partition and rank of a Top-N, and the keys of both sides of
    a join."""
    return next(iter(node.result_keys()), None)


# Why a stream and a batch may rightly differ: what the stream has lost, and what the statement leaves open.


_LOST = (
    ("late-rows", "numLateRecordsDropped", "late and dropped; a batch has no late rows"),
    ("rejected-rows", "numRecordsRejected", "undecodable and left out"),
    ("null-rows", "numNullRecordsDropped", "dropped for a NULL in a NOT NULL column"),
    ("overflows", "numArithmeticOverflows", "with whole numbers beyond their type, which a stream wraps"),
)
"""Kind, metric, and what became of the rows."""


def run_reasons(metrics: JobMetrics) -> Iterator[Reason]:
    """The rows that the stream has lost, and those that the batch has lost in another number."""
    for kind, metric, words in _LOST:
        streamed, batched = _lost(metrics, metric, is_batch=False), _lost(metrics, metric, is_batch=True)
        if not streamed and not batched:
            continue
        text = f"{_were(streamed)} {words}"
        if batched:
            text += f" in the stream, {batched:,} in batch"
        yield Reason(kind, text)
    expired = _lost(metrics, "numStateEntriesExpired", is_batch=False)
    if expired:
        yield Reason(
            "expired-state",
            f"{expired:,} {'entry' if expired == 1 else 'entries'} of the stream's state expired (table.exec.state.ttl); a "
            "batch forgets nothing",
        )


def _lost(metrics: JobMetrics, metric: str, *, is_batch: bool) -> int:
    """A figure of all operators of one side of a verifying job."""
    return sum(
        int(figures.get(metric, 0))
        for id, figures in metrics.operators.items()
        if (id >= BATCH_IDS) is is_batch
    )


def near_reason(count: int, tolerance: float) -> Reason:
    pairs = f"{count:,} differing row{'' if count == 1 else 's'}"
    return Reason(
        "floats",
        f"{pairs} differ in floats alone, by less than {tolerance!r} of the value: sums of floats depend on the order "
        f"of addition (SET 'sqlstream.verify.float-tolerance' = '{tolerance!r}' takes them as equal)",
    )


def plan_reasons(session: PlanningSession, sink: plan.Sink, context: BindContext) -> Iterator[Reason]:
    """What the statement leaves open: ties, a LIMIT without an order, and functions with another value in each run."""
    names: dict[str, None] = {}
    for node in plan.walk_nodes(sink):
        match node:
            case plan.Rank() | plan.Window() if node.order:
                yield from _ties(
                    session, context, node.input, (*node.partition_keys, *(k.column for k in node.order))
                )
            case plan.Sort() if node.fetch >= 0 or node.offset:
                if node.order:
                    yield from _ties(session, context, node.input, tuple(k.column for k in node.order))
                else:
                    yield Reason("limit", "LIMIT without ORDER BY keeps any of the rows")
        for expression in node.scalar_expressions():
            for part in walk(expression):
                if isinstance(part, Call) and not is_deterministic(part.with_args(())):
                    names.setdefault(part.function)
    for name in names:
        yield Reason("not-deterministic", f"{name} has another value in each run")


def _ties(
    session: PlanningSession, context: BindContext, input: plan.RelationalNode, columns: tuple[int, ...]
) -> Iterator[Reason]:
    """Whether rows are equal in all `columns`, so that any of them may come first."""
    columns = tuple(dict.fromkeys(columns))
    fields = tuple(input.schema.fields[c] for c in columns)
    names = ", ".join(field.name for field in fields)
    count = sql.BIGINT.not_null()
    grouped = plan.Aggregate(
        input=input,
        keys=columns,
        calls=(AggregateCall("COUNT", (), count),),
        schema=Schema((*fields, Field("n", count))),
    )
    several = Call(">", (InputRef(len(columns), count), Literal(1, count)), BOOLEAN.not_null())
    found = plan.Filter(input=grouped, condition=several, schema=grouped.schema)
    try:
        first = plan.Sort(input=found, order=(), fetch=1, schema=grouped.schema)
        tied = Tracer(session, context, 1).read(first).rows
    except JobError:
        raise
    except SqlStreamError as error:
        yield Reason(
            "ties", f"rows may be equal in {names}, and any of them may come first ({error.message})"
        )
        return
    if tied.num_rows:
        values = ", ".join(
            f"{name} = {value}"
            for name, value in zip(
                (f.name for f in fields), (c[0].as_py() for c in tied.columns), strict=False
            )
        )
        yield Reason("ties", f"rows are equal in {names}, and any of them may come first: {values}")


def _were(count: int) -> str:
    return f"{count:,} row{' was' if count == 1 else 's were'}"
