"""What a source must do: read a table's physical and metadata columns through its connector."""

from __future__ import annotations

import msgspec

from sqlstream.expressions import Expression, LiteralValue
from sqlstream.schema import Field, Schema
from sqlstream.specs.spec import OperatorSpec
from sqlstream.specs.watermark import EmitStrategy


class SourceWatermark(msgspec.Struct, frozen=True):
    """The watermark of a table whose reader makes it, split by split (Flink: watermark push-down, FLIP-27).

    `rowtime` and `expression` are over the source's physical and metadata columns; computed columns are written out in them.
    With `adds_rowtime` the source emits the row time too, so that it is computed once.
    """

    rowtime: Expression
    expression: Expression
    emit_strategy: EmitStrategy = EmitStrategy.ON_PERIODIC
    adds_rowtime: bool = False


class SourceSpec(OperatorSpec, frozen=True, tag="source"):
    """Output: the physical `columns` in this order, then the `metadata` columns, then what `watermark` adds: the row time,
    and with ON_EVENT specs.watermark.ROW_WATERMARK_COLUMN.

    `schema` holds all physical columns of the table (a CSV file has them whether read or not). `filters` are conjuncts over
    the output columns that the connector may use to skip rows; the plan keeps its own filter unless the connector's
    descriptor says that it applies them exactly. `limit` < 0 means none. A metadata field is named by its metadata key.
    `watermark` is None unless the descriptor says that readers make watermarks.
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


class ValuesSpec(OperatorSpec, frozen=True, tag="values"):
    """Literal rows, in the encoding of `Literal.value`, columns as in the node's output schema."""

    rows: tuple[tuple[LiteralValue, ...], ...]
