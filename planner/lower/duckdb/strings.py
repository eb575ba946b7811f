"""Functions of character strings in DuckDB."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.handler import Handler, named, of_arguments, unit_word
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.types import BIGINT, INTEGER, TEXT, failure
from sqlstream.types import LogicalType, TypeRoot

_WHITESPACE = "[\\x09-\\x0d\\x1c-\\x20\\x{1680}\\x{2000}-\\x{2006}\\x{2008}-\\x{200a}\\x{2028}\\x{2029}\\x{205f}\\x{3000}]"
"""Java's Character.isWhitespace."""

_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?"

_UNUSUAL_LETTERS = {
    "upper": (
        "[\\x{149}\\x{19b}\\x{1f0}\\x{264}\\x{277}\\x{27c}\\x{390}\\x{3b0}\\x{587}\\x{1c8a}\\x{1e96}-\\x{1e9a}"
        "\\x{1f50}-\\x{1f57}\\x{1f80}-\\x{1ffc}\\x{a7cd}-\\x{a7db}\\x{ab4b}\\x{ab4c}\\x{fb00}-\\x{fb17}"
        "\\x{10d70}-\\x{10d85}\\x{16ea0}-\\x{16ed3}]"
    ),
    "lower": (
        "[\\x{130}\\x{3a3}\\x{1c89}\\x{a7cb}-\\x{a7e2}\\x{ab6c}\\x{ab6d}\\x{10d50}-\\x{10d65}\\x{16ea0}-\\x{16eb8}]"
    ),
}
"""Letters that become several, whose place decides, or that DuckDB's version of Unicode lacks."""


def _counted(function: str) -> Handler:
    """A function whose BIGINT is an INT in Flink."""
    return of_arguments(lambda *args: tree.cast(tree.call(function, *args), INTEGER))


