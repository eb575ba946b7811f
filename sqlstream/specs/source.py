"""Spec of a source, which reads a table's physical and metadata columns through its connector."""

from __future__ import annotations

import msgspec

from sqlstream.catalog.objects import InferredTable
from sqlstream.errors import ErrorInfo
from sqlstream.expressions import Expression, LiteralValue
from sqlstream.function_ref import InspectedFunction
from sqlstream.schema import Field, Schema
from sqlstream.specs.spec import OperatorSpec
from sqlstream.specs.watermark import EmitStrategy
from sqlstream.types import STRING


class SourceWatermark(msgspec.Struct, frozen=True):
    """The watermark of a table whose reader creates it per split (Flink: watermark push-down, FLIP-27).

    `rowtime` and `expression` are over the source's physical and metadata columns; computed columns are replaced by their
    expressions. With `adds_rowtime` the source also emits the row time, so that it is computed only once. A split without rows
    for `idle_timeout_ms` (0: for ever) holds no other one back.
    """

    rowtime: Expression
    expression: Expression
    emit_strategy: EmitStrategy = EmitStrategy.ON_PERIODIC
    adds_rowtime: bool = False
    idle_timeout_ms: int = 0


class SourceSpec(OperatorSpec, frozen=True, tag="source"):
    """Output: the physical `columns` in this order, then the `metadata` columns, then those that `watermark` adds: the row
    time, and with ON_EVENT specs.watermark.ROW_WATERMARK_COLUMN.

    `schema` holds all physical columns of the table (a CSV file has them whether read or not). `filters` are conjuncts over
    the output columns that the connector may use to skip rows; the plan keeps its own filter unless, by its
    descriptor, the connector applies them exactly. `limit` < 0 means none. The name of a metadata field is its metadata key.
    `watermark` is None unless, by the descriptor, readers create watermarks.

    Of a table whose rows are changes, `change_key` has the columns that rows are known by. `are_versions`: its rows are read
    as versions. A change of the key then ends the version of the old key at the time of the row behind it: the -D has the old
    key, and the other values of that row. `waits_for`: the group of the histories that are read before, and
    `turn` ≥ 0: the table is one of these itself, and is read behind those of lower turns (specs.backfill). `hands_over`: the
    table has no history, and waits for none, but others of the statement do.
    """

    table: str
    connector: str
    options: dict[str, str]
    schema: Schema
    columns: tuple[str, ...]
    metadata: tuple[Field, ...] = ()
    filters: tuple[Expression, ...] = ()
    limit: int = -1
    is_bounded: bool = True
    watermark: SourceWatermark | None = None
    change_key: tuple[str, ...] = ()
    are_versions: bool = False
    waits_for: str = ""
    turn: int = -1
    hands_over: bool = False


class EventSourceSpec(SourceSpec, frozen=True, tag="event_source"):
    """A source of events that are read by the primary key `keys` (spi.format.EventDemand). With `marks_unknown` the last column
    is UNKNOWN_VALUES, which names, by their places in `columns`, the values that an event does not have."""

    keys: tuple[str, ...] = ()
    marks_unknown: bool = False


class ValuesSpec(OperatorSpec, frozen=True, tag="values"):
    """Literal rows, in the encoding of `Literal.value`, columns as in the node's output schema."""

    rows: tuple[tuple[LiteralValue, ...], ...]


# Spec of a source that infers a table from files, and the shape of its answer.


ANSWER = Schema.of(("answer", STRING))


class InferTableSpec(OperatorSpec, frozen=True, tag="infer_table"):
    """Output: one row of `ANSWER`, an `InferenceAnswer` as JSON. `options` are those of the table, with its `path`. Without
    `format` it is found by the suffix of the files."""

    options: dict[str, str]


class InferenceAnswer(msgspec.Struct, frozen=True):
    """The format and the table, or the error that says why there is none. A table that cannot be inferred is no error where only
    the format was asked for."""

    format: str = ""
    table: InferredTable | None = None
    error: ErrorInfo | None = None


# Spec of a source that imports a Python function, and the shape of its answer.


class InspectFunctionSpec(OperatorSpec, frozen=True, tag="inspect_function"):
    """Output: one row of `sqlstream.specs.source.ANSWER`, an `InspectionAnswer` as JSON."""

    module: str
    attribute: str


class InspectionAnswer(msgspec.Struct, frozen=True):
    """The declaration, or the error that says why there is none."""

    function: InspectedFunction | None = None
    error: ErrorInfo | None = None
