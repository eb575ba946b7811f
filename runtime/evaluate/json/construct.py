"""JSON_OBJECT, JSON_ARRAY, JSON, JSON_STRING and what JSON aggregates are finished with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.cast_to_text import text_writer, write_floats
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.json.documents import Documents, NumberForm, quoted, read_documents
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, as_array, as_arrays, literal_of, null_mask
from sqlstream.runtime.evaluate.time.local_time import to_local
from sqlstream.runtime.evaluate.time.timestamp_format import TimestampFormat
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.types import LogicalType, TypeRoot

Numbers = np.ndarray[Any, Any]


def json_string(call: Call, context: EvaluationContext) -> Kernel:
    """(value): the value as JSON; NULL for NULL."""
    write = json_text_writer(call.args[0].type)

    def kernel(value: Datum) -> pa.Array:
        values = as_array(value, 1) if isinstance(value, pa.Scalar) else value
        return write(values)

    return kernel


def _joined(call: Call, parts: list[tuple[str, Datum]], opening: str, closing: str, rows: int) -> pa.Array:
    """`prefix value` of all parts between brackets; a part that is NULL is `null`, or left out."""
    if not parts:
        return pa.repeat(opening + closing, rows)
    if literal_of(call, 0) == "ABSENT" and any(value.null_count for _, value in parts):
        inner = _present([pc.binary_join_element_wise(prefix, value, "") for prefix, value in parts])
        return pc.binary_join_element_wise(opening, inner, closing, "")
    pieces: list[Datum] = []
    for prefix, value in parts:
        pieces += [f"{',' if pieces else opening}{prefix}", _with_null_words(value)]
    return pc.binary_join_element_wise(*pieces, closing, "")


def _with_null_words(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "null") if texts.null_count else texts


def _present(pieces: list[pa.Array]) -> pa.Array:
    """Those that are not NULL between commas. (Arrow's null_handling="skip" drops the rows in which all are NULL.)"""
    behind_commas = [pc.fill_null(pc.binary_join_element_wise(",", piece, ""), "") for piece in pieces]
    return pc.utf8_slice_codeunits(pc.binary_join_element_wise(*behind_commas, ""), 1)


def json_object(call: Call, context: EvaluationContext) -> Kernel:
    """(on null, name, value, …): an object of values that are JSON; the names are constants, ascending."""
    names = [quoted(pa.array([str(literal_of(call, p))]))[0].as_py() for p in range(1, len(call.args), 2)]

    def kernel(*given: Datum) -> pa.Array:
        args = as_arrays(*given)
        return _joined(
            call, [(f"{n}:", v) for n, v in zip(names, args[2::2], strict=True)], "{", "}", len(args[0])
        )

    return kernel


def json_array(call: Call, context: EvaluationContext) -> Kernel:
    """(on null, value, …): an array of values that are JSON."""

    def kernel(*given: Datum) -> pa.Array:
        args = as_arrays(*given)
        return _joined(call, [("", v) for v in args[1:]], "[", "]", len(args[0]))

    return kernel


def json_raw(call: Call, context: EvaluationContext) -> Kernel:
    """(text): JSON without blanks, names of objects in order; NULL for an empty text. UserError for malformed JSON."""

    def kernel(given: Datum) -> pa.Array:
        text = as_array(given, 1) if isinstance(given, pa.Scalar) else given
        documents = read_documents(text)
        unread = text.take(pa.array(np.flatnonzero(documents.roots < 0)))
        malformed = unread.filter(pc.not_equal(pc.utf8_trim_whitespace(unread), ""))
        if len(malformed):
            shown = malformed[0].as_py()[:60]
            hint = "leave JSON(…) out to insert the text as a string, or test it with IS JSON"
            raise UserError("SS5102", f"JSON found malformed JSON: '{shown}'", hint=hint)
        ordered = with_sorted_names(documents)
        return ordered.json(ordered.roots)

    return kernel


def json_items(call: Call, context: EvaluationContext) -> Kernel:
    """(values that are JSON, as an array): an array of those that are not NULL."""

    def kernel(given: Datum) -> pa.Array:
        return pc.binary_join_element_wise("[", _between_commas(given), "]", "")

    return kernel


def _between_commas(given: Datum) -> pa.Array:
    """The elements of each array that are not NULL; an empty text for NULL."""
    lists = as_array(given, 1) if isinstance(given, pa.Scalar) else given
    values = lists.flatten()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    is_kept = values.is_valid().to_numpy(zero_copy_only=False)
    kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    offsets = kept_before[np.concatenate([[0], np.cumsum(lengths)])].astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), values.drop_null()), ",")


