"""Arrays, maps, multisets and rows as text, in Flink's forms: [1, 2], {a=1, b=2} and (1, a)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.runtime.evaluate.lists import Lists, list_column
from sqlstream.types import LogicalType, TypeRoot

Writer = Callable[[pa.Array], pa.Array]
NESTED = frozenset(sql.CONSTRUCTED_ROOTS)


def nested_writer(source: LogicalType, writer_of: Callable[[LogicalType], Writer]) -> Writer:
    """The writer of a nested type; `writer_of` gives that of a part. NULL within is NULL in words."""
    if source.root is TypeRoot.ROW:
        return _row_writer([writer_of(f.type) for f in source.fields])
    assert source.element is not None
    element = writer_of(source.element) if source.root is not TypeRoot.MULTISET else writer_of(sql.INT)
    if source.root is TypeRoot.ARRAY:
        return lambda values: _joined(
            "[", Lists.of(values), _in_words(element(Lists.of(values).elements())), "]"
        )
    key = writer_of(source.key if source.key is not None else source.element)

    def write(values: pa.Array) -> pa.Array:
        entries = Lists.of(values)
        keys, items = entries.elements().flatten()
        pairs = pc.binary_join_element_wise(_in_words(key(keys)), _in_words(element(items)), "=")
        return _joined("{", entries, pairs, "}")

    return write


def _row_writer(writers: list[Writer]) -> Writer:
    def write(values: pa.Array) -> pa.Array:
        parts = [_in_words(w(column)) for w, column in zip(writers, values.flatten(), strict=True)]
        inner = pc.binary_join_element_wise(*parts, ", ")
        text = pc.binary_join_element_wise("(", inner, ")", "")
        return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))

    return write


def _in_words(text: pa.Array) -> pa.Array:
    return pc.fill_null(text, "NULL")


def _joined(left: str, lists: Lists, texts: pa.Array, right: str) -> pa.Array:
    whole = list_column(pa.list_(pa.string()), lists.lengths, texts, lists.nulls)
    return pc.binary_join_element_wise(left, pc.binary_join(whole, ", "), right, "")
