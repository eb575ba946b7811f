"""Spec of the rows of UPDATE and DELETE: which of a table's rows change."""

from __future__ import annotations

from sqlstream.specs.spec import OperatorSpec


class MarkChangesSpec(OperatorSpec, frozen=True, tag="mark_changes"):
    """Output the input's columns but the last, a BOOLEAN: where that is true, a row is +U, or -D when `is_deleting`, and +I
    elsewhere. Input is insert-only."""

    is_deleting: bool
