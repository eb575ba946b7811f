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
