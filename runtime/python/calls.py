"""Calls of users' scalar and table functions as kernels: by row, by Arrow batch, or asynchronously."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import config
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.function_ref import FunctionKind, FunctionMode, FunctionRef
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, as_array, null_mask
from sqlstream.runtime.python.loading import install_hint, load_target, raise_interrupt, user_traceback
from sqlstream.runtime.python.values import arrow_values, check_length, python_values, shown
from sqlstream.types import LogicalType

TABLE_ROWS_MAX = 20_000_000
"""Rows that a table function may make of one batch."""

Column = Iterable[Any]


def build_user_call(call: Call, context: EvaluationContext) -> Kernel:
    """The kernel of a call with a `ref`. UserError SS5132 where its Python object cannot be imported.

    Rows with NULL for an argument that is declared NOT NULL are not passed on, and have the result NULL.
    """
    ref = call.ref
    assert ref is not None
    target = load_target(ref)
    compute = _compute(call, ref, target, context)
    result = to_arrow_type(call.type)
    strict = [
        place
        for place, arg in enumerate(call.args)
        if arg.type.nullable and (t := ref.argument_type(place)) is not None and not t.nullable
    ]
    if not call.args:
        return _without_arguments(ref, compute)

    def kernel(*args: Datum) -> Datum:
        rows = next((len(a) for a in args if isinstance(a, pa.Array)), 1)
        if any(not isinstance(args[p], pa.Array) and not args[p].is_valid for p in strict):
            return pa.nulls(rows, result)
        missing = null_mask(*(args[p] for p in strict if isinstance(args[p], pa.Array)))
        if missing is None or not missing.any():
            return compute(list(args), rows)
        present = np.flatnonzero(~missing)
        taken = [a.take(pa.array(present)) if isinstance(a, pa.Array) else a for a in args]
        found = as_array(compute(taken, len(present)), len(present)) if len(present) else pa.nulls(0, result)
        places = np.cumsum(~missing) - 1
        return found.take(pa.array(places, mask=missing))

    return kernel


Compute = Callable[[list[Datum], int], Datum]


def _compute(call: Call, ref: FunctionRef, target: Any, context: EvaluationContext) -> Compute:
    if ref.kind is FunctionKind.TABLE:
        by_batch = ref.mode is FunctionMode.ARROW
        return _table_by_batch(call, ref, target) if by_batch else _table(call, ref, target)
    if ref.mode is FunctionMode.ARROW:
        return _by_batch(ref, target, call.type)
    if ref.mode is FunctionMode.ASYNC:
        calls = AsyncCalls(ref, target, context.config)
        return lambda args, rows: arrow_values(calls.run(_columns(args, rows), rows), call.type, ref.name)
    return _by_row(ref, target, call.type)


def _without_arguments(ref: FunctionRef, compute: Compute) -> Kernel:
    def kernel(rows: int) -> Datum:
        if not ref.is_deterministic or ref.mode is FunctionMode.ARROW:
            return compute([pa.nulls(rows)] if ref.mode is FunctionMode.ARROW else [], rows)
        return compute([], 1)[0]

    return kernel


def _columns(args: list[Datum], rows: int) -> list[Column]:
    return [
        python_values(a)
        if isinstance(a, pa.Array)
        else itertools.repeat(python_values(as_array(a, 1))[0], rows)
        for a in args
    ]


def _by_row(ref: FunctionRef, target: Callable[..., Any], result: LogicalType) -> Compute:
    def compute(args: list[Datum], rows: int) -> Datum:
        columns = _columns(args, rows)
        found: list[Any] = []
        try:
            # As far as it comes: the length tells the row that failed.
            found.extend(map(target, *columns) if columns else (target() for _ in range(rows)))
        except BaseException as error:
            raise failed(ref, error, _row_of(args, len(found), rows)) from error
        return arrow_values(found, result, ref.name)

    return compute


def _row_of(args: list[Datum], row: int, rows: int) -> list[Any]:
    if row >= rows:
        return []
    return [
        python_values(as_array(a, 1) if not isinstance(a, pa.Array) else a.slice(row, 1))[0] for a in args
    ]


def _by_batch(ref: FunctionRef, target: Callable[..., Any], result: LogicalType) -> Compute:
    def compute(args: list[Datum], rows: int) -> Datum:
        found = _called_with_arrays(ref, target, args, rows)
        if isinstance(found, pa.Scalar):
            found = as_array(found, rows)
        found = _as_arrow(ref, found)
        if len(found) != rows:
            raise _wrong(ref, f"returned {len(found)} values for {rows} rows")
        return _fitted(ref, found, result)

    return compute


def _called_with_arrays(ref: FunctionRef, target: Callable[..., Any], args: list[Datum], rows: int) -> Any:
    given = [] if not ref.parameters else [as_array(a, rows) for a in args]
    try:
        return target(*given)
    except BaseException as error:
        raise failed(ref, error, []) from error


def _as_arrow(ref: FunctionRef, found: Any) -> pa.Array:
    """What a function has returned for a column. UserError SS5131 where it is no array."""
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if isinstance(found, pa.Array):
        return found
    # An array of numpy or pandas.
    if not hasattr(found, "__array__") and not hasattr(found, "__arrow_array__"):
        raise _wrong(ref, f"returned {type(found).__name__}, which is no Arrow array")
    try:
        return pa.array(found)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _wrong(ref, f"returned an array that is none of Arrow: {error}") from error


def _fitted(ref: FunctionRef, found: pa.Array, result: LogicalType, column: str = "") -> pa.Array:
    """An array in its declared type. UserError SS5131 where it does not fit."""
    wanted, of_column = to_arrow_type(result), f' for column "{column}"' if column else ""
    if found.type != wanted:
        try:
            found = pc.cast(found, wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            declared = result.with_nullable(True)
            raise _wrong(
                ref, f"returned an array of {found.type} for {declared}{of_column}", str(error)
            ) from error
    try:
        check_length(found, result)
    except ValueError as error:
        raise _wrong(
            ref, f"returned a value that does not fit {result.with_nullable(True)}{of_column}", str(error)
        ) from error
    if not result.nullable and found.null_count:
        raise _wrong(ref, f"returned NULL for {result}{of_column}")
    return found


def _wrong(ref: FunctionRef, what: str, detail: str = "", hint: str = "") -> UserError:
    hint = hint or "return a pyarrow.Array of the declared result type, with a value for each row"
    return UserError("SS5131", f"Python function {ref.name} {what}", detail=detail[:500], hint=hint)


def _table(call: Call, ref: FunctionRef, target: Callable[..., Any]) -> Compute:
    wanted = to_arrow_type(call.type)
    row_type = ref.result_type
    fields = row_type.fields

    def compute(args: list[Datum], rows: int) -> Datum:
        columns = _columns(args, rows)
        items: list[Any] = []
        counts: list[int] = []
        try:
            for row in zip(*columns, strict=False) if columns else itertools.repeat((), rows):
                made = target(*row)
                before = len(items)
                if made is not None:
                    items.extend(itertools.islice(made, TABLE_ROWS_MAX + 1 - before))
                if len(items) > TABLE_ROWS_MAX:
                    hint = "end the generator; fewer rows are a batch with a smaller 'execution.batch-rows'"
                    raise _wrong(ref, f"makes more than {TABLE_ROWS_MAX:,} rows of one batch", hint=hint)
                counts.append(len(items) - before)
        except UserError:
            raise
        except BaseException as error:
            raise failed(ref, error, _row_of(args, len(counts), rows)) from error
        offsets = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=offsets[1:])
        if len(fields) == 1:
            own = [i[0] if isinstance(i, tuple) and len(i) == 1 else i for i in items]
            own = [_only(i, fields[0].name) if isinstance(i, dict) else i for i in own]
            made_columns = [arrow_values(own, fields[0].type, ref.name)]
        else:
            split = split_rows(items, ref)
            made_columns = [
                arrow_values(values, f.type, ref.name) for values, f in zip(split, fields, strict=True)
            ]
        values = pa.StructArray.from_arrays(made_columns, fields=list(wanted.value_type))
        return pa.ListArray.from_arrays(pa.array(offsets), values, type=wanted)

    return compute


ROW_NUMBERS = "$row"
"""The column that tells of which row of its arguments a table function by batch has made each of its rows."""


def _table_by_batch(call: Call, ref: FunctionRef, target: Callable[..., Any]) -> Compute:
    wanted = to_arrow_type(call.type)
    fields = ref.result_type.fields
    names = [f.name for f in fields]

    def compute(args: list[Datum], rows: int) -> Datum:
        columns = _columns_of_table(ref, _called_with_arrays(ref, target, args, rows))
        numbers = columns.pop(ROW_NUMBERS, None)
        if set(columns) != set(names):
            raise _wrong(
                ref,
                f"returned the columns {', '.join(columns)} for {', '.join(names)}",
                hint="return a pyarrow.RecordBatch with the declared columns",
            )
        arrays = [_fitted(ref, _as_arrow(ref, columns[f.name]), f.type, f.name) for f in fields]
        lengths = {len(array) for array in arrays}
        if len(lengths) > 1:
            raise _wrong(ref, f"returned columns of {', '.join(map(str, sorted(lengths)))} rows")
        made = lengths.pop()
        if made > TABLE_ROWS_MAX:
            hint = "return fewer rows; a batch has fewer with a smaller 'execution.batch-rows'"
            raise _wrong(ref, f"makes more than {TABLE_ROWS_MAX:,} rows of one batch", hint=hint)
        offsets = _offsets(ref, None if numbers is None else _as_arrow(ref, numbers), made, rows)
        values = pa.StructArray.from_arrays(arrays, fields=list(wanted.value_type))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=wanted)

    return compute


def _columns_of_table(ref: FunctionRef, found: Any) -> dict[str, Any]:
    if isinstance(found, pa.RecordBatch | pa.Table):
        return dict(zip(found.schema.names, found.columns, strict=True))
    if isinstance(found, Mapping):
        return dict(found)
    if hasattr(found, "columns") and hasattr(found, "to_numpy"):
        # A DataFrame of pandas.
        return {str(name): found[name].array for name in found.columns}
    hint = "return a pyarrow.RecordBatch with the declared columns"
    raise _wrong(ref, f"returned {type(found).__name__}, which is no table", hint=hint)


def _offsets(ref: FunctionRef, numbers: pa.Array | None, made: int, rows: int) -> np.ndarray[Any, Any]:
    """Where the rows that each row of the arguments has made begin and end. UserError SS5131 for numbers that are none."""
    if numbers is None:
        if made == rows:
            return np.arange(rows + 1, dtype=np.int32)
        hint = f'return as many rows, or a column "{ROW_NUMBERS}" of the number of the row, from 0, that each is made of'
        raise _wrong(ref, f"returned {made} rows for {rows} rows", hint=hint)
    hint = f'a column "{ROW_NUMBERS}" has a whole number from 0 for each row, in ascending order'
    if not pa.types.is_integer(numbers.type) or numbers.null_count or len(numbers) != made:
        raise _wrong(ref, f"returned {len(numbers)} row numbers of {numbers.type} for {made} rows", hint=hint)
    values = numbers.to_numpy().astype(np.int64)
    if made and (values[0] < 0 or values[-1] >= rows or (np.diff(values) < 0).any()):
        raise _wrong(ref, f"returned row numbers that are not those of {rows} rows in order", hint=hint)
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(np.bincount(values, minlength=rows), out=offsets[1:])
    return offsets


def _only(item: dict[str, Any], name: str) -> Any:
    return item[name] if item.keys() == {name} else item


def split_rows(items: list[Any], ref: FunctionRef, made: LogicalType | None = None) -> list[list[Any]]:
    """The values of each column of rows that a function yielded: tuples, lists or dicts of its result type, or of what is `made`.
    UserError SS5131 for one that does not fit."""
    names = [f.name for f in (made or ref.result_type).fields]
    columns: list[list[Any]] = [[] for _ in names]
    for item in items:
        if isinstance(item, dict) and item.keys() <= set(names):
            item = [item.get(name) for name in names]
        if not isinstance(item, tuple | list) or len(item) != len(names):
            raise UserError(
                "SS5131",
                f"Python function {ref.name} made {shown(item)} for a row of {len(names)} columns",
                hint=f"yield tuples of {', '.join(names)}",
            )
        for column, value in zip(columns, item, strict=True):
            column.append(value)
    return columns


_OF_NO_ROW = ("__init__", "open", "close")
"""Methods that are called once for all rows."""


def failed(ref: FunctionRef, error: BaseException, row: list[Any], method: str = "") -> UserError:
    """SS5130, to be raised, for an exception of the user's code, of whatever class."""
    raise_interrupt(error)
    called = f"{ref.name}.{method}" if method else ref.name
    said = (str(error).splitlines() or [""])[0][:300]
    arguments = f" for ({', '.join(map(shown, row))})" if row else ""
    return UserError(
        "SS5130",
        f"Python function {called} failed{arguments}: {type(error).__name__}{': ' if said else ''}{said}",
        detail=user_traceback(error),
        hint=install_hint(error)
        or f"correct {ref.module}.{ref.attribute}"
        + (
            ", or what it is given"
            if method in _OF_NO_ROW
            else ", or keep such rows from it with WHERE or CASE"
        ),
    )


