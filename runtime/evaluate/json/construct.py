"""JSON_OBJECT, JSON_ARRAY, JSON, JSON_STRING and what JSON aggregates are finished with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.json.documents import Documents, NumberForm, read_documents
from sqlstream.runtime.evaluate.json.quoting import quoted
from sqlstream.runtime.evaluate.json.value_text import json_writer
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, as_array, as_arrays, literal_of
from sqlstream.runtime.kernels import json_tape

Numbers = np.ndarray[Any, Any]


def json_string(call: Call, context: EvaluationContext) -> Kernel:
    """(value): the value as JSON; NULL for NULL."""
    write = json_writer(call.args[0].type)

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


def _children_by_name(documents: Documents) -> tuple[Numbers, pa.Array]:
    """The members of all objects, by object and name, and their names."""
    tape = documents.tape
    members = np.flatnonzero(tape[:, json_tape.KEY] >= 0).astype(np.int32)
    starts = np.ascontiguousarray(tape[members, json_tape.KEY])
    ends = np.ascontiguousarray(tape[members, json_tape.KEY_END])
    names = documents.spans(starts, ends)
    table = pa.table({"parent": tape[members, json_tape.PARENT], "name": names})
    order = pc.sort_indices(table, [("parent", "ascending"), ("name", "ascending")])
    return members[order.to_numpy()], names.take(order)


def repeated_names(documents: Documents) -> Numbers:
    """The last members of names that occur more than once in their object."""
    keys = documents.without_repeated_names().tape[:, json_tape.KEY]
    return -2 - keys[keys <= -2]


def _check_names(documents: Documents) -> None:
    repeated = repeated_names(documents)
    parents = documents.tape[repeated, json_tape.PARENT]
    of_roots = repeated[documents.tape[parents, json_tape.PARENT] < 0]
    if len(of_roots):
        member = documents.tape[of_roots[:1]]
        name = documents.spans(
            np.ascontiguousarray(member[:, json_tape.KEY]), np.ascontiguousarray(member[:, json_tape.KEY_END])
        )
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
    return Documents(documents.text, documents.data, tape, documents.roots, documents.form, True)


_MEMBERS_MAX = 64
"""Objects with more members are put in order by Arrow."""


def _order_many_names(documents: Documents, tape: Numbers) -> None:
    reached = np.zeros(len(tape) + 1, bool)
    # A member that was repeated is in no list of siblings.
    reached[tape[:, json_tape.FIRST]] = reached[tape[:, json_tape.SIBLING]] = True
    members, _ = _children_by_name(documents)
    members = members[reached[members]]
    parents = tape[members, json_tape.PARENT]
    is_first = np.ones(len(members), bool)
    is_first[1:] = parents[1:] != parents[:-1]
    tape[parents[is_first], json_tape.FIRST] = members[is_first]
    following = np.append(members[1:], -1)
    following[np.append(is_first[1:], True)] = -1
    tape[members, json_tape.SIBLING] = following
