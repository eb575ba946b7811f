"""What SQLAlchemy reads of a catalog: its databases, tables, views and columns, with SHOW and DESCRIBE."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import exc
from sqlalchemy.engine import Connection, CursorResult, default, reflection
from sqlalchemy.engine.interfaces import (
    ReflectedCheckConstraint,
    ReflectedColumn,
    ReflectedForeignKeyConstraint,
    ReflectedIndex,
    ReflectedPrimaryKeyConstraint,
    ReflectedTableComment,
    ReflectedUniqueConstraint,
)

from sqlstream.client.dbapi.errors import Error
from sqlstream.client.sqlalchemy_dialect.column_types import column_type
from sqlstream.planner.dialect.parser import parse_statement, parse_type
from sqlstream.planner.dialect.statements import CreateTable, CreateView
from sqlstream.secrets import MASK

TABLE_OPTIONS = "with"
"""`Table(…, sqlstream_with={"connector": …})`: the options of CREATE TABLE … WITH."""

_UNKNOWN_OBJECT = ("SS2001", "SS2014")
_ANOTHER_KIND = "SS2002"
"""A view that is asked for as a table, or the other way round."""


class Reflects(default.DefaultDialect):
    """The part of the dialect that reads the catalog with SHOW and DESCRIBE. A schema is a database, or `catalog.database`."""

    def _names(self, connection: Connection, statement: str) -> list[str]:
        return [row[0] for row in connection.exec_driver_sql(statement)]

    def _from(self, schema: str | None) -> str:
        return f" FROM {self._path(schema)}" if schema else ""

    def _path(self, *parts: str | None) -> str:
        names = [name for part in parts if part for name in part.split(".")]
        return ".".join(self.identifier_preparer.quote_identifier(name) for name in names)

    @reflection.cache
    def _describe(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        result = self._of_object(connection, "DESCRIBE", table_name, schema)
        return [dict(row._mapping) for row in result]

    @reflection.cache
    def _definition(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> CreateTable | CreateView:
        """The statement that created a table or view, secrets masked."""
        try:
            (row,) = self._of_object(connection, "SHOW CREATE TABLE", table_name, schema)
        except exc.DBAPIError as error:
            if not isinstance(error.orig, Error) or error.orig.code != _ANOTHER_KIND:
                raise
            (row,) = self._of_object(connection, "SHOW CREATE VIEW", table_name, schema)
        return cast("CreateTable | CreateView", parse_statement(row[0]))

    def _of_object(
        self, connection: Connection, statement: str, table_name: str, schema: str | None
    ) -> CursorResult[Any]:
        """The answer of a statement about one table or view; NoSuchTableError when there is none."""
        quoted = self.identifier_preparer.quote_identifier(table_name)
        path = self._path(schema) + ("." if schema else "") + quoted
        try:
            return connection.exec_driver_sql(f"{statement} {path}")
        except exc.DBAPIError as error:
            code = error.orig.code if isinstance(error.orig, Error) else ""
            is_unknown = code in _UNKNOWN_OBJECT or (
                code == _ANOTHER_KIND and statement != "SHOW CREATE TABLE"
            )
            if is_unknown:
                raise exc.NoSuchTableError(f"{schema}.{table_name}" if schema else table_name) from error
            raise

    def _get_default_schema_name(self, connection: Connection) -> str:
        return self._names(connection, "SHOW CURRENT DATABASE")[0]

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return self._names(connection, "SHOW DATABASES")

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        views = set(self._names(connection, f"SHOW VIEWS{self._from(schema)}"))
        return [
            name for name in self._names(connection, f"SHOW TABLES{self._from(schema)}") if name not in views
        ]

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._names(connection, f"SHOW VIEWS{self._from(schema)}")

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        try:
            self._describe(connection, table_name, schema, **kw)
        except exc.NoSuchTableError:
            return False
        return True

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        columns = []
        for row in self._describe(connection, table_name, schema, **kw):
            type_ = parse_type(row["type"].partition(" *")[0])
            column = {
                "name": row["name"],
                "type": column_type(type_),
                "nullable": row["null"],
                "default": None,
                "autoincrement": False,
                "comment": row.get("comment"),
            }
            if (row["extras"] or "").startswith("AS "):
                column["computed"] = {"sqltext": row["extras"].removeprefix("AS ")}
            columns.append(cast(ReflectedColumn, column))
        return columns

    @reflection.cache
    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedPrimaryKeyConstraint:
        keys = [r["name"] for r in self._describe(connection, table_name, schema, **kw) if r["key"]]
        found = self._definition(connection, table_name, schema, **kw) if keys else None
        name = found.key_name if isinstance(found, CreateTable) and found.key_name else None
        return {"constrained_columns": keys, "name": name}

    @reflection.cache
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        (row,) = self._of_object(connection, "SHOW CREATE VIEW", view_name, schema)
        return str(row[0])

    @reflection.cache
    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedTableComment:
        return {"text": self._definition(connection, table_name, schema, **kw).comment or None}

    @reflection.cache
    def get_table_options(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """The WITH clause, as `Table` takes it. Secrets are not told, and left out."""
        found = self._definition(connection, table_name, schema, **kw)
        written = found.options if isinstance(found, CreateTable) else ()
        told = {option.key: option.value for option in written if MASK not in option.value}
        return {f"sqlstream_{TABLE_OPTIONS}": told} if told else {}

    @reflection.cache
    def get_temp_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._temporary(connection, self.get_table_names(connection, schema, **kw), schema, **kw)

    @reflection.cache
    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._temporary(connection, self.get_view_names(connection, schema, **kw), schema, **kw)

    def _temporary(
        self, connection: Connection, names: list[str], schema: str | None, **kw: Any
    ) -> list[str]:
        return [name for name in names if self._definition(connection, name, schema, **kw).is_temporary]

    # There are none of these; a table that is not there is still an error.

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedForeignKeyConstraint]:
        self._describe(connection, table_name, schema, **kw)
        return []

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedIndex]:
        self._describe(connection, table_name, schema, **kw)
        return []

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedUniqueConstraint]:
        self._describe(connection, table_name, schema, **kw)
        return []

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedCheckConstraint]:
        self._describe(connection, table_name, schema, **kw)
        return []

    def get_materialized_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return []

    def get_sequence_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    def has_sequence(
        self, connection: Connection, sequence_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        return False
