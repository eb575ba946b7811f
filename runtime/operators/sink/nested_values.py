"""The fields of rows, elements of arrays, and keys and values of maps in a column of a sink, for the checks of constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream import config
from sqlstream.runtime.evaluate.kernel import null_mask
from sqlstream.runtime.evaluate.lists import Lists, list_column, map_column
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType, TypeRoot

ENFORCER = "table.exec.sink.nested-constraint-enforcer"


class Nested(NamedTuple):
    """All values of one place in a column: its name (`r.f`, `a[element]`, `m[key]`, `m[value]`), their type, and the row of each.
    Those whose row, array or map is NULL are not there."""

    name: str
    type: LogicalType
    values: pa.Array
    rows: Array


class NestedConstraints:
    """What `table.exec.sink.nested-constraint-enforcer` has checked: nothing, fields of rows, or elements of collections too."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        mode = config.get(settings, ENFORCER)
        self._roots = {
            "IGNORE": frozenset[TypeRoot](),
            "ROWS": frozenset({TypeRoot.ROW}),
            "ROWS_AND_COLLECTIONS": frozenset({TypeRoot.ROW, TypeRoot.ARRAY, TypeRoot.MAP}),
        }[mode]

    def has(self, t: LogicalType, is_checked: Callable[[LogicalType], bool]) -> bool:
        """Whether some type in this one is to be checked."""
        return t.root in self._roots and any(is_checked(p) or self.has(p, is_checked) for p in t.parts)

    def walk(self, name: str, t: LogicalType, values: pa.Array) -> Iterator[Nested]:
        """All places in a column."""
        return self._walk(Nested(name, t, values, np.arange(len(values))))

    def _walk(self, outer: Nested) -> Iterator[Nested]:
        name, t, values, rows = outer
        if t.root not in self._roots:
            return
        if values.null_count:
            present = values.is_valid()
            values, rows = values.filter(present), rows[present.to_numpy(zero_copy_only=False)]
        for inner in self._parts(Nested(name, t, values, rows)):
            yield inner
            yield from self._walk(inner)

    def _parts(self, outer: Nested) -> Iterator[Nested]:
        name, t, values, rows = outer
        if t.root is TypeRoot.ROW:
            for number, field in enumerate(t.fields):
                yield Nested(f"{name}.{field.name}", field.type, values.field(number), rows)
            return
        lists = Lists.of(values)
        elements, owners = lists.elements(), rows[lists.owners()]
        assert t.element is not None
        if t.root is TypeRoot.ARRAY:
            yield Nested(f"{name}[element]", t.element, elements, owners)
            return
        assert t.key is not None
        yield Nested(f"{name}[key]", t.key, elements.field(0), owners)
        yield Nested(f"{name}[value]", t.element, elements.field(1), owners)

    def replaced(
        self, t: LogicalType, values: pa.Array, change: Callable[[LogicalType, pa.Array], pa.Array]
    ) -> pa.Array:
        """The column with each value in it, but not the column's own, changed to one of the same type."""
        if t.root not in self._roots:
            return values

        def inner(part: LogicalType, array: pa.Array) -> pa.Array:
            return self.replaced(part, change(part, array), change)

        if t.root is TypeRoot.ROW:
            fields = [inner(f.type, values.field(n)) for n, f in enumerate(t.fields)]
            mask = values.is_null() if values.null_count else None
            return pa.StructArray.from_arrays(fields, fields=list(values.type), mask=mask)
        lists = Lists.of(values)
        elements = lists.elements()
        assert t.element is not None
        if t.root is TypeRoot.ARRAY:
            return list_column(values.type, lists.lengths, inner(t.element, elements), null_mask(values))
        assert t.key is not None
        keys, items = inner(t.key, elements.field(0)), inner(t.element, elements.field(1))
        return map_column(values.type, lists.lengths, keys, items, null_mask(values))
