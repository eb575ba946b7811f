"""LIKE, SIMILAR TO and the functions of regular expressions."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.by_parameter import MakeKernel, by_parameter
from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.duckdb_function import evaluate_in_duckdb
from runtime.evaluate.kernel import (
    Builder,
    Kernel,
    as_array,
    is_literal,
    literal_of,
    rows_of,
    with_int_parameters,
)
from runtime.evaluate.lists import Lists, list_column
from runtime.evaluate.repeated_values import once_per_text
from runtime.evaluate.scanned_pattern import scanned_pattern
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call
from sqlstream.like_pattern import like_parts, similar_regex
from sqlstream.regular_expressions import MalformedRegex, checked_regex, re2_replacement, replacement_parts


def _like(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1, 2):
        escape = literal_of(call, 2) if len(call.args) == 3 else None
        return _like_kernel(like_parts(literal_of(call, 1), escape))
    if len(call.args) == 2:
        return lambda *args: evaluate_in_duckdb("a0 LIKE a1", *args)
    return by_parameter(
        lambda pattern, escape: _like_kernel(like_parts(pattern, escape)), to_arrow_type(call.type)
    )


def _like_kernel(parts: list[str]) -> Kernel:
    """Prefix, suffix and substring have kernels of their own; other patterns become regular expressions."""
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
    if is_literal(call, 1, 2):
        return _similar(*(literal_of(call, i) for i in range(1, len(call.args))))
    return by_parameter(_or_instead(_similar, pa.scalar(False)), pa.bool_())


def _similar(pattern: str, escape: str | None = None) -> Kernel:
    return _matching(rf"(?s)\A(?:{checked_regex(similar_regex(pattern, escape))})\z")


def _or_instead(make: MakeKernel, instead: pa.Scalar) -> MakeKernel:
    """As `make`, but `instead` where a regular expression that comes from data is malformed."""

    def made(regex: str, *parameters: Any) -> Kernel:
        try:
            return make(regex, *parameters)
        except MalformedRegex:
            return lambda text, *_: pc.if_else(pc.is_valid(text), instead, pa.scalar(None, instead.type))

    return made


def _matching(regex: str) -> Kernel:
    return once_per_text(lambda text, *_: pc.match_substring_regex(text, regex))


def _regexp(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1):
        return _found(literal_of(call, 1))
    return by_parameter(_or_instead(_found, pa.scalar(False)), pa.bool_())


def _found(regex: str) -> Kernel:
    """Whether the expression matches a part of the text; the empty expression never matches."""
    if not regex:
        return lambda text, *_: pc.if_else(pc.is_valid(text), False, pa.scalar(None, pa.bool_()))
    return _matching(checked_regex(regex))


_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((\?P?<\w+>|(?!\?))?", re.DOTALL)


def name_groups(regex: str, only: int = 0) -> tuple[str, int]:
    """The expression with its capturing groups named g1, g2, …, as Arrow requires, and their number. With `only` the other groups
    capture nothing.

    >>> name_groups(r"(a)(?:b)([)(])")
    ('(?P<g1>a)(?:b)(?P<g2>[)(])', 2)
    >>> name_groups(r"(a)(?:b)([)(])", only=2)
    ('(?:a)(?:b)(?P<g2>[)(])', 2)
    """
    count = 0

    def rename(match: re.Match[str]) -> str:
        nonlocal count
        if not match[0].startswith("(") or match[1] is None:
            return match[0]
        count += 1
        return f"(?P<g{count}>" if only in (0, count) else "(?:"

    return _GROUP.sub(rename, regex), count


def _regexp_extract(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1, 2):
        return _extracted(*(literal_of(call, i) for i in range(1, len(call.args))))
    return by_parameter(_or_instead(_extracted, pa.scalar(None, pa.string())), pa.string())


def _extracted(regex: str, group: int = 0) -> Kernel:
    """The text of a group of the first match; NULL without a match, and for a group that does not exist."""
    named, groups = name_groups(checked_regex(regex), group)
    if not 0 <= group <= groups:
        return lambda text, *_: pa.nulls(len(text), pa.string())
    scanned = scanned_pattern(regex, group)
    if scanned is not None:
        return lambda text, *_: scanned.extract(as_array(text, rows_of(text)))
    wrapped = named if group else f"(?P<g0>{named})"
    return once_per_text(lambda text, *_: pc.struct_field(pc.extract_regex(text, wrapped), f"g{group}"))


def _regexp_replace(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1, 2):
        return _replaced(literal_of(call, 1), literal_of(call, 2))
    return by_parameter(_or_instead(_replaced, pa.scalar(None, pa.string())), pa.string())


def _replaced(regex: str, replacement: str) -> Kernel:
    """NULL where there is a match and the replacement says nothing, as in Java."""
    checked = checked_regex(regex)
    parts = replacement_parts(replacement, checked)
    if parts is None:
        none = pa.scalar(None, pa.string())
        return lambda text, *_: pc.if_else(pc.match_substring_regex(text, checked), none, text)
    rewritten = re2_replacement(parts)
    return once_per_text(lambda text, *_: pc.replace_substring_regex(text, checked, rewritten))


def _regexp_count(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1):
        return _counted(literal_of(call, 1))
    return by_parameter(_or_instead(_counted, pa.scalar(None, pa.int32())), pa.int32())


def _counted(regex: str) -> Kernel:
    checked = checked_regex(regex)
    if pc.match_substring_regex(pa.array([""]), checked)[0].as_py():
        # Arrow counts an empty match at every byte, not at every character.
        return lambda text, *_: evaluate_in_duckdb(
            "CAST(len(regexp_extract_all(a0, a1)) AS INTEGER)", text, pa.scalar(checked)
        )
    return once_per_text(lambda text, *_: pc.count_substring_regex(text, checked))


def _regexp_extract_all(call: Call, context: EvaluationContext) -> Kernel:
    target = to_arrow_type(call.type)
    if is_literal(call, 1, 2):
        made = _all_extracted(*(literal_of(call, i) for i in range(1, len(call.args))))
        return lambda text, *_: made(text).cast(target)
    return by_parameter(_or_instead(_all_extracted, pa.scalar(None, target)), target)


def _all_extracted(regex: str, group: int = 1) -> Kernel:
    """The texts of a group of all matches; NULL for a group that does not exist."""
    _, groups = name_groups(checked_regex(regex))
    if not 0 <= group <= groups:
        return lambda text, *_: pa.nulls(len(text), pa.list_(pa.string()))
    expression = f"regexp_extract_all(a0, a1, {int(group)})"

    def by_engine(text: pa.Array, *_: Any) -> pa.Array:
        return evaluate_in_duckdb(expression, text, pa.scalar(regex))

    # A replacement names groups by one digit.
    is_split = group <= 9 and _always_captures(regex)
    return _split_at_matches(regex, int(group), by_engine) if is_split else by_engine


_MARK = "\x1f"


def _always_captures(regex: str) -> bool:
    """Whether every match has at least one character and takes part in all groups, as far as is seen easily."""
    has_only_classes = "\\" not in re.sub(r"\\[dws]", "", regex)
    if not has_only_classes or re.search(r"[|^$]|\)[?*{]", regex):
        return False
    # Without anchors an expression matches no character somewhere only if it matches the empty text.
    return not pc.match_substring_regex(pa.scalar(""), rf"\A(?:{regex})\z").as_py()


def _split_at_matches(regex: str, group: int, by_engine: Kernel) -> Kernel:
    """The matches as one replacement and one split of the whole column: each match becomes its group between marks, so that every
    second piece is one."""
    replacement = rf"{_MARK}\{group}{_MARK}"

    def kernel(text: pa.Array, *_: Any) -> pa.Array:
        text = as_array(text, rows_of(text))
        if pc.any(pc.match_substring(text, _MARK)).as_py():
            return by_engine(text)
        pieces = Lists.of(pc.split_pattern(pc.replace_substring_regex(text, regex, replacement), _MARK))
        matches = pa.array(pieces.positions()[pieces.ordinals() % 2 == 1])
        return list_column(
            pa.list_(pa.string()), pieces.lengths // 2, pieces.values.take(matches), pieces.nulls
        )

    return kernel


def _regexp_instr(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1):
        return _found_at(literal_of(call, 1))
    return by_parameter(_or_instead(_found_at, pa.scalar(None, pa.int32())), pa.int32())


def _found_at(regex: str) -> Kernel:
    """The place, from 1, of the first match; 0 without one."""
    named, _ = name_groups(checked_regex(regex))
    before = rf"\A(?P<before>(?s:.*?))(?:{named})"

    def kernel(text: pa.Array, *_: Any) -> pa.Array:
        skipped = pc.utf8_length(pc.struct_field(pc.extract_regex(text, before), "before"))
        places = pc.fill_null(pc.add(skipped, pa.scalar(1, pa.int32())), 0)
        return pc.if_else(pc.is_valid(text), places, pa.scalar(None, pa.int32()))

    return once_per_text(kernel)


BUILDERS: dict[str, Builder] = {
    "LIKE": _like,
    "SIMILAR TO": _similar_to,
    "REGEXP": _regexp,
    "REGEXP_EXTRACT": with_int_parameters(_regexp_extract),
    "REGEXP_REPLACE": _regexp_replace,
    "REGEXP_COUNT": _regexp_count,
    "REGEXP_EXTRACT_ALL": with_int_parameters(_regexp_extract_all),
    "REGEXP_INSTR": _regexp_instr,
    "REGEXP_SUBSTR": _regexp_extract,
}
