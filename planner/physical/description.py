"""Expressions and columns in printed plans, by the column names of the operator's input."""

from __future__ import annotations

import datetime

from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, Literal, SortKey, inputs_of
from sqlstream.schema import Schema
from sqlstream.specs.over import OverCall
from sqlstream.specs.watermark import WatermarkAssignerSpec
from sqlstream.types import TIMESTAMP_ROOTS, TypeRoot

_INFIX = frozenset({"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR", "||", "LIKE"})
_POSTFIX = frozenset(
    {"IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"}
)  # fmt: skip


def describe_expression(expression: Expression, schema: Schema) -> str:
    """SQL-like text with column names."""
    if isinstance(expression, InputRef):
        return schema.fields[expression.index].name
    if isinstance(expression, Literal):
        return describe_literal(expression)
    return _describe_call(expression, [describe_expression(a, schema) for a in expression.args])


def describe_literal(literal: Literal) -> str:
    """Times and intervals in readable form, every other literal as it prints itself."""
    value = literal.value
    if value is not None and literal.type.root in TIMESTAMP_ROOTS:
        return _describe_timestamp(int(value), literal.type.root.name)
    if not isinstance(value, int) or isinstance(value, bool):
        return str(literal)
    if literal.type.root is TypeRoot.INTERVAL_DAY_TIME:
        return f"INTERVAL {value} ms"
    if literal.type.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return f"INTERVAL {value} months"
    return str(literal)


def _describe_timestamp(nanoseconds: int, name: str) -> str:
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{name} '{moment:%Y-%m-%d %H:%M:%S}{digits}'"


def _describe_call(call: Call, args: list[str]) -> str:
    if call.function in ("CAST", "TRY_CAST"):
        return f"{call.function}({args[0]} AS {call.type.without_time_attribute().with_nullable(True)})"
    if call.function in _INFIX and len(args) >= 2:
        return "(" + f" {call.function} ".join(args) + ")"
    if call.function in _POSTFIX and len(args) == 1:
        return f"{args[0]} {call.function}"
    return f"{call.function}({', '.join(args)})"


def watermark_columns(spec: WatermarkAssignerSpec, schema: Schema) -> list[str]:
    """The row time that a watermark follows, or the columns that it is computed of."""
    columns = sorted(inputs_of(spec.expression)) if spec.rowtime_column < 0 else [spec.rowtime_column]
    return [schema.names[column] for column in columns]


def describe_columns(columns: tuple[int, ...] | frozenset[int], schema: Schema) -> str:
    ordered = columns if isinstance(columns, tuple) else sorted(columns)
    return "[" + ", ".join(schema.fields[c].name for c in ordered) + "]"


def describe_select(expressions: tuple[Expression, ...], names: tuple[str, ...], schema: Schema) -> str:
    """`a, (b + 1) AS c`, each projection with its output name where that differs."""
    parts = []
    for expression, name in zip(expressions, names, strict=True):
        text = describe_expression(expression, schema)
        parts.append(text if text == name else f"{text} AS {name}")
    return "[" + ", ".join(parts) + "]"


def describe_calls(calls: tuple[AggregateCall, ...], schema: Schema) -> str:
    parts = []
    for call in calls:
        args = ", ".join(schema.fields[a].name for a in call.args) or "*"
        text = f"{call.function}({'DISTINCT ' if call.is_distinct else ''}{args})"
        if call.filter >= 0:
            text += f" FILTER {schema.fields[call.filter].name}"
        parts.append(text)
    return "[" + ", ".join(parts) + "]"


def describe_order(order: tuple[SortKey, ...], schema: Schema) -> str:
    return (
        "["
        + ", ".join(f"{schema.fields[k.column].name} {'DESC' if k.is_descending else 'ASC'}" for k in order)
        + "]"
    )


def describe(name: str, **parts: str) -> str:
    """`Name(key=[…], key=[…])`, without empty parts."""
    return (
        f"{name}(" + ", ".join(f"{key}={text}" for key, text in parts.items() if text not in ("", "[]")) + ")"
    )


def call_in_words(call: OverCall, schema: Schema) -> str:
    args = [schema.names[a] for a in call.args]
    if call.number:
        args.insert(1, str(call.number))
    distinct = "DISTINCT " if call.is_distinct else ""
    text = f"{call.function}({distinct}{', '.join(args) or ('*' if call.function == 'COUNT' else '')})"
    if call.filter >= 0:
        text += f" FILTER {schema.names[call.filter]}"
    return f"{text} {call.frame}" if call.has_frame else text
