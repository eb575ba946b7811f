"""Spec of a sink, which writes rows to a table through its connector."""

from __future__ import annotations

from sqlstream.schema import Schema
from sqlstream.specs.spec import OperatorSpec

COLLECT = "collect"
"""The connector of a sink whose rows go to the client that waits for them."""


class SinkSpec(OperatorSpec, frozen=True, tag="sink"):
    """Input columns are the table's physical (and persisted metadata) columns in order.

    `primary_key` and `partition_keys` are column indexes. The row kinds of the input are given by the node's input mode.
    The connector `collect` sends rows to the client that submitted the query.
    """

    table: str
    connector: str
    options: dict[str, str]
    schema: Schema
    primary_key: tuple[int, ...] = ()
    partition_keys: tuple[int, ...] = ()
