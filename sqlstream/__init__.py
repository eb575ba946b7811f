"""sqlstream: a SQL-first streaming query service. `import sqlstream` is also its Python database module (PEP 249)."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_DBAPI_NAMES = (
    *("apilevel", "threadsafety", "paramstyle", "connect", "connect_async", "RowKind"),
    *("Connection", "Cursor", "AsyncConnection", "AsyncCursor"),
    *(
        "Warning",
        "Error",
        "InterfaceError",
        "DatabaseError",
        "DataError",
        "OperationalError",
        "IntegrityError",
    ),
    *("InternalError", "ProgrammingError", "NotSupportedError"),
    *("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"),
    *("Binary", "Date", "Time", "Timestamp", "DateFromTicks", "TimeFromTicks", "TimestampFromTicks"),
)

__all__ = ["__version__", *_DBAPI_NAMES]


def __getattr__(name: str) -> Any:
    """The names of the database module, loaded when one is used: this package imports none of the others, and every process
    of a cluster imports this package."""
    if name not in _DBAPI_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(__import__("client.dbapi", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_DBAPI_NAMES})
