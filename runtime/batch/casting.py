"""Rows of a batch engine in the types of the plan."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import InternalError


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same values in the types of `schema`, column by column. InternalError when one does not fit: the engine computes in
    types that are at least as wide, so a value out of range means that the plan's SQL lacks a cast."""
    if batch.num_columns != len(schema):
        raise InternalError(f"the engine gave {batch.num_columns} columns instead of {len(schema)}")
    columns = [cast_column(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def cast_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """The values of one column in the type of `field`. InternalError as in `cast_batch`."""
    wanted = field.type
    if column.type == wanted:
        return column
    if pa.types.is_null(wanted) and column.null_count == len(column):
        # An engine gives a NULL without a type a type of its own.
        return pa.nulls(len(column))
    if pa.types.is_nested(wanted) and _has_null_type(wanted):
        return _nested(column, field)
    try:
        if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(wanted):
            return _cast_timestamp(column, wanted)
        if pa.types.is_duration(wanted) and pa.types.is_integer(column.type):
            return column.cast(pa.int64()).view(wanted)
        return pc.cast(column, wanted, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InternalError(f'column "{field.name}" came as {column.type}, not {wanted}: {error}') from error


def _has_null_type(t: pa.DataType) -> bool:
    """Whether values in a type have none of their own, such as the elements of ARRAY[] and the values of MAP['a', NULL]."""
    return pa.types.is_null(t) or any(_has_null_type(t.field(i).type) for i in range(t.num_fields))


def _nested(column: pa.Array, field: pa.Field) -> pa.Array:
    """Rows, lists and maps, part by part: Arrow casts nothing to the type of NULL."""
    from sqlstream.runtime.evaluate.lists import Lists

    wanted = field.type
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(wanted):
        # Of a row that is NULL each part is.
        parts = [cast_column(part, f) for part, f in zip(column.flatten(), wanted, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)
    lists = Lists.of(column)
    offsets, elements = pa.array(lists.bounds(), pa.int32()), lists.elements()
    if pa.types.is_map(wanted):
        keys = cast_column(elements.field(0), wanted.key_field)
        items = cast_column(elements.field(1), wanted.item_field)
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=mask)
    return pa.ListArray.from_arrays(
        offsets, cast_column(elements, wanted.value_field), type=wanted, mask=mask
    )


def _cast_timestamp(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same moment. An engine that computes moments as local times of UTC gives them without a zone; digits behind the
    plan's precision are cut, as everywhere."""
    if wanted.tz is None and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC")).cast(pa.timestamp(column.type.unit))
    if column.type.unit != wanted.unit:
        column = column.cast(pa.timestamp(wanted.unit, column.type.tz), safe=False)
    return column.cast(wanted)
