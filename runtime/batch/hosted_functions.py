"""Functions of the stream that DuckDB calls with its vectors."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.batch.casting import cast_column
from sqlstream.runtime.batch.duckdb_tables import threads
from sqlstream.runtime.evaluate.compiled import compile_expression
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.host.clock import now_ms
from sqlstream.schema import Field, Schema
from sqlstream.specs.batch_query import HostedFunction

if TYPE_CHECKING:
    import duckdb


class HostedCalls:
    """The hosted functions of one run. State: what the first of them that failed has raised, which DuckDB hands on as text; and
    the threads that compute, until `close`. A thread of DuckDB's forgets what is local to it after each call, and what is
    forgotten then must not be a connection, which functions of the stream keep."""

    def __init__(self, functions: tuple[HostedFunction, ...], config: Mapping[str, str]) -> None:
        self._functions = functions
        moment_ms = now_ms()
        # The clock is read once for a query.
        self._context = EvaluationContext.of(lambda: moment_ms, config) if functions else EvaluationContext()
        self._threads = ThreadPoolExecutor(threads(config), "hosted functions")
        self.error: BaseException | None = None

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the functions known to the database. UserError for one that cannot be loaded."""
        self._create(connection, self._called)

    def close(self) -> None:
        """End the threads, once the query has ended."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def declare(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make their names and types known, for a query that does not run: nothing of the users is loaded."""
        self._create(connection, _declared)

    def _create(
        self,
        connection: duckdb.DuckDBPyConnection,
        make: Callable[[HostedFunction, pa.DataType], Callable[..., pa.Array]],
    ) -> None:
        for function in self._functions:
            fields = (
                *(Field(f"a{i}", t) for i, t in enumerate(function.arguments)),
                Field("r", function.call.type),
            )
            empty = as_duckdb_takes(to_arrow_schema(Schema(fields)).empty_table())
            connection.register("typed", empty)
            *arguments, result = (
                row[1] for row in connection.execute("DESCRIBE SELECT * FROM typed").fetchall()
            )
            connection.unregister("typed")
            connection.create_function(
                function.name,
                make(function, empty.schema.field(len(arguments)).type),
                arguments,
                result,
                type="arrow",
                null_handling="special",
                side_effects=function.is_volatile,
            )

    def _called(self, function: HostedFunction, result: pa.DataType) -> Callable[..., pa.Array]:
        schema = Schema(tuple(Field(f"a{i}", t) for i, t in enumerate(function.arguments)))
        arrow = to_arrow_schema(schema)
        compute = compile_expression(function.call, schema, self._context)
        # A user's function is called by one thread at a time, as in a task.
        lock = threading.Lock()

        def computed(columns: tuple[Any, ...]) -> pa.Array:
            given = [cast_column(_one(column), field) for column, field in zip(columns, arrow, strict=True)]
            batch = pa.RecordBatch.from_arrays(given, schema=arrow)
            with lock:
                made = compute(batch)
            return _in_duckdb_type(made, result)

        def call(*columns: Any) -> pa.Array:
            try:
                return self._threads.submit(computed, columns).result()
            except BaseException as error:
                self.error = self.error or error
                raise

        return _with_parameters(call, len(arrow))


def _declared(function: HostedFunction, result: pa.DataType) -> Callable[..., pa.Array]:
    def call(*columns: Any) -> pa.Array:
        return pa.nulls(len(columns[0]), result)

    return _with_parameters(call, len(function.arguments))


def _with_parameters(call: Callable[..., pa.Array], count: int) -> Callable[..., pa.Array]:
    """DuckDB asks a function how many arguments it takes."""
    names = [inspect.Parameter(f"a{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(count)]
    call.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return call


def as_duckdb_takes(table: pa.Table) -> pa.Table:
    """The table with the types that DuckDB's have: moments without a zone, in microseconds, and intervals as numbers."""
    types = [_duckdb_type(t) for t in table.schema.types]
    arrays = [pa.nulls(0, t) for t in types]
    return pa.table(arrays, names=table.schema.names)


def _duckdb_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(t):
        return pa.timestamp("us")
    if pa.types.is_duration(t):
        return pa.int64()
    if pa.types.is_time(t):
        return pa.time64("us")
    if pa.types.is_null(t):
        return pa.int32()
    if pa.types.is_list(t):
        return pa.list_(_duckdb_type(t.value_type))
    if pa.types.is_map(t):
        return pa.map_(_duckdb_type(t.key_type), _duckdb_type(t.item_type))
    if pa.types.is_struct(t):
        return pa.struct([(f.name, _duckdb_type(f.type)) for f in t])
    return t


def _in_duckdb_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    if pa.types.is_duration(array.type):
        return array.view(pa.int64())
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pa.timestamp("us", "UTC")).cast(wanted)
    return array.cast(wanted)


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
