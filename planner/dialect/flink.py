"""Flink SQL as a dialect of sqlglot."""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect

from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.tokens import FlinkTokenizer


class Flink(Dialect):
    """Flink's SQL: names keep their case, NULL is the lowest value, and other dialects' syntax is refused."""

    NULL_ORDERING = "nulls_are_small"
    INTERSECT_BINDS_TIGHTER_THAN_UNION_AND_EXCEPT = True
    DPIPE_IS_STRING_CONCAT = False

    Tokenizer = FlinkTokenizer
    Parser = QueryParser


class SqlStream(Flink):
    """Flink's dialect under the name that sqlglot registers: `parse_one(query, read="sqlstream")`."""
