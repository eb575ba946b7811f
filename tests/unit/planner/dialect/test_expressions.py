"""Scalar expressions: precedence, the node of each form, positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.nodes import FunctionCall, Like
from sqlstream.planner.dialect.parser import parse_expression, span_of


def show(node: exp.Expr) -> str:
    """A fully parenthesised rendering, for comparing shapes."""
    if isinstance(node, exp.Column):
        return ".".join(p.name for p in node.parts)
    if isinstance(node, exp.Literal):
        return f"'{node.this}'" if node.is_string else str(node.this)
    if isinstance(node, exp.Identifier | exp.Var):
        return str(node.this)
    if isinstance(node, FunctionCall):
        return f"{node.this}({', '.join(show(a) for a in node.expressions)})"
    children = " ".join(show(c) for c in node.iter_expressions())
    return f"[{type(node).__name__}{' ' if children else ''}{children}]"


@pytest.mark.parametrize(
    ("written", "shape"),
    [
        ("1 + 2 * 3 - 4", "[Sub [Add 1 [Mul 2 3]] 4]"),
        ("(1 + 2) * 3 % 4 / 5", "[Div [Mod [Mul [Add 1 2] 3] 4] 5]"),
        ("a OR b AND NOT c = d", "[Or a [And b [Not [EQ c d]]]]"),
        ("- a + +b", "[Add [Neg a] b]"),
        ("a || b || 'c'", "[DPipe [DPipe a b] 'c']"),
        ("a = b IS NULL", "[Is [EQ a b] [Null]]"),
        ("NOT a IS NOT TRUE", "[Not [Not [Is a [Boolean]]]]"),
        ("a IS UNKNOWN", "[Is a UNKNOWN]"),
        ("a IS NOT JSON OBJECT", "[Not [Is a JSON OBJECT]]"),
        ("a IS DISTINCT FROM b + 1", "[NullSafeNEQ a [Add b 1]]"),
        ("a IS NOT DISTINCT FROM b", "[NullSafeEQ a b]"),
        ("a BETWEEN 1 AND 2 AND b", "[And [Between a 1 2] b]"),
        ("a NOT BETWEEN SYMMETRIC 2 AND 1", "[Not [Between a 2 1]]"),
        ("a + 1 NOT LIKE 'x%' ESCAPE '!' OR b", "[Or [Not [Like [Add a 1] 'x%' '!']] b]"),
        ("a SIMILAR TO 'x'", "[Like a 'x']"),
        ("a IN (1, 2) = b", "[EQ [In a 1 2] b]"),
        ("(a, b) IN ((1, 2), (3, 4))", "[In ROW(a, b) ROW(1, 2) ROW(3, 4)]"),
        ("a <> b != c", "[NEQ [NEQ a b] c]"),
        ("t.a.b.c", "t.a.b.c"),
        ("a.b.c.d.e", "[Dot a.b.c.d e]"),
        ("a[1].b[2]", "[Bracket [Dot [Bracket a 1] b] 2]"),
        ("f(x).y", "[Dot F(x) y]"),
        ("`Select`.`a b`", "Select.a b"),
        ("CASE a WHEN 1 THEN 'x' ELSE 'y' END", "[Case a [If 1 'x'] 'y']"),
        ("CASE WHEN a THEN b WHEN c THEN d END", "[Case [If a b] [If c d]]"),
        ("ARRAY[1, 2][1]", "[Bracket ARRAY(1, 2) 1]"),
        ("MAP['k', 1]", "MAP('k', 1)"),
        ("ROW(1, a)", "ROW(1, a)"),
        ("date_format(ts, 'yyyy')", "DATE_FORMAT(ts, 'yyyy')"),
        ("SPLIT_INDEX(a, '/', 3)", "SPLIT_INDEX(a, '/', 3)"),
        ("if(a, 1, 2)", "IF(a, 1, 2)"),
        ("LEFT(a, 2)", "LEFT(a, 2)"),
        ("`my f`(1)", "MY F(1)"),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP()"),
        ("PROCTIME()", "PROCTIME()"),
        ("date", "date"),
        ("EXTRACT(hour FROM ts)", "EXTRACT(HOUR, ts)"),
        ("FLOOR(ts TO DAYS)", "FLOOR(ts, DAY)"),
        ("CEIL(x)", "CEIL(x)"),
        ("TIMESTAMPADD(MINUTE, 5, ts)", "TIMESTAMPADD(MINUTE, 5, ts)"),
        ("TIMESTAMPDIFF(DAY, a, b)", "TIMESTAMPDIFF(DAY, a, b)"),
        ("POSITION('a' IN b)", "POSITION('a', b)"),
        ("TRIM(a)", "TRIM(BOTH, ' ', a)"),
        ("TRIM(LEADING FROM a)", "TRIM(LEADING, ' ', a)"),
        ("TRIM('x' FROM a)", "TRIM(BOTH, 'x', a)"),
        ("TRIM(TRAILING 'x' FROM a)", "TRIM(TRAILING, 'x', a)"),
        ("SUBSTRING(a FROM 2 FOR 3)", "SUBSTRING(a, 2, 3)"),
        ("SUBSTRING(a, 2)", "SUBSTRING(a, 2)"),
        ("OVERLAY(a PLACING b FROM 1 FOR 2)", "OVERLAY(a, b, 1, 2)"),
    ],
)
def test_an_expression_has_the_shape_of_the_table(written: str, shape: str) -> None:
    assert show(parse_expression(written)) == shape


def call(written: str) -> FunctionCall:
    node = parse_expression(written)
    assert isinstance(node, FunctionCall)
    return node


def test_an_aggregate_keeps_distinct_and_filter() -> None:
    node = call("COUNT(DISTINCT a) FILTER (WHERE b > 1)")
    assert node.args["is_distinct"] is True
    assert show(node.args["filter"]) == "[GT b 1]"


def test_count_star_has_a_star() -> None:
    assert isinstance(call("count(*)").expressions[0], exp.Star)


def test_an_over_clause_keeps_keys_order_and_frame() -> None:
    over = call("SUM(a) OVER (PARTITION BY b, c ORDER BY d DESC ROWS 5 PRECEDING)").args["over"]
    assert [show(k) for k in over.args["partition_by"]] == ["b", "c"]
    assert over.args["order_by"][0].args["desc"] is True
    assert (over.args["frame"], over.args["start"].args["kind"], show(over.args["start"].this)) == (
        *("ROWS", "PRECEDING"),
        "5",
    )
    assert over.args["end"].args["kind"] == "CURRENT ROW"


def test_an_unbounded_frame_has_no_size() -> None:
    written = "SUM(a) OVER (ORDER BY d RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '1' HOUR FOLLOWING)"
    over = call(written).args["over"]
    assert over.args["start"].this is None
    assert over.args["end"].args["kind"] == "FOLLOWING"


def test_ignore_nulls_is_kept() -> None:
    assert call("LAST_VALUE(a) IGNORE NULLS OVER (ORDER BY b)").args["nulls"] == "IGNORE"


def test_within_group_is_kept() -> None:
    assert show(call("SUM(a) WITHIN GROUP (ORDER BY b)").args["order"]) == "[Order [Ordered b]]"


def test_like_keeps_its_kind() -> None:
    node = parse_expression("a SIMILAR TO b")
    assert isinstance(node, Like)
    assert node.args["is_similar"] is True


def test_equal_text_makes_equal_nodes_wherever_it_stands() -> None:
    assert parse_expression("f( a )  + 1") == parse_expression("F(a)+1", offset=7)


def test_every_node_has_the_span_of_its_text() -> None:
    written = "(a + f(b, 'x')) * -t.c"
    root = parse_expression(written, offset=100)
    spans = {show(n): n.meta["span"] for n in root.walk()}
    assert spans["F(b, 'x')"] == Span(105, 114)
    assert spans["[Add a F(b, 'x')]"] == Span(101, 114)
    assert spans["t.c"] == Span(119, 122)
    assert span_of(root) == Span(100, 122)


def test_a_node_without_a_mark_covers_its_children() -> None:
    left, right = parse_expression("a", 3), parse_expression("bc", 9)
    assert span_of(exp.And(this=left, expression=right)) == Span(3, 11)


@pytest.mark.parametrize(
    "written",
    [
        "f(*)",
        "a b",
        "a +",
        "(a",
        "a[1",
        "CASE a END",
        "a NOT",
        "f(DISTINCT)",
        "a LIKE",
        "COUNT(* , a)",
        "(SELECT 1",
        "a IS",
        "a BETWEEN 1",
        "EXTRACT(FORTNIGHT FROM a)",
        "CAST(a)",
        "select",
        "a.*",
        "MAP['a']",
        "1 2",
        "f(a,)",
    ],
)
def test_what_is_no_expression_is_refused_with_a_position(written: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_expression(written)
    assert raised.value.span is not None


@pytest.mark.parametrize("opening", ["(", "- ", "NOT ", "f(", "a[", "CASE ", "CAST(", "(SELECT "])
def test_hostile_nesting_is_refused_and_not_a_crash(opening: str) -> None:
    with pytest.raises(UserError, match="nested too deeply"):
        parse_expression(opening * 5000)


FRAGMENTS = (
    "a 1 'x' ( ) , + - NOT AND IN LIKE BETWEEN CASE WHEN THEN END "
    "[ ] . * f( CAST( AS INT INTERVAL DAY SELECT FROM"
)


@given(st.lists(st.sampled_from(FRAGMENTS.split()), max_size=12))
def test_any_words_are_parsed_or_refused_with_a_position(words: list[str]) -> None:
    text = " ".join(words)
    try:
        span = span_of(parse_expression(text))
    except UserError as error:
        span = error.span
    assert span is not None
    assert 0 <= span.start <= span.end <= len(text)
