"""Follows a path from the root of each document: which values it leads to."""

from __future__ import annotations

import dataclasses
import decimal
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.cast_to_text import write_floats
from sqlstream.runtime.evaluate.json.conditions import holds
from sqlstream.runtime.evaluate.json.documents import Documents, as_values
from sqlstream.runtime.kernels.json import json_nodes, json_tape
from sqlstream.text.json_path import (
    Elements,
    Filter,
    Function,
    Members,
    Path,
    Scan,
    Slice,
    Step,
    Wildcard,
    is_definite,
)

Numbers = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Found:
    """What a path leads to: one value per document if `is_definite` (-1 for none), else any number.

    `owners`: the row of each of `values`, ascending. `is_failed`: rows whose document is malformed or, in strict mode, lacks
    what the path names. Rows that are NULL fail too.
    """

    documents: Documents
    is_definite: bool
    owners: Numbers
    values: Numbers
    is_failed: Numbers

    def offsets(self) -> Numbers:
        """Where the values of each row begin, and where the last end."""
        return np.searchsorted(self.owners, np.arange(len(self.is_failed) + 1)).astype(np.int32)


def follow(path: Path, documents: Documents) -> Found:
    """The values at a path, in the order of Jayway's JsonPath."""
    values = documents.roots
    is_failed = values < 0
    owners = np.arange(len(values))
    has_alternatives = False
    for place, step in enumerate(path.steps):
        is_last = place == len(path.steps) - 1
        if not has_alternatives and is_definite(step) and _is_single(step, is_last):
            documents, values = _one(documents, values, step)
            if not path.is_lax:
                is_failed = is_failed | (values < 0)
            continue
        if not has_alternatives:
            has_alternatives = True
            if not path.is_lax and isinstance(step, Slice | Elements):
                is_failed = is_failed | (documents.kinds(values) != json_tape.ARRAY)
            if not path.is_lax and isinstance(step, Members):
                is_failed = is_failed | (documents.kinds(values) != json_tape.OBJECT)
            owners = np.flatnonzero(values >= 0)
            values = as_values(values[owners])
        behind_scan = place > 0 and isinstance(path.steps[place - 1], Scan)
        owners, values = _many(documents, owners, values, step, behind_scan)
    return Found(documents, not has_alternatives, owners, values, is_failed)


def _is_single(step: Step, is_last: bool) -> bool:
    return is_last or not isinstance(step, Members) or len(step.names) == 1


def _one(documents: Documents, values: Numbers, step: Step) -> tuple[Documents, Numbers]:
    """The value that a step leads to from each value; -1 for none."""
    if isinstance(step, Function):
        return documents.with_numbers(_computed(documents, values, step.name))
    if isinstance(step, Elements):
        return documents, documents.element(values, step.indexes[0])
    assert isinstance(step, Members)
    if len(step.names) == 1:
        return documents, documents.member(values, step.names[0])
    return _object_of(documents, values, step.names)


def _object_of(documents: Documents, values: Numbers, names: tuple[str, ...]) -> tuple[Documents, Numbers]:
    """An object of the members of these names, from each object."""
    documents = documents.without_repeated_names()
    is_object = documents.kinds(values) == json_tape.OBJECT
    rows = np.flatnonzero(is_object)
    members = documents.members(values[rows], *dict.fromkeys(names)).T
    found = members >= 0
    owner, _ = np.nonzero(found)
    objects = np.full((len(rows), json_tape.WIDTH), -1, np.int32)
    objects[:, json_tape.KIND] = json_tape.OBJECT
    children = documents.tape[members[found]]
    start = len(documents.tape) + len(rows)
    places = np.arange(start, start + len(children))
    children[:, json_tape.PARENT] = owner + len(documents.tape)
    is_before_sibling = np.append(owner[1:] == owner[:-1], False) if len(owner) else np.empty(0, bool)
    children[:, json_tape.SIBLING] = np.where(is_before_sibling, places + 1, -1)
    firsts = np.searchsorted(owner, np.arange(len(rows)))
    has_child = found.any(axis=1)
    objects[has_child, json_tape.FIRST] = start + firsts[has_child]
    made = np.full(len(values), -1, np.int32)
    made[rows] = len(documents.tape) + np.arange(len(rows))
    return documents.with_values(np.concatenate([objects, children])), made


def _many(
    documents: Documents, owners: Numbers, values: Numbers, step: Step, behind_scan: bool
) -> tuple[Numbers, Numbers]:
    """All values that a step leads to, in the order of the values it leads from."""
    if isinstance(step, Scan):
        return _containers(documents, owners, values)
    if isinstance(step, Wildcard):
        owners, values, _, _ = _children(documents, owners, values)
        return owners, values
    if isinstance(step, Slice):
        return _sliced(documents, owners, values, step)
    if isinstance(step, Filter):
        return _filtered(documents, owners, values, step, behind_scan)
    if isinstance(step, Members):
        parts = [documents.member(values, name) for name in step.names]
    else:
        assert isinstance(step, Elements)
        parts = [documents.element(values, index) for index in step.indexes]
    together = np.stack(parts, axis=1)
    found = together >= 0
    return np.repeat(owners, found.sum(axis=1)), as_values(together[found])


