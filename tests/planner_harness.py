"""A planner without a runtime: a few connectors as data, and scripts run against an in-memory catalog."""

from __future__ import annotations

import dataclasses

from sqlstream import types as sql
from sqlstream.catalog import SessionCatalog
from sqlstream.planner.bind.binder import bind_query
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.sink import bind_insert
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.planner.dialect.statements import Insert, Query, Statement
from sqlstream.planner.relational.node import explain_relation
from sqlstream.planner.relational.nodes import RelationalNode
from sqlstream.planner.statements.execute import execute_ddl
from sqlstream.planner.statements.result import DdlResult, ResetConfig, SetConfig
from sqlstream.schema import Schema
from sqlstream.spi.connector import (
    Boundedness,
    ConnectorDescriptor,
    OptionDescriptor,
    OptionType,
    Place,
    Reading,
    Writing,
)
from sqlstream.spi.format import FormatDescriptor

_STRING, _LONG = OptionType.STRING, OptionType.LONG

CONNECTORS = {
    d.identifier: d
    for d in (
        ConnectorDescriptor(
            "files",
            options=(
                OptionDescriptor("path", _STRING, "Where the files are.", is_required=True),
                OptionDescriptor("monitor-interval", OptionType.DURATION, "How often to look for new files."),
            ),
            reading=Reading(
                boundedness=Boundedness(True, unless_set="monitor-interval"),
                metadata={"file.path": sql.STRING.not_null(), "file.size": sql.BIGINT.not_null()},
            ),
            writing=Writing(),
            place=Place(has_format=True, partitions=True),
        ),
        ConnectorDescriptor(
            "datagen",
            options=(
                OptionDescriptor("number-of-rows", _LONG, "Rows to make.", minimum=1),
                OptionDescriptor("fields.#.kind", OptionType.ENUM, "How.", choices=("random", "sequence")),
            ),
            reading=Reading(boundedness=Boundedness(False, unless_set="number-of-rows")),
        ),
        ConnectorDescriptor("blackhole", options=(), writing=Writing()),
        ConnectorDescriptor(
            "auctions",
            options=(
                OptionDescriptor(
                    "table",
                    OptionType.ENUM,
                    "Which.",
                    default="bid",
                    choices=("bid", "person"),
                    is_required=True,
                ),
            ),
            reading=Reading(
                schema_option="table",
                schemas={
                    "bid": Schema.of(
                        ("auction", sql.BIGINT), ("price", sql.BIGINT), ("ts", sql.timestamp(3))
                    ),
                    "person": Schema.of(("id", sql.BIGINT)),
                },
            ),
        ),
    )
}
FORMATS = {
    "csv": FormatDescriptor(
        "csv", (OptionDescriptor("field-delimiter", _STRING, "One.", default=","),), ".csv"
    ),
    "json": FormatDescriptor(
        "json", (OptionDescriptor("ignore-parse-errors", OptionType.BOOLEAN, "Skip."),), ".json"
    ),
}

TABLES = """
CREATE TABLE t (a INT, b BIGINT NOT NULL, s STRING, d DECIMAL(10, 2)) WITH ('connector' = 'datagen');
CREATE TABLE u (a INT, c DOUBLE, ts TIMESTAMP(3)) WITH ('connector' = 'datagen');
CREATE TABLE e (
  id INT, r ROW<x INT NOT NULL, y ROW<z STRING>>, l ARRAY<INT>, m MAP<STRING, INT>, millis BIGINT,
  ts AS TO_TIMESTAMP_LTZ(millis, 3), p AS PROCTIME(), rt TIMESTAMP(3),
  WATERMARK FOR rt AS rt - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');
CREATE TABLE sink (a INT, b BIGINT NOT NULL, s STRING) WITH ('connector' = 'blackhole');
CREATE VIEW v AS SELECT a, b * 2 AS twice FROM t WHERE a > 0;
"""


class Planner:
    """Runs a script's DDL against its catalog; returns what queries bind to and what other statements
    answer."""

    def __init__(self) -> None:
        self.catalog = SessionCatalog()
        self.context = BindContext(self.catalog, CONNECTORS, FORMATS)

    def set(self, key: str, value: str) -> None:
        self.context = dataclasses.replace(self.context, config={**self.context.config, key: value})

    def run(self, script: str) -> list[RelationalNode | DdlResult]:
        return [self._one(statement) for statement in parse_script(script)]

    def _one(self, statement: Statement) -> RelationalNode | DdlResult:
        if isinstance(statement, Query):
            return bind_query(statement.query, self.context)
        if isinstance(statement, Insert):
            return bind_insert(statement, self.context)
        result = execute_ddl(statement, self.context)
        for change in result.changes:
            if not isinstance(change, SetConfig | ResetConfig):
                self.catalog.apply(change)
        self.context = dataclasses.replace(
            self.context,
            current_catalog=self.catalog.current_catalog,
            current_database=self.catalog.current_database,
        )
        return result

    def bind(self, text: str) -> RelationalNode:
        node = self.run(text)[-1]
        assert isinstance(node, RelationalNode)
        return node

    def ddl(self, text: str) -> DdlResult:
        result = self.run(text)[-1]
        assert isinstance(result, DdlResult)
        return result

    def plan(self, text: str) -> str:
        """The printed plan, with the names of tables shortened."""
        return explain_relation(self.bind(text)).replace("`default_catalog`.`default_database`.", "")

    def schema(self, text: str) -> str:
        return str(self.bind(text).schema)
