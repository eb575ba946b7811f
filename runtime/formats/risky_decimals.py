"""Finds CSV texts that Arrow must not read as DECIMAL: they crash it, or it reads them as other numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from sqlstream.types import LogicalType, TypeRoot

_DECIMAL128_DIGITS = 38


class RiskyDecimals:
    """Finds numbers with exponents of several digits, and those whose digits together with a column's scale overflow 128 bits.

    Arrow (26.0) reads past its tables of powers for the former, and does not notice the latter.
    """

    def __init__(self, types: Iterable[LogicalType], delimiter: str, quote: str, escape: str) -> None:
        scales = [t.scale for t in types if t.root is TypeRoot.DECIMAL]
        self._has_decimals = bool(scales)
        self._digits_max = _DECIMAL128_DIGITS - max(scales, default=0)
        self._escape = escape.encode()
        edge = rb"[\s" + re.escape((delimiter + quote).encode()) + rb"]"
        long = rb"[0-9.]{%d,}" % (self._digits_max + 1)
        number = rb"[+-]?(?:" + long + rb"|[0-9.]+[eE][+-]?[0-9]{2,})"
        self._risky = re.compile(rb"(?:\A|" + edge + rb")" + number + rb"(?:" + edge + rb"|\Z)")

    def are_in(self, data: bytes) -> bool:
        if not self._has_decimals:
            return False
        if self._escape and self._escape in data:
            return True
        from sqlstream.runtime.kernels.csv_records import may_hold_risky_number

        # The expression finds exactly where numbers begin and end, but takes twenty times as long as the kernel.
        is_suspect = may_hold_risky_number(np.frombuffer(data, dtype=np.uint8), self._digits_max)
        return is_suspect and self._risky.search(data) is not None
