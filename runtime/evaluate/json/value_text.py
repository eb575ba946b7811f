"""Values of all types as JSON, as Jackson writes them for Flink's JSON functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.runtime.evaluate.cast_to_text import text_writer, write_floats
from sqlstream.runtime.evaluate.json.quoting import quoted
from sqlstream.runtime.evaluate.kernel import null_mask
from sqlstream.runtime.evaluate.local_time import to_local
from sqlstream.runtime.evaluate.timestamp_format import TimestampFormat
from sqlstream.types import LogicalType, TypeRoot

Writer = Callable[[pa.Array], pa.Array]
_PLAIN_SCALE_MAX = 6


def json_writer(source: LogicalType) -> Writer:
    """From values of a type to JSON, NULL for NULL; of types that JSON_STRING takes."""
    if sql.is_string(source):
        return quoted
    if sql.is_integer(source):
        return lambda values: pc.cast(values, pa.string())
    if source.root in sql.APPROXIMATE_ROOTS:
        return _floats
    if source.root in sql.BINARY_ROOTS:
        return _binary
    if sql.is_timestamp(source):
        return lambda values: quoted(_moment(values, is_instant=source.root is TypeRoot.TIMESTAMP_LTZ))
    if source.root in (TypeRoot.DATE, TypeRoot.TIME):
        write = text_writer(source, "UTC")
        return lambda values: quoted(write(values))
    if source.root in sql.NESTED_ROOTS:
        return _NESTED[source.root](source)
    return _WRITERS[source.root]


def _booleans(values: pa.Array) -> pa.Array:
    return pc.if_else(values, "true", "false")


def _floats(values: pa.Array) -> pa.Array:
    texts = write_floats(values)
    is_finite = pc.is_finite(values)
    if pc.all(is_finite, min_count=0).as_py():
        return texts
    return pc.if_else(is_finite, texts, pc.binary_join_element_wise('"', texts, '"', ""))


def _binary(values: pa.Array) -> pa.Array:
    from sqlstream.runtime.formats.base64_column import encode_base64

    return quoted(encode_base64(values.cast(pa.binary())))


def _decimals(values: pa.Array) -> pa.Array:
    """As Java's BigDecimal prints: with an exponent where there are more than five zeros behind the point."""
    precision, scale = values.type.precision, values.type.scale
    plain = text_writer(sql.decimal(precision, scale), "UTC")(values)
    if scale <= _PLAIN_SCALE_MAX:
        return plain
    unscaled = pc.cast(values.view(pa.decimal128(precision, 0)), pa.string())
    parts = pc.extract_regex(unscaled, r"\A(?P<sign>-?)(?P<first>\d)(?P<rest>\d*)\z")
    sign, first, rest = (pc.struct_field(parts, n) for n in ("sign", "first", "rest"))
    exponent = pc.subtract(pc.utf8_length(rest), scale)
    point = pc.if_else(pc.equal(rest, ""), "", ".")
    scientific = pc.binary_join_element_wise(
        sign, first, point, rest, "E", pc.cast(exponent, pa.string()), ""
    )
    return pc.if_else(pc.less(exponent, -_PLAIN_SCALE_MAX), scientific, plain)


def _moment(values: pa.Array, *, is_instant: bool) -> pa.Array:
    """As LocalDateTime and Instant of Java print: digits in threes; a LocalDateTime leaves out seconds that are 0."""
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[values.type.unit]
    form = TimestampFormat("yyyy-MM-dd HH:mm:ss." + "S" * digits)
    text = form.format(to_local(values, "UTC") if is_instant else values)
    text = pc.replace_substring_regex(text, r"\.?(000)*\z", "")
    if is_instant:
        text = pc.binary_join_element_wise(text, "Z", "")
    else:
        text = pc.replace_substring_regex(text, r"( \d\d:\d\d):00\z", r"\1")
    return pc.replace_substring(text, " ", "T", max_replacements=1)


def _with_null_words(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "null")


def _enclosed(opening: str, lists: pa.Array, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")


def _array(source: LogicalType) -> Writer:
    assert source.element is not None
    write = json_writer(source.element)

    def written(values: pa.Array) -> pa.Array:
        offsets = values.offsets.to_numpy()
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        texts = _with_null_words(write(values.values.slice(first, count)))
        mask = null_mask(values)
        places = pa.array(offsets - offsets[0])
        lists = pa.ListArray.from_arrays(places, texts, mask=None if mask is None else pa.array(mask))
        return _enclosed("[", lists, "]")

    return written


def _map(source: LogicalType) -> Writer:
    assert source.key is not None
    assert source.element is not None
    write = json_writer(source.element)

    def written(values: pa.Array) -> pa.Array:
        offsets = values.offsets.to_numpy()
        keys, items = values.keys.slice(int(offsets[0])), values.items.slice(int(offsets[0]))
        owners = np.repeat(np.arange(len(values)), np.diff(offsets))
        keys, items = keys.slice(0, len(owners)), items.slice(0, len(owners))
        order = pc.sort_indices(
            pa.table({"owner": owners, "key": keys}), [("owner", "ascending"), ("key", "ascending")]
        )
        members = pc.binary_join_element_wise(quoted(keys), _with_null_words(write(items)), ":").take(order)
        places = pa.array((offsets - offsets[0]).astype(np.int32))
        mask = null_mask(values)
        lists = pa.ListArray.from_arrays(places, members, mask=None if mask is None else pa.array(mask))
        return _enclosed("{", lists, "}")

    return written


def _row(source: LogicalType) -> Writer:
    fields = sorted((f.name, i) for i, f in enumerate(source.fields))
    writers = [
        (quoted(pa.array([n]))[0].as_py() + ":", i, json_writer(source.fields[i].type)) for n, i in fields
    ]

    def written(values: pa.Array) -> pa.Array:
        members = [
            pc.binary_join_element_wise(name, _with_null_words(write(pc.struct_field(values, [place]))), "")
            for name, place, write in writers
        ]
        inner = pc.binary_join_element_wise(*members, ",") if members else pa.repeat("", len(values))
        text = pc.binary_join_element_wise("{", inner, "}", "")
        return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))

    return written


_WRITERS: dict[TypeRoot, Writer] = {
    TypeRoot.VARIANT: lambda values: values,
    TypeRoot.BOOLEAN: _booleans,
    TypeRoot.DECIMAL: _decimals,
    TypeRoot.NULL: lambda values: pa.nulls(len(values), pa.string()),
}
_NESTED: dict[TypeRoot, Callable[[LogicalType], Writer]] = {
    TypeRoot.ARRAY: _array,
    TypeRoot.MAP: _map,
    TypeRoot.ROW: _row,
}
