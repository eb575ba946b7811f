"""Implementations of all scalar functions by name; each family has one file, and one line here."""

from __future__ import annotations

from runtime.evaluate import (
    arithmetic,
    cast,
    collection,
    comparison,
    conditional,
    hash,
    logical,
    pattern,
    string,
    temporal,
)
from runtime.evaluate.kernel import Builder

BUILDERS: dict[str, Builder] = {
    **comparison.BUILDERS,
    **logical.BUILDERS,
    **arithmetic.BUILDERS,
    **string.BUILDERS,
    **pattern.BUILDERS,
    **temporal.BUILDERS,
    **conditional.BUILDERS,
    **cast.BUILDERS,
    **collection.BUILDERS,
    **hash.BUILDERS,
}
