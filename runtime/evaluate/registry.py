"""Implementations of all scalar functions by name; each family has one file, and one line here."""

from __future__ import annotations

from sqlstream.runtime.evaluate import (
    arithmetic,
    arrays,
    bitmap,
    cast,
    characters,
    collection,
    comparison,
    conditional,
    encoding,
    json,
    maps,
    pattern,
    printf,
    string,
    temporal,
    url,
)
from sqlstream.runtime.evaluate.kernel import Builder

BUILDERS: dict[str, Builder] = {
    **comparison.BUILDERS,
    **comparison.LOGICAL_BUILDERS,
    **arithmetic.BUILDERS,
    **string.BUILDERS,
    **pattern.BUILDERS,
    **temporal.BUILDERS,
    **conditional.BUILDERS,
    **cast.BUILDERS,
    **collection.BUILDERS,
    **arrays.BUILDERS,
    **maps.BUILDERS,
    **encoding.HASH_BUILDERS,
    **json.BUILDERS,
    **encoding.BUILDERS,
    **printf.BUILDERS,
    **url.BUILDERS,
    **characters.BUILDERS,
    **bitmap.BUILDERS,
}