def json_member(call: Call, context: EvaluationContext) -> Kernel:
    """(on null, key, value that is JSON): a member; NULL for NULL where it is to be absent. UserError for a key that is NULL."""
    is_absent = literal_of(call, 0) == "ABSENT"

    def kernel(*given: Datum) -> pa.Array:
        _, keys, values = as_arrays(*given)
        if keys.null_count:
            hint = "filter such rows, or give NULL another value: COALESCE(key, …)"
            raise UserError("SS5102", "a key of JSON_OBJECTAGG is NULL", hint=hint)
        texts = values if is_absent else pc.fill_null(values, "null")
        return pc.binary_join_element_wise(quoted(keys), texts, ":")

    return kernel


def json_members(call: Call, context: EvaluationContext) -> Kernel:
    """(members, as an array): an object whose names are in order. UserError for a name that is given twice."""

    def kernel(given: Datum) -> pa.Array:
        members = pc.binary_join_element_wise("{", _between_commas(given), "}", "")
        documents = read_documents(members, NumberForm.WRITTEN)
        _check_names(documents)
        ordered = with_sorted_names(documents)
        return ordered.json(ordered.roots)

    return kernel


def _children_by_name(documents: Documents) -> Numbers:
    """The members of all objects, by object and name."""
    tape = documents.tape
    members = np.flatnonzero(tape[:, json_tape.KEY] >= 0).astype(np.int32)
    names = documents.names(members, escaped=True)
    table = pa.table({"parent": tape[members, json_tape.PARENT], "name": names})
    order = pc.sort_indices(table, [("parent", "ascending"), ("name", "ascending")])
    return members[order.to_numpy()]


def repeated_names(documents: Documents) -> Numbers:
    """The last members of names that occur more than once in their object."""
    keys = documents.without_repeated_names().tape[:, json_tape.KEY]
    return -2 - keys[keys <= -2]


def _check_names(documents: Documents) -> None:
    repeated = repeated_names(documents)
    parents = documents.tape[repeated, json_tape.PARENT]
    of_roots = repeated[documents.tape[parents, json_tape.PARENT] < 0]
    if len(of_roots):
        name = documents.names(of_roots[:1], escaped=True)
        raise UserError(
            "SS5102",
            f"JSON_OBJECTAGG has the key '{name[0].as_py()}' twice",
            hint="aggregate the values of a key first, or put the keys into a key of GROUP BY",
        )


def with_sorted_names(documents: Documents) -> Documents:
    """Documents whose objects have their members in the order of their names."""
    documents = documents.without_repeated_names()
    tape = documents.tape.copy()
    if json_tape.order_names(documents.data, tape, np.empty(_MEMBERS_MAX, np.int32)):
        _order_many_names(documents, tape)
    return dataclasses.replace(documents, tape=tape)


_MEMBERS_MAX = 64
"""Objects with more members are put in order by Arrow."""


def _order_many_names(documents: Documents, tape: Numbers) -> None:
    reached = np.zeros(len(tape) + 1, bool)
    # A member that was repeated is in no list of siblings. A list ends with -1, which marks the entry behind the last.
    reached[tape[:, json_tape.FIRST]] = reached[tape[:, json_tape.SIBLING]] = True
    members = _children_by_name(documents)
    members = members[reached[members]]
    parents = tape[members, json_tape.PARENT]
    is_first = np.ones(len(members), bool)
    is_first[1:] = parents[1:] != parents[:-1]
    tape[parents[is_first], json_tape.FIRST] = members[is_first]
    following = np.append(members[1:], -1)
    following[np.append(is_first[1:], True)] = -1
    tape[members, json_tape.SIBLING] = following


# Values of all types as JSON, as Jackson writes them for Flink's JSON functions.


Writer = Callable[[pa.Array], pa.Array]
_PLAIN_SCALE_MAX = 6


def json_text_writer(source: LogicalType) -> Writer:
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


def _enclosed(opening: str, lists: pa.Array, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")


def _array(source: LogicalType) -> Writer:
    assert source.element is not None
    write = json_text_writer(source.element)

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
    write = json_text_writer(source.element)

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
        (quoted(pa.array([n]))[0].as_py() + ":", i, json_text_writer(source.fields[i].type))
        for n, i in fields
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