# Calls of a coroutine for the rows of a batch: several wait at a time, and results keep the order of the rows.


CONCURRENT = "table.exec.async-scalar.max-concurrent-operations"
TIMEOUT = "table.exec.async-scalar.timeout"
RETRY_STRATEGY = "table.exec.async-scalar.retry-strategy"
RETRY_DELAY = "table.exec.async-scalar.retry-delay"
ATTEMPTS = "table.exec.async-scalar.max-attempts"


class AsyncCalls:
    """Runs the calls of a batch to their end. State: an event loop, in which a client that the function keeps may live."""

    def __init__(self, ref: FunctionRef, target: Any, settings: Mapping[str, str]) -> None:
        self._ref = ref
        self._target = target
        self._concurrent: int = config.get(settings, CONCURRENT)
        self._timeout_s: float = config.get(settings, TIMEOUT) / 1000
        retries = config.get(settings, RETRY_STRATEGY) == "FIXED_DELAY"
        self._attempts: int = config.get(settings, ATTEMPTS) if retries else 1
        self._delay_s: float = config.get(settings, RETRY_DELAY) / 1000
        self._loop = asyncio.new_event_loop()
        weakref.finalize(self, self._loop.close)

    def run(self, columns: list[Iterable[Any]], rows: int) -> list[Any]:
        """The results by row. UserError SS5130 for the first call that fails, SS5133 for one that takes too long; the others are
        cancelled."""
        arguments = list(zip(*columns, strict=False)) if columns else [()] * rows
        return self._loop.run_until_complete(self._all(arguments))

    async def _all(self, arguments: list[tuple[Any, ...]]) -> list[Any]:
        results: list[Any] = [None] * len(arguments)
        waiting = iter(enumerate(arguments))

        async def work() -> None:
            for row, args in waiting:
                results[row] = await self._one(args)

        tasks = [asyncio.ensure_future(work()) for _ in range(min(self._concurrent, len(arguments)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return results

    async def _one(self, args: tuple[Any, ...]) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._attempt(args)
        except TimeoutError as error:
            if not limit.expired():
                raise failed(self._ref, error, list(args)) from error
            raise UserError(
                "SS5133",
                f"Python function {self._ref.name} took longer than {self._timeout_s:g} s",
                hint=f"SET '{TIMEOUT}' to a longer time, or have the function answer sooner",
            ) from None
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise failed(self._ref, error, list(args)) from error
        except BaseException as error:
            raise failed(self._ref, error, list(args)) from error

    async def _attempt(self, args: tuple[Any, ...]) -> Any:
        for left in range(self._attempts - 1, -1, -1):
            try:
                return await self._target(*args)
            except Exception:
                if not left:
                    raise
            await asyncio.sleep(self._delay_s)
        raise AssertionError("there is an attempt")
