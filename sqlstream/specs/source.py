"""What a source must do: read a table's physical and metadata columns through its connector."""

from __future__ import annotations

from sqlstream.expressions import Expression, LiteralValue
from sqlstream.schema import Field, Schema
from sqlstream.specs.spec import OperatorSpec


class SourceSpec(OperatorSpec, frozen=True, tag="source"):
    """Output: the physical `columns` in this order, then the `metadata` columns.

    `schema` holds all physical columns of the table (a CSV file has them whether read or not). `filters` are conjuncts over
    the output columns that the connector may use to skip rows; the plan keeps its own filter unless the connector's
    descriptor says that it applies them exactly. `limit` < 0 means none. A metadata field is named by its metadata key.
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


class ValuesSpec(OperatorSpec, frozen=True, tag="values"):
    """Literal rows, in the encoding of `Literal.value`, columns as in the node's output schema."""

    rows: tuple[tuple[LiteralValue, ...], ...]
