"""MATCH_RECOGNIZE."""

from __future__ import annotations

from sqlstream.expressions import SortKey
from sqlstream.planner.physical.description import (
    describe,
    describe_columns,
    describe_expression,
    describe_order,
)
from sqlstream.planner.physical.node import PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import require_insert_only, require_time
from sqlstream.planner.relational.nodes import MatchRecognize, RelationalNode
from sqlstream.schema import Field, Schema
from sqlstream.specs.match_recognize import (
    Classifier,
    MatchAggregate,
    MatchExpression,
    MatchRecognizeSpec,
    MatchTime,
    Navigation,
    Operand,
)
from sqlstream.types import INT, is_rowtime


def plan_match_recognize(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """Rows of a partition meet in one subtask; a match is emitted once and never retracted."""
    if not isinstance(node, MatchRecognize):
        return None
    source = inputs[0]
    require_insert_only(source, "MATCH_RECOGNIZE", node.span)
    if node.is_event_time:
        require_time(source, node.time_column, "MATCH_RECOGNIZE in order of row time", node.span)
    times = frozenset(i for i, t in enumerate(node.schema.types) if is_rowtime(t))
    spec = MatchRecognizeSpec(
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


def _describe(expression: MatchExpression, node: MatchRecognize) -> str:
    names = [_operand(o, node) for o in expression.operands]
    return describe_expression(expression.expression, Schema(tuple(Field(n, INT) for n in names)))


def _operand(operand: Operand, node: MatchRecognize) -> str:
    match operand:
        case Navigation():
            column = node.input.schema.names[operand.column]
            return _moved(
                _navigated(operand, f"{_variables(operand.variables, node)}{column}"), operand.shift
            )
        case Classifier():
            name = " | ".join(node.variables[v] for v in operand.variables)
            return _navigated(operand, f"CLASSIFIER({name})")
        case MatchAggregate():
            names = tuple(f"{_variables(operand.variables, node)}{f.name}" for f in node.input.schema.fields)
            schema = Schema(tuple(Field(n, INT) for n in names))
            arguments = ", ".join(describe_expression(a, schema) for a in operand.arguments)
            arguments = arguments or f"{_variables(operand.variables, node)}*"
            distinct = "DISTINCT " if operand.is_distinct else ""
            return f"{'FINAL ' if operand.is_final else ''}{operand.function}({distinct}{arguments})"
        case MatchTime():
            return "MATCH_PROCTIME()"
    return "MATCH_NUMBER()"


def _variables(variables: tuple[int, ...], node: MatchRecognize) -> str:
    names = [node.variables[v] for v in variables]
    return f"{names[0]}." if len(names) == 1 else f"({' | '.join(names)})." if names else ""


def _navigated(operand: Navigation | Classifier, text: str) -> str:
    offset = f", {operand.offset}" if operand.offset else ""
    if operand.is_first or operand.offset or operand.is_final:
        text = f"{'FIRST' if operand.is_first else 'LAST'}({text}{offset})"
    return f"FINAL {text}" if operand.is_final else text


def _moved(text: str, shift: int) -> str:
    return f"{'PREV' if shift < 0 else 'NEXT'}({text}, {abs(shift)})" if shift else text
