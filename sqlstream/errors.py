"""The error tree, by who can fix a thing, and how an error is shown under the SQL that caused it.

    SqlStreamError(code, message, detail, hint)
      UserError(span)                  the statement, option or input is wrong; never retried; underlined in the SQL
      ExternalError(retry)             something outside failed: a disk, a file, a peer
      JobError(vertex, attempt, reason)  a running job failed; policy reads the reason, never the text
      InternalError(story)             our bug; carries the recent events

Messages are lower case without a full stop, name what was attempted and quote user names; the hint is an instruction.
Errors cross processes as `ErrorInfo` (code and fields), never as pickled exceptions.

Codes by their first digit: 1 text and syntax, 2 names and types, 3 planning, 4 options and settings, 5 files and data,
6 jobs and clusters, 9 our bugs. error_codes.txt says what each one means, and which
reason and retry it has where an error does not say.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sqlstream.bounds import Count
from sqlstream.error_codes import FailureReason, Retry, hint_of, reason_of, retry_of
from sqlstream.secrets import MASK, secret_ranges, without_secrets
from sqlstream.terminal_text import display_width, shown, shown_lines

EXCERPT_COLUMNS = 160
"""A longer line is shown in part: the marked text and the text around it."""

_BEFORE_COLUMNS = 60
_NEAR = 10_000
"""Characters on each side of the mark that may be shown: a secret among them is shown as a short mask."""

_CUT = "…"


class Span(msgspec.Struct, frozen=True):
    """A half-open range of character offsets in the script that the user submitted."""

    start: Count
    end: Count

    def shift(self, offset: int) -> Span:
        return Span(self.start + offset, self.end + offset)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """1-based line and column of a character offset.

    >>> line_and_column("SELECT\\n  x", 9)
    (2, 3)
    """
    offset = min(max(offset, 0), len(text))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def excerpt(text: str, span: Span) -> list[str]:
    """Two lines: the line of the script in which the span begins, and a mark below the part that the span covers.

    Control characters become escapes, and values of secrets are masked; tabs stay tabs. A line wider than EXCERPT_COLUMNS is cut
    to the part around the mark, with an ellipsis at each cut.

    >>> print("\\n".join(excerpt("SELECT usr_id FROM t", Span(7, 13))))
      1 | SELECT usr_id FROM t
        |        ^^^^^^
    """
    number, column = line_and_column(text, span.start)
    start = min(max(span.start, 0), len(text)) - column + 1
    end = text.find("\n", start)
    line = text[start : len(text) if end < 0 else end].removesuffix("\r")
    first = min(column - 1, len(line))
    after = min(max(first + 1, first + span.end - span.start), max(len(line), first + 1))
    # Of a line of megabytes only what is near the mark is looked at.
    near = max(0, first - _NEAR)
    is_cut = first + _NEAR < len(line)
    start, first, after = start + near, first - near, min(after - near, first + _NEAR)
    line = line[near : near + first + _NEAR]
    cells = _cells(line, _secrets_in(text, start, len(line)))
    begin, stop = _shown_part([display_width(cell) for cell in cells], first, after)
    before = "".join(cells[begin:first])
    marked = "".join(cells[first : min(after, stop)])
    rest = "".join(cells[min(after, stop) : stop])
    opening, closing = _CUT if begin or near else "", _CUT if is_cut or stop < len(cells) else ""
    # A tab before the mark is kept as a tab, so that the mark stands under its text in any terminal.
    pad = "".join("\t" if c == "\t" else " " * display_width(c) for c in opening + before)
    gutter = str(number)
    return [
        f"  {gutter} | {opening}{before}{marked}{rest}{closing}",
        f"  {' ' * len(gutter)} | {pad}{'^' * max(1, display_width(marked))}",
    ]


def _secrets_in(text: str, start: int, length: int) -> list[tuple[int, int]]:
    """The parts of a line, which begins at `start`, that are values of secrets."""
    parts = [(max(a - start, 0), min(b - start, length)) for a, b in secret_ranges(text)]
    return [(a, b) for a, b in parts if a < b]


def _cells(line: str, secrets: list[tuple[int, int]]) -> list[str]:
    """The text shown for each character of a line; a secret's mask replaces its first character."""
    cells = [c if c == "\t" else shown(c) for c in line]
    for first, after in secrets:
        cells[first:after] = [MASK, *[""] * (after - first - 1)]
    return cells


