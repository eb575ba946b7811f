"""sqlstream: a SQL-first streaming query service. `import sqlstream` is also its Python database module (PEP 249)."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_DBAPI_NAMES = (
    *("apilevel", "threadsafety", "paramstyle", "connect", "connect_async"),
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

_FUNCTION_NAMES = ("AggregateFunction", "udaf", "udf", "udtf")

_PROCESS_NAMES = (
    *("ProcessTableFunction", "TableArgument", "ScalarArgument", "ValueState", "ListState", "MapState"),
    *(
        "ROW_SEMANTIC_TABLE",
        "SET_SEMANTIC_TABLE",
        "OPTIONAL_PARTITION_BY",
        "PASS_COLUMNS_THROUGH",
        "REQUIRE_ON_TIME",
        "SUPPORT_UPDATES",
        "Change",
        "Deletion",
        "SideOutput",
    ),
)

_CHANGELOG_NAMES = ("ChangelogMode", "RowKind")

_MODEL_NAMES = ("PredictFunction",)

_TABLE_NAMES = (
    *("Column", "Expression", "Table", "aggregate", "call", "col", "exists", "expr", "lit", "scalar", "when"),
    *("cumulate", "hop", "session", "sql_functions", "tumble"),
)

_NAMES = (*_DBAPI_NAMES, *_CHANGELOG_NAMES, *_FUNCTION_NAMES, *_MODEL_NAMES, *_PROCESS_NAMES, *_TABLE_NAMES)

__all__ = ["__version__", *_NAMES]


def __getattr__(name: str) -> Any:
    """The names of the database module, of queries in Python and of those for writing functions, loaded when one is used: this
    package imports none of the others, and every process of a cluster imports this package."""
    if name in _FUNCTION_NAMES:
        module = "sqlstream.python_functions"
    elif name in _CHANGELOG_NAMES:
        module = "sqlstream.changelog"
    elif name in _MODEL_NAMES:
        module = "sqlstream.models"
    elif name in _PROCESS_NAMES:
        module = "sqlstream.process_functions"
    elif name in _TABLE_NAMES:
        module = "sqlstream.client.dbapi.tables"
    elif name in _DBAPI_NAMES:
        module = "sqlstream.client.dbapi"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(__import__(module, fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
