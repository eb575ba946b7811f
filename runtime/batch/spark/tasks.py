"""What sqlstream does within the workers of Spark: read a share of a table, write rows to a table, send rows to the client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from sqlstream.runtime.batch.spark.arrow_types import as_spark_rows, spark_arrow_schema
from sqlstream.runtime.batch.spark.errors import TaskFailed
from sqlstream.runtime.batch.spark.partition_receiver import send_partition
from sqlstream.runtime.batch.spark.task_arguments import ReadArguments, SendArguments, WriteArguments
from sqlstream.runtime.batch.tables import Share, connector_context, read_table
from sqlstream.runtime.host.process import forgo_pandas_once
from sqlstream.runtime.host.rooted_files import files_at
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext

Figures = dict[tuple[str, int], dict[str, Any]]
"""Of a table or output by name and a subtask: metrics by name, and `lines`, texts to print with whether each is an error."""

AddFigures = Callable[[Figures], None]

OUTPUT = "output"
LINES = "lines"

WRITTEN_DDL = "committables STRING"
WRITTEN_SCHEMA = pa.schema([("committables", pa.string())])
SENT_DDL = "partition INT, attempt BIGINT"


def run_task(
    name: str, arguments: str, add_figures: AddFigures, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows that a task gives to Spark. Our errors are raised as TaskFailed."""
    forgo_pandas_once()
    try:
        yield from TASKS[name](arguments, add_figures, batches)
    except GeneratorExit:
        raise
    except Exception as error:
        raise TaskFailed(error) from error


def _read(
    arguments: str, add_figures: AddFigures, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of the shares that the input's rows name."""
    told = msgspec.json.decode(arguments, type=ReadArguments)
    schema = spark_arrow_schema(told.table.schema)
    for batch in batches:
        for subtask in batch.column(0).to_pylist():
            figures = _Figures()
            share = Share(told.job_id, told.attempt, subtask, told.parallelism, told.config)
            context = connector_context(share, files_at(told.places), figures.count, figures.print_lines)
            for rows in read_table(told.table, context, _is_never_cancelled):
                yield as_spark_rows(rows, schema)
            add_figures({(told.table.name, subtask): figures.as_data()})


def _write(
    arguments: str, add_figures: AddFigures, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One row for the partition: what the writer gives for the commit, as JSON."""
    told = msgspec.json.decode(arguments, type=WriteArguments)
    task = _task_context()
    subtask = task.partitionId()
    figures = _Figures()
    share = Share(told.job_id, f"{told.attempt}-{task.taskAttemptId()}", subtask, subtask + 1, told.config)
    context = connector_context(share, files_at(told.places), figures.count, figures.print_lines)
    committables = write_rows(told.sink, batches, context)
    add_figures({(OUTPUT, subtask): figures.as_data()})
    yield pa.record_batch([[msgspec.json.encode(committables).decode()]], schema=WRITTEN_SCHEMA)


def _send(
    arguments: str, add_figures: AddFigures, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One row for the partition: its number, and which attempt at it has sent its rows."""
    told = msgspec.json.decode(arguments, type=SendArguments)
    task = _task_context()
    partition, attempt = task.partitionId(), task.taskAttemptId()
    send_partition(told, partition, attempt, batches)
    yield pa.record_batch(
        [pa.array([partition], pa.int32()), pa.array([attempt], pa.int64())], names=["partition", "attempt"]
    )


TASKS: dict[str, Callable[[str, AddFigures, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]] = {
    "read": _read,
    "write": _write,
    "send": _send,
}


class _Figures:
    """What one subtask counts and prints. State: both, until `as_data`."""

    def __init__(self) -> None:
        self._metrics: Counter[str] = Counter()
        self._lines: list[tuple[str, bool]] = []

    def count(self, metric: str, n: int) -> None:
        self._metrics[metric] += n

    def print_lines(self, lines: list[str], is_error: bool) -> None:
        self._lines += ((line, is_error) for line in lines)

    def as_data(self) -> dict[str, Any]:
        return {**self._metrics, LINES: self._lines}


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _is_never_cancelled() -> bool:
    """Spark ends the worker of a task that it cancels."""
    return False


# Writes rows of a batch query to a table through its connector, in a process that is no task (an executor of Spark).


def write_rows(
    sink: SinkSpec, batches: Iterable[pa.RecordBatch], context: ConnectorContext
) -> list[Committable]:
    """Write one subtask's rows, which only insert; returns the committables, for `BatchRun.written`.

    Rows written are counted as numRecordsIn. When anything fails, what was written is removed and the error raised."""
    # Workers that read or send rows, which are most, load none of this.
    from sqlstream.arrow import to_arrow_schema
    from sqlstream.changelog import ChangelogMode
    from sqlstream.runtime.batch.casting import cast_batch
    from sqlstream.runtime.connectors import connector
    from sqlstream.runtime.operators.operator import OperatorContext
    from sqlstream.runtime.operators.sink import NotNullEnforcer, TypeLengthEnforcer
    from sqlstream.schema import Schema

    schema = Schema(sink.fields)
    operator_context = OperatorContext(
        input_schemas=(schema,),
        input_modes=(ChangelogMode.INSERT_ONLY,),
        output_schema=schema,
        output_mode=ChangelogMode.INSERT_ONLY,
        subtask=context.subtask,
        parallelism=context.parallelism,
        max_parallelism=context.parallelism,
        config=context.config,
        now_ms=context.now_ms,
        count=context.count,
    )
    nulls, lengths = NotNullEnforcer(sink, operator_context), TypeLengthEnforcer(sink, operator_context)
    arrow_schema = to_arrow_schema(schema)
    writer = connector(sink.connector).sink(sink, ChangelogMode.INSERT_ONLY, context)
    try:
        for batch in batches:
            if batch.num_rows:
                context.count("numRecordsIn", batch.num_rows)
                writer.write(lengths.enforce(nulls.enforce(cast_batch(batch, arrow_schema))))
        return writer.prepare_commit(LAST_CHECKPOINT_ID)
    except BaseException:
        writer.abort()
        raise
