"""The full-screen view of a query: keys in, the screen out."""

from __future__ import annotations

import io
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyte
import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from sqlstream import types as sql
from sqlstream.client.shell.live_rows import live_rows
from sqlstream.client.shell.live_table import LiveTable
from sqlstream.errors import UserError
from sqlstream.schema import Schema

SCHEMA = Schema.of(("n", sql.BIGINT), ("text", sql.STRING), ("flag", sql.BOOLEAN))
UP, DOWN, PAGE_UP, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~"
HOME, END, LEFT, RIGHT = "\x1b[H", "\x1b[F", "\x1b[D", "\x1b[C"
TIMEOUT_S = 60.0


class Query:
    """A query whose batches a test gives, and after the last one its end."""

    label = "collect"
    job_id = "ab12"

    def __init__(self, schema: Schema, is_updating: bool) -> None:
        self.schema = schema
        self.is_updating = is_updating
        self.given: queue.SimpleQueue[pa.RecordBatch | Exception | None] = queue.SimpleQueue()
        self.is_closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        while (found := self.given.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found

    def close(self) -> None:
        self.is_closed = True
        self.given.put(None)


class View:
    """A LiveTable on a screen of `lines` and `columns`; leaving it presses q."""

    def __init__(
        self, lines: int = 12, columns: int = 80, *, rows_max: int = 100, is_updating: bool = False
    ) -> None:
        self.query = Query(SCHEMA, is_updating)
        self.rows = live_rows(SCHEMA, is_updating, rows_max)
        self.table = LiveTable(self.query, self.rows, "UTC")  # type: ignore[arg-type]
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.Stream(self._screen)
        self._written = io.StringIO()
        self._read = 0
        self._size = Size(lines, columns)

    def __enter__(self) -> View:
        self._pipe = create_pipe_input()
        self.input = self._pipe.__enter__()
        output = Vt100_Output(self._written, lambda: self._size, term="xterm", enable_cpr=False)
        self._thread = threading.Thread(target=self.table.show, args=(self.input, output))
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.input.send_text("q")
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        self._pipe.__exit__(None, None, None)

    def add(self, first: int, last: int) -> None:
        """Rows with these numbers."""
        numbers = range(first, last + 1)
        columns = [
            pa.array(numbers, pa.int64()),
            pa.array([f"row {n}" for n in numbers]),
            pa.array([True] * len(numbers)),
        ]
        self.query.given.put(pa.RecordBatch.from_arrays(columns, names=list(SCHEMA.names)))

    def lines(self) -> list[str]:
        text = self._written.getvalue()
        self._stream.feed(text[self._read :])
        self._read = len(text)
        return [line.rstrip() for line in self._screen.display]

    def wait(self, condition: Callable[[list[str]], bool]) -> list[str]:
        end_s = time.monotonic() + TIMEOUT_S
        while not condition(lines := self.lines()):
            assert time.monotonic() < end_s, "\n".join(lines)
            time.sleep(0.02)
        return lines

    def shows(self, first: int, last: int, of: int) -> list[str]:
        """The numbers of the visible rows, once the status line says that they are these."""
        place = f" rows {first:,}-{last:,} of {of:,}"
        lines = self.wait(lambda lines: lines[-1].startswith(place))
        return [line.split("|")[1].strip() for line in lines[4:] if line.startswith("| ")]

    def press(self, keys: str) -> None:
        self.input.send_text(keys)


def test_rows_that_arrive_are_followed_until_a_key_moves_the_view() -> None:
    with View() as view:
        view.add(1, 4)
        assert view.shows(1, 4, 4) == ["1", "2", "3", "4"]
        lines = view.lines()
        assert re.fullmatch(r" collect  running \d+ s  job ab12", lines[0])
        assert lines[1:4] == ["+---+-------+------+", "| n | text  | flag |", "+---+-------+------+"]
        assert lines[4] == "| 1 | row 1 | TRUE |"
        assert lines[8] == lines[1]
        assert lines[-1] == " rows 1-4 of 4 following  4 changes  q leaves  ↑ ↓ PgUp PgDn Home End  ← →"
        view.add(5, 20)
        # Twelve lines less the title, the status, and four of the frame.
        assert view.shows(15, 20, 20) == [str(n) for n in range(15, 21)]
        assert "following" in view.lines()[-1]
        for keys, first in (
            (UP, 14),
            ("kk", 12),
            (DOWN, 13),
            ("jj", 15),
            ("b", 9),
            (PAGE_UP + PAGE_UP, 1),
            ("f", 7),
        ):
            view.press(keys)
            assert view.shows(first, first + 5, 20)[0] == str(first)
            assert "following" not in view.lines()[-1]
        for keys, first in (
            (HOME, 1),
            ("G", 15),
            ("g", 1),
            (PAGE_DOWN, 7),
            (" ", 13),
            ("n", 14),
            ("pp", 12),
            (END, 15),
        ):
            view.press(keys)
            view.shows(first, first + 5, 20)
        assert "following" in view.lines()[-1]
        view.add(21, 22)
        view.shows(17, 22, 22)
    assert view.query.is_closed
    assert view.table.error is None


def test_an_updating_query_stays_at_its_first_rows() -> None:
    with View(is_updating=True) as view:
        view.add(1, 10)
        assert view.shows(1, 6, 10) == ["1", "2", "3", "4", "5", "6"]
        assert "following" not in view.lines()[-1]


def test_columns_that_do_not_fit_are_scrolled_to() -> None:
    with View(columns=18) as view:
        view.add(1, 1)
        assert view.shows(1, 1, 1) == ["1"]
        assert view.lines()[2] == "| n | text  |"
        for keys, header in (
            (RIGHT, "| text  | flag |"),
            ("ll", "| flag |"),
            ("h", "| text  | flag |"),
            (LEFT, "| n | text  |"),
        ):
            view.press(keys)
            view.wait(lambda lines, header=header: lines[2] == header)  # type: ignore[misc]
        assert view.lines()[-1] == " rows 1-1 of 1 fo…"


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        (74, " rows 1-1 of 1 following  1 changes  q leaves  ↑ ↓ PgUp PgDn Home End  ← →"),
        (73, " rows 1-1 of 1 following  q leaves"),
        (34, " rows 1-1 of 1 following  q leaves"),
        (33, " rows 1-1 of 1 following"),
    ],
)
def test_the_status_leaves_out_what_does_not_fit(columns: int, status: str) -> None:
    with View(columns=columns) as view:
        view.add(1, 1)
        view.shows(1, 1, 1)
        assert view.lines()[-1] == status


