"""Functions of character strings as Spark SQL. Spark counts characters as code points, as the stream does."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.constants import unit_word
from sqlstream.planner.lower.spark.regex import quoted
from sqlstream.planner.lower.spark.scope import ENGINE, Builder, fail, let, let_all, refuse
from sqlstream.planner.lower.spark.types import BIGINT, BINARY, INT, STRING, text, whole
from sqlstream.types import LogicalType, TypeRoot

_TRIM = {
    "BOTH": "btrim",
    "BTRIM": "btrim",
    "LEADING": "ltrim",
    "LTRIM": "ltrim",
    "TRAILING": "rtrim",
    "RTRIM": "rtrim",
}
# Java's Character.isWhitespace.
_WHITE_SPACE = r"[\x09-\x0d\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]"
_WORD = "[A-Za-z0-9]+|[^A-Za-z0-9]+"
_BASE64 = r"\A(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?\z"


def _same_name(name: str) -> Builder:
    return lambda call, args, _: tree.call(name, *args)


def _instr(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if len(args) > 2:
        raise refuse("INSTR with a start")
    return tree.call("instr", *args)


def _trimmed(function: str, value: exp.Expr, characters: exp.Expr) -> exp.Expr:
    # Only btrim takes the text first.
    return tree.call(function, *((value, characters) if function == "btrim" else (characters, value)))


def _trim_standard(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    _, characters, value = args
    return _trimmed(_TRIM[unit_word(call, 0, ENGINE)], value, characters)


def _trim(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    value, *characters = args
    return _trimmed(_TRIM[call.function], value, characters[0] if characters else text(" "))


VALUE_BYTES_MAX = 64 * 1024 * 1024
"""The largest text that REPEAT, LPAD and RPAD may return, as in a stream."""
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def as_int(value: exp.Expr, t: LogicalType) -> exp.Expr:
    """A place or length as INT; a BIGINT beyond its range becomes its bound, where Spark itself would take the low bits."""
    if t.root is not TypeRoot.BIGINT:
        return value
    if isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal):
        return whole(min(max(int(value.this.this), _INT_MIN), _INT_MAX), INT)

    def clipped(v: exp.Expr) -> exp.Expr:
        branches = [
            (tree.operate(exp.GT, v, whole(_INT_MAX)), whole(_INT_MAX, INT)),
            (tree.operate(exp.LT, v, whole(_INT_MIN)), whole(_INT_MIN, INT)),
        ]
        return tree.case(branches, tree.cast(v, INT))

    return let(value, clipped)


def _with_ints(build: Builder, *positions: int) -> Builder:
    """A builder whose arguments at these positions are INT."""

    def with_ints(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        given = [
            as_int(a, e.type) if i in positions else a
            for i, (a, e) in enumerate(zip(args, call.args, strict=True))
        ]
        return build(call, given, time_zone)

    return with_ints


def _less(a: exp.Expr, b: int) -> exp.Expr:
    return tree.operate(exp.LT, a, tree.cast(tree.number(b), INT))


def _substring(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Positions from 1; below 0 from the end, and '' when before the start. A negative length gives NULL."""
    start = call.args[1]
    is_from_start = isinstance(start, Literal) and isinstance(start.value, int) and start.value >= 0
    if is_from_start and len(args) == 2:
        return tree.call("substring", *args)

    def part(value: exp.Expr, place: exp.Expr, length: exp.Expr) -> exp.Expr:
        before = tree.operate(exp.Add, tree.call("length", value), place)
        branches = []
        if len(args) == 3:
            branches.append((_less(length, 0), tree.cast(tree.null(), STRING)))
        if not is_from_start:
            branches.append((tree.all_of([_less(before, 0), _less(place, 0)]), text("")))
        return tree.case(branches, tree.call("substring", value, place, length))

    length = args[2] if len(args) == 3 else whole(2**31 - 1, INT)
    return let_all([args[0], args[1], length], part)


