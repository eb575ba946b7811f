"""Functions of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Literal
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Kernel,
    Values,
    is_literal,
    literal_of,
    null_mask,
    numbers,
    rows_of,
    with_int_parameters,
    with_target,
)
from sqlstream.runtime.evaluate.lists import (
    Elements,
    Lists,
    codes_of,
    compared_places,
    distinct_places,
    joined_nulls,
    list_column,
    lists_of,
    offsets_of,
    one_after_another,
    ranks_of,
    taken,
)


def ordered_array(call: Call, context: EvaluationContext) -> Kernel:
    """ARRAY_AGG WITHIN GROUP: the value behind the keys of each collected row, in the order of the keys."""
    letters, target = _letters(call), to_arrow_type(call.type)

    def kernel(rows: pa.Array, *_: object) -> pa.Array:
        lists, fields = _ordered(rows, letters)
        return list_column(target, lists.lengths, fields[0], lists.nulls)

    return kernel


def ordered_list(call: Call, context: EvaluationContext) -> Kernel:
    """The texts behind the keys, each after the separator of its row, by default a comma; the first has none."""
    letters = _letters(call)

    def kernel(rows: pa.Array, *_: object) -> pa.Array:
        lists, fields = _ordered(rows, letters)
        separators = pc.fill_null(fields[1], "") if len(fields) > 1 else pa.repeat(",", len(fields[0]))
        is_first = lists.ordinals() == 0
        pieces = pc.binary_join_element_wise(pc.if_else(pa.array(is_first), "", separators), fields[0], "")
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets_of(lists.lengths), pieces), "")
        return pc.if_else(pa.array(lists.lengths > 0), joined, pa.scalar(None, joined.type))

    return kernel


def _letters(call: Call) -> str:
    order = call.args[1]
    assert isinstance(order, Literal)
    return str(order.value)


def _ordered(rows: pa.Array, letters: str) -> tuple[Lists, list[pa.Array]]:
    """The lists, and the columns behind the keys of all their elements, list by list in order; equal keys as they came."""
    lists = Lists.of(rows)
    columns = lists.elements().flatten()
    count = len(letters) // 2
    places = [_places(c, letters[2 * i : 2 * i + 2]) for i, c in enumerate(columns[:count])]
    order = np.lexsort((*reversed(places), lists.owners()))
    return lists, [column.take(pa.array(order)) for column in columns[count:]]


def _places(column: pa.Array, letters: str) -> Values:
    """Numbers that are in order as the keys are, the same for equal ones."""
    numbers = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    places = -numbers if letters[0] == "D" else numbers
    missing = null_mask(column)
    if missing is not None:
        ends = np.iinfo(np.int64)
        places[missing] = ends.min if letters[1] == "F" else ends.max
    return places


def _of_lists(kernel: Callable[..., pa.Array]) -> Builder:
    """`kernel(target, *lists)` of arguments that are arrays, without a copy of those that are constant."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        target = to_arrow_type(call.type)
        return lambda *args: kernel(target, *(lists_of(arg, rows_of(*args)) for arg in args))

    return build


def _of_elements(column: pa.Array) -> Lists:
    """Each row of a column as a list of one element."""
    rows = len(column)
    return Lists(np.arange(rows), np.ones(rows, dtype=np.int64), column, None)


def _append(target: pa.DataType, array: pa.Array, element: pa.Array) -> pa.Array:
    lists = Lists.of(array)
    return _one_list(target, [lists, _of_elements(element)], lists.nulls)


def _prepend(target: pa.DataType, array: pa.Array, element: pa.Array) -> pa.Array:
    lists = Lists.of(array)
    return _one_list(target, [_of_elements(element), lists], lists.nulls)


def _concat(target: pa.DataType, *parts: Lists) -> pa.Array:
    return _one_list(target, parts, joined_nulls(*(part.nulls for part in parts)))


def _one_list(target: pa.DataType, parts: Sequence[Lists], nulls: Values | None) -> pa.Array:
    lengths, values, places = one_after_another(parts)
    return list_column(target, lengths, taken(values, places), nulls)


def _matches(array: pa.Array, element: pa.Array) -> tuple[Lists, Values]:
    """The lists, and for each of their elements whether it equals that of its row; NULL equals NULL."""
    lists = Lists.of(array)
    codes, wanted = codes_of(lists.elements(), element)
    return lists, codes == wanted[lists.owners()]


