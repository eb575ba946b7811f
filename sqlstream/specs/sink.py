"""Specs of sinks, which write rows to a table through its connector."""

from __future__ import annotations

import enum

from sqlstream.expressions import LiteralValue
from sqlstream.schema import Field, Schema
from sqlstream.specs.spec import OperatorSpec, StateBound, keys_or_ttl, until_ttl

COLLECT = "collect"
"""The connector of a sink whose rows go to the client that waits for them."""


class SinkSpec(OperatorSpec, frozen=True, tag="sink"):
    """Input columns are the table's physical columns in order, which are `schema`.

    `primary_key` and `partition_keys` are column indexes. The row kinds of the input are given by the node's input mode.
    The connector `collect` sends rows to the client that submitted the query.
    """

    table: str
    connector: str
    options: dict[str, str]
    schema: Schema
    primary_key: tuple[int, ...] = ()
    partition_keys: tuple[int, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """Of the input's columns."""
        return self.schema.fields


class MetadataSinkSpec(SinkSpec, frozen=True, tag="metadata_sink"):
    """A sink of rows that say something of themselves, such as their time: behind the columns of `schema` are those of
    `metadata`, named by their metadata keys."""

    metadata: tuple[Field, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.schema.fields, *self.metadata)


class SinkAction(enum.Enum):
    """What a sink does with rows that are in its table already."""

    OVERWRITE = "OVERWRITE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"

    @property
    def changes_rows(self) -> bool:
        """Whether it is told of rows of the table, and which of them are changed."""
        return self in (SinkAction.UPDATE, SinkAction.DELETE)


class ChangingSinkSpec(SinkSpec, frozen=True, tag="changing_sink"):
    """A sink whose commit also removes rows: old ones and new ones change places at once, when the input has ended.

    OVERWRITE: the rows of the table. Of a partitioned table they are those of the partitions that rows come into, and of
    `partition`, the literal values of columns by their indexes. TRUNCATE: all rows; none come. UPDATE and DELETE: the input is
    a changelog. A sink of upserts is told of the changed rows alone (+U or -D); any other gets the whole table, unchanged rows
    as +I, and puts what is not deleted in its place. `version`: that of the table before its rows were read, where the
    connector knows one.
    """

    action: SinkAction = SinkAction.OVERWRITE
    partition: tuple[tuple[int, LiteralValue], ...] = ()
    version: str = ""


# ON CONFLICT of INSERT INTO.


class OnConflict(enum.Enum):
    """Which of several rows with one primary key stays: the one that was added last, or the one that was there before; ERROR:
    there must not be several."""

    DEDUPLICATE = "DEDUPLICATE"
    NOTHING = "NOTHING"
    ERROR = "ERROR"


# Spec of the operator that fails a job for rows with one primary key.


class ConflictCheckSpec(OperatorSpec, frozen=True, tag="conflict_check"):
    """Passes on all rows, and fails the job (SS5081) when several of them have the same `keys` at a time (ON CONFLICT DO ERROR).

    A row may come before the one that it replaces is retracted, from another subtask: it is looked at with each watermark, at the
    end of the input, and at each checkpoint whose barriers wait for the rows before them. `table` is the table that they go to.
    """

    keys: tuple[int, ...]
    table: str
    state_ttl_ms: int = 0

    def kept_state(self) -> str:
        return (
            f"the number of rows of each key; dropped: with the last row, or {until_ttl(self.state_ttl_ms)}"
        )

    def state_bound(self) -> StateBound:
        return keys_or_ttl(bool(self.keys), self.state_ttl_ms)