def _shown_part(widths: list[int], first: int, after: int) -> tuple[int, int]:
    """From which to which character a line with such widths is shown, when first:after are marked."""
    if sum(widths) <= EXCERPT_COLUMNS:
        return 0, len(widths)
    begin = first
    columns = 0
    while begin and columns + widths[begin - 1] <= _BEFORE_COLUMNS:
        begin -= 1
        columns += widths[begin]
    stop = first
    while stop < len(widths) and columns + widths[stop] <= EXCERPT_COLUMNS:
        columns += widths[stop]
        stop += 1
    # When the line ends soon after the mark, there is room for more text before it.
    while stop == len(widths) and begin and columns + widths[begin - 1] <= EXCERPT_COLUMNS:
        begin -= 1
        columns += widths[begin]
    return begin, stop


__all__ = [
    "ErrorInfo",
    "ExternalError",
    "FailureReason",
    "InternalError",
    "JobError",
    "Retry",
    "Span",
    "SqlStreamError",
    "UserError",
    "did_you_mean",
    "line_and_column",
    "reason_of_error",
    "render_error",
]


_USER = (FailureReason.USER_DATA, FailureReason.SERVER_REFUSED)
_EXTERNAL = (FailureReason.EXTERNAL, FailureReason.ACCESS_REFUSED, FailureReason.CHECKPOINT_CORRUPT)