def _replace(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Java finds an empty text around each character, Spark nowhere."""
    search = call.args[1]
    if isinstance(search, Literal) and search.value:
        return tree.call("replace", *args)

    def replaced(value: exp.Expr, sought: exp.Expr, replacement: exp.Expr) -> exp.Expr:
        escaped = tree.call("replace", replacement, text("\\"), text("\\\\"))
        escaped = tree.call("replace", escaped, text("$"), text("\\$"))
        before_each = tree.call("concat", escaped, text("$1"))
        around = tree.call(
            "concat", tree.call("regexp_replace", value, text("(?s)(.)"), before_each), replacement
        )
        is_empty = tree.operate(exp.EQ, sought, text(""))
        return tree.case([(is_empty, around)], tree.call("replace", value, sought, replacement))

    return let_all(args, replaced)


def _overlay(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def laid(value: exp.Expr, part: exp.Expr, start: exp.Expr, count: exp.Expr) -> exp.Expr:
        length = tree.call("length", value)
        is_outside = tree.any_of(
            [
                tree.operate(exp.LTE, start, tree.number(0)),
                tree.operate(exp.GT, start, length),
            ]
        )
        head = tree.call("substring", value, tree.number(1), tree.operate(exp.Sub, start, tree.number(1)))
        behind = tree.operate(exp.Add, start, count)
        has_tail = tree.all_of(
            [tree.operate(exp.LTE, behind, length), tree.operate(exp.GT, count, tree.number(0))]
        )
        tail = tree.case([(has_tail, tree.call("substring", value, behind))], text(""))
        return tree.case([(is_outside, value)], tree.call("concat", head, part, tail))

    value, part, start, *count = args
    return let_all(
        [value, part, start],
        lambda v, p, s: let(count[0] if count else tree.call("length", p), lambda n: laid(v, p, s, n)),
    )


def _translate(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Without characters to replace the text is unchanged; without replacements they are removed."""
    value, characters, replacements = args
    replaced = tree.call("translate", value, characters, tree.call("coalesce", replacements, text("")))
    return tree.case([(tree.is_null(characters), value)], replaced)


def _padded(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    value, length, pad = args

    def filled(n: exp.Expr) -> exp.Expr:
        is_none = tree.any_of([_less(n, 0), tree.operate(exp.EQ, pad, text(""))])
        return tree.case(
            [(is_none, tree.cast(tree.null(), STRING)), (_is_too_long(n), _too_long(call))],
            tree.call(call.function.lower(), value, n, pad),
        )

    return let(length, filled)


def _repeat(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def repeated(value: exp.Expr, times: exp.Expr) -> exp.Expr:
        size = tree.operate(
            exp.Mul, tree.cast(tree.call("octet_length", value), BIGINT), tree.cast(times, BIGINT)
        )
        return tree.case([(_is_too_long(size), _too_long(call))], tree.call("repeat", value, times))

    return let_all(args, repeated)


def _is_too_long(size: exp.Expr) -> exp.Expr:
    return tree.operate(exp.GT, size, tree.number(VALUE_BYTES_MAX))


def _too_long(call: Call) -> exp.Expr:
    return fail(f"a result of {call.function} would be too large", STRING)


def _locate(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if len(args) == 2:
        return tree.call("instr", args[1], args[0])

    def found(search: exp.Expr, value: exp.Expr, start: exp.Expr) -> exp.Expr:
        none = tree.cast(tree.number(0), INT)
        is_outside = tree.any_of([_less(start, 1), tree.operate(exp.GT, start, tree.call("length", value))])
        rest = tree.call("instr", tree.call("substring", value, start), search)
        place = tree.operate(exp.Sub, tree.operate(exp.Add, rest, start), whole(1, INT))
        return tree.case([(is_outside, none), (tree.operate(exp.EQ, rest, none), none)], place)

    return let_all(args, found)


def _split_index(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """The part of this number, from 0; NULL when there are fewer or the text is empty. An empty delimiter is white space."""
    delimiter = call.args[1]
    if isinstance(delimiter, Literal):
        if delimiter.value is None:
            return tree.cast(tree.null(), STRING)
        separator = str(delimiter.value)
        if sql.is_integer(delimiter.type):
            code = int(separator)
            if not 1 <= code <= 255:
                return tree.cast(tree.null(), STRING)
            separator = chr(code)
        regex = text(quoted(separator) if separator else _WHITE_SPACE)
    else:
        regex = _separator_regex(args[1], is_code=sql.is_integer(delimiter.type))

    def part(value: exp.Expr) -> exp.Expr:
        parts = tree.call("split", value, regex, whole(-1, INT))
        is_text = tree.operate(exp.NEQ, value, text(""))
        return tree.case([(is_text, tree.call("get", parts, args[2]))])

    return let(args[0], part)


def _separator_regex(delimiter: exp.Expr, *, is_code: bool) -> exp.Expr:
    if is_code:
        is_known = tree.is_between(delimiter, tree.number(1), tree.number(255))
        delimiter = tree.case([(is_known, tree.call("chr", delimiter))])

    def regex(separator: exp.Expr) -> exp.Expr:
        # Between \\Q and \\E all characters stand for themselves.
        inner = tree.call("replace", separator, text("\\E"), text("\\E\\\\E\\Q"))
        literal = tree.call("concat", text("\\Q"), inner, text("\\E"))
        return tree.case([(tree.operate(exp.EQ, separator, text("")), text(_WHITE_SPACE))], literal)

    return let(delimiter, regex)


def _initcap(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Words are letters and digits of ASCII; Spark's own are whatever stands between spaces."""
    piece = exp.Identifier(this="piece", quoted=False)
    first = tree.call("upper", tree.call("left", piece, tree.number(1)))
    word = tree.call("concat", first, tree.call("lower", tree.call("substring", piece, tree.number(2))))
    is_word = tree.call("regexp_like", piece, text(r"\A[A-Za-z0-9]"))
    function = exp.Lambda(this=tree.case([(is_word, word)], piece), expressions=[piece.copy()])
    pieces = tree.call("regexp_extract_all", args[0], text(_WORD), tree.number(0))
    return tree.call("array_join", tree.call("transform", pieces, function), text(""))


def _from_base64(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Malformed base64, and bytes that are not UTF-8, are errors; the padding may be missing."""

    def decoded(value: exp.Expr) -> exp.Expr:
        is_read = tree.call("regexp_like", value, text(_BASE64))
        result = tree.call("decode", tree.call("unbase64", value), text("UTF-8"))
        return tree.case([(is_read, result), (tree.is_not_null(value), fail("a text is no base64", STRING))])

    return let(args[0], decoded)


def _affix(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.call(call.function.lower(), *args)


def _sha256(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.call("sha2", args[0], tree.number(256))


def _to_base64(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    # Spark breaks the lines.
    lines = tree.call("base64", tree.cast(args[0], BINARY))
    return tree.call("replace", lines, text("\r\n"), text(""))


def _position(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.call("instr", args[1], args[0])


STRINGS: dict[str, Builder] = {
    "||": _same_name("concat"),
    "CONCAT": _same_name("concat"),
    "CONCAT_WS": _same_name("concat_ws"),
    "CHAR_LENGTH": _same_name("length"),
    "CHARACTER_LENGTH": _same_name("length"),
    "UPPER": _same_name("upper"),
    "LOWER": _same_name("lower"),
    "REVERSE": _same_name("reverse"),
    "INITCAP": _initcap,
    "TO_BASE64": _to_base64,
    "FROM_BASE64": _from_base64,
    "TRIM": _trim_standard,
    "LTRIM": _trim,
    "RTRIM": _trim,
    "BTRIM": _trim,
    "SUBSTRING": _with_ints(_substring, 1, 2),
    "SUBSTR": _with_ints(_substring, 1, 2),
    "LEFT": _with_ints(_same_name("left"), 1),
    "RIGHT": _with_ints(_same_name("right"), 1),
    "REPLACE": _replace,
    "OVERLAY": _with_ints(_overlay, 2, 3),
    "TRANSLATE": _translate,
    "LPAD": _with_ints(_padded, 1),
    "RPAD": _with_ints(_padded, 1),
    "REPEAT": _with_ints(_repeat, 1),
    "POSITION": _position,
    "INSTR": _instr,
    "LOCATE": _with_ints(_locate, 2),
    "SPLIT_INDEX": _with_ints(_split_index, 2),
    "STARTSWITH": _affix,
    "ENDSWITH": _affix,
    "ASCII": _same_name("ascii"),
    "CHR": _same_name("chr"),
    "MD5": _same_name("md5"),
    "SHA1": _same_name("sha1"),
    "SHA256": _sha256,
}
"""By name of the function."""
