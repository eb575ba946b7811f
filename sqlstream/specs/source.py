"""Spec of a source, which reads a table's physical and metadata columns through its connector."""

from __future__ import annotations

import msgspec

from sqlstream.expressions import Expression, LiteralValue
from sqlstream.schema import Field, Schema
from sqlstream.specs.spec import OperatorSpec
from sqlstream.specs.watermark import EmitStrategy


class SourceWatermark(msgspec.Struct, frozen=True):
    """The watermark of a table whose reader creates it per split (Flink: watermark push-down, FLIP-27).

    `rowtime` and `expression` are over the source's physical and metadata columns; computed columns are replaced by their
    expressions. With `adds_rowtime` the source also emits the row time, so that it is computed only once.
    """

    rowtime: Expression
    expression: Expression
    emit_strategy: EmitStrategy = EmitStrategy.ON_PERIODIC
    adds_rowtime: bool = False


class SourceSpec(OperatorSpec, frozen=True, tag="source"):
    """Output: the physical `columns` in this order, then the `metadata` columns, then those that `watermark` adds: the row
    time, and with ON_EVENT specs.watermark.ROW_WATERMARK_COLUMN.

    `schema` holds all physical columns of the table (a CSV file has them whether read or not). `filters` are conjuncts over
    the output columns that the connector may use to skip rows; the plan keeps its own filter unless, by its
    descriptor, the connector applies them exactly. `limit` < 0 means none. The name of a metadata field is its metadata key.
    `watermark` is None unless, by the descriptor, readers create watermarks.

    Of a table whose rows are changes, `change_key` has the columns that rows are known by. When its rows are read as versions,
    `are_versions`, a change of the key ends the version of the old key at the time of the row behind it: the -D has the old key,
    and the other values of that row.
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


class EventSourceSpec(SourceSpec, frozen=True, tag="event_source"):
    """A source of events that are read by the primary key `keys` (spi.format.EventDemand). With `marks_unknown` the last column
    is UNKNOWN_VALUES, which names, by their places in `columns`, the values that an event does not have."""

    keys: tuple[str, ...] = ()
    marks_unknown: bool = False


class ValuesSpec(OperatorSpec, frozen=True, tag="values"):
    """Literal rows, in the encoding of `Literal.value`, columns as in the node's output schema."""

    rows: tuple[tuple[LiteralValue, ...], ...]