def _contains(target: pa.DataType, array: pa.Array, element: pa.Array) -> pa.Array:
    lists, is_match = _matches(array, element)
    return pa.array(lists.counted(is_match) > 0, mask=lists.nulls)


def _position(target: pa.DataType, array: pa.Array, element: pa.Array) -> pa.Array:
    """The place, from 1, of the first such element; 0 when there is none."""
    lists, is_match = _matches(array, element)
    places = np.zeros(lists.rows, dtype=np.int32)
    # Backwards, so that the first match of a row is written last.
    found = np.flatnonzero(is_match)[::-1]
    places[lists.owners()[found]] = lists.ordinals()[found] + 1
    return pa.array(places, mask=null_mask(array, element))


def _remove(target: pa.DataType, array: pa.Array, element: pa.Array) -> pa.Array:
    lists, is_match = _matches(array, element)
    return _kept(target, lists, np.flatnonzero(~is_match))


def _kept(target: pa.DataType, lists: Lists, chosen: Values) -> pa.Array:
    """The lists with only these of their elements, in the order of `chosen`, which is by row."""
    lengths = np.bincount(lists.owners()[chosen], minlength=lists.rows)
    return list_column(target, lengths, lists.elements().take(pa.array(chosen)), lists.nulls)


def _distinct(target: pa.DataType, lists: Lists) -> pa.Array:
    kept, counts = distinct_places(lists.positions(), lists.lengths, Elements.of(lists.values))
    return list_column(target, counts, taken(lists.values, kept), lists.nulls)


def _union(target: pa.DataType, *parts: Lists) -> pa.Array:
    lengths, values, places = one_after_another(parts)
    kept, counts = distinct_places(places, lengths, Elements.of(values))
    return list_column(target, counts, taken(values, kept), joined_nulls(*(part.nulls for part in parts)))


def _against(target: pa.DataType, lists: Lists, others: Lists, *, keeps_common: bool) -> pa.Array:
    """The distinct elements of the left array that the right one has, or has not."""
    nulls = joined_nulls(lists.nulls, others.nulls)
    elements = Elements.of(pa.concat_arrays([lists.values, others.values]))
    kept, counts = compared_places(lists.without(nulls), others, elements, keeps_common=keeps_common)
    return list_column(target, counts, taken(lists.values, kept), nulls)


def _reverse(target: pa.DataType, array: pa.Array) -> pa.Array:
    lists = Lists.of(array)
    ends = np.repeat(lists.starts + lists.lengths - 1, lists.lengths)
    places = pa.array(ends - lists.ordinals())
    return list_column(target, lists.lengths, lists.values.take(places), lists.nulls)


def _slice(target: pa.DataType, array: pa.Array, start: pa.Array, end: pa.Array | None = None) -> pa.Array:
    """From `start` to `end`, both included: from 1, or back from the end when negative; 0 is the beginning."""
    lists = Lists.of(array)
    first = _from_one(numbers(start, np.int64), lists.lengths)
    last = lists.lengths if end is None else _from_one(numbers(end, np.int64), lists.lengths)
    first, last = np.maximum(first, 1), np.minimum(last, lists.lengths)
    nulls = null_mask(array, start) if end is None else null_mask(array, start, end)
    lengths = np.maximum(last - first + 1, 0)
    if nulls is not None:
        lengths[nulls] = 0
    chosen = Lists(lists.starts + first - 1, lengths, lists.values, nulls)
    return list_column(target, lengths, lists.values.take(pa.array(chosen.positions())), nulls)


def _from_one(places: Values, lengths: Values) -> Values:
    """Places back from the end as places from 1 (below 1 before the beginning); 0 is 1."""
    return np.where(places < 0, places + lengths + 1, np.where(places == 0, 1, places))


def _sort(
    target: pa.DataType, array: pa.Array, ascending: pa.Array | None = None, first: pa.Array | None = None
) -> pa.Array:
    """Ascending with NULLs first, or descending with NULLs last; the third argument says where NULLs are."""
    lists = Lists.of(array)
    flags = [flag for flag in (ascending, first) if flag is not None]
    is_ascending = np.ones(lists.rows, dtype=bool) if ascending is None else _is_true(ascending)
    is_null_first = is_ascending if first is None else _is_true(first)
    owners, elements = lists.owners(), lists.elements()
    span = len(elements) + 2
    ranks = ranks_of(elements)
    places = np.where(is_ascending[owners], ranks + 1, span - 2 - ranks)
    missing = null_mask(elements)
    if missing is not None:
        places[missing] = np.where(is_null_first[owners[missing]], 0, span - 1)
    chosen = np.argsort(owners * span + places)
    nulls = joined_nulls(lists.nulls, null_mask(*flags) if flags else None)
    return list_column(target, lists.lengths, elements.take(pa.array(chosen)), nulls)


