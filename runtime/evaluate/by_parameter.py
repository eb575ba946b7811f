"""Functions whose parameters (a pattern, a delimiter) are columns: one kernel per distinct set of parameters in a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.evaluate.kernel import Datum, Kernel, Values, as_arrays, null_mask, numbers

MakeKernel = Callable[..., Kernel]
"""From the parameters' values, none of them None, to the kernel of the other arguments."""


def by_parameter(make: MakeKernel, target: pa.DataType, width: int = 1) -> Kernel:
    """A kernel of (value, …, parameter, …) with `width` values: rows with equal parameters are computed in one call; NULL where a
    parameter is NULL."""

    def kernel(*args: Datum) -> pa.Array:
        columns = as_arrays(*args)
        values, parameters = columns[:width], columns[width:]
        parts = [np.flatnonzero(mask)] if (mask := null_mask(*parameters)) is not None else []
        results = [pa.nulls(len(part), target) for part in parts]
        for given, rows in _groups(parameters, mask):
            chosen = pa.array(rows)
            result = make(*given)(*(value.take(chosen) for value in values))
            parts.append(rows)
            results.append(result if result.type == target else result.cast(target))
        if not parts:
            return pa.nulls(0, target)
        places = np.empty(len(columns[0]), dtype=np.int64)
        places[np.concatenate(parts)] = np.arange(len(places))
        return pa.concat_arrays(results).take(pa.array(places))

    return kernel


def rows_by_code(codes: Values) -> list[Values]:
    """The positions of each code, ascending, in the order of the codes.

    >>> [rows.tolist() for rows in rows_by_code(np.array([7, 3, 7]))]
    [[1], [0, 2]]
    """
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    return [rows for rows in np.split(order, starts) if len(rows)]


def _groups(parameters: tuple[pa.Array, ...], mask: Values | None) -> list[tuple[tuple[Any, ...], Values]]:
    """The distinct parameters and the positions of their rows, without rows that have a NULL among them."""
    codes = np.zeros(len(parameters[0]), dtype=np.int64)
    encoded = [parameter.dictionary_encode() for parameter in parameters]
    for column in encoded:
        codes = codes * max(len(column.dictionary), 1) + numbers(column.indices, np.int64)
    known = np.arange(len(codes)) if mask is None else np.flatnonzero(~mask)
    return [
        (tuple(column.dictionary[column.indices[int(rows[0])].as_py()].as_py() for column in encoded), rows)
        for rows in (known[chosen] for chosen in rows_by_code(codes[known]))
    ]
