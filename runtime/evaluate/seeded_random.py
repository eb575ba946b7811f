"""RAND and RAND_INTEGER with a seed: the same numbers as java.util.Random."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.expressions import Call, Literal
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, Values, as_arrays, null_mask
from sqlstream.runtime.kernels.buffers import view_values

_MULTIPLIER, _MASK = 0x5DEECE66D, (1 << 48) - 1


def seeded_doubles(call: Call) -> Kernel:
    """RAND(seed): a literal seed starts one sequence for all rows, another one a sequence for each row."""
    from sqlstream.runtime.kernels.java_random import doubles_into

    state, is_running = _state_of(call)

    def kernel(seed: Datum) -> pa.Array:
        (seeds,) = as_arrays(seed)
        drawn = np.empty(len(seeds))
        doubles_into(state, view_values(pc.fill_null(seeds, 0), np.int32), is_running, drawn)
        return pa.array(drawn, mask=null_mask(seeds))

    return kernel


def seeded_integers(call: Call) -> Kernel:
    """RAND_INTEGER(seed, bound), as `seeded_doubles`."""
    from sqlstream.runtime.kernels.java_random import integers_into

    state, is_running = _state_of(call)

    def kernel(seed: Datum, bound: Datum) -> pa.Array:
        seeds, bounds = as_arrays(seed, bound)
        require_bounds(bounds)
        drawn = np.empty(len(seeds), dtype=np.int32)
        usable = view_values(pc.fill_null(bounds, 1), np.int32)
        integers_into(state, view_values(pc.fill_null(seeds, 0), np.int32), is_running, usable, drawn)
        return pa.array(drawn, mask=null_mask(seeds, bounds))

    return kernel


def require_bounds(bounds: pa.Array) -> None:
    """UserError SS5106 for a bound of RAND_INTEGER that is not above 0."""
    lowest = pc.min(bounds).as_py()
    if lowest is not None and lowest <= 0:
        raise UserError("SS5106", f"the bound of RAND_INTEGER is {lowest}, not above 0")


def _state_of(call: Call) -> tuple[Values, bool]:
    """The state of the generator, and whether it goes on from row to row."""
    seed = call.args[0]
    is_running = isinstance(seed, Literal) and seed.value is not None
    start = (int(seed.value) ^ _MULTIPLIER) & _MASK if is_running and isinstance(seed, Literal) else 0  # type: ignore[arg-type]
    return np.array([start], dtype=np.uint64), is_running
