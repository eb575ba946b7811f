"""Functions whose parameters (a pattern, a delimiter) are columns: one kernel per distinct set of parameters in a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.evaluate.kernel import Datum, Kernel, as_arrays, null_mask, numbers

MakeKernel = Callable[..., Kernel]
"""From the parameters' values, none of them None, to the kernel of the first argument."""


def by_parameter(make: MakeKernel, target: pa.DataType) -> Kernel:
    """A kernel of (value, parameter, …): rows with equal parameters are computed in one call; NULL where a parameter is NULL."""

    def kernel(*args: Datum) -> pa.Array:
        value, *parameters = as_arrays(*args)
        parts = [np.flatnonzero(mask)] if (mask := null_mask(*parameters)) is not None else []
        results = [pa.nulls(len(part), target) for part in parts]
        for values, rows in _groups(parameters, mask):
            result = make(*values)(value.take(pa.array(rows)))
            parts.append(rows)
            results.append(result if result.type == target else result.cast(target))
        if not parts:
            return pa.nulls(0, target)
        places = np.empty(len(value), dtype=np.int64)
        places[np.concatenate(parts)] = np.arange(len(value))
        return pa.concat_arrays(results).take(pa.array(places))

    return kernel


def _groups(parameters: list[pa.Array], mask: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """The distinct parameters and the positions of their rows, without rows that have a NULL among them."""
    codes = np.zeros(len(parameters[0]), dtype=np.int64)
    encoded = [parameter.dictionary_encode() for parameter in parameters]
    for column in encoded:
        codes = codes * max(len(column.dictionary), 1) + numbers(column.indices, np.int64)
    known = np.arange(len(codes)) if mask is None else np.flatnonzero(~mask)
    order = known[np.argsort(codes[known], kind="stable")]
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    return [
        (tuple(column.dictionary[column.indices[int(rows[0])].as_py()].as_py() for column in encoded), rows)
        for rows in np.split(order, starts)
        if len(rows)
    ]
