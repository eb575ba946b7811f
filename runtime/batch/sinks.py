"""Writes rows of a batch query to a table through its connector, in a process that is no task (an executor of Spark)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.batch.casting import cast_batch
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.sink import NotNullEnforcer, TypeLengthEnforcer
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext


def write_rows(
    sink: SinkSpec, batches: Iterable[pa.RecordBatch], context: ConnectorContext
) -> list[Committable]:
    """Write one subtask's rows, which only insert; returns the committables, for `BatchRun.written`.

    Rows written are counted as numRecordsIn. When anything fails, what was written is removed and the error raised."""
    from sqlstream.runtime.connectors import connector

    schema = to_arrow_schema(sink.schema)
    operator_context = _operator_context(sink, context)
    nulls, lengths = NotNullEnforcer(sink, operator_context), TypeLengthEnforcer(sink, operator_context)
    writer = connector(sink.connector).sink(sink, ChangelogMode.INSERT_ONLY, context)
    try:
        for batch in batches:
            if batch.num_rows:
                context.count("numRecordsIn", batch.num_rows)
                writer.write(lengths.enforce(nulls.enforce(cast_batch(batch, schema))))
        return writer.prepare_commit(LAST_CHECKPOINT_ID)
    except BaseException:
        writer.abort()
        raise


def _operator_context(sink: SinkSpec, context: ConnectorContext) -> OperatorContext:
    return OperatorContext(
        input_schemas=(sink.schema,),
        input_modes=(ChangelogMode.INSERT_ONLY,),
        output_schema=sink.schema,
        output_mode=ChangelogMode.INSERT_ONLY,
        subtask=context.subtask,
        parallelism=context.parallelism,
        max_parallelism=context.parallelism,
        config=context.config,
        now_ms=context.now_ms,
        count=context.count,
    )
