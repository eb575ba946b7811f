"""Times from text and to text in DuckDB, as Java's patterns and SQL's forms have them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.date_pattern import SHORT_YEARS, Token, read_pattern
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.types import BIGINT, INTEGER, TEXT, TIMESTAMP
from sqlstream.planner.lower.java_pattern import TimeForm

_STRFTIME = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
}
_DEFAULTS = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0}
_MICROS = {"H": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}


# -- reading ---------------------------------------------------------------------------------------


def form_of(pattern: str, function: str) -> TimeForm:
    """The form of a Java pattern. UserError SS3301 for letters that are not read."""
    tokens = read_pattern(pattern)
    form = None if tokens is None else TimeForm.of_tokens(tokens)
    if form is None:
        raise refuse(f'{function} with the date pattern "{pattern}"')
    return form


def read_timestamp(text: exp.Expr, *forms: TimeForm) -> exp.Expr:
    """The TIMESTAMP that text in the first form that fits stands for, NULL for other text and for times that do not
    exist."""

    def read(text: exp.Expr) -> exp.Expr:
        points = [_moment(text, form) for form in forms]
        return points[0] if len(points) == 1 else tree.call("coalesce", *points)

    return bound(text, read)


def read_micros_of_day(text: exp.Expr, form: TimeForm) -> exp.Expr:
    """The microseconds of the day that text stands for; NULL for other text."""
    return bound(text, lambda text: _matched(text, form, _checked_clock))


def _moment(text: exp.Expr, form: TimeForm) -> exp.Expr:
    return _matched(text, form, _checked_point)


def _matched(text: exp.Expr, form: TimeForm, make: Callable[[TimeForm, exp.Expr], exp.Expr]) -> exp.Expr:
    regex = tree.text(form.regex)
    names = tree.call("list_value", *(tree.text(f"g{i}") for i in range(len(form.groups))))
    # Without groups there is nothing to extract: any text that matches is the default.
    groups = tree.call("regexp_extract", text, regex, names) if form.groups else tree.null()
    is_match = tree.call("regexp_full_match", text, regex)
    return tree.case([(is_match, bound(groups, lambda found: make(form, found), is_always_named=True))])


def _part(form: TimeForm, found: exp.Expr, letter: str) -> exp.Expr:
    """A number of the text, or its default where the text lacks it."""
    default = tree.number(_DEFAULTS[letter])
    if letter == "y" and "Y" in form.groups:
        digits = tree.call("struct_extract", found, tree.text(f"g{form.groups.index('Y')}"))
        return tree.operate(exp.Add, tree.number(SHORT_YEARS), tree.try_cast(digits, INTEGER))
    if letter not in form.groups:
        return default
    digits = tree.call("struct_extract", found, tree.text(f"g{form.groups.index(letter)}"))
    return tree.call("coalesce", tree.try_cast(digits, INTEGER), default)


def _micros(form: TimeForm, found: exp.Expr) -> exp.Expr:
    """Hours, minutes, seconds and their fraction."""
    parts = [
        tree.operate(exp.Mul, tree.cast(_part(form, found, letter), BIGINT), tree.number(micros))
        for letter, micros in _MICROS.items()
    ]
    if "S" in form.groups:
        digits = tree.call("struct_extract", found, tree.text(f"g{form.groups.index('S')}"))
        parts.append(tree.cast(tree.call("rpad", digits, tree.number(6), tree.text("0")), INTEGER))
    return tree.operate(exp.Add, *parts)


def _is_clock(form: TimeForm, found: exp.Expr) -> list[exp.Expr]:
    limits = {"H": 24, "m": 60, "s": 60}
    return [
        tree.operate(exp.LT, _part(form, found, letter), tree.number(limit))
        for letter, limit in limits.items()
        if letter in form.groups
    ]


def _checked_clock(form: TimeForm, found: exp.Expr) -> exp.Expr:
    return tree.case([(tree.all_of(_is_clock(form, found)), _micros(form, found))])


def _checked_point(form: TimeForm, found: exp.Expr) -> exp.Expr:
    year, month, day = (_part(form, found, letter) for letter in "yMd")
    is_month = tree.all_of(
        [
            tree.is_between(year, tree.number(1), tree.number(9999)),
            tree.is_between(month, tree.number(1), tree.number(12)),
        ]
    )
    first = tree.call("make_date", year, month, tree.number(1))
    is_point = tree.all_of(
        [
            tree.operate(exp.GTE, day, tree.number(1)),
            tree.operate(exp.LTE, day, tree.call("day", tree.call("last_day", first))),
            *_is_clock(form, found),
        ]
    )
    point = tree.operate(
        exp.Add,
        tree.cast(tree.call("make_date", year, month, day), TIMESTAMP),
        tree.call("to_microseconds", _micros(form, found)),
    )
    return tree.case([(is_month, tree.case([(is_point, point)]))])


# -- writing ---------------------------------------------------------------------------------------


def write_timestamp(point: exp.Expr, pattern: str, function: str) -> exp.Expr:
    """A TIMESTAMP as text in a Java pattern. UserError SS3301 for letters that are not written."""
    tokens = read_pattern(pattern)
    if tokens is None:
        raise refuse(f'{function} with the date pattern "{pattern}"')
    if all(not token.letter or token.text in _STRFTIME for token in tokens):
        form = "".join(_STRFTIME.get(t.text, "") if t.letter else t.text.replace("%", "%%") for t in tokens)
        return tree.call("strftime", point, tree.text(form))

    def write(point: exp.Expr) -> exp.Expr:
        return tree.operate(exp.DPipe, *(_written(token, point, pattern, function) for token in tokens))

    return bound(point, write)


def _written(token: Token, point: exp.Expr, pattern: str, function: str) -> exp.Expr:
    width = token.width
    hour = tree.call("hour", point)
    twelve = tree.number(12)
    match token.letter:
        case "":
            return tree.text(token.text)
        case "y" | "u":
            year = tree.call("year", point)
            return (
                _padded(tree.operate(exp.Mod, year, tree.number(100)), 2, 2)
                if width == 2
                else (_padded(year, width, 4))
            )
        case "M" | "L":
            if width < 3:
                return _padded(tree.call("month", point), width, 2)
            return _named(tree.call("monthname", point), width)
        case "E":
            return _named(tree.call("dayname", point), width)
        case "a":
            is_morning = tree.operate(exp.LT, hour, twelve)
            return tree.case([(is_morning, tree.text("AM"))], tree.text("PM"))
        case "S":
            digits = tree.call("strftime", point, tree.text("%f"))
            return tree.call("rpad", digits, tree.number(width), tree.text("0"))
        case "D":
            return _padded(tree.call("dayofyear", point), width, 3)
        case "H":
            return _padded(hour, width, 2)
        case "k":
            is_midnight = tree.operate(exp.EQ, hour, tree.number(0))
            return _padded(tree.case([(is_midnight, tree.number(24))], hour), width, 2)
        case "K":
            return _padded(tree.operate(exp.Mod, hour, twelve), width, 2)
        case "h":
            before = tree.operate(exp.Mod, tree.operate(exp.Add, hour, tree.number(11)), twelve)
            return _padded(tree.operate(exp.Add, before, tree.number(1)), width, 2)
    part = {"d": "day", "m": "minute", "s": "second"}.get(token.letter)
    if part is None:
        raise refuse(f'"{token.text}" in the date pattern "{pattern}" of {function}')
    return _padded(tree.call(part, point), width, 2)


def _padded(value: exp.Expr, width: int, digits_max: int) -> exp.Expr:
    """Zeros before a number; DuckDB's lpad would cut off a longer one."""
    text = tree.cast(value, TEXT)
    if width == 1:
        return text
    if width >= digits_max:
        return tree.call("lpad", text, tree.number(width), tree.text("0"))
    length = tree.call("greatest", tree.call("length", text), tree.number(width))
    return tree.call("lpad", text, length, tree.text("0"))


def _named(name: exp.Expr, width: int) -> exp.Expr:
    return name if width > 3 else tree.call("left", name, tree.number(3))
