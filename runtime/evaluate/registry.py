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
    hash,
    json,
    logical,
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
    **logical.BUILDERS,
    **arithmetic.BUILDERS,
    **string.BUILDERS,
    **pattern.BUILDERS,
    **temporal.BUILDERS,
    **conditional.BUILDERS,
    **cast.BUILDERS,
    **collection.BUILDERS,
    **arrays.BUILDERS,
    **maps.BUILDERS,
    **hash.BUILDERS,
    **json.BUILDERS,
    **encoding.BUILDERS,
    **printf.BUILDERS,
    **url.BUILDERS,
    **characters.BUILDERS,
    **bitmap.BUILDERS,
}
