"""Splitting: which semicolons end a statement, and where the pieces stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.parser import iterate_script, split_script


def pieces(text: str) -> list[str]:
    return [p.text for p in split_script(text)]


def test_semicolons_in_strings_identifiers_comments_and_hints_do_not_split() -> None:
    script = "SELECT ';', `;` -- ;\n /* ; */ FROM t /*+ OPTIONS('a;'='b') */; SELECT 2"
    assert pieces(script) == [script.split("; ")[0] + "; */ FROM t /*+ OPTIONS('a;'='b') */", "SELECT 2"]


def test_empty_statements_are_skipped() -> None:
    assert pieces(" ;; -- x\n; SELECT 1;; ") == ["SELECT 1"]


@pytest.mark.parametrize(
    "statement_set",
    [
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE WHEN c THEN 1 END; INSERT INTO b SELECT; END",
        "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
        "explain statement set begin insert into a select 1; end",
        "EXPLAIN CHANGELOG_MODE EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
        "COMPILE AND EXECUTE PLAN 'p' IF NOT EXISTS FOR STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
    ],
)
def test_a_statement_set_is_one_piece(statement_set: str) -> None:
    assert pieces(f"SELECT 1; {statement_set}; SELECT 2") == ["SELECT 1", statement_set, "SELECT 2"]


def test_spans_point_into_the_script() -> None:
    assert [p.span for p in split_script(" SELECT 1 ;\n SELECT 2")] == [Span(1, 9), Span(13, 21)]


def test_only_the_last_piece_can_be_unterminated() -> None:
    assert [p.is_terminated for p in split_script("SELECT 1; SELECT 2")] == [True, False]


def test_pieces_before_a_lexical_error_are_delivered() -> None:
    found = iterate_script("SELECT 1; SELECT 'x")
    assert next(found).text == "SELECT 1"
    with pytest.raises(UserError, match="unterminated string"):
        next(found)


def _quoted(mark: str) -> st.SearchStrategy[str]:
    body = st.text(alphabet=";ab\n-*/ `'", max_size=6)
    return body.map(lambda s: mark + s.replace(mark, mark * 2) + mark)


WORDS = st.sampled_from(["SELECT", "x", "1", "END", "(", ")", "="])
LINE_COMMENTS = st.text(alphabet=";ab'`*/-", max_size=6).map(lambda s: f"--{s}\n")
BLOCK_COMMENTS = st.text(alphabet=";ab'`-\n", max_size=6).map(lambda s: f"/*{s}*/")
TOKENS = st.one_of(WORDS, _quoted("'"), _quoted("`"))
NOISE = st.lists(st.one_of(st.just(" "), LINE_COMMENTS, BLOCK_COMMENTS), max_size=2).map(
    lambda n: " " + "".join(n)
)
STATEMENTS = st.lists(st.tuples(TOKENS, NOISE), min_size=1, max_size=6)


@given(st.lists(STATEMENTS, max_size=5))
def test_joined_statements_split_into_themselves(statements: list[list[tuple[str, str]]]) -> None:
    written, expected = "", []
    for parts in statements:
        text = "".join(token + noise for token, noise in parts)
        end = len(text) - len(parts[-1][1])
        expected.append((text[:end], Span(len(written), len(written) + end)))
        written += text + ";"
    assert [(p.text, p.span) for p in split_script(written)] == expected


@given(st.text(alphabet="aE;'`-/*+\n \"", max_size=30))
def test_any_text_is_split_or_refused_with_a_position(text: str) -> None:
    try:
        spans = [(p.span, p.text) for p in split_script(text)]
    except UserError as error:
        spans = [(error.span or Span(-1, -1), "")]
    for span, piece in spans:
        assert 0 <= span.start < span.end <= len(text)
        assert piece in ("", text[span.start : span.end])
