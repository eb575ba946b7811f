"""MATCH_RECOGNIZE."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from sqlstream.expressions import SortKey, inputs_of, remap
from sqlstream.planner.physical.description import (
    describe,
    describe_columns,
    describe_expression,
    describe_order,
)
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import require_insert_only, require_time
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.schema import Field, Schema
from sqlstream.specs import match_recognize
from sqlstream.types import INT, is_rowtime


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MatchRecognize(base.SingleInputNode):
    """The matches of a pattern in the rows of each partition: see MatchRecognizeSpec. `pattern` is its text for EXPLAIN.

    ONE row: the partition columns, then the measures. ALL rows: the input columns, then the measures."""

    partition_keys: tuple[int, ...]
    time_column: int
    is_event_time: bool
    order: tuple[SortKey, ...]
    pattern: str
    program: tuple[match_recognize.Instruction, ...]
    variables: tuple[str, ...]
    conditions: tuple[match_recognize.MatchExpression | None, ...]
    measures: tuple[match_recognize.MatchExpression, ...]
    rows_per_match: match_recognize.RowsPerMatch
    after: match_recognize.AfterMatch
    after_variables: tuple[int, ...] = ()
    within_ms: int = 0

    @property
    def copies_input(self) -> bool:
        return self.rows_per_match is not match_recognize.RowsPerMatch.ONE

    def describe(self) -> str:
        first = len(self.schema) - len(self.measures)
        return base.join_parts(
            f"partition=[{base.columns_text(self.partition_keys)}]" if self.partition_keys else "",
            f"order=[{base.order_text((SortKey(self.time_column), *self.order))}]",
            f"measures=[{', '.join(self.schema.names[first:])}]",
            f"rows=[{self.rows_per_match.value}]",
            f"pattern=[{self.pattern}]",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
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
        node = base.over_input(
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
                if isinstance(operand, match_recognize.Navigation):
                    read.add(operand.column)
                elif isinstance(operand, match_recognize.MatchAggregate):
                    filters = () if operand.filter is None else (operand.filter,)
                    read |= inputs_of(*operand.arguments, *filters)
        return read

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        if self.copies_input:
            return self.copied(column)
        if column < len(self.partition_keys):
            return self.input, self.partition_keys[column]
        return None


def _moved(
    expression: match_recognize.MatchExpression, places: Mapping[int, int]
) -> match_recognize.MatchExpression:
    operands = tuple(_moved_operand(o, places) for o in expression.operands)
    return msgspec.structs.replace(expression, operands=operands)


def _moved_operand(operand: match_recognize.Operand, places: Mapping[int, int]) -> match_recognize.Operand:
    if isinstance(operand, match_recognize.Navigation):
        return msgspec.structs.replace(operand, column=places[operand.column])
    if isinstance(operand, match_recognize.MatchAggregate):
        mapping = dict(places)
        condition = None if operand.filter is None else remap(operand.filter, mapping)
        arguments = tuple(remap(a, mapping) for a in operand.arguments)
        return msgspec.structs.replace(operand, arguments=arguments, filter=condition)
    return operand


# MATCH_RECOGNIZE.


def plan_match_recognize(planning: Planning, inputs: Inputs, node: MatchRecognize) -> PhysicalNode:
    """Rows of a partition meet in one subtask; a match is emitted once and never retracted."""
    source = inputs[0]
    require_insert_only(source, "MATCH_RECOGNIZE", node.span)
    if node.is_event_time:
        require_time(source, node.time_column, "MATCH_RECOGNIZE in order of row time", node.span)
    times = frozenset(i for i, t in enumerate(node.schema.types) if is_rowtime(t))
    spec = match_recognize.MatchRecognizeSpec(
        partition_keys=node.partition_keys,
        time_column=node.time_column if node.is_event_time else -1,
        order=node.order,
        program=node.program,
        variables=node.variables,
        conditions=node.conditions,
        measures=node.measures,
        rows_per_match=node.rows_per_match,
        after=node.after,
        after_variables=node.after_variables,
        within_ms=node.within_ms,
        holds_watermark=bool(times),
    )
    first = len(node.schema) - len(node.measures)
    skipped = " | ".join(node.variables[v] for v in node.after_variables)
    description = describe(
        "Match",
        partitionBy=describe_columns(node.partition_keys, source.schema),
        orderBy=describe_order((SortKey(node.time_column), *node.order), source.schema),
        measures=", ".join(
            f"{_describe(m, node)} AS {name}"
            for m, name in zip(node.measures, node.schema.names[first:], strict=True)
        ),
        rowsPerMatch=node.rows_per_match.value,
        after=f"SKIP {node.after.value} {skipped}".rstrip(),
        pattern=node.pattern,
        within=f"{node.within_ms} ms" if node.within_ms else "",
        define=", ".join(
            f"{v} AS {_describe(c, node)}"
            for v, c in zip(node.variables, node.conditions, strict=True)
            if c is not None
        ),
    )
    exchanged = over(source, hash_or_singleton(node.partition_keys))
    traits = Traits(is_bounded=source.traits.is_bounded, times=times)
    parallelism = 0 if node.partition_keys else 1
    return planning.node(
        "Match", spec, exchanged, node.schema, traits, description, node.span, parallelism=parallelism
    )


def _describe(expression: match_recognize.MatchExpression, node: MatchRecognize) -> str:
    names = [_operand(o, node) for o in expression.operands]
    return describe_expression(expression.expression, Schema(tuple(Field(n, INT) for n in names)))


def _operand(operand: match_recognize.Operand, node: MatchRecognize) -> str:
    match operand:
        case match_recognize.Navigation():
            column = node.input.schema.names[operand.column]
            return _shifted(
                _navigated(operand, f"{_variables(operand.variables, node)}{column}"), operand.shift
            )
        case match_recognize.Classifier():
            name = " | ".join(node.variables[v] for v in operand.variables)
            return _navigated(operand, f"CLASSIFIER({name})")
        case match_recognize.MatchAggregate():
            names = tuple(f"{_variables(operand.variables, node)}{f.name}" for f in node.input.schema.fields)
            schema = Schema(tuple(Field(n, INT) for n in names))
            arguments = ", ".join(describe_expression(a, schema) for a in operand.arguments)
            arguments = arguments or f"{_variables(operand.variables, node)}*"
            distinct = "DISTINCT " if operand.is_distinct else ""
            return f"{'FINAL ' if operand.is_final else ''}{operand.function}({distinct}{arguments})"
        case match_recognize.MatchTime():
            return "MATCH_PROCTIME()"
    return "MATCH_NUMBER()"


def _variables(variables: tuple[int, ...], node: MatchRecognize) -> str:
    names = [node.variables[v] for v in variables]
    return f"{names[0]}." if len(names) == 1 else f"({' | '.join(names)})." if names else ""


def _navigated(operand: match_recognize.Navigation | match_recognize.Classifier, text: str) -> str:
    offset = f", {operand.offset}" if operand.offset else ""
    if operand.is_first or operand.offset or operand.is_final:
        text = f"{'FIRST' if operand.is_first else 'LAST'}({text}{offset})"
    return f"FINAL {text}" if operand.is_final else text


def _shifted(text: str, shift: int) -> str:
    return f"{'PREV' if shift < 0 else 'NEXT'}({text}, {abs(shift)})" if shift else text
