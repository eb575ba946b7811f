"""Calls of JSON functions with their clauses as expressions: behaviours become constant arguments."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.json import RETURNING
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.casts import cast_to, checked, plain
from sqlstream.planner.bind.scope import ExpressionBinder
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.json_functions import CONSTRUCTORS
from sqlstream.types import LogicalType, TypeRoot

_TEXTS_OF_JSON = CONSTRUCTORS | {"JSON_ITEMS", "JSON_MEMBERS"}


def bind_json(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    """A call of a JSON function with clauses."""
    return _BINDERS[str(node.this)](binder, node)


def is_json_constructor(value: Expression) -> bool:
    """Whether it is an object or array as text, which JSON_STRING leaves as it is."""
    return isinstance(value, Call) and value.function in ("JSON_OBJECT", "JSON_ARRAY")


def bind_is_json(binder: ExpressionBinder, node: exp.Is, *, is_negated: bool) -> Expression:
    kind = str(node.args["expression"].this).removeprefix("JSON ")
    span = binder.span(node)
    test = bind_call("IS JSON", (binder.bind(node.this), _symbol(kind)), span)
    return bind_call("NOT", (test,), span) if is_negated else test


def _symbol(word: str) -> Literal:
    return Literal(word, sql.STRING.not_null())


def _document_and_path(binder: ExpressionBinder, node: nodes.JsonCall) -> tuple[Expression, Expression]:
    """Both as texts; a document may be a number or a BOOLEAN, which are JSON."""
    document, path = (binder.bind(a) for a in node.expressions)
    span = binder.span(node.expressions[0])
    t = document.type
    if sql.is_numeric(t) or t.root is TypeRoot.BOOLEAN:
        document = bind_call("JSON_STRING", (document,), span)
    elif t.root is TypeRoot.NULL:
        document = cast_to(document, sql.STRING, span)
    elif not sql.is_string(t):
        hint = f"{node.this} reads JSON from a STRING; write a value as JSON with JSON_STRING(…)"
        raise UserError("SS2006", f"{node.this} cannot read JSON from {plain(t)}", span=span, hint=hint)
    path_span = binder.span(node.expressions[1])
    if not isinstance(path, Literal) or not isinstance(path.value, str):
        raise UserError(
            "SS3101",
            f"the path of {node.this} is not a constant",
            span=path_span,
            hint="write a literal such as '$.a.b'",
        )
    return document, path


def _checked(binder: ExpressionBinder, node: nodes.JsonCall, call: Call) -> Expression:
    """The call; an error in its path is underlined there."""
    return checked(call, binder.span(node.expressions[1]))


def _json_value(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    document, path = _document_and_path(binder, node)
    span = binder.span(node)
    returning = node.args.get("returning")
    target = sql.STRING if returning is None else nodes.cast_type(returning)
    if target.root not in RETURNING:
        hint = "return a text, number, BOOLEAN or point in time; JSON_QUERY returns objects and arrays"
        where = binder.span(returning) or span
        raise UserError("SS3452", f"JSON_VALUE cannot return {plain(target)}", span=where, hint=hint)
    args: tuple[Expression, ...] = (document, path)
    behaviours = [str(node.args.get(f"on_{place}") or "NULL") for place in ("empty", "error")]
    if behaviours != ["NULL", "NULL"]:
        for place, behaviour in zip(("empty", "error"), behaviours, strict=True):
            default = node.args.get(f"default_on_{place}")
            args = (*args, _symbol(behaviour), _default(binder, default, target))
    return _checked(binder, node, Call("JSON_VALUE", args, target.with_nullable(True), span))


def _default(binder: ExpressionBinder, node: exp.Expr | None, target: LogicalType) -> Expression:
    """A default as the type that is returned, or as a text that is read as that type."""
    if node is None:
        return Literal(None, target.with_nullable(True))
    default, span = binder.bind(node), binder.span(node)
    if sql.is_string(default.type):
        return default
    if default.type.root is TypeRoot.NULL:
        return Literal(None, target.with_nullable(True))
    if default.type.root not in RETURNING or not _converts(default.type, target):
        message = f"a default of type {plain(default.type)} is no {plain(target)}"
        raise UserError("SS3452", message, span=span, hint=f"CAST it to {plain(target)}")
    if default.type.root is TypeRoot.BOOLEAN and sql.is_string(target):
        return bind_call("JSON_STRING", (default,), span)
    return cast_to(default, target, span)


def _converts(source: LogicalType, target: LogicalType) -> bool:
    if sql.is_string(target) or source.root is target.root:
        return True
    return sql.is_numeric(source) and sql.is_numeric(target)


def _json_query(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    document, path = _document_and_path(binder, node)
    span = binder.span(node)
    returning = node.args.get("returning")
    target = sql.STRING if returning is None else nodes.cast_type(returning)
    is_array = target.root is TypeRoot.ARRAY
    text = target.element if is_array else target
    if text is None or text.root is not TypeRoot.VARCHAR or text.length != sql.VARCHAR_LENGTH_MAX:
        where = binder.span(returning) or span
        hint = "return STRING or ARRAY<STRING>, and CAST the elements"
        raise UserError("SS3452", f"JSON_QUERY cannot return {plain(target)}", span=where, hint=hint)
    clauses = [
        str(node.args.get(c) or d)
        for c, d in (("wrapper", "WITHOUT"), ("on_empty", "NULL"), ("on_error", "NULL"))
    ]
    if is_array and "EMPTY OBJECT" in clauses:
        hint = "write EMPTY ARRAY"
        raise UserError("SS3452", f"an EMPTY OBJECT is no {plain(target)}", span=span, hint=hint)
    if clauses[0] != "WITHOUT" and is_array:
        hint = "leave the WRAPPER out: the elements of an array are returned"
        raise UserError("SS3452", f"a WRAPPER has no place in {plain(target)}", span=span, hint=hint)
    more = () if clauses == ["WITHOUT", "NULL", "NULL"] else tuple(_symbol(c) for c in clauses)
    return _checked(
        binder, node, Call("JSON_QUERY", (document, path, *more), target.with_nullable(True), span)
    )


def _json_exists(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    document, path = _document_and_path(binder, node)
    behaviour = str(node.args.get("on_error") or "FALSE")
    more = () if behaviour == "FALSE" else (_symbol(behaviour),)
    result = sql.BOOLEAN.with_nullable(document.type.nullable or behaviour == "UNKNOWN")
    return _checked(binder, node, Call("JSON_EXISTS", (document, path, *more), result, binder.span(node)))


def _json_text(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    """A value as JSON: what is JSON already as it is."""
    if isinstance(node, nodes.JsonCall) and str(node.this) in _TEXTS_OF_JSON:
        if node.this == "JSON":
            return bind_call("JSON", (binder.bind(node.expressions[0]),), binder.span(node))
        return binder.bind(node)
    value, span = binder.bind(node), binder.span(node)
    try:
        return bind_call("JSON_STRING", (value,), span)
    except UserError as error:
        if error.code not in ("SS2006", "SS3102"):
            raise
        # The user did not write that name.
        message = f"a value of type {plain(value.type)} has no form as JSON"
        hint = "use keys of type STRING" if "keys of type" in error.message else "CAST the value to STRING"
        raise UserError("SS3102", message, span=span, hint=hint) from error


def _json_object(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    """The members ascending by name, as Flink writes them; of members of one name the last."""
    span, on_null = binder.span(node), str(node.args["on_null"])
    members: dict[str, Expression] = {}
    for written, value in zip(node.expressions[0::2], node.expressions[1::2], strict=True):
        name = _constant_name(binder.bind(written), binder.span(written))
        text = _json_text(binder, value)
        if on_null == "ABSENT" and name in members:
            text = bind_call("COALESCE", (text, members[name]), binder.span(value))
        members[name] = text
    args = [a for name in sorted(members) for a in (_symbol(name), members[name])]
    return Call("JSON_OBJECT", (_symbol(on_null), *args), sql.STRING.not_null(), span)


def _constant_name(key: Expression, span: Span | None) -> str:
    if not isinstance(key, Literal) or not isinstance(key.value, str):
        hint = "write the key in quotes; JSON_OBJECTAGG and MAP take keys that are computed"
        raise UserError("SS3452", "a key of JSON_OBJECT is a text in quotes", span=span, hint=hint)
    return key.value


def _json_array(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    values = tuple(_json_text(binder, value) for value in node.expressions)
    args = (_symbol(str(node.args["on_null"])), *values)
    return Call("JSON_ARRAY", args, sql.STRING.not_null(), binder.span(node))


def _misplaced_json(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    hint = "pass the text as it is, or write JSON_ARRAY(JSON(text))"
    message = "JSON(text) has its place inside of JSON_OBJECT, JSON_ARRAY and JSON aggregates only"
    raise UserError("SS3452", message, span=binder.span(node), hint=hint)


def _json_item(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    text = _json_text(binder, node.expressions[0])
    if node.args["on_null"] == "ABSENT":
        return text
    return bind_call("COALESCE", (text, _symbol("null")), binder.span(node))


def _json_member(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    written, value = node.expressions
    key, span = binder.bind(written), binder.span(written)
    if not sql.is_string(key.type):
        hint = "CAST the key to STRING"
        raise UserError(
            "SS3452", f"a key of JSON_OBJECTAGG is a STRING, not {plain(key.type)}", span=span, hint=hint
        )
    args = (_symbol(str(node.args["on_null"])), key, _json_text(binder, value))
    return Call("JSON_MEMBER", args, sql.STRING, span)


def _finished(binder: ExpressionBinder, node: nodes.JsonCall) -> Expression:
    span = binder.span(node)
    return Call(str(node.this), (binder.bind(node.expressions[0]),), sql.STRING.not_null(), span)


_BINDERS: dict[str, Callable[[ExpressionBinder, nodes.JsonCall], Expression]] = {
    "JSON_VALUE": _json_value,
    "JSON_QUERY": _json_query,
    "JSON_EXISTS": _json_exists,
    "JSON_OBJECT": _json_object,
    "JSON_ARRAY": _json_array,
    "JSON": _misplaced_json,
    "JSON_ITEM": _json_item,
    "JSON_ITEMS": _finished,
    "JSON_MEMBER": _json_member,
    "JSON_MEMBERS": _finished,
}
