"""Spec of the lookup join: a stream joined with a table that is read by key."""

from __future__ import annotations

import msgspec

from sqlstream.expressions import Expression
from sqlstream.schema import Schema
from sqlstream.specs.join import JoinKind
from sqlstream.specs.source import SourceSpec
from sqlstream.specs.spec import OperatorSpec


class RetryOnMiss(msgspec.Struct, frozen=True):
    """Look keys without rows up again, at most `attempts_max` times, `delay_ms` after the last time (Flink: the LOOKUP hint
    with retry-predicate lookup_miss)."""

    attempts_max: int
    delay_ms: int


class LookupJoinSpec(OperatorSpec, frozen=True, tag="lookup_join"):
    """Each row with the matching rows that `source` has when the row arrives (Flink: StreamExecLookupJoin).

    Output: the input's columns, then the `projections`, which are over the columns that the source reads. A row of the source
    takes part where `source_condition`, over the same columns, is TRUE. It matches where the input's columns `left_keys`
    equal the source's columns `source_keys` (NULL equals nothing) and `condition`, over the output row, is TRUE.
    `right_keys` are the projections that pass the source's keys on. `right_schema` has the types of the projections. LEFT
    emits an input row without a match once, with NULLs. Rows keep their order and their row kinds. The cache is that of the
    source's lookup options.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    source_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    source: SourceSpec
    projections: tuple[Expression, ...]
    right_schema: Schema
    source_condition: Expression | None = None
    condition: Expression | None = None
    retry: RetryOnMiss | None = None
