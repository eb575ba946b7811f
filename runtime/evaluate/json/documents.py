"""A column of JSON documents, read once for all functions of a batch that look into it."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import functools
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.cast_to_text import write_floats
from sqlstream.runtime.evaluate.kernel import BATCH_BYTES_MAX, as_array, null_mask, too_large
from sqlstream.runtime.kernels.buffers import valid_mask, validity_buffer, view_buffer, view_offsets
from sqlstream.runtime.kernels.json import json_nodes, json_tape

Numbers = np.ndarray[Any, Any]
_local = threading.local()


class NumberForm(enum.Enum):
    """How the numbers of documents are written: with all their digits as BigDecimal prints them; in a VARIANT as they are
    written, but for a DOUBLE where there is an exponent; or as they are written."""

    DECIMAL = enum.auto()
    VARIANT = enum.auto()
    WRITTEN = enum.auto()


@dataclasses.dataclass
class Documents:
    """The values of a column of documents as a tape (`sqlstream.runtime.kernels.json.json_tape`).

    `data`: the texts, then what was written anew: strings with Jackson's escapes, numbers as Java prints them. `roots`: the
    value that is the whole document, -1 where it is NULL or malformed. `tape` is not changed but by `without_repeated_names`.
    `is_strict`: read as formats do (see `json_tape`), and the last member of a name stays where it is.
    """

    text: pa.Array
    data: Numbers
    tape: Numbers
    roots: Numbers
    form: NumberForm
    is_strict: bool = False
    _is_unique: bool = False

    def without_repeated_names(self) -> Documents:
        """These documents, once each object holds of members of one name only the last."""
        if not self._is_unique:
            _, most = json_tape.keep_last_values(self.data, self.tape, np.empty(0, np.int32), self.is_strict)
            if most:
                slots = np.full(1 << (2 * most + 1).bit_length(), -1, np.int32)
                json_tape.keep_last_values(self.data, self.tape, slots, self.is_strict)
            self._is_unique = True
        return self

    def kinds(self, values: Numbers) -> Numbers:
        """The kind of each value; -1 for -1."""
        if not len(self.tape):
            return np.full(len(values), -1, np.int32)
        return np.where(values < 0, -1, self.tape[values, json_tape.KIND])

    def counts(self, values: Numbers) -> Numbers:
        """How many children each value has; 0 for scalars and -1."""
        out = np.empty(len(values), np.int32)
        json_nodes.counts_into(out, as_values(values), self.without_repeated_names().tape)
        return out

    def sizes(self, values: Numbers) -> pa.Array:
        """How many elements or members each value has, as text; NULL for scalars."""
        return pa.array(self.counts(values), mask=self.kinds(values) < json_tape.ARRAY).cast(pa.string())

    def members(self, values: Numbers, *names: str) -> Numbers:
        """int32[names, n]: the last member of each name of each object; -1 for none."""
        escaped = [escaped_name(name) for name in names]
        ends = np.cumsum([len(name) for name in escaped], dtype=np.int32)
        out = np.empty((len(names), len(values)), np.int32)
        if names:
            json_nodes.members_into(
                out, as_values(values), self.data, self.tape, np.concatenate(escaped), ends
            )
        return out

    def member(self, values: Numbers, name: str) -> Numbers:
        return self.members(values, name)[0]

    def element(self, values: Numbers, index: int) -> Numbers:
        """The element at this index of each array, from the end where it is negative; -1 for none."""
        out = np.empty(len(values), np.int32)
        json_nodes.elements_into(out, as_values(values), self.tape, index)
        return out

    def children(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """The children of all values in their order, and how many each has."""
        counts = self.counts(values)
        out = np.empty(int(counts.sum()), np.int32)
        json_nodes.children_into(out, as_values(values[values >= 0]), self.tape)
        return out, counts

    def texts(self, values: Numbers) -> pa.Array:
        """The characters of each scalar; NULL for -1."""
        rows = self.tape[values] if len(self.tape) else np.full((len(values), json_tape.WIDTH), 0, np.int32)
        is_none = values < 0
        starts = np.where(is_none, 0, rows[:, json_tape.START]).astype(np.int32)
        ends = np.where(is_none, 0, rows[:, json_tape.END]).astype(np.int32)
        is_string = (rows[:, json_tape.KIND] == json_tape.STRING).astype(np.uint8)
        return _copied(
            json_tape.texts_into,
            int((ends - starts).sum()),
            self.data,
            starts,
            ends,
            is_string,
            nulls=is_none,
        )

    def names(self, members: Numbers, *, escaped: bool = False) -> pa.Array:
        """The name of each member: its characters, or as it stands between quotes."""
        starts, ends = (as_values(self.tape[members, place]) for place in (json_tape.KEY, json_tape.KEY_END))
        is_escaped = np.full(len(starts), not escaped, np.uint8)
        return _copied(json_tape.texts_into, int((ends - starts).sum()), self.data, starts, ends, is_escaped)

    def json(self, values: Numbers) -> pa.Array:
        """Each value as JSON without blanks; NULL for -1."""
        values, tape = as_values(values), self.without_repeated_names().tape
        offsets, out = np.empty(len(values) + 1, np.int32), np.empty(self._size_expected(values), np.uint8)
        size = json_nodes.write_into(out, offsets, values, self.data, tape)
        if size > BATCH_BYTES_MAX:
            raise too_large("a column of JSON")
        if size > len(out):
            out = np.empty(size, np.uint8)
            json_nodes.write_into(out, offsets, values, self.data, tape)
        return strings(offsets, out, values < 0)

    def _size_expected(self, values: Numbers) -> int:
        """The bytes of the values as they are written in the documents: enough unless numbers become longer."""
        places = values[values >= 0]
        spans = self.tape[places, json_tape.END] - self.tape[places, json_tape.START]
        return min(max(int(spans.sum(dtype=np.int64)), 0) + 2 * len(places) + 8, BATCH_BYTES_MAX)

    def numbers(self, values: Numbers) -> Numbers:
        """Numbers as DOUBLE; NaN for values of other kinds."""
        kinds = self.kinds(values)
        found = self.texts(np.where(kinds == json_tape.NUMBER, values, -1))
        return pc.fill_null(pc.cast(found, pa.float64()), float("nan")).to_numpy(zero_copy_only=False)

    def with_numbers(self, numbers: pa.Array) -> tuple[Documents, Numbers]:
        """Documents that hold these numbers, as texts, too, and their values; -1 for NULL."""
        data, starts, ends = _appended(self.data, numbers)
        added = np.full((len(numbers), json_tape.WIDTH), -1, np.int32)
        added[:, json_tape.KIND] = json_tape.NUMBER
        added[:, json_tape.START], added[:, json_tape.END] = starts, ends
        values = np.arange(len(self.tape), len(self.tape) + len(added), dtype=np.int32)
        is_null = numbers.is_null().to_numpy(zero_copy_only=False)
        return self.with_values(added, data), np.where(is_null, -1, values).astype(np.int32)

    def with_values(self, added: Numbers, data: Numbers | None = None) -> Documents:
        """Documents with further rows of the tape."""
        tape = np.ascontiguousarray(np.concatenate([self.tape, added]), np.int32)
        return dataclasses.replace(self, data=self.data if data is None else data, tape=tape)


def as_values(values: Numbers) -> Numbers:
    return np.ascontiguousarray(values, np.int32)


def strings(offsets: Numbers, data: Numbers, is_null: Numbers | None = None) -> pa.Array:
    """An Arrow column over the memory of its texts."""
    valid = None if is_null is None or not is_null.any() else validity_buffer(~is_null)
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data), valid)


def quoted(texts: pa.Array, *, escapes_slash: bool = False) -> pa.Array:
    """Each text as a JSON string with its quotes, as Jackson writes it; NULL for NULL."""
    offsets, _ = view_offsets(texts)
    data = view_buffer(texts.buffers()[2], np.uint8, 0, int(offsets[-1]))
    used = data[int(offsets[0]) :]
    needs_escape = int(np.count_nonzero((used < 32) | (used == 34) | (used == 92)))
    needs_escape += int(np.count_nonzero(used == 47)) if escapes_slash else 0
    size = len(used) + 5 * needs_escape + 2 * len(texts)
    if size > BATCH_BYTES_MAX:
        raise too_large("a column of JSON strings")
    out, places = np.empty(size + 8, np.uint8), np.zeros(len(texts) + 1, np.int32)
    json_tape.quote_into(out, places, data, offsets[: len(texts) + 1], escapes_slash)
    return strings(places, out, null_mask(texts))


@functools.lru_cache(1_000)
def escaped_name(name: str) -> np.ndarray[Any, Any]:
    """A name as it stands between quotes in canonical JSON."""
    text = quoted(pa.array([name])).to_pylist()[0]
    return np.frombuffer(text[1:-1].encode(), np.uint8)


def read_documents(text: Any, form: NumberForm = NumberForm.DECIMAL) -> Documents:
    """The documents of a column. The last column that was read in this thread is kept, so that several calls read it once."""
    text = as_array(text, 1) if isinstance(text, pa.Scalar) else text
    last: Documents | None = getattr(_local, "documents", None)
    if last is None or last.text is not text or last.form is not form:
        last = _local.documents = _read(text, form)
    return last


def read_lines(text: pa.Array) -> Documents:
    """The documents of a column as formats read them, with numbers as they are written."""
    return _read(text, NumberForm.WRITTEN, is_strict=True)


def _read(text: pa.Array, form: NumberForm, *, is_strict: bool = False) -> Documents:
    offsets, _ = view_offsets(text)
    rows = len(text)
    size = int(offsets[-1])
    data = view_buffer(text.buffers()[2], np.uint8, 0, size)
    used = data[int(offsets[0]) :]
    values_max = rows + json_tape.count_starts(used)
    tape = np.empty((values_max, json_tape.WIDTH), np.int32)
    marked, roots = np.empty(2 * values_max, np.int32), np.empty(rows, np.int32)
    valid = valid_mask(text)
    is_valid = np.empty(0, np.uint8) if valid is None else np.ascontiguousarray(valid, np.uint8)
    count, marks = json_tape.read_documents_into(
        data, offsets[: rows + 1], is_valid, roots, tape, marked, is_strict
    )
    tape = tape[:count]
    if marks:
        data = _with_canonical_texts(data, tape, marked[:marks], form)
    return Documents(text, data, tape, roots, form, is_strict)


def _with_canonical_texts(data: Numbers, tape: Numbers, marked: Numbers, form: NumberForm) -> Numbers:
    """The data with canonical forms of the marked texts at its end, where the tape then has them."""
    values, is_name = marked >> 1, (marked & 1).astype(bool)
    is_string = is_name | (tape[values, json_tape.KIND] == json_tape.STRING)
    for chosen, starts_at, ends_at in (
        (is_name, json_tape.KEY, json_tape.KEY_END),
        (is_string & ~is_name, json_tape.START, json_tape.END),
        (~is_string, json_tape.START, json_tape.END),
    ):
        places = values[chosen]
        is_written = (
            starts_at == json_tape.START and form is NumberForm.WRITTEN and not is_string[chosen].any()
        )
        if len(places) and not is_written:
            starts, ends = as_values(tape[places, starts_at]), as_values(tape[places, ends_at])
            size = int((ends - starts).sum())
            if starts_at == json_tape.KEY or is_string[chosen].all():
                written = _copied(json_tape.canonical_strings_into, size, data, starts, ends)
            else:
                plain = np.zeros(len(starts), np.uint8)
                written = _java_numbers(_copied(json_tape.texts_into, size, data, starts, ends, plain), form)
            data, tape[places, starts_at], tape[places, ends_at] = _appended(data, written)
    return data


def _java_numbers(texts: pa.Array, form: NumberForm) -> pa.Array:
    """Numbers of JSON as Java prints them."""
    if form is NumberForm.VARIANT:
        is_real = pc.match_substring_regex(texts, "[eE]")
        real = write_floats(pc.cast(pc.if_else(is_real, texts, "0"), pa.float64()))
        is_infinite = pc.is_in(real, pa.array(["Infinity", "-Infinity"]))
        real = pc.if_else(is_infinite, pc.binary_join_element_wise('"', real, '"', ""), real)
        return pc.if_else(is_real, real, pc.replace_substring_regex(texts, r"\A-0\z", "0"))
    is_other = pc.match_substring_regex(texts, r"[eE]|\A-?0\.000000")
    # Arrow has no number with an exponent; only the few that have one, or many zeros, are written one by one.
    written = pa.array([big_decimal(text) for text in texts.filter(is_other).to_pylist()], pa.string())
    plain = pc.replace_substring_regex(texts, r"\A-(0(?:\.0+)?)\z", r"\1")
    return pc.replace_with_mask(plain, is_other, written)


def big_decimal(text: str) -> str:
    """A number as Java's BigDecimal prints it, with all its digits.

    >>> big_decimal("1.50e10"), big_decimal("-0.00000012"), big_decimal("-0e2")
    ('1.50E+10', '-1.2E-7', '0E+2')
    """
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return text
    return str(number if number else number.copy_abs())


def _appended(data: Numbers, texts: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """The data with these texts behind it, and their places."""
    offsets, _ = view_offsets(texts)
    added = view_buffer(texts.buffers()[2], np.uint8, int(offsets[0]), int(offsets[-1] - offsets[0]))
    if len(data) + len(added) > BATCH_BYTES_MAX:
        raise too_large("a column of JSON")
    places = offsets.astype(np.int64) - int(offsets[0]) + len(data)
    return np.concatenate([data, added]), places[:-1].astype(np.int32), places[1:].astype(np.int32)


def _copied(
    copy: Any,
    size: int,
    data: Numbers,
    starts: Numbers,
    ends: Numbers,
    *more: Numbers,
    nulls: Numbers | None = None,
) -> pa.Array:
    offsets, out = np.zeros(len(starts) + 1, np.int32), np.empty(size + 8, np.uint8)
    copy(out, offsets, data, starts, ends, *more)
    return strings(offsets, out, nulls)
