"""An error of the engine → the exception of PEP 249 that it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlstream.client.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from sqlstream.errors import ExternalError, SqlStreamError, line_and_column, render_error

_BY_CODE: dict[str, type[Error]] = {
    **dict.fromkeys(("SS3001", "SS3018", "SS3090", "SS3091", "SS3301"), NotSupportedError),
    **dict.fromkeys(("SS3401", "SS3470", "SS3473", "SS3474"), NotSupportedError),
    **dict.fromkeys(("SS4040", "SS4041"), InterfaceError),
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
    """The exception to raise; its text underlines the place in `statement`."""
    kind = _BY_CODE.get(error.code)
    if kind is None:
        is_outside = isinstance(error, ExternalError)
        kind = OperationalError if is_outside else _BY_FAMILY.get(error.code[:3], DatabaseError)
    span = getattr(error, "span", None)
    line, column = line_and_column(statement, span.start) if span is not None and statement else (None, None)
    return kind(
        error.message,
        rendered=render_error(error, statement or None),
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
