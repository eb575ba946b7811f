"""The grammar of scalar expressions: precedence climbing with Calcite's binding powers."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.dialect import functions, queries
from planner.dialect.data_types import data_type
from planner.dialect.literals import UNITS, datetime_value, interval_value, is_interval_range
from planner.dialect.nodes import DateTimeLiteral, FunctionCall, IntervalLiteral, Like, TypeName
from planner.dialect.tokens import Cursor, Token, TokenKind
from sqlstream import types

_OR, _AND, _NOT, _IS, _COMPARE, _TEST, _ADD, _MULTIPLY, _UNARY = 22, 24, 26, 28, 30, 32, 40, 60, 80
_BINARY: dict[str, tuple[int, type[exp.Expression]]] = {
    "OR": (_OR, exp.Or),
    "AND": (_AND, exp.And),
    "=": (_COMPARE, exp.EQ),
    "<>": (_COMPARE, exp.NEQ),
    "!=": (_COMPARE, exp.NEQ),
    "<": (_COMPARE, exp.LT),
    "<=": (_COMPARE, exp.LTE),
    ">": (_COMPARE, exp.GT),
    ">=": (_COMPARE, exp.GTE),
    "+": (_ADD, exp.Add),
    "-": (_ADD, exp.Sub),
    "*": (_MULTIPLY, exp.Mul),
    "/": (_MULTIPLY, exp.Div),
    "%": (_MULTIPLY, exp.Mod),
    "||": (_MULTIPLY, exp.DPipe),
}
_TESTS = ("BETWEEN", "LIKE", "SIMILAR", "IN")
# Functions that are called by their name alone; parentheses after them are refused.
_NILADIC = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
_PLURALS = {f"{unit}S": unit for unit in UNITS}


def expression(cursor: Cursor, power: int = 0) -> exp.Expression:
    """Read an expression whose operators all bind at least as tightly as `power`."""
    cursor.enter()
    start = cursor.token.start
    left = _prefix(cursor)
    while True:
        following = _infix(cursor, left, start, power)
        if following is None:
            break
        left = following
    cursor.leave()
    return left


def operand(cursor: Cursor) -> exp.Expression:
    """Read what can stand beside BETWEEN, LIKE or PRECEDING: arithmetic, but no comparison and no AND."""
    return expression(cursor, _TEST + 1)


def _prefix(cursor: Cursor) -> exp.Expression:
    token = cursor.token
    if token.kind is TokenKind.WORD and cursor.accept("NOT"):
        return cursor.mark(exp.Not(this=expression(cursor, _NOT)), token.start)
    if cursor.accept("-"):
        return cursor.mark(exp.Neg(this=expression(cursor, _UNARY)), token.start)
    if cursor.accept("+"):
        return expression(cursor, _UNARY)
    return _postfix(cursor, _primary(cursor), token.start)


def _infix(cursor: Cursor, left: exp.Expression, start: int, power: int) -> exp.Expression | None:
    """`left` extended by the next operator, or None when that binds too loosely or is none."""
    token = cursor.token
    if token.kind not in (TokenKind.WORD, TokenKind.OPERATOR):
        return None
    if token.upper in _BINARY:
        own_power, node = _BINARY[token.upper]
        if own_power < power:
            return None
        cursor.advance()
        _refuse_quantifier(cursor)
        # One step above its own power: all of these group to the left.
        return cursor.mark(node(this=left, expression=expression(cursor, own_power + 1)), start)
    if token.upper == "IS" and power <= _IS:
        return _is_test(cursor, left, start)
    is_test = token.upper in _TESTS or (token.upper == "NOT" and cursor.peek(1).upper in _TESTS)
    if is_test and power <= _TEST:
        is_negated = cursor.accept("NOT")
        test = _test(cursor, left, start)
        return cursor.mark(exp.Not(this=test), start) if is_negated else test
    return None


def _refuse_quantifier(cursor: Cursor) -> None:
    if cursor.at_any("ANY", "SOME", "ALL"):
        token = cursor.advance()
        message = f"comparison with {token.upper} (…) is not supported yet"
        raise cursor.refusal(message, token, "use IN, EXISTS or an aggregate in a subquery")


def _is_test(cursor: Cursor, left: exp.Expression, start: int) -> exp.Expression:
    cursor.expect("IS")
    is_negated = cursor.accept("NOT")
    if cursor.accept("DISTINCT", "FROM"):
        right = expression(cursor, _COMPARE + 1)
        node = exp.NullSafeEQ if is_negated else exp.NullSafeNEQ
        return cursor.mark(node(this=left, expression=right), start)
    token = cursor.token
    word = cursor.accept_any("NULL", "TRUE", "FALSE", "UNKNOWN", "JSON")
    value: exp.Expression
    if word is None:
        raise cursor.unexpected("NULL, TRUE, FALSE, UNKNOWN, JSON or DISTINCT FROM")
    if word == "NULL":
        value = exp.Null()
    elif word in ("TRUE", "FALSE"):
        value = exp.Boolean(this=word == "TRUE")
    elif word == "UNKNOWN":
        value = exp.Var(this=word)
    else:
        value = exp.Var(this=f"JSON {cursor.accept_any('VALUE', 'ARRAY', 'OBJECT', 'SCALAR') or 'VALUE'}")
    test = cursor.mark(exp.Is(this=left, expression=cursor.mark(value, token.start)), start)
    return cursor.mark(exp.Not(this=test), start) if is_negated else test


def _test(cursor: Cursor, left: exp.Expression, start: int) -> exp.Expression:
    word = cursor.advance().upper
    if word == "BETWEEN":
        is_symmetric = cursor.accept_any("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
        low = operand(cursor)
        cursor.expect("AND")
        between = exp.Between(this=left, low=low, high=operand(cursor), symmetric=is_symmetric)
        return cursor.mark(between, start)
    if word == "IN":
        return _in(cursor, left, start)
    if word == "SIMILAR":
        cursor.expect("TO")
    pattern = operand(cursor)
    escape = operand(cursor) if cursor.accept("ESCAPE") else None
    like = Like(this=left, expression=pattern, escape=escape, is_similar=word == "SIMILAR")
    return cursor.mark(like, start)


def _in(cursor: Cursor, left: exp.Expression, start: int) -> exp.Expression:
    cursor.expect("(")
    if queries.at_query(cursor):
        node = exp.In(this=left, query=queries.query(cursor))
    else:
        node = exp.In(this=left, expressions=expression_list(cursor))
    cursor.expect(")")
    return cursor.mark(node, start)


def expression_list(cursor: Cursor) -> list[exp.Expression]:
    """Read one or more expressions between commas."""
    items = [expression(cursor)]
    while cursor.accept(","):
        items.append(expression(cursor))
    return items


def _postfix(cursor: Cursor, node: exp.Expression, start: int) -> exp.Expression:
    while True:
        if cursor.accept("["):
            index = expression(cursor)
            cursor.expect("]")
            node = cursor.mark(exp.Bracket(this=node, expressions=[index]), start)
        elif cursor.accept("."):
            node = cursor.mark(exp.Dot(this=node, expression=cursor.name("a field name")), start)
        else:
            return node


def _primary(cursor: Cursor) -> exp.Expression:
    token = cursor.token
    match token.kind:
        case TokenKind.NUMBER:
            cursor.advance()
            return cursor.mark(exp.Literal(this=token.text, is_string=False), token.start)
        case TokenKind.STRING:
            cursor.advance()
            return cursor.mark(exp.Literal(this=token.text, is_string=True), token.start)
        case TokenKind.BINARY:
            cursor.advance()
            return cursor.mark(exp.HexString(this=token.text), token.start)
        case TokenKind.QUOTED:
            return _name_or_call(cursor)
        case TokenKind.WORD:
            reader = _WORDS.get(token.upper)
            return reader(cursor) if reader is not None else _name_or_call(cursor)
    if cursor.at("("):
        return _parenthesised(cursor)
    raise cursor.unexpected("an expression")


def _parenthesised(cursor: Cursor) -> exp.Expression:
    start = cursor.expect("(").start
    if queries.at_query(cursor):
        node = exp.Subquery(this=queries.query(cursor))
        cursor.expect(")")
        return cursor.mark(node, start)
    items = expression_list(cursor)
    cursor.expect(")")
    if len(items) == 1:
        return items[0]
    return cursor.mark(FunctionCall(this="ROW", expressions=items), start)


def _name_or_call(cursor: Cursor) -> exp.Expression:
    token = cursor.token
    if cursor.peek(1).upper == "(" and functions.can_be_called(token):
        return functions.call(cursor)
    if not cursor.at_name():
        raise cursor.unexpected("an expression or a column name")
    return name_path(cursor)


def name_path(cursor: Cursor) -> exp.Expression:
    """Read `a`, `t.a`, … as an exp.Column; what comes after the fourth part as exp.Dot."""
    first = cursor.token
    parts = [cursor.name("a column name")]
    while cursor.at(".") and len(parts) < 4:
        cursor.advance()
        parts.append(cursor.name("a column or field name"))
    if cursor.at("("):
        cursor.advance()
        hint = "call a built-in function by its plain name"
        raise cursor.refusal("functions with a qualified name are not supported yet", first, hint)
    qualifiers = dict(zip(("table", "db", "catalog"), reversed(parts[:-1]), strict=False))
    return cursor.mark(exp.Column(this=parts[-1], **qualifiers), first.start)


def _literal_word(make: Callable[[], exp.Expression]) -> Callable[[Cursor], exp.Expression]:
    def read(cursor: Cursor) -> exp.Expression:
        start = cursor.advance().start
        return cursor.mark(make(), start)

    return read


def _niladic(cursor: Cursor) -> exp.Expression:
    token = cursor.advance()
    return cursor.mark(FunctionCall(this=token.upper, expressions=[]), token.start)


def _unknown() -> exp.Expression:
    target = TypeName(this=str(types.BOOLEAN))
    target.meta["logical_type"] = types.BOOLEAN
    return exp.Cast(this=exp.Null(), to=target)


def _case(cursor: Cursor) -> exp.Expression:
    start = cursor.expect("CASE").start
    subject = None if cursor.at("WHEN") else expression(cursor)
    branches: list[exp.If] = []
    while cursor.at("WHEN") or not branches:
        branch_start = cursor.expect("WHEN").start
        condition = expression(cursor)
        cursor.expect("THEN")
        branch = exp.If(this=condition, true=expression(cursor))
        branches.append(cursor.mark(branch, branch_start))
    default = expression(cursor) if cursor.accept("ELSE") else None
    cursor.expect("END")
    return cursor.mark(exp.Case(this=subject, ifs=branches, default=default), start)


def _cast(cursor: Cursor) -> exp.Expression:
    word = cursor.advance()
    cursor.expect("(")
    value = expression(cursor)
    cursor.expect("AS")
    type_start = cursor.token.start
    logical_type = data_type(cursor)
    target = cursor.mark(TypeName(this=str(logical_type)), type_start)
    target.meta["logical_type"] = logical_type
    cursor.expect(")")
    node = exp.Cast if word.upper == "CAST" else exp.TryCast
    return cursor.mark(node(this=value, to=target), word.start)


def _cast_or_name(cursor: Cursor) -> exp.Expression:
    return _cast(cursor) if cursor.peek(1).upper == "(" else _name_or_call(cursor)


def _exists(cursor: Cursor) -> exp.Expression:
    start = cursor.expect("EXISTS").start
    cursor.expect("(")
    node = exp.Exists(this=queries.query(cursor))
    cursor.expect(")")
    return cursor.mark(node, start)


def _datetime(cursor: Cursor) -> exp.Expression:
    word = cursor.token
    if cursor.peek(1).kind is not TokenKind.STRING:
        return _name_or_call(cursor)
    cursor.advance()
    text = cursor.string().text
    node = cursor.mark(DateTimeLiteral(this=text, kind=word.upper), word.start)
    datetime_value(node)
    return node


def _interval(cursor: Cursor) -> exp.Expression:
    start = cursor.expect("INTERVAL").start
    sign = cursor.accept_any("-", "+")
    hint = "an interval is a quoted number and a unit, such as INTERVAL '10' MINUTE"
    text = cursor.string("a string in single quotes", hint).text
    unit = _interval_unit(cursor)
    to = None
    if cursor.at("TO"):
        token = cursor.advance()
        to = _interval_unit(cursor)
        if not is_interval_range(unit, to):
            hint = "use YEAR TO MONTH, or a range from larger to smaller of DAY, HOUR, MINUTE, SECOND"
            raise cursor.refusal(f"an interval cannot range from {unit} to {to}", token, hint)
    node = IntervalLiteral(this=text, unit=unit, to=to, is_negative=sign == "-")
    interval_value(cursor.mark(node, start))
    return node


def _interval_unit(cursor: Cursor) -> str:
    unit = time_unit(cursor, UNITS)
    # The precision of an interval's field bounds its digits; a literal has the digits it has.
    if cursor.accept("("):
        cursor.unsigned_integer()
        if cursor.accept(","):
            cursor.unsigned_integer()
        cursor.expect(")")
    return unit


def time_unit(cursor: Cursor, allowed: tuple[str, ...]) -> str:
    """Read a unit of time, singular or plural, and return it singular."""
    token: Token = cursor.token
    unit = _PLURALS.get(token.upper, token.upper)
    if token.kind is not TokenKind.WORD or unit not in allowed:
        raise cursor.unexpected("a unit of time", "units are " + ", ".join(allowed))
    cursor.advance()
    return unit


def _row(cursor: Cursor) -> exp.Expression:
    start = cursor.expect("ROW").start
    cursor.expect("(")
    items = [] if cursor.at(")") else expression_list(cursor)
    cursor.expect(")")
    return cursor.mark(FunctionCall(this="ROW", expressions=items), start)


def _collection(cursor: Cursor) -> exp.Expression:
    word = cursor.token
    if word.upper == "MAP" and cursor.peek(1).upper != "[":
        return _name_or_call(cursor)
    cursor.advance()
    cursor.expect("[", hint=f"write {word.upper}[…] with square brackets")
    items = [] if cursor.at("]") else expression_list(cursor)
    cursor.expect("]")
    if word.upper == "MAP" and len(items) % 2:
        raise cursor.refusal("MAP needs a value for every key", word, "write MAP[key, value, …]")
    return cursor.mark(FunctionCall(this=word.upper, expressions=items), word.start)


_WORDS: dict[str, Callable[[Cursor], exp.Expression]] = {
    "NULL": _literal_word(exp.Null),
    "TRUE": _literal_word(lambda: exp.Boolean(this=True)),
    "FALSE": _literal_word(lambda: exp.Boolean(this=False)),
    "UNKNOWN": _literal_word(_unknown),
    "CASE": _case,
    "CAST": _cast,
    "TRY_CAST": _cast_or_name,
    "EXISTS": _exists,
    "INTERVAL": _interval,
    "DATE": _datetime,
    "TIME": _datetime,
    "TIMESTAMP": _datetime,
    "ROW": _row,
    "ARRAY": _collection,
    "MAP": _collection,
    **dict.fromkeys(_NILADIC, _niladic),
}
