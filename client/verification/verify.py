"""Runs one query as a stream and in batch, compares the rows, and finds what the differing ones were made of."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from client.batch_statements import compile_in_batch
from client.verification.comparison import Comparison, Differences, comparison
from client.verification.contributing import Tracer
from client.verification.outcome import Difference, Reason, Verification, shown_rows
from client.verification.reasons import near_reason, plan_reasons, run_reasons
from client.verification.run import run_to_end
from planner.batch import CompiledBatch, is_bounded, scans_of
from planner.bind.sink import collecting_sink
from planner.compile import compile_statements
from planner.relational.nodes import Sink
from planner.result_key import result_key
from sqlstream import config as options
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.specs.sink import COLLECT

if TYPE_CHECKING:
    from client.session import Session
    from planner.bind.context import BindContext
    from sqlstream.messages.rpc import JobMetrics

ENGINE = "execution.batch.engine"
KEYS_MAX = "sqlstream.verify.keys-max"
CONTRIBUTING_MAX = "sqlstream.verify.contributing-rows-max"
TOLERANCE = "sqlstream.verify.float-tolerance"
NEAR = 1e-9
"""The tolerance within which differing floats are explained by the order of addition."""


@dataclasses.dataclass(frozen=True)
class _Ran:
    """A side that has finished."""

    seconds: float
    metrics: JobMetrics


def verify_sinks(
    session: Session, sinks: Iterable[Sink], context: BindContext, engine: str = ""
) -> list[Verification]:
    """Verify the query of each sink; nothing is written. `engine` overrides that of the settings.

    UserError SS3303 for a table that never ends, SS3301 for what no engine answers exactly; JobError when a side fails or the
    statement is given up."""
    if engine:
        context = dataclasses.replace(context, config={**context.config, ENGINE: engine})
    return [_verify(session, sink, context) for sink in sinks]


def _verify(session: Session, sink: Sink, context: BindContext) -> Verification:
    _refuse_unbounded(sink)
    collected = _collected(sink, context)
    # Both are planned before either runs, so that what cannot be compared is refused at once.
    batch = _in_batch(collected, context)
    stream = compile_statements((collected,), context, secrets.token_hex(16))
    with comparison(collected.schema, context.config) as rows:
        streamed = _run(session, stream, rows, "stream")
        batched = _run(session, batch, rows, "batch")
        key = result_key(batch.optimised[0])
        tolerance = float(options.get(context.config, TOLERANCE))
        found = rows.differences(key, tolerance, int(options.get(context.config, KEYS_MAX)))
        is_equal = not found.surplus and not found.missing
        return Verification(
            statement=_name(sink),
            is_equal=is_equal,
            engine=batch.engine,
            stream_rows=rows.count("stream"),
            batch_rows=rows.count("batch"),
            stream_seconds=streamed.seconds,
            batch_seconds=batched.seconds,
            surplus_rows=found.surplus,
            missing_rows=found.missing,
            near_rows=found.near,
            tolerance=tolerance,
            differences=() if is_equal else _differences(session, batch, context, key, found),
            reasons=()
            if is_equal
            else _reasons(session, batch, context, (streamed.metrics, batched.metrics), rows, tolerance),
        )


def _refuse_unbounded(sink: Sink) -> None:
    if is_bounded((sink,)):
        return
    scan = next(scan for scan in scans_of(sink) if not scan.is_bounded)
    raise UserError(
        "SS3303",
        f'table "{scan.table.path.name}" never ends, so its rows cannot be verified',
        span=scan.span,
        hint="bound the table, as number-of-rows does for datagen (DESCRIBE CONNECTOR shows how)",
    )


def _collected(sink: Sink, context: BindContext) -> Sink:
    """The sink of the same rows that writes nothing: they have the types of the table that they are for."""
    if dict(sink.options).get("connector") == COLLECT:
        return sink
    return collecting_sink(sink.input, context, sink.span)


def _in_batch(sink: Sink, context: BindContext) -> CompiledBatch:
    try:
        return compile_in_batch((sink,), context, secrets.token_hex(16))
    except UserError as error:
        if error.code == "SS3301":
            error.hint = "verify a query without it, or another engine: USING duckdb, USING spark"
        raise


def _name(sink: Sink) -> str:
    is_query = dict(sink.options).get("connector") == COLLECT
    return "SELECT" if is_query else f"INSERT INTO {sink.table.path.name}"


def _run(session: Session, plan: object, rows: Comparison, side: str) -> _Ran:
    started = time.monotonic()
    job = session.submit(plan)  # type: ignore[arg-type]
    metrics = run_to_end(job, lambda batch: rows.add(side, batch))
    return _Ran(time.monotonic() - started, metrics)


def _differences(
    session: Session,
    batch: CompiledBatch,
    context: BindContext,
    key: tuple[int, ...] | None,
    found: Differences,
) -> tuple[Difference, ...]:
    """The first differing keys with their rows, and what these were made of."""
    (sink,) = batch.optimised
    tracer = Tracer(session, context, int(options.get(context.config, CONTRIBUTING_MAX)))
    time_zone = str(options.get(context.config, "table.local-time-zone"))
    made = []
    for rows in found.keys:
        places = [*rows.stream, *rows.batch]
        taken = _batch(found.rows.take(pa.array(places, pa.int64())), sink)
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


def _batch(table: pa.Table, sink: Sink) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    arrays = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(sink.schema))


def _reasons(
    session: Session,
    batch: CompiledBatch,
    context: BindContext,
    metrics: tuple[JobMetrics, JobMetrics],
    rows: Comparison,
    tolerance: float,
) -> tuple[Reason, ...]:
    reasons = [*run_reasons(*metrics), *plan_reasons(session, batch.optimised[0], context)]
    if not tolerance and (near := rows.differences(None, NEAR, 1).near):
        reasons.append(near_reason(near, NEAR))
    return tuple(reasons)
