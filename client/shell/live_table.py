"""The full-screen view of a query that never ends: its table as it is now, a page at a time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from sqlstream.client.rendering.table_layout import (
    CELL_COLUMNS_MIN,
    NUMBER_ROOTS,
    can_be_cut,
    cut,
    fitted_widths,
    frame_columns,
    frame_line,
    table_line,
)
from sqlstream.client.rendering.tables import Look
from sqlstream.errors import InternalError, SqlStreamError
from sqlstream.terminal_text import NULL_TEXT, display_width, shown

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from sqlstream.client.connection import StatementResult
    from sqlstream.client.shell.live_rows import LiveRows

REDRAW_INTERVAL_S = 0.1
_CLOCK_INTERVAL_S = 1.0
_FRAME_ROWS = 5
"""Lines that are no rows: the title, three of the frame above the rows and one below; the status line is extra."""

_CLOSE_TIMEOUT_S = 5.0
_KEYS = "q leaves  ↑ ↓ PgUp PgDn Home End  ← →"
_SHORT_KEYS = "q leaves"


class LiveTable:
    """Shows `rows` while a thread adds what `result` emits, until the user leaves.

    State: the first visible row and column, and whether the view follows the end. Columns grow with the widest value seen, and
    never shrink, so that the table does not jump.
    """

    def __init__(
        self, result: StatementResult, rows: LiveRows, time_zone: str, null_text: str = NULL_TEXT
    ) -> None:
        assert result.schema is not None
        self._result = result
        self._schema = result.schema
        self._rows = rows
        self._look = Look(result.schema, time_zone, null_text)
        self._first = 0
        self._first_column = 0
        self._follows = not result.is_updating
        self._names = self._look.names
        self._wanted = [max(1, display_width(name)) for name in self._names]
        self._started = time.monotonic()
        self._ended_s: float | None = None
        self._is_left = False
        self.error: SqlStreamError | None = None
        self._application: Application[None] | None = None

    def show(self, input_: Input | None = None, output: Output | None = None) -> None:
        """Take the screen until the user leaves; then the query is cancelled. `error` is set if the query failed."""
        self._application = Application(
            layout=Layout(Window(FormattedTextControl(self._text, focusable=True), wrap_lines=False)),
            key_bindings=self._bindings(),
            full_screen=True,
            min_redraw_interval=REDRAW_INTERVAL_S,
            refresh_interval=_CLOCK_INTERVAL_S,
            input=input_,
            output=output,
        )
        reader = threading.Thread(target=self._read, name="live-table", daemon=True)
        reader.start()
        try:
            self._application.run()
        finally:
            self._is_left = True
            self._result.close()
            reader.join(_CLOSE_TIMEOUT_S)

    def summary(self) -> str:
        """One line for the screen that follows."""
        seconds = (self._ended_s or time.monotonic()) - self._started
        state = "ended" if self._ended_s is not None else "stopped"
        return f"query {state} after {seconds:.1f} s: {self._rows.changes:,} changes, {_counted(len(self._rows))} at last"

    # -- the query ------------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self._application is not None
        try:
            for batch in self._result.batches():
                if self._is_left:
                    return
                self._rows.add(batch)
                self._application.invalidate()
        except SqlStreamError as error:
            self.error = None if self._is_left else error
        except Exception as error:
            # The view goes on, and says why there are no more rows.
            self.error = InternalError(f"{type(error).__name__}: {error}")
        if not self._is_left:
            self._ended_s = time.monotonic()
            self._application.invalidate()

    # -- keys -----------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        for key in ("q", "Q", "c-c", "c-d", "escape"):
            bindings.add(key, eager=True)(self._leave)
        moves = {"up": -1, "k": -1, "p": -1, "down": 1, "j": 1, "n": 1}
        for key, lines in moves.items():
            bindings.add(key)(lambda event, lines=lines: self._move(lines))
        for key, pages in {"pageup": -1, "b": -1, "pagedown": 1, " ": 1, "f": 1}.items():
            bindings.add(key)(lambda event, pages=pages: self._move(pages * max(1, self._page_rows())))
        for key, columns in {"left": -1, "h": -1, "right": 1, "l": 1}.items():
            bindings.add(key)(lambda event, columns=columns: self._move_columns(columns))
        for key in ("home", "g"):
            bindings.add(key)(lambda event: self._move(-len(self._rows)))
        for key in ("end", "G"):
            bindings.add(key)(lambda event: self._follow())
        return bindings

    def _leave(self, event: KeyPressEvent) -> None:
        event.app.exit()

    def _move(self, lines: int) -> None:
        last = max(0, len(self._rows) - self._page_rows())
        self._first = min(max(0, self._first + lines), last)
        self._follows = self._follows and lines > 0 and self._first == last

    def _follow(self) -> None:
        self._follows = True

    def _move_columns(self, columns: int) -> None:
        self._first_column = min(max(0, self._first_column + columns), len(self._names) - 1)

    # -- the screen -----------------------------------------------------------------------------------

    def _size(self) -> tuple[int, int]:
        assert self._application is not None
        size = self._application.output.get_size()
        return size.rows, size.columns

    def _page_rows(self) -> int:
        return max(1, self._size()[0] - _FRAME_ROWS - 1)

    def _text(self) -> StyleAndTextTuples:
        rows, columns = self._size()
        count, page = len(self._rows), self._page_rows()
        last = max(0, count - page)
        self._first = last if self._follows else min(self._first, last)
        lines = self._table(columns, page)
        blank = "\n" * max(0, rows - len(lines) - 2)
        return [
            ("reverse", _filled(self._title(columns), columns)),
            ("", "\n" + "\n".join(lines) + "\n" + blank),
            ("reverse", _filled(self._status(count, page, columns), columns)),
        ]

    def _table(self, columns: int, page: int) -> list[str]:
        """The frame, the header and the visible rows."""
        batch = self._rows.window(self._first, page)
        texts = self._look.texts(batch, with_op=False)
        for i, column in enumerate(texts):
            self._wanted[i] = max(self._wanted[i], max((display_width(shown(t)) for t in column), default=0))
        shown_columns = range(self._first_column, len(self._names))
        types = self._schema.types
        wanted = [self._wanted[i] for i in shown_columns]
        least = [
            min(w, CELL_COLUMNS_MIN) if can_be_cut(types[i]) else w
            for i, w in zip(shown_columns, wanted, strict=True)
        ]
        # Columns that do not fit beside the others are scrolled to.
        while len(least) > 1 and sum(least) + frame_columns(len(least)) > columns:
            least.pop()
        widths = fitted_widths(wanted[: len(least)], least, columns)
        visible = shown_columns[: len(least)]
        right = [types[i].root in NUMBER_ROOTS for i in visible]
        cells = [[cut(t, w) for t in texts[i]] for i, w in zip(visible, widths, strict=True)]
        header = table_line(
            [cut(self._names[i], w) for i, w in zip(visible, widths, strict=True)], widths, right
        )
        frame = frame_line(widths)
        lines = [table_line(row, widths, right) for row in zip(*cells, strict=True)]
        return [line[:columns] if line.isascii() else line for line in (frame, header, frame, *lines, frame)]

    def _title(self, columns: int) -> str:
        seconds = (self._ended_s or time.monotonic()) - self._started
        state = "failed" if self.error else "ended" if self._ended_s is not None else "running"
        text = f" {shown(self._result.label)}  {state} {seconds:.0f} s  job {self._result.job_id or 'in this process'}"
        return cut(text, columns)

    def _status(self, count: int, page: int, columns: int) -> str:
        if self.error is not None:
            return cut(f" {self.error}  {_SHORT_KEYS}", columns)
        place = f" rows {min(self._first + 1, count):,}-{min(self._first + page, count):,} of {count:,}"
        dropped = f" ({self._rows.dropped:,} older ones left out)" if self._rows.dropped else ""
        following = " following" if self._follows else ""
        parts = [place + dropped + following, f"{self._rows.changes:,} changes", _KEYS]
        while len(parts) > 1 and display_width("  ".join(parts)) > columns:
            parts = [*parts[:-2], _SHORT_KEYS] if len(parts) == 3 else parts[:1]
        return cut("  ".join(parts), columns)


def _filled(text: str, columns: int) -> str:
    return text + " " * max(0, columns - display_width(text))


def _counted(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"
