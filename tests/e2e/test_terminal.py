"""The `sqlstream` command on a terminal: the live line and what is printed share one screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios

import pytest
from command_harness import SQLSTREAM, TIMEOUT_S, Process, environment

COLUMNS = 60

ONE_A_MILLISECOND = """
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '2500', 'rows-per-second' = '1000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '2500');
CREATE TABLE screen (n BIGINT) WITH ('connector' = 'print');
"""


def on_a_terminal(*words: str, columns: int = COLUMNS, **others: str) -> tuple[int, str]:
    """Run the command with a pseudo-terminal for all its streams; the exit code and all that was written."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = Process(
        [*SQLSTREAM, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(**{"TERM": "xterm", **others}),
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := _read(ours):
            written += chunk
        return process.wait(TIMEOUT_S), written.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that the other end is closed.
        return b""


def screen(written: str, columns: int = COLUMNS) -> list[str]:
    """The lines that stand on a terminal of that width once all is written, blanks at their ends left out."""
    rows, column = [""], 0
    for piece in re.findall(r"\x1b\[K|.", written, re.DOTALL):
        match piece:
            case "\r":
                column = 0
            case "\n":
                rows.append("")
                column = 0
            case "\x1b[K":
                rows[-1] = rows[-1][:column]
            case _:
                if column == columns:
                    rows.append("")
                    column = 0
                rows[-1] = rows[-1][:column].ljust(column) + piece + rows[-1][column + 1 :]
                column += 1
    return [row.rstrip() for row in rows]


def test_printed_lines_and_the_live_line_do_not_mix(script) -> None:  # type: ignore[no-untyped-def]
    code, written = on_a_terminal(
        "run", script(ONE_A_MILLISECOND + "INSERT INTO screen SELECT n FROM ticks;")
    )
    assert code == 0
    assert "rows/s" in written
    assert screen(written)[:2] == ['table "ticks" created', 'table "screen" created']
    lines = screen(written)[2:]
    assert lines[:2500] == [f"+I[{n}]" for n in range(1, 2501)]
    # Wider than the terminal, as the live line would be.
    assert re.fullmatch(r"INSERT INTO screen: read 2,500 rows, .* in [\d.]+ s", "".join(lines[2500:]))


def test_changes_and_the_live_line_do_not_mix(script) -> None:  # type: ignore[no-untyped-def]
    text = ONE_A_MILLISECOND + "SELECT n FROM ticks;"
    code, written = on_a_terminal("run", "--changelog", "--format", "csv", script(text))
    assert code == 0
    assert "rows/s" in written
    assert screen(written)[2:] == ["op,n", *(f"+I,{n}" for n in range(1, 2501)), ""]


def test_a_terminal_without_escape_codes_gets_no_live_line(script) -> None:  # type: ignore[no-untyped-def]
    text = ONE_A_MILLISECOND + "SELECT COUNT(*) AS n FROM ticks;"
    code, written = on_a_terminal("run", script(text), TERM="dumb")
    assert code == 0
    assert "\x1b" not in written
    assert screen(written)[2:] == [
        "+------+",
        "|    n |",
        "+------+",
        "| 2500 |",
        "+------+",
        "1 row in set",
        "",
    ]


def test_an_arrow_stream_is_not_written_to_a_terminal(script) -> None:  # type: ignore[no-untyped-def]
    code, written = on_a_terminal("run", "--format", "arrow", script("SELECT 1;"))
    assert code == 2
    assert "error[SS4005]" in written
    assert "> rows.arrow" in written


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT s FROM evil;", ()),
        ("SELECT s FROM evil;", ("--format", "csv")),
        ("SELECT s FROM evil;", ("--format", "json", "--changelog")),
        ("SELECT s FROM evil;", ("--changelog",)),
        ("SELECT s FROM evil WHERE CAST(s AS INT) = 1;", ()),
        ("INSERT INTO screen SELECT s FROM evil;", ()),
        ("EXPLAIN SELECT s FROM evil WHERE s = U&'\\009b2J\\202e';", ()),
        ("SHOW CREATE TABLE evil;", ()),
        ("SELECT no_such FROM evil WHERE s = '\x9b2J\u202e';", ()),
    ],
)
def test_no_control_character_of_data_reaches_a_terminal(  # type: ignore[no-untyped-def]
    script, tmp_path, statement: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "evil").write_bytes("\x9b2J\u202e\n".encode())
    text = f"""
    CREATE TABLE evil (s STRING) COMMENT '\x9b2J\u202e'
    WITH ('connector' = 'filesystem', 'format' = 'raw', 'path' = '{tmp_path}/evil');
    CREATE TABLE screen (s STRING) WITH ('connector' = 'print');
    """
    _, written = on_a_terminal("run", "--quiet", *words, script(text + statement))
    assert "\x9b" not in written
    assert "\u202e" not in written
    assert "\\x9b2J\\u202e" in written


def test_ddl_confirms_on_a_terminal_unless_quiet(script) -> None:  # type: ignore[no-untyped-def]
    text = """
    CREATE TABLE t (n INT) WITH ('connector' = 'blackhole'); CREATE TABLE IF NOT EXISTS t (n INT) WITH ('connector' = 'print');
    CREATE VIEW v AS SELECT 1 AS n; DROP VIEW v; DROP TABLE IF EXISTS nothing; SET 'parallelism.default' = '2'; RESET;
    """
    _, written = on_a_terminal("run", script(text))
    assert screen(written) == [
        'table "t" created',
        'table "t" exists already: nothing changed',
        'view "v" created',
        'view "v" dropped',
        'table "nothing" does not exist: nothing to drop',
        "'parallelism.default' is '2'",
        "all settings have their defaults",
        "",
    ]
    assert on_a_terminal("run", "--quiet", script(text))[1] == ""


def test_a_table_is_as_wide_as_the_terminal(script) -> None:  # type: ignore[no-untyped-def]
    text = "SELECT 1234567890123456789 AS n, REPEAT('x', 200) AS s;"
    _, written = on_a_terminal("run", script(text))
    assert [len(line) for line in screen(written)[:5]] == [COLUMNS] * 5
    assert "| 1234567890123456789 | xxxxx" in written
