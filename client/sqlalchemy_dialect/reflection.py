"""What SHOW and DESCRIBE tell of tables and views, in SQLAlchemy's shapes."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import exc
from sqlalchemy.engine import Connection, default, reflection
from sqlalchemy.engine.interfaces import (
    ReflectedColumn,
    ReflectedForeignKeyConstraint,
    ReflectedIndex,
    ReflectedPrimaryKeyConstraint,
    ReflectedTableComment,
    ReflectedUniqueConstraint,
)

from client.dbapi.errors import Error
from client.sqlalchemy_dialect.column_types import column_type
from planner.dialect.parser import parse_type

_UNKNOWN_OBJECT = ("SS2001", "SS2002")
_KEY = "PRI("


class Reflects(default.DefaultDialect):
    """The part of the dialect that reads the catalog. A schema is a database, or `catalog.database`."""

    def _names(self, connection: Connection, statement: str) -> list[str]:
        return [row[0] for row in connection.exec_driver_sql(statement)]

    def _from(self, schema: str | None) -> str:
        return f" FROM {self._path(schema)}" if schema else ""

    def _path(self, *parts: str | None) -> str:
        names = [name for part in parts if part for name in part.split(".")]
        return ".".join(self.identifier_preparer.quote_identifier(name) for name in names)

    def _describe(self, connection: Connection, table: str, schema: str | None) -> list[dict[str, Any]]:
        path = self._path(schema) + ("." if schema else "") + self.identifier_preparer.quote_identifier(table)
        try:
            result = connection.exec_driver_sql(f"DESCRIBE {path}")
        except exc.DBAPIError as error:
            if isinstance(error.orig, Error) and error.orig.code in _UNKNOWN_OBJECT:
                raise exc.NoSuchTableError(f"{schema}.{table}" if schema else table) from error
            raise
        return [dict(row._mapping) for row in result]

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
            self._describe(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        columns = []
        for row in self._describe(connection, table_name, schema):
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
        keys = [r["name"] for r in self._describe(connection, table_name, schema) if r["key"]]
        return {"constrained_columns": keys, "name": None}

    @reflection.cache
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        self._describe(connection, view_name, schema)
        path = self._path(schema) + ("." if schema else "")
        quoted = self.identifier_preparer.quote_identifier(view_name)
        return self._names(connection, f"SHOW CREATE VIEW {path}{quoted}")[0]

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedForeignKeyConstraint]:
        return []

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedIndex]:
        return []

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedUniqueConstraint]:
        return []

    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedTableComment:
        return {"text": None}
