"""Queries in Python (docs/python-api.md). Users import these names from the package `sqlstream`."""

from __future__ import annotations

from sqlstream.client.dbapi.tables import functions as sql_functions
from sqlstream.client.dbapi.tables.expressions import (
    Column,
    Expression,
    aggregate,
    call,
    col,
    exists,
    expr,
    lit,
    scalar,
    when,
)
from sqlstream.client.dbapi.tables.table import Table
from sqlstream.client.dbapi.tables.windows import cumulate, hop, session, tumble

__all__ = [
    "Column",
    "Expression",
    "Table",
    "aggregate",
    "call",
    "col",
    "cumulate",
    "exists",
    "expr",
    "hop",
    "lit",
    "scalar",
    "session",
    "sql_functions",
    "tumble",
    "when",
]
