"""UPPER and LOWER by Unicode's full mapping, as in Java: a letter may become several, and its place may decide.

Arrow maps letter by letter. The rows that hold a letter for which this gives something else are mapped by Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.kernel import Datum, as_array, rows_of


def upper(text: Datum) -> pa.Array:
    return _mapped(text, pc.ascii_upper, pc.utf8_upper, str.upper)


def lower(text: Datum) -> pa.Array:
    return _mapped(text, pc.ascii_lower, pc.utf8_lower, str.lower)


def _mapped(
    text: Datum,
    of_ascii: Callable[[pa.Array], pa.Array],
    by_letter: Callable[[pa.Array], pa.Array],
    in_full: Callable[[str], str],
) -> pa.Array:
    text = as_array(text, rows_of(text))
    if pc.all(pc.string_is_ascii(text), min_count=0).as_py():
        return of_ascii(text)
    result = by_letter(text)
    is_special = pc.fill_null(pc.match_substring_regex(text, _special_letters(in_full)), False)
    rows = np.flatnonzero(is_special.to_numpy(zero_copy_only=False))
    if not len(rows):
        return result
    replaced = [in_full(value) for value in text.take(pa.array(rows)).to_pylist()]
    return pc.replace_with_mask(result, is_special, pa.array(replaced, result.type))


@functools.cache
def _special_letters(in_full: Callable[[str], str]) -> str:
    """A regular expression for a letter that becomes several, or (Σ) one that depends on the letters around it."""
    basic_plane = (chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000)
    several = "".join(letter for letter in basic_plane if len(in_full(letter)) > 1)
    return f"[{several}Σ]" if in_full is str.lower else f"[{several}]"