class SqlStreamError(Exception):
    """Base of every error this project raises on purpose."""

    def __init__(self, code: str, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint or hint_of(code)

    def __str__(self) -> str:
        return f"error[{self.code}]: {self.message}"


class UserError(SqlStreamError):
    """The statement, an option or the input is wrong. `span` points into the script. `column` or `option` is that of a table
    which a connector or format refuses: it knows no positions."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        span: Span | None = None,
        column: str = "",
        option: str = "",
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(code, message, detail=detail, hint=hint)
        self.span = span
        self.column = column
        self.option = option

    def at(self, span: Span | None) -> UserError:
        """The same error with a position, unless it has one already."""
        if self.span is None:
            self.span = span
        return self


class ErrorsAt:
    """User errors that are raised within have this position, unless they have one already.

    >>> with ErrorsAt(Span(4, 9)):
    ...     raise UserError("SS4002", "no value")
    Traceback (most recent call last):
    sqlstream.errors.UserError: error[SS4002]: no value
    """

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, UserError):
            error.at(self._span)


class ExternalError(SqlStreamError):
    """A disk, file, network or peer failed; `retry` says whether trying again can help. `reason` is EXTERNAL, ACCESS_REFUSED, or
    CHECKPOINT_CORRUPT for a file of a checkpoint that is not as it was written."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry: Retry | None = None,
        reason: FailureReason | None = None,
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(code, message, detail=detail, hint=hint)
        self.retry = retry or retry_of(code)
        self.reason = reason or reason_of(code)
        if self.reason not in _EXTERNAL:
            self.reason = FailureReason.EXTERNAL


class JobError(SqlStreamError):
    """A job failed. `vertex` is the operator chain's name, `attempt` counts from 0, `span` is the operator's SQL."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        reason: FailureReason | None = None,
        vertex: str = "",
        attempt: int = 0,
        span: Span | None = None,
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(code, message, detail=detail, hint=hint)
        self.reason = reason or reason_of(code)
        self.vertex = vertex
        self.attempt = attempt
        self.span = span


class InternalError(SqlStreamError):
    """Our bug. `story` lists the recent events, newest last."""

    def __init__(self, message: str, *, story: tuple[str, ...] = (), detail: str = "") -> None:
        super().__init__("SS9001", message, detail=detail)
        self.story = story


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as data: what crosses processes and what the journal of a failed job keeps."""

    code: str
    message: str
    reason: FailureReason = FailureReason.INTERNAL
    detail: str = ""
    hint: str = ""
    vertex: str = ""
    attempt: Count = 0
    span: Span | None = None
    retry: Retry = Retry.NEVER

    @staticmethod
    def of(
        error: BaseException, *, vertex: str = "", attempt: int = 0, span: Span | None = None
    ) -> ErrorInfo:
        """Describe any exception. A foreign one becomes SS9001 with its type name."""
        if not isinstance(error, SqlStreamError):
            return ErrorInfo(
                code="SS9001",
                message=f"{type(error).__name__}: {error}",
                reason=FailureReason.OPERATOR_FAILED,
                vertex=vertex,
                attempt=attempt,
                span=span,
            )
        fields: dict[str, Any] = {
            "code": error.code,
            "message": error.message,
            "detail": error.detail,
            "hint": error.hint,
            "vertex": getattr(error, "vertex", "") or vertex,
            "attempt": getattr(error, "attempt", 0) or attempt,
            "span": getattr(error, "span", None) or span,
        }
        if isinstance(error, JobError):
            fields["reason"] = error.reason
        elif isinstance(error, UserError):
            is_refused = reason_of(error.code) is FailureReason.SERVER_REFUSED
            fields["reason"] = FailureReason.SERVER_REFUSED if is_refused else FailureReason.USER_DATA
        elif isinstance(error, ExternalError):
            fields["reason"] = error.reason
            fields["retry"] = error.retry
        return ErrorInfo(**fields)

    @property
    def line(self) -> str:
        """For a log, which says nothing of where it was."""
        return f"error[{self.code}]: {self.message}" + (f": {self.detail}" if self.detail else "")

    def to_error(self) -> SqlStreamError:
        """The exception for the caller of the process that raised it, by who can fix it."""
        if self.code == "SS9001":
            return InternalError(self.message, detail=self.detail)
        if self.reason in _USER and not self.vertex:
            return UserError(self.code, self.message, span=self.span, detail=self.detail, hint=self.hint)
        if self.reason in _EXTERNAL and not self.vertex:
            return ExternalError(
                self.code,
                self.message,
                retry=self.retry,
                reason=self.reason,
                detail=self.detail,
                hint=self.hint,
            )
        return self.to_job_error()

    def to_job_error(self) -> JobError:
        return JobError(
            self.code,
            self.message,
            reason=self.reason,
            vertex=self.vertex,
            attempt=self.attempt,
            span=self.span,
            detail=self.detail,
            hint=self.hint,
        )


def error_info(
    code: str, message: str, *, reason: FailureReason | None = None, hint: str = "", **fields: Any
) -> ErrorInfo:
    """The failure of a task or job as data, by default with the reason and hint that its code has."""
    return ErrorInfo(code, message, reason or reason_of(code), hint=hint or hint_of(code), **fields)


def render_error(error: SqlStreamError | ErrorInfo, text: str | None = None) -> str:
    """The error as the user sees it, with its SQL underlined when `text` is the script that `span` points into.

    >>> print(render_error(UserError("SS2003", 'column "usr_id" does not exist', span=Span(7, 13), hint="write user_id"),
    ...                    "SELECT usr_id FROM t"))
    error[SS2003]: column "usr_id" does not exist
      1 | SELECT usr_id FROM t
        |        ^^^^^^
    hint: write user_id
    """
    lines = [f"error[{error.code}]: {_one_line(error.message, text)}"]
    span = getattr(error, "span", None)
    if span is not None and text:
        lines += excerpt(text, span)
    if error.detail:
        lines.append(f"detail: {shown_lines(without_secrets(error.detail, text or ''))}")
    if error.hint:
        lines.append(f"hint: {_one_line(error.hint, text)}")
    for event in getattr(error, "story", ()):
        lines.append(f"  after: {_one_line(event, text)}")
    return "\n".join(lines)


def _one_line(words: str, script: str | None) -> str:
    """One line of words, in which names and values may come from data, files and the script."""
    return shown(without_secrets(words, script or ""))


def reason_of_error(error: Exception) -> str:
    """What an error says as a part of a message; one of the operating system without its number and path.

    >>> reason_of_error(FileNotFoundError(2, "No such file or directory", "/a")), reason_of_error(ValueError("odd"))
    ('no such file or directory', 'odd')
    """
    said = getattr(error, "strerror", None)
    return said.lower() if isinstance(said, str) else str(error)


def choose_one_of(name: str, candidates: list[str] | tuple[str, ...]) -> str:
    """A hint naming the closest candidate, or all when none is close.

    >>> choose_one_of("xml", ["csv", "json"])
    'choose one of csv, json'
    """
    return did_you_mean(name, candidates) or f"choose one of {', '.join(candidates)}"


def did_you_mean(name: str, candidates: list[str] | tuple[str, ...], likeness: float = 0.6) -> str:
    """A hint naming the closest candidate that is as like as that, from 0 to 1, or the empty string.

    >>> did_you_mean("usr_id", ["user_id", "ts"])
    'did you mean "user_id"?'
    """
    import difflib

    folded = {c.lower(): c for c in candidates}
    close = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=likeness)
    return f'did you mean "{folded[close[0]]}"?' if close else ""