def _instr(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if len(args) > 2:
        raise refuse("INSTR with a start")
    return tree.cast(tree.call("instr", *args), INTEGER)


def _is_less(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return tree.operate(exp.LT, left, right)


def _at_least_zero(value: exp.Expr) -> exp.Expr:
    """greatest() ignores NULL: a NULL becomes 0."""
    return tree.call("greatest", value, tree.number(0))


def _left(value: exp.Expr, length: exp.Expr) -> exp.Expr:
    def cut(length: exp.Expr) -> exp.Expr:
        part = tree.call("substr", value, tree.number(1), _at_least_zero(length))
        return tree.case([(tree.is_null(length), tree.null())], part)

    return bound(length, cut)


def _right(value: exp.Expr, length: exp.Expr) -> exp.Expr:
    def cut(length: exp.Expr) -> exp.Expr:
        part = tree.call("right", value, _at_least_zero(length))
        return tree.case([(tree.is_null(length), tree.null())], part)

    return bound(length, cut)


def _repeat(value: exp.Expr, times: exp.Expr) -> exp.Expr:
    def repeated(times: exp.Expr) -> exp.Expr:
        return tree.case([(tree.is_not_null(times), tree.call("repeat", value, _at_least_zero(times)))])

    return bound(times, repeated)


def _replace(value: exp.Expr, search: exp.Expr, replacement: exp.Expr) -> exp.Expr:
    def build(value: exp.Expr, search: exp.Expr, replacement: exp.Expr) -> exp.Expr:
        # Java finds the empty text between all characters.
        escaped = tree.call("replace", replacement, tree.text("\\"), tree.text("\\\\"))
        everywhere = tree.call("regexp_replace", value, tree.text(""), escaped, tree.text("g"))
        is_empty = tree.operate(exp.EQ, search, tree.text(""))
        return tree.case([(is_empty, everywhere)], tree.call("replace", value, search, replacement))

    return bound(value, lambda v: bound(search, lambda s: bound(replacement, lambda r: build(v, s, r))))


def _clamped(value: exp.Expr, t: LogicalType) -> exp.Expr:
    """A length, position or count as INT: a BIGINT beyond it becomes the nearest, since no text is that long."""
    if t.root is not TypeRoot.BIGINT:
        return value
    low, high = tree.number(-(2**31) + 1), tree.number(2**31 - 1)
    is_null = tree.is_null(value)
    nearest = tree.call("least", tree.call("greatest", value, low), high)
    return tree.case([(is_null, tree.null())], tree.cast(nearest, INTEGER))


def _with_int_parameters(make: Callable[..., exp.Expr]) -> Handler:
    """A handler of trees whose parameters, all arguments but the first, are INT where they are numbers."""

    def handler(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        given = zip(args[1:], call.args[1:], strict=True)
        return make(args[0], *(_clamped(arg, typed.type) for arg, typed in given))

    return handler


def _padded(function: str) -> Handler:
    def pad(value: exp.Expr, length: exp.Expr, padding: exp.Expr) -> exp.Expr:
        def padded(length: exp.Expr, padding: exp.Expr) -> exp.Expr:
            is_null = tree.any_of(
                [_is_less(length, tree.number(0)), tree.operate(exp.EQ, padding, tree.text(""))]
            )
            return tree.case([(is_null, tree.null())], tree.call(function, value, length, padding))

        return bound(length, lambda length: bound(padding, lambda padding: padded(length, padding)))

    return _with_int_parameters(pad)


def _substring(value: exp.Expr, start: exp.Expr, length: exp.Expr | None = None) -> exp.Expr:
    def build(value: exp.Expr, start: exp.Expr, length: exp.Expr) -> exp.Expr:
        # A negative start counts from the end.
        place = tree.operate(exp.Add, tree.call("length", value), start)
        from_end = tree.operate(exp.Add, tree.call("length", value), start, tree.number(1))
        return tree.case(
            [
                (_is_less(length, tree.number(0)), tree.null()),
                (_is_less(tree.number(0), start), tree.call("substr", value, start, length)),
                (
                    tree.operate(exp.EQ, start, tree.number(0)),
                    tree.call("substr", value, tree.number(1), length),
                ),
                (_is_less(place, tree.number(0)), tree.text("")),
            ],
            tree.call("substr", value, from_end, length),
        )

    def with_length(value: exp.Expr, start: exp.Expr) -> exp.Expr:
        if length is None:
            return build(value, start, tree.call("length", value))
        return bound(length, lambda length: build(value, start, length))

    return bound(value, lambda v: bound(start, lambda s: with_length(v, s)))


def _trim_standard(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    function = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[unit_word(call, 0)]
    return tree.call(function, args[2], args[1])


def _trim(function: str) -> Handler:
    return of_arguments(lambda value, chars=None: tree.call(function, value, chars or tree.text(" ")))


def _split_index(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    value, delimiter, index = args[0], args[1], _clamped(args[2], call.args[2].type)
    if sql.is_integer(call.args[1].type):
        is_character = tree.is_between(delimiter, tree.number(1), tree.number(255))
        delimiter = tree.case([(is_character, tree.call("chr", tree.cast(delimiter, INTEGER)))])

    def part(value: exp.Expr, delimiter: exp.Expr, index: exp.Expr) -> exp.Expr:
        is_empty = [tree.operate(exp.EQ, text, tree.text("")) for text in (value, delimiter)]
        is_none = tree.any_of([tree.is_null(delimiter), _is_less(index, tree.number(0)), is_empty[0]])
        place = tree.operate(exp.Add, tree.cast(index, BIGINT), tree.number(1))
        # An empty delimiter splits at Java's white space.
        parts = tree.case(
            [(is_empty[1], tree.call("string_split_regex", value, tree.text(_WHITESPACE)))],
            tree.call("string_split", value, delimiter),
        )
        return tree.case([(is_none, tree.null())], tree.call("list_extract", parts, place))

    return bound(value, lambda v: bound(delimiter, lambda d: bound(index, lambda i: part(v, d, i))))


def _overlay(
    value: exp.Expr, replacement: exp.Expr, start: exp.Expr, length: exp.Expr | None = None
) -> exp.Expr:
    def build(value: exp.Expr, replacement: exp.Expr, start: exp.Expr, length: exp.Expr) -> exp.Expr:
        size, one, zero = tree.call("length", value), tree.number(1), tree.number(0)
        is_outside = tree.any_of([tree.operate(exp.LTE, start, zero), tree.operate(exp.GT, start, size)])
        end = tree.operate(exp.Add, start, length)
        has_rest = tree.all_of([tree.operate(exp.LTE, end, size), tree.operate(exp.GT, length, zero)])
        rest = tree.case([(has_rest, tree.call("substr", value, end))], tree.text(""))
        before = tree.call("substr", value, one, tree.operate(exp.Sub, start, one))
        return tree.case([(is_outside, value)], tree.operate(exp.DPipe, before, replacement, rest))

    def with_length(value: exp.Expr, replacement: exp.Expr, start: exp.Expr) -> exp.Expr:
        if length is None:
            return build(value, replacement, start, tree.call("length", replacement))
        return bound(length, lambda length: build(value, replacement, start, length))

    return bound(value, lambda v: bound(replacement, lambda r: bound(start, lambda s: with_length(v, r, s))))


def _locate(search: exp.Expr, value: exp.Expr, start: exp.Expr | None = None) -> exp.Expr:
    if start is None:
        return tree.cast(tree.call("instr", value, search), INTEGER)

    def find(value: exp.Expr, start: exp.Expr) -> exp.Expr:
        found = tree.call("instr", tree.call("substr", value, start), search)
        is_outside = tree.any_of(
            [_is_less(start, tree.number(1)), tree.operate(exp.GT, start, tree.call("length", value))]
        )
        is_none = tree.operate(exp.EQ, found, tree.number(0))
        place = tree.operate(exp.Sub, tree.operate(exp.Add, found, start), tree.number(1))
        zero = tree.number(0)
        return tree.cast(tree.case([(is_outside, zero), (is_none, zero)], place), INTEGER)

    return bound(value, lambda v: bound(start, lambda s: find(v, s)))


def _in_case(function: str) -> Handler:
    """UPPER and LOWER without the stream's own functions: text with unusual letters fails."""
    fail = failure(f"{function} of these letters has no exact counterpart in DuckDB", TEXT)
    return of_arguments(lambda value: in_case(function, value, lambda _: fail))


def in_case(function: str, value: exp.Expr, otherwise: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """`upper` and `lower` by Unicode's full mapping, as in Java; DuckDB maps letter by letter. `otherwise` is for text with
    letters that DuckDB maps otherwise."""
    unusual = _UNUSUAL_LETTERS[function]

    def mapped(value: exp.Expr) -> exp.Expr:
        is_ascii = tree.operate(exp.EQ, tree.call("strlen", value), tree.call("length", value))
        is_unusual = tree.call("regexp_matches", value, tree.text(unusual))
        usual = value if function == "lower" else tree.call("replace", value, tree.text("ß"), tree.text("SS"))
        return tree.case(
            [(is_ascii, tree.call(function, value)), (is_unusual, otherwise(value))],
            tree.call(function, usual),
        )

    return bound(value, mapped)


def _reverse(value: exp.Expr) -> exp.Expr:
    """By characters; DuckDB's own reverse keeps composed ones together."""
    letters = tree.call("regexp_extract_all", value, tree.text("(?s)."))
    return tree.call("array_to_string", tree.call("list_reverse", letters), tree.text(""))


def _initcap(value: exp.Expr) -> exp.Expr:
    runs = tree.call("regexp_extract_all", value, tree.text("[A-Za-z0-9]+|[^A-Za-z0-9]+"))
    run = tree.column("p")
    first = tree.call("substr", run, tree.number(1), tree.number(1))
    rest = tree.call("lower", tree.call("substr", run, tree.number(2)))
    is_word = tree.is_between(first, tree.text("0"), tree.text("z"))
    word = tree.operate(exp.DPipe, tree.call("upper", first), rest)
    body = exp.Lambda(this=tree.case([(is_word, word)], run), expressions=[exp.to_identifier("p")])
    return tree.call("array_to_string", tree.call("list_transform", runs, body), tree.text(""))


def _from_base64(value: exp.Expr) -> exp.Expr:
    """An error for text that is not base64, or stands for no UTF-8; the padding may be missing."""

    def read(value: exp.Expr) -> exp.Expr:
        blocks = tree.operate(
            exp.IntDiv, tree.operate(exp.Add, tree.call("length", value), tree.number(3)), tree.number(4)
        )
        length = tree.cast(tree.operate(exp.Mul, blocks, tree.number(4)), INTEGER)
        padded = tree.call("rpad", value, length, tree.text("="))
        is_read = tree.call("regexp_full_match", value, tree.text(_BASE64))
        return tree.case(
            [
                (tree.is_null(value), tree.null()),
                (is_read, tree.call("decode", tree.call("from_base64", padded))),
            ],
            failure("text is no base64", TEXT),
        )

    return bound(value, read)


def _translate(value: exp.Expr, search: exp.Expr, replacement: exp.Expr) -> exp.Expr:
    """Without characters to replace the text is unchanged; without replacements they are removed."""

    def build(search: exp.Expr) -> exp.Expr:
        new = tree.call("coalesce", replacement, tree.text(""))
        return tree.case([(tree.is_null(search), value)], tree.call("translate", value, search, new))

    return bound(search, build)


def _chr(value: exp.Expr) -> exp.Expr:
    low = tree.operate(exp.BitwiseAnd, tree.cast(value, BIGINT), tree.number(255))
    character = tree.call("chr", tree.cast(low, INTEGER))
    return bound(value, lambda v: tree.case([(_is_less(v, tree.number(0)), tree.text(""))], character))


def _affix(function: str) -> Handler:
    def has_affix(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        if sql.is_string(call.args[1].type):
            return tree.call(function, *args)
        # DuckDB compares only text, so bytes are compared by their digits.
        return tree.call(function, *(tree.call("hex", arg) for arg in args))

    return has_affix


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("||", "CONCAT"), of_arguments(lambda *args: tree.operate(exp.DPipe, *args))),
    "CONCAT_WS": named("concat_ws"),
    "STARTSWITH": _affix("starts_with"),
    "ENDSWITH": _affix("ends_with"),
    **dict.fromkeys(("CHAR_LENGTH", "CHARACTER_LENGTH"), _counted("length")),
    "UPPER": _in_case("upper"),
    "LOWER": _in_case("lower"),
    "INITCAP": of_arguments(_initcap),
    "REVERSE": of_arguments(_reverse),
    "TO_BASE64": of_arguments(lambda value: tree.call("base64", tree.call("encode", value))),
    "FROM_BASE64": of_arguments(_from_base64),
    "LEFT": _with_int_parameters(_left),
    "RIGHT": _with_int_parameters(_right),
    "REPLACE": of_arguments(_replace),
    "REPEAT": _with_int_parameters(_repeat),
    "OVERLAY": _with_int_parameters(_overlay),
    "TRANSLATE": of_arguments(_translate),
    "LPAD": _padded("lpad"),
    "RPAD": _padded("rpad"),
    "POSITION": of_arguments(lambda search, value: tree.cast(tree.call("instr", value, search), INTEGER)),
    "INSTR": _instr,
    "LOCATE": _with_int_parameters(_locate),
    **dict.fromkeys(("SUBSTRING", "SUBSTR"), _with_int_parameters(_substring)),
    "TRIM": _trim_standard,
    "LTRIM": _trim("ltrim"),
    "RTRIM": _trim("rtrim"),
    "BTRIM": _trim("trim"),
    "SPLIT_INDEX": _split_index,
    "ASCII": named("ascii"),
    "CHR": of_arguments(_chr),
    "HEX": named("hex"),
    "MD5": named("md5"),
    "SHA1": named("sha1"),
    "SHA256": named("sha256"),
}
