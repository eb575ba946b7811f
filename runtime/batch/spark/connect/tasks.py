"""Our tasks within the workers of a Spark Connect server, where figures travel as rows: it has no accumulators for clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from sqlstream.runtime.batch.spark.arrow_types import spark_arrow_schema
from sqlstream.runtime.batch.spark.task_arguments import ReadArguments
from sqlstream.runtime.batch.spark.tasks import WRITTEN_SCHEMA, Figures, run_task


def run_task_with_figures(
    name: str, arguments: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of a task with one more column, which is NULL in all of them, and behind them one row with nothing but the figures
    of the task in that column. Our errors are raised as TaskFailed."""
    figures: Figures = {}
    for batch in run_task(name, arguments, figures.update, batches):
        yield _widened(batch, pa.nulls(batch.num_rows, pa.string()))
    if figures:
        yield _widened(_one_row_of_nulls(name, arguments), pa.array([encode_figures(figures)]))


def _widened(batch: pa.RecordBatch, figures: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, figures], [*batch.schema.names, FIGURES])


def _one_row_of_nulls(name: str, arguments: str) -> pa.RecordBatch:
    schema = (
        spark_arrow_schema(msgspec.json.decode(arguments, type=ReadArguments).table.schema)
        if name == "read"
        else WRITTEN_SCHEMA
    )
    return pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


# The figures of tasks as text, in a column of their own beside the rows.


FIGURES = "__sqlstream_figures"
FIGURES_DDL = f"{FIGURES} STRING"


def encode_figures(figures: Figures) -> str:
    """One text for the figures of one task.

    >>> encode_figures({("t0", 1): {"numRecordsOut": 2}})
    '[["t0",1,{"numRecordsOut":2}]]'
    """
    return msgspec.json.encode([(name, subtask, data) for (name, subtask), data in figures.items()]).decode()


def decode_figures(texts: Iterable[str]) -> Figures:
    """Those of several tasks. Figures of a subtask that has run twice count once.

    >>> text = encode_figures({("t0", 1): {"numRecordsOut": 2}})
    >>> decode_figures([text, text])
    {('t0', 1): {'numRecordsOut': 2}}
    """
    found: Figures = {}
    for text in texts:
        for name, subtask, data in msgspec.json.decode(text):
            found[name, subtask] = data
    return found
