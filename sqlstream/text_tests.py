"""The regular expressions of texts that consist of letters, of digits, or of a number, as Java reads them."""

from __future__ import annotations

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"

TEXT_TESTS = {
    "IS_ALPHA": r"\p{L}+",
    "IS_DIGIT": r"\p{Nd}+",
    "IS_DECIMAL": rf"[\x00-\x20]*[+-]?(?:NaN|Infinity|{_NUMBER})[\x00-\x20]*",
}
"""By name of the function; the whole text matches."""
