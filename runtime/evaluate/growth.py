"""Refuses calls whose texts or columns of texts would be too large, before they are computed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.kernel import BATCH_BYTES_MAX, Datum, too_large

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""The largest text or bytes value that a function may return."""


def check_growth(function: str, args: list[Datum]) -> None:
    """UserError SS5108 when a call would return a value of more than VALUE_BYTES_MAX bytes, or a column of more than
    BATCH_BYTES_MAX. `args` are columns and constants; functions whose results are no larger than their arguments pass."""
    estimate = _ESTIMATES.get(function)
    if estimate is None:
        return
    sizes = estimate(*args)
    largest = pc.max(sizes).as_py() or 0 if isinstance(sizes, pa.Array) else sizes.as_py() or 0
    if largest > VALUE_BYTES_MAX:
        raise _value_too_large(function, largest)
    total = pc.sum(pc.cast(sizes, pa.float64())).as_py() or 0 if isinstance(sizes, pa.Array) else largest
    if total > BATCH_BYTES_MAX:
        raise too_large(f"the results of {function}")


def _value_too_large(function: str, size: int) -> UserError:
    return UserError(
        "SS5108",
        f"a result of {function} would have {size:,} bytes, and {VALUE_BYTES_MAX:,} are possible",
        hint="ask for fewer characters",
    )


def _length(text: Datum) -> Datum:
    return pc.cast(pc.binary_length(text), pa.int64())


def _clipped(count: Datum) -> Datum:
    """A count that is at least 0."""
    return pc.max_element_wise(pc.cast(count, pa.int64()), 0)


def _repeated(text: Datum, times: Datum) -> Datum:
    return pc.multiply(_length(text), _clipped(times))


def _padded(text: Datum, length: Datum, pad: Datum) -> Datum:
    return _clipped(length)


def _replaced(text: Datum, search: Datum, replacement: Datum) -> Datum:
    # At most as many places as the search text fits in.
    places = pc.divide(_length(text), pc.max_element_wise(_length(search), 1))
    return pc.add(_length(text), pc.multiply(places, _length(replacement)))


def _replaced_by_pattern(text: Datum, pattern: Datum, replacement: Datum) -> Datum:
    bound = pc.add(_length(text), pc.multiply(pc.add(_length(text), 1), _length(replacement)))
    if not _exceeds(bound):
        return bound
    known = pattern if isinstance(pattern, pa.Scalar) else pattern[0] if len(pattern) == 1 else None
    if known is None or not known.is_valid:
        return bound
    try:
        places = pc.cast(pc.count_substring_regex(text, known.as_py()), pa.int64())
    except pa.ArrowInvalid:
        # Not a pattern that Arrow accepts: the function itself reports it when it is malformed.
        return bound
    return pc.add(_length(text), pc.multiply(places, _length(replacement)))


def _joined(*texts: Datum) -> Datum:
    # No row is longer than all rows together, which is known at once.
    bound = sum(_total(text) for text in texts)
    if bound <= VALUE_BYTES_MAX:
        return pa.scalar(bound, pa.int64())
    sizes = pa.scalar(0, pa.int64())
    for text in texts:
        sizes = pc.add(sizes, pc.fill_null(_length(text), 0))
    return sizes


def _joined_with_separator(separator: Datum, *texts: Datum) -> Datum:
    between = [separator] * (len(texts) - 1)
    return _joined(*texts, *between)


def _total(text: Datum) -> int:
    """The bytes of a constant, or of all texts of a column."""
    if isinstance(text, pa.Scalar):
        return len(text.as_buffer()) if text.is_valid else 0
    return int(text.nbytes)


def _exceeds(sizes: Datum) -> bool:
    largest = pc.max(sizes) if isinstance(sizes, pa.Array) else sizes
    return (largest.as_py() or 0) > VALUE_BYTES_MAX


_ESTIMATES: dict[str, Callable[..., Datum]] = {
    "||": _joined,
    "CONCAT": _joined,
    "CONCAT_WS": _joined_with_separator,
    "REPEAT": _repeated,
    "LPAD": _padded,
    "RPAD": _padded,
    "REPLACE": _replaced,
    "REGEXP_REPLACE": _replaced_by_pattern,
}
"""Upper bounds of the bytes of each result."""
