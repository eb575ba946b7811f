"""The clauses of SQL/JSON in calls: RETURNING, WRAPPER, ON EMPTY, ON ERROR, ON NULL, KEY … VALUE …, and JSON aggregates."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import TokenType, exp

from sqlstream.planner.dialect.expressions import ExpressionParser
from sqlstream.planner.dialect.nodes import FunctionCall, JsonCall
from sqlstream.planner.dialect.tokens import is_word, word

CONSTRUCTORS = frozenset({"JSON_OBJECT", "JSON_ARRAY", "JSON", "JSON_OBJECTAGG", "JSON_ARRAYAGG"})
"""Their results are inserted as JSON into other constructors, not as strings."""

_QUERY_BEHAVIOURS = (("NULL",), ("ERROR",), ("EMPTY", "ARRAY"), ("EMPTY", "OBJECT"))


def json_value(parser: ExpressionParser) -> JsonCall:
    """`json, path [RETURNING type] [NULL | ERROR | DEFAULT value ON EMPTY] [… ON ERROR]`"""
    node = JsonCall(this="JSON_VALUE", expressions=_document_and_path(parser))
    if parser.accept("RETURNING"):
        node.set("returning", parser._parse_types())
    while not parser.at(")"):
        default = parser.value() if parser.accept("DEFAULT") else None
        behaviour = "DEFAULT" if default is not None else parser.accept_any("NULL", "ERROR")
        if behaviour is None:
            raise parser.unexpected("RETURNING, or NULL, ERROR or DEFAULT … before ON EMPTY or ON ERROR")
        place = _place(parser, node)
        node.set(f"on_{place}", behaviour)
        node.set(f"default_on_{place}", default)
    return node


def json_query(parser: ExpressionParser) -> JsonCall:
    """`json, path [RETURNING type] [WITH [CONDITIONAL | UNCONDITIONAL] | WITHOUT [ARRAY] WRAPPER] [… ON EMPTY] [… ON ERROR]`"""
    node = JsonCall(this="JSON_QUERY", expressions=_document_and_path(parser))
    if parser.accept("RETURNING"):
        node.set("returning", parser._parse_types())
    if kind := parser.accept_any("WITH", "WITHOUT"):
        condition = parser.accept_any("CONDITIONAL", "UNCONDITIONAL") if kind == "WITH" else "WITHOUT"
        parser.accept("ARRAY")
        parser.expect("WRAPPER")
        node.set("wrapper", condition or "UNCONDITIONAL")
    while not parser.at(")"):
        behaviour = next((" ".join(words) for words in _QUERY_BEHAVIOURS if parser.accept(*words)), None)
        if behaviour is None:
            raise parser.unexpected("NULL, ERROR, EMPTY ARRAY or EMPTY OBJECT before ON EMPTY or ON ERROR")
        node.set(f"on_{_place(parser, node)}", behaviour)
    return node


def json_exists(parser: ExpressionParser) -> JsonCall:
    """`json, path [TRUE | FALSE | UNKNOWN | ERROR ON ERROR]`"""
    node = JsonCall(this="JSON_EXISTS", expressions=_document_and_path(parser))
    if behaviour := parser.accept_any("TRUE", "FALSE", "UNKNOWN", "ERROR"):
        parser.expect("ON")
        parser.expect("ERROR")
        node.set("on_error", behaviour)
    return node


def json_object(parser: ExpressionParser) -> JsonCall:
    """`[KEY] name VALUE value, … [NULL | ABSENT ON NULL]`, or `name : value`"""
    pairs: list[exp.Expression] = []
    if not parser.at(")") and not _at_on_null(parser):
        pairs += _key_and_value(parser)
        while parser.accept(","):
            pairs += _key_and_value(parser)
    return JsonCall(this="JSON_OBJECT", expressions=pairs, on_null=_on_null(parser, "NULL"))


def json_array(parser: ExpressionParser) -> JsonCall:
    """`value, … [NULL | ABSENT ON NULL]`"""
    has_values = not parser.at(")") and not _at_on_null(parser)
    values = parser.values() if has_values else []
    return JsonCall(this="JSON_ARRAY", expressions=values, on_null=_on_null(parser, "ABSENT"))


def json_raw(parser: ExpressionParser) -> JsonCall:
    return JsonCall(this="JSON", expressions=[parser.value()])


def json_arrayagg(parser: ExpressionParser) -> JsonCall:
    """`[DISTINCT] value [NULL | ABSENT ON NULL]`: an ARRAY_AGG of JSON values, as an array."""
    is_distinct = parser.accept_any("DISTINCT", "ALL") == "DISTINCT"
    value = parser.value()
    on_null = _on_null(parser, "ABSENT")
    item = JsonCall(this="JSON_ITEM", expressions=[value], on_null=on_null)
    return _aggregate("JSON_ITEMS", item, is_distinct)


def json_objectagg(parser: ExpressionParser) -> JsonCall:
    """`[KEY] name VALUE value [NULL | ABSENT ON NULL]`: an ARRAY_AGG of members, as an object."""
    pair = _key_and_value(parser)
    member = JsonCall(this="JSON_MEMBER", expressions=pair, on_null=_on_null(parser, "NULL"))
    return _aggregate("JSON_MEMBERS", member, False)


def aggregate_of(node: JsonCall) -> FunctionCall | None:
    """The ARRAY_AGG of a JSON aggregate, to which FILTER and OVER behind it belong; None for other functions."""
    is_aggregate = node.this in ("JSON_ITEMS", "JSON_MEMBERS")
    return node.expressions[0] if is_aggregate else None


def _aggregate(name: str, item: JsonCall, is_distinct: bool) -> JsonCall:
    collected = FunctionCall(this="ARRAY_AGG", expressions=[item], is_distinct=is_distinct)
    return JsonCall(this=name, expressions=[collected])


def _document_and_path(parser: ExpressionParser) -> list[exp.Expression]:
    document = parser.value()
    parser.expect(",")
    return [document, parser.value()]


def _place(parser: ExpressionParser, node: JsonCall) -> str:
    """Read `ON EMPTY` or `ON ERROR`, and return the last word."""
    token = parser.expect("ON")
    place = parser.accept_any("EMPTY", "ERROR")
    if place is None:
        raise parser.unexpected("EMPTY or ERROR")
    if node.args.get(f"on_{place.lower()}") is not None:
        raise parser.refusal(f"ON {place} is given twice", token, "keep one of them")
    if place == "EMPTY" and node.args.get("on_error") is not None:
        raise parser.refusal("ON EMPTY stands behind ON ERROR", token, "write ON EMPTY before ON ERROR")
    return place.lower()


def _key_and_value(parser: ExpressionParser) -> list[exp.Expression]:
    following = parser.peek(1)
    is_name = following.token_type in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.L_PAREN)
    if parser.at("KEY") and (is_name or (is_word(following) and word(following) != "VALUE")):
        parser.advance()
    key = parser.value()
    if not parser.accept(":") and not parser.accept("VALUE"):
        raise parser.unexpected("VALUE or : behind the key", "write JSON_OBJECT('name' VALUE value)")
    return [key, parser.value()]


def _at_on_null(parser: ExpressionParser) -> bool:
    return parser.at("NULL", "ON") or parser.at("ABSENT", "ON")


def _on_null(parser: ExpressionParser, default: str) -> str:
    behaviour = parser.accept_any("NULL", "ABSENT")
    if behaviour is None:
        return default
    parser.expect("ON")
    parser.expect("NULL")
    return behaviour


READERS: dict[str, Callable[[ExpressionParser], JsonCall]] = {
    "JSON_VALUE": json_value,
    "JSON_QUERY": json_query,
    "JSON_EXISTS": json_exists,
    "JSON_OBJECT": json_object,
    "JSON_ARRAY": json_array,
    "JSON": json_raw,
    "JSON_ARRAYAGG": json_arrayagg,
    "JSON_OBJECTAGG": json_objectagg,
}
