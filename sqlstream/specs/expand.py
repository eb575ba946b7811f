"""What the operator of grouping sets must do."""

from __future__ import annotations

from sqlstream.specs.spec import OperatorSpec


class ExpandSpec(OperatorSpec, frozen=True, tag="expand"):
    """Output each row once per set of `sets`, with NULL in the columns `grouped` that are not in it, and the number of the set as
    last column (INT, from 0). A batch is output set by set; the row kind passes through. No state."""

    grouped: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
