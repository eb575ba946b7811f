"""Specs of row-by-row operators: filter and project, drop -U (Flink: StreamExecCalc and others)."""

from __future__ import annotations

from sqlstream.expressions import Expression
from sqlstream.specs.spec import OperatorSpec, StateBound, until_ttl


class CalcSpec(OperatorSpec, frozen=True, tag="calc"):
    """Keep the rows for which `condition` is TRUE (all when None), then output one column per projection.

    The row kind passes through. The condition applies to -U and +U separately: when it keeps only one of them, that is a -D or a
    +I.
    """

    projections: tuple[Expression, ...]
    condition: Expression | None = None


class DropUpdateBeforeSpec(OperatorSpec, frozen=True, tag="drop_update_before"):
    """Drop -U rows for a consumer that replaces rows by `keys` (Flink: StreamExecDropUpdateBefore). An update of a row whose key
    changes is a -D and a +I."""

    keys: tuple[int, ...] = ()


# Spec of the operator that computes values which differ each time they are computed.


class KeptValuesSpec(OperatorSpec, frozen=True, tag="kept_values"):
    """The columns of the input, then the values of `expressions` over them, which differ each time: a row that is retracted has
    those with which it came (Flink: 'table.optimizer.non-deterministic-update.strategy' = 'TRY_RESOLVE').

    A row is found again by `keys`: columns of which no two rows have the same values at a time, or all. Rows are distributed by
    `distribution`, those of them whose types can be hashed.
    """

    keys: tuple[int, ...]
    distribution: tuple[int, ...]
    expressions: tuple[Expression, ...]
    state_ttl_ms: int = 0

    def kept_state(self) -> str:
        return f"the values of each row that is there; dropped: {until_ttl(self.state_ttl_ms)}"

    def state_bound(self) -> StateBound:
        if self.state_ttl_ms:
            return StateBound(f"the number of rows that come within {self.state_ttl_ms} ms", True)
        return StateBound("the number of rows that are there", False)


# Spec of the operator that fails a job where a subquery that is used as a value keeps several rows.


class SingleRowCheckSpec(OperatorSpec, frozen=True, tag="single_row_check"):
    """Passes on the rows for which `has_several` is not TRUE, and holds back the others until they are retracted.

    Changes come from several subtasks, so a subquery may have two rows for a moment while one takes the place of the other.
    The job fails for a row that is held back at the end of the input. Where the input does not end (`is_bounded` is false) it
    fails for one that has been held back for 10 seconds: by evaluating `checks`, calls of SINGLE_ROW, for it. `distribution`
    are the columns by which rows are distributed.
    """

    has_several: Expression
    checks: tuple[Expression, ...]
    distribution: tuple[int, ...]
    is_bounded: bool
    state_ttl_ms: int = 0

    def kept_state(self) -> str:
        return (
            "the rows whose subquery has several rows; dropped: with the retraction, or"
            f" {until_ttl(self.state_ttl_ms)}"
        )

    def state_bound(self) -> StateBound:
        return StateBound("the number of rows whose subquery has several rows at a time", True)


# Spec of the rows of UPDATE and DELETE: which of a table's rows change.


class MarkChangesSpec(OperatorSpec, frozen=True, tag="mark_changes"):
    """Output the input's columns but the last, a BOOLEAN: where that is true, a row is +U, or -D when `is_deleting`, and +I
    elsewhere. Input is insert-only."""

    is_deleting: bool


# What the operator of grouping sets must do.


class ExpandSpec(OperatorSpec, frozen=True, tag="expand"):
    """Output each row once per set of `sets`, with NULL in the columns `grouped` that are not in it. The last column is the
    number of the set (INT, from 0). A batch is output set by set; the row kind passes through. No state."""

    grouped: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]


# What UNNEST must do.


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


# Spec of LIMIT and OFFSET without ORDER BY.


class LimitSpec(OperatorSpec, frozen=True, tag="limit"):
    """The first `fetch` rows after `offset`, in order of arrival; `fetch` < 0 means all. Input is insert-only."""

    fetch: int
    offset: int = 0

    def kept_state(self) -> str:
        return "a count of rows"

    def state_bound(self) -> StateBound:
        return StateBound("one number", True)
