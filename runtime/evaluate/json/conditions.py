"""Conditions of filters in JSON paths, for many values at once."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import operator
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.json.documents import Documents, as_values
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.text.json_path import Condition, Connective, Elements, Function, Members, Operand, Test, Value
from sqlstream.text.regular_expressions import linear_regex

Numbers = np.ndarray[Any, Any]
_ORDERS = {
    "<": (operator.lt, pc.less),
    "<=": (operator.le, pc.less_equal),
    ">": (operator.gt, pc.greater),
    ">=": (operator.ge, pc.greater_equal),
}


@dataclasses.dataclass(frozen=True)
class _Side:
    """One side of a comparison, one entry per tested value: kinds (-1: nothing there), numbers (NaN: none), texts, which are
    JSON for an object or array, and counts of the members or elements."""

    kinds: Numbers
    numbers: Numbers
    texts: pa.Array
    counts: Numbers


def holds(condition: Condition, documents: Documents, values: Numbers, roots: Numbers) -> Numbers:
    """bool[n]: whether the condition holds for each value. `roots`: the document of each."""
    if isinstance(condition, Connective):
        parts = [holds(part, documents, values, roots) for part in condition.parts]
        if condition.operator == "!":
            return ~parts[0]
        combine = np.logical_and if condition.operator == "&&" else np.logical_or
        return functools.reduce(combine, parts)
    side = functools.partial(_side, documents=documents, values=values, roots=roots)
    left = side(condition.left)
    if condition.operator == "exists":
        return left.kinds >= 0
    if condition.operator in ("in", "nin"):
        assert isinstance(condition.right, tuple)
        found = np.zeros(len(values), bool)
        for value in condition.right:
            found |= _are_equal(left, side(value))
        return found if condition.operator == "in" else ~found
    if condition.operator == "=~":
        return _matches(left, str(condition.right))
    return _compared(condition, left, side(condition.right))


def _compared(condition: Test, left: _Side, right: _Side) -> Numbers:
    if condition.operator in ("==", "!="):
        is_equal = _are_equal(left, right)
        return is_equal if condition.operator == "==" else ~is_equal
    if condition.operator == "size":
        return (left.kinds >= json_tape.ARRAY) & (left.counts == right.numbers)
    if condition.operator == "empty":
        is_empty = np.where(
            left.kinds == json_tape.STRING, _bools(pc.equal(left.texts, "")), left.counts == 0
        )
        has_size = (left.kinds >= json_tape.ARRAY) | (left.kinds == json_tape.STRING)
        return has_size & (is_empty == (right.kinds == json_tape.TRUE))
    by_sign, by_text = _ORDERS[condition.operator]
    both_texts = (left.kinds == json_tape.STRING) & (right.kinds == json_tape.STRING)
    both_numbers = (left.kinds == json_tape.NUMBER) & (right.kinds == json_tape.NUMBER)
    return (both_numbers & by_sign(_signs(left, right), 0)) | (
        both_texts & _bools(by_text(left.texts, right.texts))
    )


def _are_equal(left: _Side, right: _Side) -> Numbers:
    """Equal scalars; a number equals a text that is this number."""
    is_same_kind = (left.kinds == right.kinds) & (left.kinds >= 0)
    texts_are_equal = _bools(pc.equal(left.texts, right.texts))
    numbers_are_equal = _signs(left, right) == 0
    is_one_number = (left.kinds == json_tape.NUMBER) | (right.kinds == json_tape.NUMBER)
    is_word = is_same_kind & (left.kinds >= json_tape.TRUE) & (left.kinds <= json_tape.NULL)
    return (
        is_word
        | (is_same_kind & (left.kinds == json_tape.STRING) & texts_are_equal)
        | (is_same_kind & (left.kinds >= json_tape.ARRAY) & texts_are_equal)
        | (is_one_number & numbers_are_equal)
    )


_SURE_DIGITS = 15
"""Numbers of so many digits differ as DOUBLEs if they differ."""


def _signs(left: _Side, right: _Side) -> Numbers:
    """-1 where the left number is less, 0 where they are equal, 1 where it is greater; 2 where one is no number.

    Numbers that are equal as DOUBLEs may differ in digits that these do not have: such pairs, of long numbers, are few, and
    compared one by one.
    """
    first, second = _as_numbers(left), _as_numbers(right)
    signs = np.where(first < second, -1, np.where(first > second, 1, np.where(first == second, 0, 2)))
    is_long = [
        pc.or_(pc.greater(pc.binary_length(s.texts), _SURE_DIGITS), pc.match_substring_regex(s.texts, "[eE]"))
        for s in (left, right)
    ]
    is_open = _bools(pc.and_(pc.or_(*is_long), pc.not_equal(left.texts, right.texts)))
    for row in np.flatnonzero((signs == 0) & is_open):
        a, b = (decimal.Decimal(s.texts[row].as_py()) for s in (left, right))
        signs[row] = (a > b) - (a < b)
    return signs


_NUMBER_TEXT = r"\A-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"


def _as_numbers(side: _Side) -> Numbers:
    is_text = side.kinds == json_tape.STRING
    if not is_text.any():
        return side.numbers
    is_number = pc.and_(pa.array(is_text), pc.match_substring_regex(side.texts, _NUMBER_TEXT))
    read = pc.cast(pc.if_else(is_number, side.texts, None), pa.float64())
    return np.where(is_text, pc.fill_null(read, float("nan")).to_numpy(zero_copy_only=False), side.numbers)


_FLAGS = re.compile(r"(?:\(\?[is]+\))?")


def _matches(side: _Side, regex: str) -> Numbers:
    flags = _FLAGS.match(regex)[0]  # type: ignore[index]
    found = pc.match_substring_regex(side.texts, rf"{flags}\A(?:{linear_regex(regex[len(flags) :])})\z")
    return (side.kinds >= 0) & (side.kinds < json_tape.ARRAY) & _bools(found)


def _bools(mask: pa.Array) -> Numbers:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def _side(value: Value, documents: Documents, values: Numbers, roots: Numbers) -> _Side:
    if not isinstance(value, Operand):
        return _constant(value, len(values))
    start = as_values(roots if value.is_document else values)
    documents, found = _at_steps(value.steps, documents, start)
    kinds = documents.kinds(found)
    is_container = kinds >= json_tape.ARRAY
    texts = documents.texts(np.where(is_container, -1, found))
    if is_container.any():
        texts = pc.if_else(pa.array(is_container), documents.json(np.where(is_container, found, -1)), texts)
    return _Side(kinds, documents.numbers(found), texts, documents.counts(found))


def _at_steps(
    steps: tuple[Members | Elements | Function, ...], documents: Documents, values: Numbers
) -> tuple[Documents, Numbers]:
    """The value that these steps lead to from each value; -1 for none."""
    for step in steps:
        if isinstance(step, Members):
            values = documents.member(values, step.names[0])
        elif isinstance(step, Elements):
            values = documents.element(values, step.indexes[0])
        else:
            documents, values = documents.with_numbers(documents.sizes(values))
    return documents, values


def _constant(value: Value, rows: int) -> _Side:
    kind, number, text = json_tape.NULL, float("nan"), "null"
    if isinstance(value, bool):
        kind, text = (json_tape.TRUE, "true") if value else (json_tape.FALSE, "false")
    elif isinstance(value, decimal.Decimal):
        kind, number, text = json_tape.NUMBER, float(value), str(value)
    elif isinstance(value, str):
        kind, text = json_tape.STRING, value
    return _Side(
        np.full(rows, kind),
        np.full(rows, number),
        pa.array([text] * rows, pa.string()),
        np.zeros(rows, np.int32),
    )
