"""The whitelist: calls that batch engines compute as the stream does, without tricks.

A handler returns None for arguments of which this does not hold. What an engine writes in its own words stands with its dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect
from sqlstream.types import LogicalType, TypeRoot

Handler = Callable[[Call, list[exp.Expr], EngineDialect], exp.Expr | None]
"""The call, the trees of its arguments, and the engine."""

OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "IS DISTINCT FROM": exp.NullSafeNEQ,
    "IS NOT DISTINCT FROM": exp.NullSafeEQ,
    "AND": exp.And,
    "OR": exp.Or,
    "+": exp.Add,
    "-": exp.Sub,
    "*": exp.Mul,
}
DATE_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND")
_PART_OF = {"DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY"}
_DATE_PART_FUNCTIONS = ("EXTRACT", *DATE_PARTS[:4], *_PART_OF, "HOUR", "MINUTE", "SECOND")
_INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INTEGER: 10, TypeRoot.BIGINT: 19}


def function(name: str) -> Handler:
    """The engine's function of this name, with the same arguments."""
    return lambda call, args, engine: tree.call(name, *args)


def of_text(name: str) -> Handler:
    """The engine's function of this name, where all arguments are texts."""

    def handler(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
        is_text = all(sql.is_string(arg.type) for arg in call.args)
        return tree.cast(tree.call(name, *args), engine.type_(call.type)) if is_text else None

    return handler


def _operator(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    # Engines compare maps by the order of their entries.
    if any(holds_map(arg.type) for arg in call.args):
        return None
    return tree.operate(OPERATORS[call.function], *args)


def _in(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    return None if any(holds_map(arg.type) for arg in call.args) else tree.is_in(args[0], args[1:])


def _null_if(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    return None if any(holds_map(arg.type) for arg in call.args) else tree.call("nullif", *args)


def holds_map(t: LogicalType) -> bool:
    """Whether values consist of maps, which engines compare by the order of their entries."""
    return t.root in (TypeRoot.MAP, TypeRoot.MULTISET) or any(map(holds_map, t.parts))


def _case(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr:
    return tree.case(list(zip(args[0:-1:2], args[1:-1:2], strict=True)), args[-1])


def _truth(default: bool, *, is_negated: bool) -> Handler:
    def handler(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr:
        test = tree.call("coalesce", args[0], tree.boolean(default))
        return tree.negated(test) if is_negated else test

    return handler


def _arithmetic(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    """Of numbers, from left to right; every sum on the way has the type of the call. Decimals have the engine's own rules."""
    if call.type.root is TypeRoot.DECIMAL or not all(sql.is_numeric(arg.type) for arg in call.args):
        return None
    made = args[0]
    for arg in args[1:]:
        made = tree.cast(tree.operate(OPERATORS[call.function], made, arg), engine.type_(call.type))
    return made


def _whole_quotient(operator: type[exp.Binary]) -> Handler:
    """Of whole numbers by a positive constant: no other divisor is sure neither to fail nor to overflow."""

    def handler(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
        if not all(sql.is_integer(arg.type) for arg in call.args) or not is_positive(call.args[1]):
            return None
        return tree.cast(tree.operate(operator, *args), engine.type_(call.type))

    return handler


def is_positive(expression: Expression) -> bool:
    """Whether it is a whole constant from 1 to the greatest INT."""
    value = expression.value if isinstance(expression, Literal) else None
    return isinstance(value, int) and 0 < value < 2**31


def _negated(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    if not sql.is_integer(call.type) and call.type.root not in sql.APPROXIMATE_ROOTS:
        return None
    return exp.Paren(this=exp.Neg(this=exp.Paren(this=args[0].copy())))


def cast(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    """A CAST that loses nothing: of a number to a wider one, of a whole number or a date to text, of a date to a timestamp."""
    source, target = call.args[0].type, call.type
    if source.root is TypeRoot.NULL:
        return tree.cast(tree.null(), engine.type_(target))
    if is_wider(source, target):
        return tree.cast(args[0], engine.type_(target)) if source.root is TypeRoot.MAP else args[0]
    is_text = target.root is TypeRoot.VARCHAR and target.length == sql.VARCHAR_LENGTH_MAX
    is_written = is_text and (sql.is_integer(source) or source.root is TypeRoot.DATE)
    is_day = {source.root, target.root} == {TypeRoot.DATE, TypeRoot.TIMESTAMP}
    if is_written or is_day or _is_wider_number(source, target):
        return tree.cast(args[0], engine.type_(target))
    return None


def _is_wider_number(source: LogicalType, target: LogicalType) -> bool:
    a, b = source.root, target.root
    if a in _INTEGER_BITS and b in _INTEGER_BITS:
        return _INTEGER_BITS[a] <= _INTEGER_BITS[b]
    if b is TypeRoot.DOUBLE:
        return a in (*_INTEGER_BITS, TypeRoot.FLOAT)
    if b is TypeRoot.DECIMAL and (a is TypeRoot.DECIMAL or a in _INTEGER_DIGITS):
        digits = _INTEGER_DIGITS[a] if a in _INTEGER_DIGITS else source.precision - source.scale
        return digits <= target.precision - target.scale and source.scale <= target.scale
    return False


def is_wider(source: LogicalType, target: LogicalType) -> bool:
    """Whether all values of a type are values of the other, which may only allow longer texts and more digits of a second."""
    if sql.is_string(source) and target.root is TypeRoot.VARCHAR:
        return source.length <= target.length
    if sql.is_timestamp(source) and source.root is target.root:
        return source.precision <= target.precision
    if source.root is TypeRoot.MAP is target.root:
        assert source.key is not None
        assert target.key is not None
        assert source.element is not None
        assert target.element is not None
        return is_wider(source.key, target.key) and is_wider(source.element, target.element)
    return source.same_as(target)


def _date_part(call: Call) -> str | None:
    """The part of a date or a timestamp that EXTRACT or a function such as YEAR asks for, of those in DATE_PARTS."""
    named = call.function
    if named == "EXTRACT":
        unit = call.args[0]
        named = str(unit.value).upper() if isinstance(unit, Literal) else ""
    named, t = _PART_OF.get(named, named), call.args[-1].type
    if named not in DATE_PARTS or t.root not in (TypeRoot.DATE, TypeRoot.TIMESTAMP):
        return None
    return None if t.root is TypeRoot.DATE and named in ("HOUR", "MINUTE", "SECOND") else named


def date_parts(names: Mapping[str, str]) -> dict[str, Handler]:
    """EXTRACT, and functions such as YEAR, by the engine's function of a part: `names` has those that are not the part's name."""

    def handler(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
        part = _date_part(call)
        if part is None:
            return None
        return tree.cast(tree.call(names.get(part, part.lower()), args[-1]), engine.type_(sql.BIGINT))

    return dict.fromkeys(_DATE_PART_FUNCTIONS, handler)


def _joined(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    return tree.operate(exp.DPipe, *args) if all(sql.is_string(arg.type) for arg in call.args) else None


def _like(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    """By a constant pattern without a backslash, which some engines take for an escape."""
    if len(args) != 2 or not isinstance(call.args[1], Literal) or "\\" in str(call.args[1].value):
        return None
    return tree.operate(exp.Like, *args)


def _substring(call: Call, args: list[exp.Expr], engine: EngineDialect) -> exp.Expr | None:
    """From a constant place on, counted from the start."""
    if not sql.is_string(call.args[0].type) or not all(map(is_positive, call.args[1:])):
        return None
    return tree.call("substr", *args)


def _field_name(call: Call) -> str:
    place = call.args[1]
    assert isinstance(place, Literal)
    assert isinstance(place.value, int)
    return call.args[0].type.fields[place.value].name


def field(write: Callable[[exp.Expr, str], exp.Expr]) -> Handler:
    """A field of a ROW, written by the engine."""
    return lambda call, args, engine: write(args[0], _field_name(call))


NATIVE: dict[str, Handler] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _operator),
    **dict.fromkeys(("IS DISTINCT FROM", "IS NOT DISTINCT FROM", "AND", "OR"), _operator),
    "NOT": lambda call, args, engine: tree.negated(args[0]),
    **dict.fromkeys(("IS NULL", "IS UNKNOWN"), lambda call, args, engine: tree.is_null(args[0])),
    **dict.fromkeys(("IS NOT NULL", "IS NOT UNKNOWN"), lambda call, args, engine: tree.is_not_null(args[0])),
    "IS TRUE": _truth(False, is_negated=False),
    "IS NOT TRUE": _truth(False, is_negated=True),
    "IS FALSE": _truth(True, is_negated=True),
    "IS NOT FALSE": _truth(True, is_negated=False),
    "IN": _in,
    **dict.fromkeys(("CASE", "IF"), _case),
    **dict.fromkeys(("COALESCE", "IFNULL"), function("coalesce")),
    "NULLIF": _null_if,
    **dict.fromkeys(("+", "-", "*"), _arithmetic),
    "/": _whole_quotient(exp.IntDiv),
    **dict.fromkeys(("%", "MOD"), _whole_quotient(exp.Mod)),
    "NEGATE": _negated,
    **dict.fromkeys(("CAST", "TRY_CAST"), cast),
    **dict.fromkeys(("||", "CONCAT"), _joined),
    **dict.fromkeys(("CHAR_LENGTH", "CHARACTER_LENGTH"), of_text("length")),
    "LIKE": _like,
    **dict.fromkeys(("SUBSTRING", "SUBSTR"), _substring),
}
"""What all engines write alike, by name of the function."""
