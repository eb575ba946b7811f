"""How an error is shown under its SQL."""

from __future__ import annotations

import pytest

from sqlstream.errors import (
    EXCERPT_COLUMNS,
    ErrorInfo,
    FailureReason,
    JobError,
    Span,
    UserError,
    line_and_column,
    render_error,
)
from sqlstream.terminal_text import display_width


def lines(text: str, marked: str, message: str = "m", **fields: str) -> list[str]:
    start = text.index(marked)
    error = UserError("SS1001", message, span=Span(start, start + len(marked)), **fields)
    return render_error(error, text).split("\n")


@pytest.mark.parametrize("before", ["", "x", "x" * 40_000, "日本 " * 9_000])
@pytest.mark.parametrize("after", ["", "y", "y" * 40_000, "é" * 200])
@pytest.mark.parametrize("marked", ["bad", "bäd 日", "Q" * 5_000])
def test_of_a_long_line_the_part_around_the_mark_is_shown(before: str, after: str, marked: str) -> None:
    _, line, mark = lines(before + marked + after, marked)
    is_whole = display_width(before + marked + after) <= EXCERPT_COLUMNS
    assert display_width(line) <= len("  1 | ") + EXCERPT_COLUMNS + 2
    assert ("…" in line) != is_whole
    first, after_mark = mark.index("^"), len(mark)
    columns = [display_width(line[:i]) for i in range(len(line) + 1)]
    shown = line[columns.index(first) : columns.index(after_mark)]
    assert marked.startswith(shown)
    assert len(shown) == min(len(marked), len(shown)) > 0
    assert shown == marked or len(marked) > EXCERPT_COLUMNS - 60


def test_a_mark_stands_under_its_text_behind_wide_and_control_characters() -> None:
    assert lines("SELECT '日本\x1b[2J', bad\r\n", "bad")[1:] == [
        "  1 | SELECT '日本\\x1b[2J', bad",
        "    |                       ^^^",
    ]


@pytest.mark.parametrize("raw", ["\x1b[2J", "\x9b2J", "\u202e", "\u2066", "\x00", "\r", "\x7f", "\udc80"])
def test_no_error_carries_control_characters_of_data(raw: str) -> None:
    error = UserError(
        "SS5102", f'cannot cast "{raw}"', span=Span(7, 9), detail=f"a{raw}\nb", hint=f"not {raw}"
    )
    shown = render_error(error, f"SELECT '{raw}'")
    assert raw not in shown
    assert shown.count(repr(raw)[1:-1][:4]) == 4
    assert "\nb\n" in shown


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE t (a INT) WITH ('x.password' = 'hunter2', 'bad' = 'y')",
        "CREATE TABLE t (a INT) WITH ('SSL.Key-Password'='hunter2', 'bad' = 'y')",
        "CREATE TABLE t (a INT) WITH ('my.token' 'hunter2', 'bad' = 'y')",
        'CREATE TABLE t (a INT) WITH ("api-key" = "hunter2", "bad" = "y")',
        "SET s3.secret-key = hunter2; bad",
        "SET `s3.secret-key` = 'hunter2'; bad",
        "SELECT * FROM t /*+ OPTIONS('http-headers' = 'a:hunter2;b:''c''') */ WHERE bad",
        "CREATE TABLE t (a INT) WITH (\n'properties.sasl.jaas.config' = 'x\nhunter2', 'bad' = 'y')",
    ],
)
def test_the_values_of_secrets_are_in_no_excerpt(script: str) -> None:
    shown = lines(script, "bad")
    assert "hunter2" not in "".join(shown)
    assert "******" in shown[1]
    assert shown[1][shown[2].index("^") :].startswith("bad")


def test_words_that_quote_the_value_of_a_secret_are_masked() -> None:
    script = "SET 'x.token' = 'it''s me'; SET bad"
    shown = lines(script, "bad", 'not "it\'s me"', detail="'password' = 'other'", hint="drop it''s me")
    assert shown[0] == 'error[SS1001]: not "******"'
    assert shown[3:] == ["detail: 'password' = '******'", "hint: drop ******"]


def test_values_of_other_options_stay() -> None:
    assert "'path' = 'data'" in lines("WITH ('path' = 'data', 'bad' = '')", "bad")[1]


def test_a_secret_that_is_marked_is_marked_as_its_mask() -> None:
    assert lines("WITH ('token' = 'hunter2')", "'hunter2'")[1:] == [
        "  1 | WITH ('token' = '******')",
        "    |                 ^^^^^^^^",
    ]


def test_an_error_that_names_its_attempt_and_vertex_keeps_them() -> None:
    told = ErrorInfo.of(ValueError("x"), vertex="here", attempt=2)
    assert (told.vertex, told.attempt) == ("here", 2)
    placed = ErrorInfo.of(UserError("SS1001", "x"), vertex="here", attempt=2)
    assert (placed.vertex, placed.attempt) == ("here", 2)
    raised = ErrorInfo.of(
        JobError("SS6031", "x", reason=FailureReason.CANCELLED, vertex="there", attempt=5),
        vertex="here",
        attempt=2,
    )
    assert (raised.vertex, raised.attempt) == ("there", 5)


@pytest.mark.parametrize(
    ("offset", "place"),
    [(0, (1, 1)), (1, (1, 2)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (5, (3, 2)), (6, (3, 3))],
)
def test_a_place_has_a_line_and_a_column_from_one(offset: int, place: tuple[int, int]) -> None:
    assert line_and_column("ab\n\ncd", offset) == place


def test_as_much_of_a_long_line_is_shown_as_fits() -> None:
    text = "x" * 300 + "bad" + "y" * 300
    shown = lines(text, "bad")[1].removeprefix("  1 | ")
    assert (shown[0], shown[-1], len(shown)) == ("…", "…", EXCERPT_COLUMNS + 2)
    whole = "x" * (EXCERPT_COLUMNS - 3) + "bad"
    assert lines(whole, "bad")[1] == f"  1 | {whole}"
