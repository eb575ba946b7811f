"""MATCH_RECOGNIZE."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from sqlstream.expressions import SortKey, inputs_of, remap
from sqlstream.planner.lower.engine import refuse
from sqlstream.planner.relational.node import RelationalNode, SingleInputNode
from sqlstream.planner.relational.trimming import Columns, Pruning, over_input
from sqlstream.planner.relational.wording import columns_text, join_parts, order_text
from sqlstream.schema import Schema
from sqlstream.specs.match_recognize import (
    AfterMatch,
    Instruction,
    MatchAggregate,
    MatchExpression,
    Navigation,
    Operand,
    RowsPerMatch,
)

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MatchRecognize(SingleInputNode):
    """The matches of a pattern in the rows of each partition: see MatchRecognizeSpec. `pattern` is its text for EXPLAIN.

    ONE row: the partition columns, then the measures. ALL rows: the input columns, then the measures."""

    partition_keys: tuple[int, ...]
    time_column: int
    is_event_time: bool
    order: tuple[SortKey, ...]
    pattern: str
    program: tuple[Instruction, ...]
    variables: tuple[str, ...]
    conditions: tuple[MatchExpression | None, ...]
    measures: tuple[MatchExpression, ...]
    rows_per_match: RowsPerMatch
    after: AfterMatch
    after_variables: tuple[int, ...] = ()
    within_ms: int = 0

    @property
    def copies_input(self) -> bool:
        return self.rows_per_match is not RowsPerMatch.ONE

    def describe(self) -> str:
        first = len(self.schema) - len(self.measures)
        return join_parts(
            f"partition=[{columns_text(self.partition_keys)}]" if self.partition_keys else "",
            f"order=[{order_text((SortKey(self.time_column), *self.order))}]",
            f"measures=[{', '.join(self.schema.names[first:])}]",
            f"rows=[{self.rows_per_match.value}]",
            f"pattern=[{self.pattern}]",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        read = frozenset(self._read())
        width = len(self.input.schema)
        if self.copies_input:
            read |= frozenset(c for c in wanted if c < width)
        source, places = pruning.trim(self.input, read, time or self.is_event_time)
        fields = self.schema.fields
        if self.copies_input:
            schema = Schema(source.schema.fields + fields[width:])
            moved = {c: places[c] for c in read if c < width}
            moved |= {width + i: len(source.schema) + i for i in range(len(self.measures))}
        else:
            schema = self.schema
            moved = {c: c for c in range(len(fields))}
        node = over_input(
            self,
            source,
            schema=schema,
            partition_keys=tuple(places[k] for k in self.partition_keys),
            time_column=places[self.time_column],
            order=tuple(msgspec.structs.replace(k, column=places[k.column]) for k in self.order),
            conditions=tuple(None if c is None else _moved(c, places) for c in self.conditions),
            measures=tuple(_moved(m, places) for m in self.measures),
        )
        return node, moved

    def _read(self) -> set[int]:
        read = {*self.partition_keys, self.time_column, *(k.column for k in self.order)}
        for expression in (*self.conditions, *self.measures):
            for operand in () if expression is None else expression.operands:
                if isinstance(operand, Navigation):
                    read.add(operand.column)
                elif isinstance(operand, MatchAggregate):
                    filters = () if operand.filter is None else (operand.filter,)
                    read |= inputs_of(*operand.arguments, *filters)
        return read

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        hint = "run the statement as a stream: it ends by itself when its input is bounded"
        raise refuse(lowering.engine.title, "MATCH_RECOGNIZE", hint=hint, span=self.span)

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        if self.copies_input:
            return self.copied(column)
        if column < len(self.partition_keys):
            return self.input, self.partition_keys[column]
        return None


def _moved(expression: MatchExpression, places: Mapping[int, int]) -> MatchExpression:
    operands = tuple(_moved_operand(o, places) for o in expression.operands)
    return msgspec.structs.replace(expression, operands=operands)


def _moved_operand(operand: Operand, places: Mapping[int, int]) -> Operand:
    if isinstance(operand, Navigation):
        return msgspec.structs.replace(operand, column=places[operand.column])
    if isinstance(operand, MatchAggregate):
        mapping = dict(places)
        condition = None if operand.filter is None else remap(operand.filter, mapping)
        arguments = tuple(remap(a, mapping) for a in operand.arguments)
        return msgspec.structs.replace(operand, arguments=arguments, filter=condition)
    return operand
