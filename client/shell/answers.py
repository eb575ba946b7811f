"""The answer to a statement on standard output: what `run`, `submit` and the shell do alike."""

from __future__ import annotations

import abc
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from sqlstream import config
from sqlstream.client.following.followed_job import JobEnd, follow
from sqlstream.client.following.progress import Progress
from sqlstream.client.rendering.tables import AS_BLOCKS, Look
from sqlstream.client.sessions.outcomes import ResultKind

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection, StatementResult
    from sqlstream.client.held_rows import HeldRows
    from sqlstream.client.rendering.render import Renderer
    from sqlstream.client.shell.display import Display
    from sqlstream.schema import Schema

_MAX_WIDTH = "table.display.max-column-width"


class Answers(abc.ABC):
    """Shows one result at a time. JobError when the job of a query fails; KeyboardInterrupt is the caller's."""

    def __init__(self, connection: Connection, display: Display) -> None:
        self._connection = connection
        self._display = display
        self._settings: Mapping[str, str] = {}

    def show(self, result: StatementResult, mode: str) -> JobEnd | None:
        """Print the whole answer. Returns how the job ended, if it was followed and the caller is to tell."""
        for note in result.facts.note.splitlines():
            self._display.note(note)
        if result.kind not in (ResultKind.CONFIRMATION, ResultKind.TEXT):
            self._settings = self._connection.config()
        match result.kind:
            case ResultKind.CONFIRMATION:
                self._display.tell(result.text)
            case ResultKind.TEXT:
                self._show_text(result, mode)
            case ResultKind.ROWS:
                self._show_answer(result, result.batches(), mode)
            case ResultKind.JOB:
                return self._show_job(result)
            case ResultKind.QUERY:
                return self._show_query(result, mode)
        return None

    def _show_text(self, result: StatementResult, mode: str) -> None:
        self._display.print_text(result.text)

    def _show_answer(self, result: StatementResult, batches: Iterable[Any], mode: str) -> None:
        """SHOW, DESCRIBE and the like: nothing of them is cut."""
        found = list(batches)
        with self._display.text_stream(sum(b.num_rows for b in found) + FRAME_LINES) as out:
            renderer = self._renderer(result, mode, wraps=True, out=out)
            for batch in found:
                renderer.write(batch)
            renderer.finish()

    def _show_job(self, result: StatementResult) -> JobEnd | None:
        return self._followed(result)

    @abc.abstractmethod
    def _show_query(self, result: StatementResult, mode: str) -> JobEnd | None: ...

    # -- parts -----------------------------------------------------------------------------------------

    def _followed(self, result: StatementResult) -> JobEnd:
        return follow(result, self._progress(result))

    def _show_changes(self, result: StatementResult, mode: str) -> None:
        """Each change as it arrives. The end is left out when the job fails: that shows that the changelog is incomplete."""
        with self._display.line.cleared(sys.stdout):
            renderer = self._renderer(result, mode, with_op=True)
        with self._progress(result):
            for batch in result.batches():
                with self._display.line.cleared(sys.stdout):
                    renderer.write(batch)
        renderer.finish()

    def _show_final(self, result: StatementResult, mode: str) -> None:
        """The table that is left when the query has ended. Nothing when it fails: a part of it would look complete."""
        with self._held(result) as held, self._display.line.cleared(sys.stdout):
            self._write(held, self._renderer(result, mode))

    def _write(self, held: HeldRows, renderer: Renderer) -> None:
        for batch in held:
            renderer.write(batch)
        renderer.finish()

    @contextlib.contextmanager
    def _held(self, result: StatementResult) -> Iterator[HeldRows]:
        from sqlstream.client.held_rows import held_final_rows

        with contextlib.ExitStack() as stack:
            with self._progress(result):
                held = stack.enter_context(held_final_rows(schema_of(result), result.batches()))
            yield held

    def _progress(self, result: StatementResult) -> contextlib.AbstractContextManager[object]:
        if result.job_id is None or self._display.is_quiet:
            return contextlib.nullcontext()
        return Progress(self._job_name(result), result.metrics, self._display.line)

    def _job_name(self, result: StatementResult) -> str:
        return result.label

    def _renderer(
        self,
        result: StatementResult,
        mode: str,
        *,
        with_op: bool = False,
        wraps: bool = False,
        is_cut: bool = True,
        out: IO[str] | None = None,
    ) -> Renderer:
        """`wraps`: the rows come from SHOW, DESCRIBE and the like, and nothing of them is cut."""
        from sqlstream.client.rendering.render import make_renderer

        settings = self._settings
        max_width = None
        if _MAX_WIDTH in settings and not wraps:
            max_width = int(config.get(settings, _MAX_WIDTH))
        return make_renderer(
            "table" if mode == "auto" else mode,
            Look(
                schema_of(result),
                self._time_zone(),
                self._display.null,
                max_width,
                self._display.columns if is_cut else None,
                self._display.blocks_word or AS_BLOCKS,
            ),
            with_op=with_op,
            wraps=wraps,
            out=out,
        )

    def _time_zone(self) -> str:
        return str(config.get(self._settings, "table.local-time-zone"))


FRAME_LINES = 5
"""Lines of a table beside its rows, at most."""


def schema_of(result: StatementResult) -> Schema:
    return result.facts.columns