def test_columns_grow_with_their_values_and_never_shrink() -> None:
    with View(lines=8) as view:
        view.add(1000, 1001)
        view.shows(1, 2, 2)
        assert view.lines()[2] == "|    n | text     | flag |"
        view.add(1, 2)
        assert view.shows(3, 4, 4) == ["1", "2"]
        assert view.lines()[2] == "|    n | text     | flag |"


def test_the_oldest_rows_are_left_out_beyond_the_limit() -> None:
    with View(rows_max=1_000) as view:
        view.add(1, 2_500)
        view.wait(
            lambda lines: lines[-1].startswith(
                " rows 995-1,000 of 1,000 (1,500 older ones left out) following"
            )
        )
    assert view.table.summary().endswith(": 2,500 changes, 1,000 rows at last")
    assert view.table.summary().startswith("query stopped after ")


def test_the_end_of_the_query_stops_its_clock() -> None:
    with View() as view:
        view.add(1, 1)
        view.query.given.put(None)
        view.wait(lambda lines: " collect  ended " in lines[0])
    assert re.fullmatch(r"query ended after \d+\.\d s: 1 changes, 1 row at last", view.table.summary())


@pytest.mark.parametrize(
    ("error", "words"),
    [(UserError("SS5102", "no number"), "error[SS5102]: no number"), (ValueError("x"), "ValueError: x")],
)
def test_an_error_is_on_the_screen_until_the_user_leaves(error: Exception, words: str) -> None:
    with View() as view:
        view.add(1, 1)
        view.query.given.put(error)
        view.wait(lambda lines: words in lines[-1] and lines[-1].endswith("q leaves"))
        view.wait(lambda lines: " collect  failed " in lines[0])
    assert words in str(view.table.error)


@pytest.mark.parametrize("key", ["q", "Q", "\x03", "\x04", "\x1b"])
def test_each_of_these_keys_leaves(key: str) -> None:
    with View() as view:
        view.wait(lambda lines: "running" in lines[0])
        view.press(key)
        end_s = time.monotonic() + TIMEOUT_S
        while not view.query.is_closed and time.monotonic() < end_s:
            time.sleep(0.02)
        assert view.query.is_closed
