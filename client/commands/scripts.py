"""The scripts of a command: all are parsed, then their statements run one after the other over a connection."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING, Any

from sqlstream.client.exit_codes import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from sqlstream.client.following.followed_job import cancel_and_wait, follow
from sqlstream.client.following.remarks import lines_of
from sqlstream.client.rendering.terminal import kept_output
from sqlstream.client.script_text import parsed
from sqlstream.client.sessions.outcomes import ResultKind, literal_batches
from sqlstream.client.shell.answers import Answers
from sqlstream.errors import JobError, UserError, line_and_column, render_error

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection, StatementResult
    from sqlstream.client.following.followed_job import JobEnd
    from sqlstream.client.shell.display import Display
    from sqlstream.planner.dialect.statements import Statement


class ScriptAnswers(Answers):
    """Shows the answer to each statement of a script, which is complete before the next statement runs."""

    def answer(self, statement: Statement, text: str) -> int:
        """Run a statement of the script `text` and show its answer; returns the exit code."""
        with self._connection.run(statement) as result:
            try:
                end = self.show(result, self._display.mode)
            except KeyboardInterrupt:
                self._interrupted(result)
                raise
            if end is None:
                return EXIT_FAILED if result.facts.is_failure else EXIT_OK
            self._tell_end(result, end)
            if not end.is_finished:
                print(end.failure(text), file=sys.stderr)
            return EXIT_OK if end.is_finished else EXIT_FAILED

    def _interrupted(self, result: StatementResult) -> None:
        """Ctrl-C ends the command while it shows this result."""

    def _tell_end(self, result: StatementResult, end: JobEnd) -> None:
        """Tell how a job that was followed has ended, but not why it failed."""
        self._display.note(end.closing)
        self._display.warn(end.remarks)


class RunAnswers(ScriptAnswers):
    """The answers of `sqlstream run`. Ctrl-C cancels the job that is shown."""

    def __init__(self, connection: Connection, display: Display, is_changelog: bool) -> None:
        super().__init__(connection, display)
        self._is_changelog = is_changelog

    def _show_text(self, result: StatementResult, mode: str) -> None:
        """SHOW CREATE: a statement is printed whole, not cut to a cell, but to programs it is a value."""
        if result.facts.is_value and mode != "table":
            self._show_answer(result, literal_batches(result.facts.columns, ((result.text,),)), mode)
        else:
            super()._show_text(result, mode)

    def _show_query(self, result: StatementResult, mode: str) -> JobEnd:
        # The end of the job has the reason, which is told after what was lost.
        with kept_output(), contextlib.suppress(JobError):
            if self._is_changelog or not result.is_bounded:
                self._show_changes(result, mode)
            else:
                self._show_final(result, mode)
        return follow(result, contextlib.nullcontext())

    def _interrupted(self, result: StatementResult) -> None:
        ended = cancel_and_wait(result) if result.job_id is not None else None
        if ended is not None:
            self._display.warn(ended.remarks)

    def _tell_end(self, result: StatementResult, end: JobEnd) -> None:
        if result.kind is ResultKind.JOB:
            self._display.note(end.closing)
        self._display.warn(end.remarks)


class SubmitAnswers(ScriptAnswers):
    """The answers of `sqlstream submit`. Ctrl-C leaves the job of an INSERT alone. With `is_json` each answer is one object with
    the line of its statement. State: that line."""

    def __init__(self, connection: Connection, display: Display, *, is_json: bool, is_detached: bool) -> None:
        super().__init__(connection, display)
        self._is_json = is_json
        self._is_detached = is_detached
        self._line = 0

    def answer(self, statement: Statement, text: str) -> int:
        self._line = line_and_column(text, statement.span.start)[0]
        return super().answer(statement, text)

    def show(self, result: StatementResult, mode: str) -> JobEnd | None:
        if not self._is_json or result.kind is ResultKind.JOB:
            return super().show(result, mode)
        self._display.note(result.facts.note)
        if result.schema is None:
            self._print_json(result, text=result.text)
            return None
        self._require_end(result)
        rows = io.StringIO()
        with self._held(result) as held:
            self._write(held, self._renderer(result, "json", out=rows))
        self._print_rows(result, rows.getvalue().removesuffix("\n").split("\n"))
        return None

    def _print_json(self, result: StatementResult, **members: Any) -> None:
        print(self._json(result, **members), flush=True)

    def _print_rows(self, result: StatementResult, objects: list[str]) -> None:
        """The rows as the renderer wrote them: to read them again would lose digits of DECIMAL and BIGINT."""
        print(f'{self._json(result)[:-1]}, "rows": [{", ".join(filter(None, objects))}]}}', flush=True)

    def _json(self, result: StatementResult, **members: Any) -> str:
        import json

        said = {"line": self._line, "kind": result.kind.value, **members}
        return json.dumps(said, ensure_ascii=False)

    def _show_query(self, result: StatementResult, mode: str) -> None:
        self._require_end(result)
        self._show_final(result, mode)
        self._display.warn(result.remarks())

    def _require_end(self, result: StatementResult) -> None:
        """UserError SS4045 for a query that has no final rows."""
        if not result.is_bounded:
            raise UserError(
                "SS4045", "the rows of an unbounded query never end, and this command prints final rows"
            )

    def _show_job(self, result: StatementResult) -> JobEnd | None:
        """Name the job, and follow it unless it is detached."""
        named = f"job {result.job_id}: {result.label}"
        if not self._is_detached:
            if not self._is_json:
                self._display.remark(named)
            return self._followed(result)
        if self._is_json:
            self._print_json(result, jid=result.job_id, label=result.label)
        else:
            print(named)
        return None

    def _interrupted(self, result: StatementResult) -> None:
        if result.kind is ResultKind.JOB and not self._is_detached:
            id = result.job_id
            self._display.remark(f"job {id} runs on; end it with: sqlstream cancel {id}")

    def _tell_end(self, result: StatementResult, end: JobEnd) -> None:
        if not self._is_json:
            super()._tell_end(result, end)
            return
        self._print_json(
            result,
            jid=result.job_id,
            label=result.label,
            state=end.reply.status.value,
            totals=end.total,
            warnings=lines_of(end.remarks),
        )


def parse_scripts(texts: list[str]) -> list[tuple[str, tuple[Statement, ...]]] | None:
    """The statements of all scripts; None for a wrong one, whose error is shown and underlines its text."""
    scripts = []
    for text in texts:
        try:
            scripts.append((text, parsed(text)))
        except UserError as error:
            print(render_error(error, text), file=sys.stderr)
            return None
    return scripts


def run_scripts(scripts: list[tuple[str, tuple[Statement, ...]]], answers: ScriptAnswers) -> int:
    """Run the statements in order up to the first that fails; returns the exit code."""
    for text, statements in scripts:
        for statement in statements:
            try:
                code = answers.answer(statement, text)
            except UserError as error:
                print(render_error(error.at(statement.span), text), file=sys.stderr)
                return EXIT_USAGE
            if code:
                return code
    return EXIT_OK
