"""The answer to a statement in the shell, in the result mode of the session."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

from sqlstream import config
from sqlstream.client.following.followed_job import CANCEL_TIMEOUT_S, cancel_and_wait, ended_error
from sqlstream.client.shell.answers import FRAME_LINES, Answers, schema_of
from sqlstream.client.shell.detached import DetachedJobs
from sqlstream.client.shell.display import ShellDisplay, terminal_input, terminal_output
from sqlstream.errors import FailureReason, JobError, UserError
from sqlstream.terminal_text import shown

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection, StatementResult
    from sqlstream.client.held_rows import HeldRows
    from sqlstream.client.shell.output_file import OutputFile

RESULT_MODE = "sql-client.execution.result-mode"
ROWS_MAX = "sql-client.execution.max-table-result.rows"
_TABLES = ("auto", "table")
JOIN_S = 0.2


class ShellAnswers(Answers):
    """Shows one result at a time. SqlStreamError when the statement's job failed; KeyboardInterrupt is the caller's."""

    def __init__(self, connection: Connection, display: ShellDisplay, detached: DetachedJobs) -> None:
        super().__init__(connection, display)
        self._display: ShellDisplay = display
        self._detached = detached

    # -- INSERT ---------------------------------------------------------------------------------------

    def _show_job(self, result: StatementResult) -> None:
        """A job that is not waited for is named by its id."""
        is_awaited = config.get(self._settings, "table.dml-sync")
        # A script that ends before its jobs would end them too.
        if is_awaited or (not self._display.is_interactive and self._connection.owns_cluster):
            self._await_job(result)
            return
        self._detached.add(result)
        self._display.remark(f"{result.label}: job {result.job_id} was submitted")

    def _await_job(self, result: StatementResult) -> None:
        end = self._followed(result)
        if end.closing:
            self._display.tell(end.closing)
        self._display.warn(end.remarks)
        if not end.is_finished:
            raise ended_error(end.reply)

    # -- queries ----------------------------------------------------------------------------------------

    def _show_query(self, result: StatementResult, mode: str) -> None:
        settings = self._settings
        result_mode = config.get(settings, RESULT_MODE)
        if self._display.file is not None:
            self._write_file(result)
        elif (
            result_mode == "TABLE"
            and not result.is_bounded
            and mode in _TABLES
            and self._display.has_full_screen
        ):
            self._show_live(result, config.get(settings, ROWS_MAX))
        elif result_mode == "CHANGELOG" or not result.is_bounded:
            self._show_changes(result, mode)
        else:
            self._show_final(result, mode)
        if result.job_id is not None:
            self._display.warn(result.remarks())

    def _show_final(self, result: StatementResult, mode: str) -> None:
        """The table that is left when the query has ended."""
        with self._held(result) as held:
            rows = sum(batch.num_rows for batch in held)
            if mode == "auto" and self._is_wide(result, held, rows):
                mode = "vertical"
            lines = rows * (len(schema_of(result).names) + 1 if mode == "vertical" else 1) + FRAME_LINES
            is_paged = self._display.needs_pager(lines)
            with self._display.text_stream(lines) as out:
                # A pager scrolls sideways: nothing need be cut to the width of the terminal.
                renderer = self._renderer(result, mode, out=out, is_cut=not is_paged)
                self._write(held, renderer)

    def _is_wide(self, result: StatementResult, held: HeldRows, rows: int) -> bool:
        """Whether a table of these rows is wider than the screen. A pager scrolls sideways, so what goes there is not."""
        from sqlstream.client.rendering.tables import Table

        if self._display.columns is None or self._display.needs_pager(rows + FRAME_LINES):
            return False
        table = self._renderer(result, "table", out=io.StringIO())
        assert isinstance(table, Table)
        for batch in held:
            table.write(batch)
        return table.is_wide

    def _show_live(self, result: StatementResult, rows_max: int) -> None:
        """The full-screen table, until the user leaves it."""
        from sqlstream.client.shell.live_rows import live_rows
        from sqlstream.client.shell.live_table import LiveTable

        try:
            rows = live_rows(schema_of(result), result.is_updating, rows_max)
        except UserError as error:
            self._display.remark(f"note: {error.message}, so each change is shown")
            self._show_changes(result, "table")
            return
        table = LiveTable(result, rows, self._time_zone(), self._display.null)
        table.show(terminal_input(), terminal_output())
        self._display.remark(table.summary())
        if table.error is not None:
            raise table.error

    def _write_file(self, result: StatementResult) -> None:
        """The rows into the file of the display: the final table, or for a query without an end its changes until Ctrl-C."""
        from sqlstream.client.shell.output_file import OutputFile

        path, self._display.file = self._display.file, None
        assert path is not None
        with_op = not result.is_bounded and result.is_updating
        file = OutputFile(path, schema_of(result), with_op=with_op, time_zone=self._time_zone())
        writing = FileWriting(result, file)
        try:
            with self._progress(result):
                writing.wait()
            file.finish()
        except KeyboardInterrupt:
            result.cancel()
            # Ctrl-C is the only end that a query without an end has, so its rows are kept.
            if not writing.has_stopped() or result.is_bounded:
                raise
            file.finish()
        finally:
            file.abort()
        self._display.remark(f'{file.rows:,} rows were written to "{path}"')

    def _job_name(self, result: StatementResult) -> str:
        return f"{result.label} {result.job_id}"

    def cancel(self, result: StatementResult) -> None:
        """Ctrl-C: cancel the job of a query or of an INSERT that was waited for, and say so."""
        if result.job_id is None:
            return
        end = cancel_and_wait(result)
        if end is not None:
            self._display.warn(end.remarks)
        self._display.remark(f"{shown(result.label)}: job {result.job_id} was cancelled")


class FileWriting:
    """Writes the rows of a result on a thread of its own, so that Ctrl-C never comes in the middle of a row.

    State: the error that ended it, if any.
    """

    def __init__(self, result: StatementResult, file: OutputFile) -> None:
        self._result = result
        self._file = file
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="write-file", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from sqlstream.client.rendering.render import final_rows

        batches = self._result.batches()
        try:
            for batch in final_rows(schema_of(self._result), batches) if self._result.is_bounded else batches:
                self._file.write(batch)
        except BaseException as error:
            # Whatever stopped the rows, the file is incomplete and must not get its name.
            self._error = error

    def wait(self) -> None:
        """Until all rows are written; raises what prevented it."""
        while self._thread.is_alive():
            self._thread.join(JOIN_S)
        if self._error is not None:
            raise self._error

    def has_stopped(self) -> bool:
        """Whether, after the query was cancelled, the rows that it had emitted are written."""
        self._thread.join(CANCEL_TIMEOUT_S)
        is_cancelled = isinstance(self._error, JobError) and self._error.reason is FailureReason.CANCELLED
        return not self._thread.is_alive() and (self._error is None or is_cancelled)
