"""Implementations of all scalar functions by name; each family has one file, and one line here."""

from __future__ import annotations

from sqlstream.runtime.evaluate import (
    arithmetic,
    arrays,
    bitmap,
    cast,
    collection,
    comparison,
    conditional,
    json,
    maps,
)
from sqlstream.runtime.evaluate.kernel import Builder
from sqlstream.runtime.evaluate.text import characters, encoding, pattern, printf, string, url
from sqlstream.runtime.evaluate.time import temporal

BUILDERS: dict[str, Builder] = {
    **comparison.BUILDERS,
    **arithmetic.BUILDERS,
    **string.BUILDERS,
    **pattern.BUILDERS,
    **temporal.BUILDERS,
    **conditional.BUILDERS,
    **cast.BUILDERS,
    **collection.BUILDERS,
    **arrays.BUILDERS,
    **maps.BUILDERS,
    **json.BUILDERS,
    **encoding.BUILDERS,
    **printf.BUILDERS,
    **url.BUILDERS,
    **characters.BUILDERS,
    **bitmap.BUILDERS,
}
