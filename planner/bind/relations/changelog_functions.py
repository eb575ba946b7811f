"""FROM_CHANGELOG and TO_CHANGELOG: a column of operations becomes the kinds of rows, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.changelog import RowKind
from sqlstream.errors import Span, UserError
from sqlstream.expressions import InputRef
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.casts import require_key
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.changelog_functions import ordered_columns
from sqlstream.schema import Field, Schema

OP = "op"
"""The column of the operations unless a DESCRIPTOR names another."""

_KINDS = {kind.name: kind for kind in RowKind}


def bind_changelog_function(node: nodes.ChangelogFunction, input: FromItem, namespace: Namespace) -> FromItem:
    """UserError SS3496 for operations that make no changelog."""
    binder = ScalarBinder(namespace, input.scope, str(node.args["kind"]))
    keys = tuple(dict.fromkeys(_key(key, binder) for key in node.args.get("partition_by") or ()))
    if node.args["kind"] == "TO_CHANGELOG":
        return _to_changelog(node, input, keys, namespace)
    return _from_changelog(node, input, keys, namespace)


def _from_changelog(
    node: nodes.ChangelogFunction, input: FromItem, keys: tuple[int, ...], namespace: Namespace
) -> FromItem:
    schema, span = input.node.schema, namespace.span(node)
    op = _op_column(node, schema, namespace)
    if op in keys:
        raise _refusal(f'"{schema.names[op]}" is the column of the operations, and no part of a row', span)
    codes = {kind.name: kind for kind in RowKind}
    if node.args.get("op_mapping") is not None:
        codes = {code: kind for code, kind in _pairs(node, namespace) if kind is not None}
    has_updates = RowKind.UPDATE_AFTER in codes.values()
    if has_updates and RowKind.UPDATE_BEFORE not in codes.values() and not keys:
        hint = "write TABLE t PARTITION BY key, so that an update replaces the row with its key, or map UPDATE_BEFORE too"
        raise _refusal("an UPDATE_AFTER without UPDATE_BEFORE does not say which row it replaces", span, hint)
    output = schema.select(ordered_columns(len(schema), op, keys))
    made = plan.FromChangelog(
        input=input.node,
        op=op,
        codes=tuple(codes.items()),
        keys=keys,
        skips_invalid=_skips_invalid(node, namespace),
        schema=output,
        span=span,
    )
    return FromItem(made, Scope.of(output, input.qualifier))


def _to_changelog(
    node: nodes.ChangelogFunction, input: FromItem, keys: tuple[int, ...], namespace: Namespace
) -> FromItem:
    schema, span = input.node.schema, namespace.span(node)
    name = OP if node.args.get("op") is None else str(node.args["op"].name)
    if name in schema.names:
        hint = "name another one: op => DESCRIPTOR(operation)"
        raise _refusal(
            f'the table has a column "{name}" already', namespace.span(node.args.get("op")) or span, hint
        )
    codes: dict[RowKind, str] = {kind: kind.name for kind in RowKind}
    if node.args.get("op_mapping") is not None:
        codes = dict(_outputs(node, namespace))
    fields = [Field(f.name, f.type.without_time_attribute()) for f in schema.fields]
    rest = [f for i, f in enumerate(fields) if i not in keys]
    output = Schema((*(fields[key] for key in keys), Field(name, sql.STRING.not_null()), *rest))
    made = plan.ToChangelog(
        input=_telling_all(input.node),
        codes=tuple(codes.get(kind) for kind in RowKind),
        keys=keys,
        schema=output,
        span=span,
    )
    return FromItem(made, Scope.of(output, input.qualifier))


def _telling_all(node: plan.RelationalNode) -> plan.RelationalNode:
    """The input, whose table tells all changes of a row, and not only the last one of a batch."""
    if isinstance(node, plan.TableScan):
        return node if node.mode.is_insert_only else dataclasses.replace(node, keeps_changes=True)
    if isinstance(node, plan.Project | plan.Filter | plan.Watermark):
        return dataclasses.replace(node, input=_telling_all(node.input))
    return node


def _key(written: exp.Expr, binder: ScalarBinder) -> int:
    bound = binder.bind(written)
    require_key(bound, "PARTITION BY", binder.span(written))
    assert isinstance(bound, InputRef)
    return bound.index


def _op_column(node: nodes.ChangelogFunction, schema: Schema, namespace: Namespace) -> int:
    written = node.args.get("op")
    name = OP if written is None else str(written.name)
    span = namespace.span(node if written is None else written)
    if name not in schema.names:
        hint = suggest(name, list(schema.names), "columns") or "name it: op => DESCRIPTOR(operation)"
        raise UserError("SS2003", f'the table of FROM_CHANGELOG has no column "{name}"', span=span, hint=hint)
    index = schema.index_of(name)
    if schema.types[index].root not in sql.STRING_ROOTS:
        t = schema.types[index].with_nullable(True)
        hint = "compute it as a text in a subquery: CASE code WHEN 1 THEN 'INSERT' … END AS op"
        raise _refusal(f'operations are texts, and column "{name}" is {t}', span, hint)
    return index


def _skips_invalid(node: nodes.ChangelogFunction, namespace: Namespace) -> bool:
    written = node.args.get("invalid_op_handling")
    if written is None:
        return False
    text = str(written.this).upper() if isinstance(written, exp.Literal) and written.is_string else ""
    if text not in ("FAIL", "SKIP"):
        raise _refusal("invalid_op_handling is 'FAIL' or 'SKIP'", namespace.span(written))
    return text == "SKIP"


def _texts(node: nodes.ChangelogFunction, namespace: Namespace) -> list[tuple[str, Span | None]]:
    """The texts of the MAP, keys and values in turn."""
    written = node.args["op_mapping"]
    hint = (
        "write op_mapping => MAP['c, r', 'INSERT', 'd', 'DELETE']"
        if node.args["kind"] == "FROM_CHANGELOG"
        else "write op_mapping => MAP['INSERT, UPDATE_AFTER', 'upsert', 'DELETE', 'delete']"
    )
    is_map = isinstance(written, nodes.FunctionCall) and str(written.this).upper() == "MAP"
    parts = written.expressions if is_map else []
    if not parts or not all(isinstance(p, exp.Literal) and p.is_string for p in parts):
        raise _refusal("op_mapping is a MAP of texts in quotes", namespace.span(written), hint)
    return [(str(p.this), namespace.span(p)) for p in parts]


def _kind(text: str, span: Span | None) -> RowKind:
    found = _KINDS.get(text.strip().upper())
    if found is None:
        names = list(_KINDS)
        hint = suggest(text.strip().upper(), names, "operations") or f"they are {', '.join(names)}"
        raise _refusal(f'"{text.strip()}" is no operation of a changelog', span, hint)
    return found


def _split(text: str, span: Span | None) -> Iterator[str]:
    for part in text.split(","):
        if not part.strip():
            raise _refusal("an operation has no name", span)
        yield part.strip()


def _pairs(node: nodes.ChangelogFunction, namespace: Namespace) -> Iterator[tuple[str, RowKind]]:
    """The codes of the input, each with what it means."""
    texts, seen = _texts(node, namespace), set()
    for (codes, codes_span), (name, name_span) in zip(texts[::2], texts[1::2], strict=True):
        kind = _kind(name, name_span)
        for code in _split(codes, codes_span):
            if code in seen:
                raise _refusal(f'"{code}" is mapped twice', codes_span)
            seen.add(code)
            yield code, kind


def _outputs(node: nodes.ChangelogFunction, namespace: Namespace) -> Iterator[tuple[RowKind, str]]:
    """The operations that are told, each with its code."""
    texts, seen = _texts(node, namespace), set()
    for (names, names_span), (code, _) in zip(texts[::2], texts[1::2], strict=True):
        for name in _split(names, names_span):
            kind = _kind(name, names_span)
            if kind in seen:
                raise _refusal(f'"{kind.name}" is mapped twice', names_span)
            seen.add(kind)
            yield kind, code


def _refusal(message: str, span: Span | None, hint: str = "") -> UserError:
    return UserError("SS3496", message, span=span, hint=hint)
