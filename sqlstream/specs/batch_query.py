"""Spec of a query that a batch engine computes as a whole."""

from __future__ import annotations

import msgspec

from sqlstream.expressions import Call
from sqlstream.specs.spec import OperatorSpec
from sqlstream.types import LogicalType


class HostedFunction(msgspec.Struct, frozen=True):
    """A scalar expression that a batch engine has the stream's own code compute.

    `name` is what the engine's SQL calls it; `call` reads its arguments as columns 0, 1, … of the types `arguments`, of which
    there is at least one. `is_volatile`: it may have another value each time."""

    name: str
    call: Call
    arguments: tuple[LogicalType, ...]
    is_volatile: bool = False


class BatchQuerySpec(OperatorSpec, frozen=True, tag="batch_query"):
    """The head of a vertex in a batch job, which runs in one subtask. Output: the rows of `sql` in the node's output schema.

    `engine` is `duckdb` or `spark`, and `sql` one SELECT in its dialect. The SQL names its tables t0, t1, … and their columns c0,
    c1, … by position (see sqlstream.batch_plan); `tables` are the ids of the SourceSpec operators of the same vertex that say
    what is read, in this order. These operators are read by the engine and have no input or output of their own. `shared` names
    the tables that the SQL, with its CTEs written out, reads more than once. `is_explained`: the output is one text, the engine's
    own plan of the query, which does not run. `functions` are the functions of the stream that the SQL calls by
    their names. `changes` names the tables whose rows are changes.
    """

    engine: str
    sql: str
    tables: tuple[int, ...] = ()
    shared: tuple[str, ...] = ()
    is_explained: bool = False
    functions: tuple[HostedFunction, ...] = ()
    changes: tuple[str, ...] = ()
