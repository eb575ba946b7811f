"""What UNNEST must do."""

from __future__ import annotations

from sqlstream.specs.spec import OperatorSpec


class UnnestSpec(OperatorSpec, frozen=True, tag="unnest"):
    """Output a row per element of the ARRAY or MULTISET in column `collection`, in order: the `columns`, then the element (of an
    element that is a ROW: its fields), then its number from 1 (INT) if `has_ordinality`. An element that a MULTISET has n times
    makes n rows.

    `is_outer`: a row whose collection is NULL or empty is output once, with NULLs; else it is dropped. The row kind passes
    through.
    """

    collection: int
    columns: tuple[int, ...]
    is_outer: bool = False
    has_ordinality: bool = False
