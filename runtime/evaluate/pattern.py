"""LIKE, SIMILAR TO and the functions of regular expressions."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.duckdb_function import evaluate_in_duckdb
from runtime.evaluate.kernel import Builder, Kernel, is_literal, literal_of
from sqlstream.errors import UserError
from sqlstream.expressions import Call

_JAVA_ONLY = (
    ("(?=", "look-ahead"),
    ("(?!", "look-ahead"),
    ("(?<=", "look-behind"),
    ("(?<!", "look-behind"),
    ("(?>", "an atomic group"),
)


def _like(call: Call, context: EvaluationContext) -> Kernel:
    if not is_literal(call, 1, 2):
        expression = "a0 LIKE a1" if len(call.args) == 2 else "a0 LIKE a1 ESCAPE a2"
        return lambda *args: evaluate_in_duckdb(expression, *args)
    escape = literal_of(call, 2) if len(call.args) == 3 else ""
    return _like_kernel(_like_parts(literal_of(call, 1), escape))


def _like_parts(pattern: str, escape: str) -> list[str]:
    """The pattern as literal runs, which start with "=", and the wildcards "%" and "_".

    >>> _like_parts("a%b!%", "!")
    ['=a', '%', '=b%']
    """
    if len(escape) > 1:
        raise UserError("SS3103", f'the escape "{escape}" of LIKE is not one character')
    parts: list[str] = []
    is_escaped = False
    for character in pattern:
        if not is_escaped and character == escape:
            is_escaped = True
            continue
        if character in "%_" and not is_escaped:
            parts.append(character)
        elif parts and parts[-1].startswith("="):
            parts[-1] += character
        else:
            parts.append("=" + character)
        is_escaped = False
    if is_escaped:
        raise UserError("SS3103", f'the LIKE pattern "{pattern}" ends with its escape character')
    return parts


def _like_kernel(parts: list[str]) -> Kernel:
    """Prefix, suffix and substring have kernels of their own; all else is a regular expression."""
    shape = "".join(p[0] for p in parts)
    run = next((p[1:] for p in parts if p[0] == "="), "")
    if shape in ("", "="):
        return lambda text, *_: pc.equal(text, run)
    if shape == "=%":
        return lambda text, *_: pc.starts_with(text, run)
    if shape == "%=":
        return lambda text, *_: pc.ends_with(text, run)
    if shape == "%=%":
        return lambda text, *_: pc.match_substring(text, run)
    regex = "".join({"%": ".*", "_": "."}.get(p) or escape_regex(p[1:]) for p in parts)
    return _matching(rf"(?s)\A{regex}\z")


def escape_regex(text: str) -> str:
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def _similar_to(call: Call, context: EvaluationContext) -> Kernel:
    """SQL's regular expressions: % and _ as in LIKE, the rest as usual, over the whole string."""
    pattern = re.sub(r"[%_]", lambda m: ".*" if m[0] == "%" else ".", literal_of(call, 1) or "")
    return _matching(rf"(?s)\A(?:{checked_regex(pattern)})\z")


def _matching(regex: str) -> Kernel:
    return lambda text, *_: pc.match_substring_regex(text, regex)


def _regexp(call: Call, context: EvaluationContext) -> Kernel:
    if not is_literal(call, 1):
        return lambda *args: evaluate_in_duckdb("a1 <> '' AND regexp_matches(a0, a1)", *args)
    regex = literal_of(call, 1)
    if not regex:
        return lambda text, _: pc.if_else(pc.is_null(text), pa.scalar(None, pa.bool_()), pa.scalar(False))
    return _matching(checked_regex(regex))


def checked_regex(regex: str) -> str:
    """The expression, tried once; UserError when it is malformed or needs Java's backtracking engine."""
    stripped = re.sub(r"\\\\|\\[^1-9]", "", regex)
    found = next((name for token, name in _JAVA_ONLY if token in stripped), "")
    if not found and re.search(r"\\[1-9]", stripped):
        found = "a back-reference"
    if not found and re.search(r"[*+?}]\+", stripped):
        found = "a possessive quantifier"
    if found:
        raise UserError(
            "SS3104",
            f'regular expression "{regex}" uses {found}',
            hint="rewrite it without: expressions are matched in linear time, without backtracking",
        )
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        raise UserError("SS3104", f'regular expression "{regex}" is malformed', detail=str(error)) from error
    return regex


_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((\?P?<\w+>|(?!\?))?", re.DOTALL)


def name_groups(regex: str) -> tuple[str, int]:
    """The expression with its capturing groups named g1, g2, …, as Arrow wants them, and their number.

    >>> name_groups(r"(a)(?:b)([)(])")
    ('(?P<g1>a)(?:b)(?P<g2>[)(])', 2)
    """
    count = 0

    def rename(match: re.Match[str]) -> str:
        nonlocal count
        if not match[0].startswith("(") or match[1] is None:
            return match[0]
        count += 1
        return f"(?P<g{count}>"

    return _GROUP.sub(rename, regex), count


def _regexp_extract(call: Call, context: EvaluationContext) -> Kernel:
    if not is_literal(call, 1, 2):
        number = int(literal_of(call, 2) or 0) if len(call.args) == 3 else 0
        expression = f"CASE WHEN regexp_matches(a0, a1) THEN regexp_extract(a0, a1, {number}) END"
        return lambda *args: evaluate_in_duckdb(expression, *args[:2])
    group = literal_of(call, 2) if len(call.args) == 3 else 0
    regex, groups = name_groups(checked_regex(literal_of(call, 1)))
    if not 0 <= group <= groups:
        return lambda text, *_: pa.nulls(len(text), pa.string())
    wrapped = f"(?P<g0>{regex})"

    def kernel(text: pa.Array, *_: pa.Scalar) -> pa.Array:
        return pc.struct_field(pc.extract_regex(text, wrapped), f"g{group}")

    return kernel


def _regexp_replace(call: Call, context: EvaluationContext) -> Kernel:
    if not is_literal(call, 1):
        return lambda *args: evaluate_in_duckdb("regexp_replace(a0, a1, a2, 'g')", *args)
    regex, replacement = checked_regex(literal_of(call, 1)), _replacement(literal_of(call, 2))
    return lambda text, *_: pc.replace_substring_regex(text, regex, replacement)


def _replacement(java: str) -> str:
    r"""Java's replacement in RE2's words: `$1` is a group, `\x` is x.

    >>> print(_replacement("$1-\\$"))
    \1-$
    """
    pieces = re.findall(r"\\.|\$\d|.", java, flags=re.DOTALL)
    literal = [p[1] if p.startswith("\\") and len(p) == 2 else p for p in pieces]
    return "".join(
        f"\\{p[1]}" if p.startswith("$") and len(p) == 2 else q.replace("\\", "\\\\")
        for p, q in zip(pieces, literal, strict=True)
    )


def _regexp_count(call: Call, context: EvaluationContext) -> Kernel:
    regex = checked_regex(literal_of(call, 1) or "")
    return lambda text, _: pc.count_substring_regex(text, regex)


BUILDERS: dict[str, Builder] = {
    "LIKE": _like,
    "SIMILAR TO": _similar_to,
    "REGEXP": _regexp,
    "REGEXP_EXTRACT": _regexp_extract,
    "REGEXP_REPLACE": _regexp_replace,
    "REGEXP_COUNT": _regexp_count,
}
