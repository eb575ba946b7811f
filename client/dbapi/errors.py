"""PEP 249's exceptions, and which of them an error of the engine becomes.

Warning
Error(code, line, column, hint, detail)
  InterfaceError          a closed connection or cursor, a wrong URL
  DatabaseError
    DataError             a value that a type cannot hold; data that cannot be read
    OperationalError      the server, a disk, the network or the cluster failed; a job was cancelled
    IntegrityError        a NULL for a NOT NULL column
    InternalError         a fault of sqlstream itself
    ProgrammingError      the statement or an option is wrong
    NotSupportedError     what streams and this service do not have
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlstream.client.dbapi.places import PlacedText
from sqlstream.errors import ExternalError, SqlStreamError, line_and_column, render_error


class Warning(Exception):
    """PEP 249's; nothing raises it: warnings on lost rows are in `Cursor.messages`."""


class Error(Exception):
    """Base of all. `str(error)` has everything, the statement underlined; the attributes have the parts.

    `code` is sqlstream's (`SS2003`), or empty. `line` and `column` count from 1 in the statement as it was sent, or are None.
    """

    def __init__(
        self,
        message: str,
        *,
        rendered: str = "",
        code: str = "",
        line: int | None = None,
        column: int | None = None,
        hint: str = "",
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.rendered = rendered or (f"{message}\nhint: {hint}" if hint else message)
        self.code = code
        self.line = line
        self.column = column
        self.hint = hint
        self.detail = detail

    def __str__(self) -> str:
        return self.rendered


class InterfaceError(Error):
    """The connection or cursor was used in a wrong way."""


class DatabaseError(Error):
    """The statement or its job failed."""


class DataError(DatabaseError):
    """A value is out of range or cannot be read."""


class OperationalError(DatabaseError):
    """Something beyond the statement failed."""


class IntegrityError(DatabaseError):
    """A constraint of a table was violated."""


class InternalError(DatabaseError):
    """A fault of sqlstream."""


class ProgrammingError(DatabaseError):
    """The statement or its parameters are wrong."""


class NotSupportedError(DatabaseError):
    """The method or statement is not supported."""


_BY_CODE: dict[str, type[Error]] = {
    **dict.fromkeys(("SS3001", "SS3018", "SS3090", "SS3091", "SS3301"), NotSupportedError),
    **dict.fromkeys(("SS3401", "SS3470", "SS3473", "SS3474"), NotSupportedError),
    **dict.fromkeys(("SS4040", "SS4041", "SS4042"), InterfaceError),
    **dict.fromkeys(("SS4043", "SS5001", "SS5002"), OperationalError),
    "SS5016": IntegrityError,
}
_BY_FAMILY: dict[str, type[Error]] = {
    "SS1": ProgrammingError,
    "SS2": ProgrammingError,
    "SS3": ProgrammingError,
    "SS4": ProgrammingError,
    "SS5": DataError,
    "SS6": OperationalError,
    "SS9": InternalError,
}


def translated(error: SqlStreamError, statement: str = "") -> Error:
    """The exception to raise; its text underlines the place in `statement`, and the place in Python that this was made of."""
    kind = _BY_CODE.get(error.code)
    if kind is None:
        is_outside = isinstance(error, ExternalError)
        kind = OperationalError if is_outside else _BY_FAMILY.get(error.code[:3], DatabaseError)
    span = getattr(error, "span", None)
    line, column = line_and_column(statement, span.start) if span is not None and statement else (None, None)
    rendered = render_error(error, statement or None)
    if span is not None and isinstance(statement, PlacedText) and (place := statement.place_of(span)):
        rendered = "\n".join([rendered, *place.lines()])
    return kind(
        error.message,
        rendered=rendered,
        code=error.code,
        line=line,
        column=column,
        hint=error.hint,
        detail=error.detail,
    )


@contextlib.contextmanager
def translating(statement: str = "") -> Iterator[None]:
    """Raise the engine's errors as those of PEP 249."""
    try:
        yield
    except SqlStreamError as error:
        raise translated(error, statement) from error
