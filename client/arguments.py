"""Words of the command line as values."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A whole number from 1, digits grouped or not.

    >>> count("10,000,000")
    10000000
    """
    digits = text.replace(",", "").replace("_", "")
    if not digits.isdecimal() or int(digits) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number from 1')
    return int(digits)
