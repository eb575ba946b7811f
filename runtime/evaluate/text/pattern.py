"""LIKE, SIMILAR TO and the functions of regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.by_parameter import MakeKernel, by_parameter
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Datum,
    Kernel,
    as_array,
    is_literal,
    literal_of,
    rows_of,
    with_int_parameters,
)
from sqlstream.runtime.evaluate.lists import Lists, list_column
from sqlstream.runtime.evaluate.text.backtracking import Backtracking
from sqlstream.runtime.evaluate.text.scanned_pattern import scanned_pattern
from sqlstream.text.like_pattern import like_parts, similar_regex
from sqlstream.text.regular_expressions import MalformedRegex, checked_re2, java_regex


def like(call: Call, context: EvaluationContext) -> Kernel:
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


def similar_to(call: Call, context: EvaluationContext) -> Kernel:
    """SQL's regular expressions: % and _ as in LIKE, the rest as usual, over the whole string."""
    if is_literal(call, 1, 2):
        return _similar(*(literal_of(call, i) for i in range(1, len(call.args))))
    return by_parameter(_or_instead(lambda _, *p: _similar(*p), pa.scalar(False), context), pa.bool_())


def _similar(pattern: str, escape: str | None = None) -> Kernel:
    return _matching(rf"(?s)\A(?:{checked_re2(similar_regex(pattern, escape))})\z")


def _or_instead(make: Callable[..., Kernel], instead: pa.Scalar, context: EvaluationContext) -> MakeKernel:
    """As `make`, but `instead` where a regular expression that comes from data is malformed."""

    def made(regex: str, *parameters: Any) -> Kernel:
        try:
            return make(context, regex, *parameters)
        except MalformedRegex:
            return lambda text, *_: pc.if_else(pc.is_valid(text), instead, pa.scalar(None, instead.type))

    return made


def _matching(regex: str) -> Kernel:
    return once_per_text(lambda text, *_: pc.match_substring_regex(text, regex))


