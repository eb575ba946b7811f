"""Times and timestamps with the digits of a second that their type has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.evaluate.kernel import null_mask, numbers

_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def cut_off(value: pa.Array, precision: int) -> pa.Array:
    """Without the digits beyond the precision, before 1970 too."""
    digits = _DIGITS[value.type.unit]
    if precision >= digits:
        return value
    step = 10 ** (digits - precision)
    values = numbers(value, np.int32 if value.type.bit_width == 32 else np.int64)
    return pa.array(values - values % step, mask=null_mask(value)).view(value.type)