def _children(
    documents: Documents, owners: Numbers, values: Numbers
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """The children of all values, with their rows, their values (by place) and their index in them."""
    children, counts = documents.children(values)
    parents = np.repeat(np.arange(len(values)), counts)
    index = np.arange(len(children)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owners[parents], children, parents, index


def _sliced(documents: Documents, owners: Numbers, values: Numbers, step: Slice) -> tuple[Numbers, Numbers]:
    kept = documents.kinds(values) == json_tape.ARRAY
    owners, values = owners[kept], as_values(values[kept])
    counts = documents.counts(values)
    owners, children, parents, index = _children(documents, owners, values)
    low, high = (
        np.full(len(counts), fallback) if bound is None else np.where(bound < 0, counts + bound, bound)
        for bound, fallback in ((step.start, 0), (step.stop, 2**31 - 1))
    )
    chosen = (index >= low[parents]) & (index < high[parents])
    return owners[chosen], children[chosen]


def _filtered(
    documents: Documents, owners: Numbers, values: Numbers, step: Filter, behind_scan: bool
) -> tuple[Numbers, Numbers]:
    """The objects, and the elements of arrays, for which the condition holds; behind a scan only objects."""
    kinds = documents.kinds(values)
    is_array = kinds == json_tape.ARRAY
    counts = np.where(is_array, documents.counts(values), (kinds == json_tape.OBJECT).astype(np.int32))
    if behind_scan:
        counts = np.where(is_array, 0, counts)
    parents = np.repeat(np.arange(len(values)), counts)
    candidates = values[parents]
    if not behind_scan:
        _, elements, _, _ = _children(documents, owners[is_array], as_values(values[is_array]))
        candidates[is_array[parents]] = elements
    candidates = as_values(candidates)
    chosen = holds(step.condition, documents, candidates, documents.roots[owners[parents]])
    return owners[parents][chosen], candidates[chosen]


def _containers(documents: Documents, owners: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    documents.without_repeated_names()
    values, counts = as_values(values), np.empty(len(values), np.int32)
    total = json_nodes.containers_into(np.empty(0, np.int32), counts, values, documents.tape)
    out = np.empty(total, np.int32)
    if total:
        json_nodes.containers_into(out, counts, values, documents.tape)
    return np.repeat(owners, counts), out


def _computed(documents: Documents, values: Numbers, name: str) -> pa.Array:
    """The result of a function of each value, as JSON; NULL where there is none."""
    if name in ("length", "size"):
        return documents.sizes(values)
    documents.without_repeated_names()
    is_array = documents.kinds(values) == json_tape.ARRAY
    rows = np.flatnonzero(is_array)
    _, children, parents, _ = _children(documents, rows, as_values(values[rows]))
    numbers = documents.numbers(children)
    is_number = ~np.isnan(numbers)
    owners, numbers, texts = (
        rows[parents[is_number]],
        numbers[is_number],
        documents.texts(children[is_number]),
    )
    if name == "stddev":
        return _of_doubles(owners, numbers, len(values))
    offsets = np.searchsorted(owners, np.arange(len(values) + 1))
    digits = texts.to_pylist()
    # Each result is computed by itself: sums of numbers of any length and scale have no type of Arrow.
    return pa.array(
        [
            _exact(name, [decimal.Decimal(d) for d in digits[start:end]]) if end > start else None
            for start, end in itertools.pairwise(offsets.tolist())
        ],
        pa.string(),
    )


_EXACT = decimal.Context(prec=1_000, traps=[decimal.Inexact])


def _exact(name: str, numbers: list[decimal.Decimal]) -> str:
    """The result as a DOUBLE is printed where that has all its digits, else with all of them; an average that does not end is a
    DOUBLE.

    >>> _exact("sum", [decimal.Decimal("0.1"), decimal.Decimal("0.2")]), _exact("avg", [decimal.Decimal(2)] * 3)
    ('0.3', '2.0')
    """
    try:
        result = min(numbers) if name == "min" else max(numbers) if name == "max" else _total(numbers)
        if name == "avg":
            result = _EXACT.divide(result, decimal.Decimal(len(numbers)))
    except decimal.Inexact:
        total = sum(map(float, numbers))
        return _printed(total / len(numbers) if name == "avg" else total)
    rounded = float(result)
    is_same = decimal.Decimal(repr(rounded)) == result
    return _printed(rounded) if is_same else str(result.normalize(_EXACT))


def _total(numbers: list[decimal.Decimal]) -> decimal.Decimal:
    total = decimal.Decimal(0)
    for number in numbers:
        total = _EXACT.add(total, number)
    return total


def _printed(number: float) -> str:
    return str(write_floats(pa.array([number]))[0].as_py())


def _of_doubles(owners: Numbers, numbers: Numbers, rows: int) -> pa.Array:
    """The standard deviation of each row's numbers."""
    grouped = pa.table({"row": owners, "x": numbers}).group_by("row", use_threads=False)
    found = grouped.aggregate([("x", "stddev")])
    results = np.full(rows, np.nan)
    results[found.column("row").to_numpy()] = found.column("x_stddev").to_numpy()
    texts = write_floats(pa.array(results))
    return pc.if_else(pa.array(np.isnan(results)), pa.scalar(None, pa.string()), texts)