def _by_regex(make: Callable[..., Kernel], instead: Any = None) -> Builder:
    """Functions of (text, regular expression[, further parameter]). `make` gets the context, and the parameters where they are
    constant; `instead` is the result for a malformed expression of a row."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        if is_literal(call, 1, 2):
            return make(context, *(literal_of(call, i) for i in range(1, len(call.args))))
        target = to_arrow_type(call.type)
        return by_parameter(_or_instead(make, pa.scalar(instead, target), context), target)

    return build


def _found(context: EvaluationContext, regex: str) -> Kernel:
    """Whether the expression matches a part of the text; the empty expression never matches."""
    if not regex:
        return lambda text, *_: pc.if_else(pc.is_valid(text), False, pa.scalar(None, pa.bool_()))
    java = java_regex(regex)
    return Backtracking.of(java, context).found() if java.linear is None else _matching(java.linear)


_GROUP = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?!\?)", re.DOTALL)


def name_groups(linear: str, only: int = 0) -> tuple[str, int]:
    """An expression for RE2 (`JavaRegex.linear`) with its capturing groups named g1, g2, …, as Arrow requires, and their number.
    With `only` the other groups capture nothing.

    >>> name_groups(r"(a)(?:b)([)(])")
    ('(?P<g1>a)(?:b)(?P<g2>[)(])', 2)
    >>> name_groups(r"(a)(?:b)([)(])", only=2)
    ('(?:a)(?:b)(?P<g2>[)(])', 2)
    """
    count = 0

    def rename(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] != "(":
            return match[0]
        count += 1
        return f"(?P<g{count}>" if only in (0, count) else "(?:"

    return _GROUP.sub(rename, linear), count


def _extracted(context: EvaluationContext, regex: str, group: int = 0) -> Kernel:
    """The text of a group of the first match; NULL without a match, and for a group that does not exist."""
    java = java_regex(regex)
    if not 0 <= group <= java.groups:
        return lambda text, *_: pa.nulls(len(text), pa.string())
    if java.linear is None:
        return Backtracking.of(java, context).extract(group)
    scanned = scanned_pattern(java.linear, group)
    if scanned is not None:
        return lambda text, *_: scanned.extract(as_array(text, rows_of(text)))
    named, _ = name_groups(java.linear, group)
    wrapped = named if group else f"(?P<g0>{named})"

    def first(text: Datum, *_: Any) -> Datum:
        found = pc.struct_field(pc.extract_regex(text, wrapped), f"g{group}")
        return _missing_to_null(found) if group in java.missing else found

    return once_per_text(first)


def _missing_to_null(groups: Datum) -> Datum:
    """Of a group that is not empty where it takes part in the match, for which RE2 has no NULL."""
    return pc.if_else(pc.equal(groups, ""), pa.scalar(None, pa.string()), groups)


def _replaced(context: EvaluationContext, regex: str, replacement: str) -> Kernel:
    """Every match is replaced by the text as it is written."""
    java = java_regex(regex)
    # RE2 replaces no empty match right behind another one, as Java does; nothing instead of nothing makes no difference.
    if java.linear is None or (java.can_be_empty and replacement):
        return Backtracking.of(java, context).replace(replacement)
    linear, written = java.linear, replacement.replace("\\", "\\\\")
    return once_per_text(lambda text, *_: pc.replace_substring_regex(text, linear, written))


def _counted(context: EvaluationContext, regex: str) -> Kernel:
    java = java_regex(regex)
    if java.linear is None:
        return Backtracking.of(java, context).count()
    linear = java.linear
    if java.can_be_empty or java.has_anchors:
        # Arrow counts an empty match at every byte, and takes the end of each match for the beginning of a text.
        return lambda text, *_: evaluate_in_duckdb(
            "CAST(len(regexp_extract_all(a0, a1)) AS INTEGER)", text, pa.scalar(linear)
        )
    return once_per_text(lambda text, *_: pc.count_substring_regex(text, linear))


def _regexp_extract_all(call: Call, context: EvaluationContext) -> Kernel:
    target = to_arrow_type(call.type)
    kernel = _by_regex(_all_extracted)(call, context)
    return lambda *args: kernel(*args).cast(target)


def _all_extracted(context: EvaluationContext, regex: str, group: int = 1) -> Kernel:
    """The texts of a group of all matches; NULL for a group that does not exist."""
    java = java_regex(regex)
    if not 0 <= group <= java.groups:
        return lambda text, *_: pa.nulls(len(text), pa.list_(pa.string()))
    if java.linear is None:
        return Backtracking.of(java, context).extract_all(group)
    linear = java.linear
    expression = f"regexp_extract_all(a0, a1, {int(group)})"

    def by_engine(text: pa.Array, *_: Any) -> pa.Array:
        found = evaluate_in_duckdb(expression, text, pa.scalar(linear))
        if group not in java.missing:
            return found
        lists = Lists.of(found)
        return list_column(found.type, lists.lengths, _missing_to_null(lists.elements()), lists.nulls)

    # A replacement names groups by one digit.
    is_split = group <= 9 and _always_captures(linear)
    return _split_at_matches(linear, int(group), by_engine) if is_split else by_engine


_MARK = "\x1f"


def _always_captures(regex: str) -> bool:
    """Whether every match has at least one character and takes part in all groups, as far as is seen easily."""
    has_only_classes = "\\" not in re.sub(r"\\[dw]|\\x[0-9A-F]{2}", "", regex)
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


def _found_at(context: EvaluationContext, regex: str) -> Kernel:
    """The place, from 1, of the first match; 0 without one."""
    java = java_regex(regex)
    if java.linear is None:
        return Backtracking.of(java, context).place()
    named, _ = name_groups(java.linear)
    before = rf"\A(?P<before>(?s:.*?))(?:{named})"

    def kernel(text: pa.Array, *_: Any) -> pa.Array:
        skipped = pc.utf8_length(pc.struct_field(pc.extract_regex(text, before), "before"))
        places = pc.fill_null(pc.add(skipped, pa.scalar(1, pa.int32())), 0)
        return pc.if_else(pc.is_valid(text), places, pa.scalar(None, pa.int32()))

    return once_per_text(kernel)


REGEXP = _by_regex(_found, False)
REGEXP_EXTRACT = with_int_parameters(_by_regex(_extracted))
REGEXP_REPLACE = _by_regex(_replaced)
REGEXP_COUNT = _by_regex(_counted)
REGEXP_EXTRACT_ALL = with_int_parameters(_regexp_extract_all)
REGEXP_INSTR = _by_regex(_found_at)


# Functions of texts that cost much: computed once for each distinct text of a batch that repeats its texts.


SAMPLE_ROWS = 1_024
_ROWS_MIN = 4 * SAMPLE_ROWS
_DISTINCT_MAX = 0.75
"""Finding the distinct texts costs less than a fifth of a regular expression over all."""


def once_per_text(kernel: Kernel) -> Kernel:
    """The same function of its first argument, a column whose NULLs give NULL; the others are constants."""

    def computed(text: Datum, *constants: Datum) -> Datum:
        if not isinstance(text, pa.Array) or not _repeats(text):
            return kernel(text, *constants)
        encoded = text.dictionary_encode()
        return kernel(encoded.dictionary, *constants).take(encoded.indices)

    return computed


def _repeats(texts: pa.Array) -> bool:
    """Whether texts occur several times in the batch: the first rows tell, as a longer part has no more distinct ones per row."""
    if len(texts) < _ROWS_MIN:
        return False
    return pc.count_distinct(texts[:SAMPLE_ROWS]).as_py() <= SAMPLE_ROWS * _DISTINCT_MAX
