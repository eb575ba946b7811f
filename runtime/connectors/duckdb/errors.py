"""DuckDB's errors in our words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlstream.errors import ExternalError, FailureReason, Retry, SqlStreamError, UserError
from sqlstream.runtime.connectors.duckdb.options import Place
from sqlstream.runtime.connectors.files.file_paths import is_pattern
from sqlstream.runtime.connectors.sql_tables import connection_value
from sqlstream.secrets import MASK

_REFUSED = ("authentication failed", "access denied", "no password supplied", "pg_hba.conf")
_GONE = ("connection", "connect", "server closed", "terminating", "timeout")
"""Words in a server's errors: it does not let this user in; it is not there at the moment."""


@contextlib.contextmanager
def translated(place: Place) -> Iterator[None]:
    """DuckDB's errors as ours. What another process causes can be tried again; wrong names and broken files cannot."""
    import duckdb

    try:
        yield
    except SqlStreamError:
        raise
    except duckdb.Error as error:
        # Not `from error`: the text of DuckDB's error may hold the password.
        raise external_error(place, error) from None


def external_error(place: Place, error: Exception) -> SqlStreamError:
    """The error of DuckDB about this place in our words."""
    reason = first_line(error)
    for secret in (place.password, connection_value(place.password)) if place.password else ():
        reason = reason.replace(secret, MASK)
    folded = reason.lower()
    where = f'"{place.path}"'
    if (
        "could not set lock" in folded
        or "unique file handle conflict" in folded
        or "being used by another" in folded
    ):
        return ExternalError(
            "SS5061",
            f"the database {where} is locked by another process that writes it",
            detail=reason,
            hint="close the database there: a file that is open for writing is open for nobody else",
        )
    if "database does not exist" in folded or "no files found" in folded:
        return no_file(place)
    if isinstance(error, _value_errors()):
        return UserError(
            "SS5065",
            f"a value of {where} cannot be read"
            if place.kind.is_files
            else f"a value of table {place.name} cannot be read",
            detail=reason,
            hint="declare its column with a type that fits",
        )
    if "not a valid duckdb database" in folded or "file is not a database" in folded:
        return ExternalError(
            "SS5060",
            f"{where} is no {place.kind.value} database",
            detail=reason,
            hint="check the option 'path'",
        )
    if any(word in folded for word in _REFUSED):
        return ExternalError(
            "SS5060",
            f"the database {where} refuses the login",
            reason=FailureReason.ACCESS_REFUSED,
            detail=reason,
            hint="check the options 'username' and 'password'",
        )
    is_gone = place.kind.is_server and any(word in folded for word in _GONE)
    return ExternalError(
        "SS5060",
        f"could not read table {place.name} of {where}"
        if not place.kind.is_files
        else f"could not read {where}",
        retry=Retry.BACKOFF if is_gone or isinstance(error, _io_error()) else Retry.NEVER,
        detail=reason,
        hint="check that the database is up" if place.kind.is_server else "",
    )


def no_file(place: Place) -> ExternalError:
    is_several = place.kind.is_files and is_pattern(place.path)
    return ExternalError(
        "SS5060",
        f'no file matches "{place.path}"' if is_several else f'there is no file "{place.path}"',
        retry=Retry.BACKOFF,
        hint="check the option 'path'; a relative one starts where sqlstream was started",
    )


def _value_errors() -> tuple[type[Exception], ...]:
    import duckdb

    return (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException)


def _io_error() -> type[Exception]:
    import duckdb

    return duckdb.IOException


def first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
