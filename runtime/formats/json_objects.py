"""JSON objects as columns: their fields as texts, at every depth in the shape of the types, and these texts as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.evaluate import lists
from sqlstream.runtime.evaluate.json.documents import Documents, read_lines
from sqlstream.runtime.formats.text_values import Unparsable, parse_decimals, parse_text, require_parsed
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.types import NESTED_ROOTS, LogicalType, TypeRoot, is_integer

Mask = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, Any]


class JsonObjects:
    """Texts, each taken apart as one object.

    `values`: the texts of the fields, NULL for a field that is missing or null, or that has another shape than its type.
    `is_object`: which texts are JSON objects. `lacks_field`: which lack a field, or have an object at any depth that does.
    `is_misshapen`: by column, which have, at any depth, another value than null where the type has a ROW, ARRAY or MAP.
    """

    def __init__(
        self, texts: pa.Array, types: Mapping[str, LogicalType], *, keeps_quotes: bool = False
    ) -> None:
        """`keeps_quotes`: a DECIMAL that is a JSON string has its quotes."""
        documents = read_lines(texts)
        self.is_object = documents.kinds(documents.roots) == json_tape.OBJECT
        self.is_misshapen: dict[str, Mask] = {}
        taken = _Taken(documents, keeps_quotes, len(texts))
        members = taken.members(documents.roots, list(types), np.arange(len(texts)))
        columns = []
        for (name, t), nodes in zip(types.items(), members, strict=True):
            taken.is_misshapen = self.is_misshapen[name] = np.zeros(len(texts), dtype=bool)
            columns.append(taken.texts(nodes, t, np.arange(len(texts))))
        self.lacks_field = taken.lacks_field
        self.values = pa.StructArray.from_arrays(columns, names=list(types))


def take_apart(texts: pa.Array, t: LogicalType) -> pa.Array:
    """Each text, which is a value of a nested type or NULL, as the texts of its parts. ArrowInvalid for one of another shape."""
    documents = read_lines(texts)
    taken = _Taken(documents, False, len(texts))
    parts = taken.texts(documents.roots, t, np.arange(len(texts)))
    if taken.is_misshapen.any():
        raise pa.ArrowInvalid(f"a value is no {t}")
    return parts


class _Taken:
    """Values of documents as Arrow columns of texts. State: which documents lack a field, and which are misshapen."""

    def __init__(self, documents: Documents, keeps_quotes: bool, rows: int) -> None:
        self._documents = documents
        self._keeps_quotes = keeps_quotes
        self.lacks_field = np.zeros(rows, dtype=bool)
        self.is_misshapen = np.zeros(rows, dtype=bool)

    def members(self, nodes: Numbers, names: Sequence[str], owners: Numbers) -> Numbers:
        """Per name, the members of these values; `owners` are the rows that they belong to."""
        members = self._documents.members(nodes, *names)
        is_object = self._documents.kinds(nodes) == json_tape.OBJECT
        self.lacks_field[owners[is_object & (members < 0).any(axis=0)]] = True
        return members

    def texts(self, nodes: Numbers, t: LogicalType, owners: Numbers) -> pa.Array:
        """The texts of these values (NULL for -1 and null), in the shape of a type."""
        kinds = self._documents.kinds(nodes)
        if t.root not in NESTED_ROOTS:
            return self._scalars(nodes, kinds, t)
        is_shaped = kinds == (json_tape.ARRAY if t.root is TypeRoot.ARRAY else json_tape.OBJECT)
        self.is_misshapen[owners[~is_shaped & (kinds >= 0) & (kinds != json_tape.NULL)]] = True
        nodes, mask = np.where(is_shaped, nodes, -1), pa.array(~is_shaped)
        if t.root is TypeRoot.ROW:
            names = [f.name for f in t.fields]
            members = self.members(nodes, names, owners)
            parts = [self.texts(m, f.type, owners) for m, f in zip(members, t.fields, strict=True)]
            return pa.StructArray.from_arrays(parts, names=names, mask=mask)
        assert t.element is not None
        children, counts = self._documents.children(nodes)
        offsets = lists.offsets_of(counts)
        values = self.texts(children, t.element, np.repeat(owners, counts))
        if t.key is None:
            return pa.ListArray.from_arrays(offsets, values, mask=mask)
        return pa.MapArray.from_arrays(offsets, self._documents.names(children), values, mask=mask)

    def _scalars(self, nodes: Numbers, kinds: Numbers, t: LogicalType) -> pa.Array:
        is_json = kinds >= json_tape.ARRAY
        if self._keeps_quotes and t.root is TypeRoot.DECIMAL:
            is_json |= kinds == json_tape.STRING
        texts = self._documents.texts(np.where(is_json | (kinds == json_tape.NULL), -1, nodes))
        if not is_json.any():
            return texts
        return pc.coalesce(texts, self._documents.json(np.where(is_json, nodes, -1)))


_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"?|(?P<comma>,)[\0- ]*[}\]]|(?P<word>-?[iIN]|-n|n[aA])|[^"\0- ,:{}\[\]][^\0- ,}\]]*|.',
    re.DOTALL,
)


def why_no_object(text: bytes) -> str:
    """What is wrong with a text that is no JSON object.

    >>> why_no_object(b'{"a": [1,]}'), why_no_object(b"[]")
    ('a comma stands before a closing bracket', 'it is no JSON object')
    """
    for token in _TOKEN.finditer(text):
        if token["comma"]:
            return "a comma stands before a closing bracket"
        if token["word"]:
            return "NaN and Infinity are no JSON without quotes"
    return "it is no JSON object"


Parse = Callable[[pa.Array, LogicalType], pa.Array]


def parse_values(column: pa.Array, t: LogicalType, parse: Parse | None = None) -> pa.Array:
    """Texts, at any depth, as values; ArrowInvalid when one of them is none. `parse` is what the parts of a nested value are read
    by, where it is not this."""
    parse = parse or parse_values
    match t.root:
        case TypeRoot.ROW:
            parts = [parse(part, f.type) for part, f in zip(column.flatten(), t.fields, strict=True)]
            fields = [pa.field(f.name, p.type) for f, p in zip(t.fields, parts, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
        case TypeRoot.ARRAY:
            assert t.element is not None
            values = _parse_elements(column.flatten(), t.element, parse)
            return pa.ListArray.from_arrays(
                offsets_of(column), values, type=to_arrow_type(t), mask=column.is_null()
            )
        case TypeRoot.MAP:
            assert t.key is not None
            assert t.element is not None
            entries = entries_of(column)
            return pa.MapArray.from_arrays(
                offsets_of(column),
                _parse_elements(entries.field(0), t.key, parse),
                _parse_elements(entries.field(1), t.element, parse),
                type=to_arrow_type(t),
                mask=column.is_null(),
            )
        case TypeRoot.BOOLEAN:
            return _parse_boolean(column)
        case _ if is_integer(t):
            return _parse_integer(column, t)
        case _:
            return parse_text(column, t)


def _parse_elements(column: pa.Array, t: LogicalType, parse: Parse) -> pa.Array:
    """Texts of elements as values. The place of an element is not that of its row: nobody is told which is no value."""
    try:
        return parse(column, t)
    except Unparsable as error:
        raise pa.ArrowInvalid(str(error)) from error


def entries_of(column: pa.MapArray) -> pa.StructArray:
    """The entries of all maps that are not NULL, in the order of `offsets_of`."""
    entry = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    maps = pa.ListArray.from_buffers(
        pa.list_(entry.type), len(column), column.buffers()[:2], column.null_count, column.offset, [entry]
    )
    return maps.flatten()


def offsets_of(column: pa.Array) -> pa.Array:
    """The offset of each list when the elements of all non-NULL lists are concatenated."""
    if pa.types.is_map(column.type):
        starts = np.frombuffer(column.buffers()[1], dtype=np.int32)[
            column.offset : column.offset + len(column) + 1
        ]
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.diff(starts), 0)
    else:
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return lists.offsets_of(lengths)


def _parse_boolean(column: pa.Array) -> pa.Array:
    if pc.any(pc.is_in(column, value_set=pa.array(["0", "1"]))).as_py():
        raise pa.ArrowInvalid("a number is no boolean")
    return parse_text(column, LogicalType(TypeRoot.BOOLEAN))


def _parse_integer(column: pa.Array, t: LogicalType) -> pa.Array:
    try:
        return parse_text(column, t)
    except pa.ArrowInvalid:
        # JSON has no integer type: 2.0 and 2e3 are integers too, as long as no digit is lost.
        whole = parse_decimals(column, pa.decimal128(38, 18))
        target = to_arrow_type(t)
        try:
            return pc.cast(whole, target)
        except pa.ArrowInvalid:
            bounds = np.iinfo(target.to_pandas_dtype())
            least, most = (pa.scalar(Decimal(int(end)), whole.type) for end in (bounds.min, bounds.max))
            is_within = pc.and_(pc.greater_equal(whole, least), pc.less_equal(whole, most))
            is_whole = pc.and_(is_within, pc.equal(pc.floor(whole), whole))
            require_parsed(column, pc.if_else(is_whole, whole, None), target)
            raise