def _is_true(flags: pa.Array) -> Values:
    return pc.fill_null(flags, False).to_numpy(zero_copy_only=False)


def _extreme(target: pa.DataType, array: pa.Array, *, is_least: bool) -> pa.Array:
    """The least or greatest element that is not NULL; NULL without one."""
    lists = Lists.of(array)
    elements = lists.elements()
    present = pc.is_valid(elements).to_numpy(zero_copy_only=False)
    owners, ranks = lists.owners()[present], ranks_of(elements)[present]
    best = np.full(lists.rows, len(elements) if is_least else -1, dtype=np.int64)
    (np.minimum if is_least else np.maximum).at(best, owners, ranks)
    found = (best >= 0) & (best < len(elements))
    return elements.take(pc.sort_indices(elements)).take(pa.array(best, mask=~found))


def _join(
    target: pa.DataType, array: pa.Array, delimiter: pa.Array, null_text: pa.Array | None = None
) -> pa.Array:
    """The texts with the delimiter between; NULLs are left out, or replaced by the third argument."""
    lists = Lists.of(array)
    owners, elements = lists.owners(), lists.elements().cast(pa.string())
    if null_text is not None:
        elements = pc.coalesce(elements, null_text.take(pa.array(owners)))
    present = np.flatnonzero(pc.is_valid(elements).to_numpy(zero_copy_only=False))
    lengths = np.bincount(owners[present], minlength=lists.rows)
    pieces = list_column(pa.list_(pa.string()), lengths, elements.take(pa.array(present)), lists.nulls)
    joined = pc.binary_join(pieces, delimiter)
    if null_text is None or not null_text.null_count:
        return joined
    return pc.if_else(pc.is_valid(null_text), joined, pa.scalar(None, pa.string()))


def _only_element(target: pa.DataType, array: pa.Array) -> pa.Array:
    lists = Lists.of(array)
    if (lists.lengths > 1).any():
        raise UserError(
            "SS5102",
            f"ELEMENT got an array of {int(lists.lengths.max())} elements",
            hint="give it arrays of at most one element, or read one by its index: array[1]",
        )
    return lists.values.take(pa.array(lists.starts, mask=lists.lengths == 0))


_IN_COLUMNS = "CASE WHEN a1 IS NULL THEN NULL WHEN a0 = '' AND a1 = '' THEN CAST([] AS VARCHAR[]) ELSE string_split(a0, a1) END"


def split(call: Call, context: EvaluationContext) -> Kernel:
    """The parts between delimiters; an empty delimiter splits into characters."""
    target = to_arrow_type(call.type)
    if is_literal(call, 1) and literal_of(call, 1):
        delimiter = literal_of(call, 1)
        return lambda text, _: pc.split_pattern(text, delimiter).cast(target)
    return lambda *args: evaluate_in_duckdb(_IN_COLUMNS, *args).cast(target)


ARRAY_APPEND = with_target(_append)
ARRAY_PREPEND = with_target(_prepend)
ARRAY_CONCAT = _of_lists(_concat)
ARRAY_CONTAINS = with_target(_contains)
ARRAY_POSITION = with_target(_position)
ARRAY_REMOVE = with_target(_remove)
ARRAY_DISTINCT = _of_lists(_distinct)
ARRAY_UNION = _of_lists(_union)
ARRAY_EXCEPT = _of_lists(functools.partial(_against, keeps_common=False))
ARRAY_INTERSECT = _of_lists(functools.partial(_against, keeps_common=True))
ARRAY_REVERSE = with_target(_reverse)
ARRAY_SLICE = with_int_parameters(with_target(_slice))
ARRAY_SORT = with_target(_sort)
ARRAY_MAX = with_target(functools.partial(_extreme, is_least=False))
ARRAY_MIN = with_target(functools.partial(_extreme, is_least=True))
ARRAY_JOIN = with_target(_join)
ELEMENT = with_target(_only_element)
