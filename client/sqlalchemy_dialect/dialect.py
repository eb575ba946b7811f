"""The dialect itself: how SQLAlchemy connects, and what it may expect."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast
from urllib.parse import urlencode

from sqlalchemy import exc, pool, schema
from sqlalchemy.engine import URL, Connection, CursorResult, default, reflection
from sqlalchemy.engine.interfaces import (
    ConnectArgsType,
    DBAPIConnection,
    IsolationLevel,
    ReflectedCheckConstraint,
    ReflectedColumn,
    ReflectedForeignKeyConstraint,
    ReflectedIndex,
    ReflectedPrimaryKeyConstraint,
    ReflectedTableComment,
    ReflectedUniqueConstraint,
)
from sqlalchemy.sql import compiler, elements, selectable

from sqlstream.client.connection.address import DEFAULT_PORT
from sqlstream.client.dbapi.errors import Error
from sqlstream.client.dbapi.literals import sql_literal
from sqlstream.client.sqlalchemy_dialect.column_types import SqlStreamTypeCompiler, column_type
from sqlstream.planner.dialect.parser import parse_statement, parse_type
from sqlstream.planner.dialect.statements import CreateTable, CreateView
from sqlstream.planner.dialect.tokens import RESERVED
from sqlstream.secrets import MASK

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


# SQLAlchemy's expressions and CREATE statements as Flink's SQL.


TABLE_OPTIONS = "with"
"""`Table(…, sqlstream_with={"connector": …})`: the options of CREATE TABLE … WITH."""


class SqlStreamIdentifierPreparer(compiler.IdentifierPreparer):
    """Names in backticks, where they need any. Names are case-sensitive."""

    reserved_words = {word.lower() for word in RESERVED}

    def __init__(self, dialect: Any, **options: Any) -> None:
        super().__init__(dialect, **{"initial_quote": "`", "escape_quote": "`", **options})
        # There are no Python formats in the text, so a percent sign is not doubled.
        self._double_percents = False


class SqlStreamCompiler(compiler.SQLCompiler):
    """SELECT and INSERT."""

    def limit_clause(self, select: selectable.GenerativeSelect, **kw: Any) -> str:
        text = ""
        if select._limit_clause is not None:
            text += f"\n LIMIT {self.process(select._limit_clause, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def visit_mod_binary(self, binary: elements.BinaryExpression[Any], operator: Any, **kw: Any) -> str:
        return f"MOD({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_is_distinct_from_binary(
        self, binary: elements.BinaryExpression[Any], operator: Any, **kw: Any
    ) -> str:
        return f"{self.process(binary.left, **kw)} IS DISTINCT FROM {self.process(binary.right, **kw)}"

    def visit_is_not_distinct_from_binary(
        self, binary: elements.BinaryExpression[Any], operator: Any, **kw: Any
    ) -> str:
        return f"{self.process(binary.left, **kw)} IS NOT DISTINCT FROM {self.process(binary.right, **kw)}"

    def visit_now_func(self, function: Any, **kw: Any) -> str:
        return "CURRENT_TIMESTAMP"

    def for_update_clause(self, select: selectable.GenerativeSelect, **kw: Any) -> str:
        raise exc.CompileError("there are no locks: leave out with_for_update()")

    def returning_clause(self, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError("INSERT returns no rows: leave out returning()")

    def visit_update(self, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError(
            "the dialect compiles no UPDATE: run it as text, connection.exec_driver_sql('UPDATE …')"
        )

    def visit_delete(self, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError(
            "the dialect compiles no DELETE: run it as text, connection.exec_driver_sql('DELETE …')"
        )


class SqlStreamDdlCompiler(compiler.DDLCompiler):
    """CREATE TABLE with its options."""

    def post_create_table(self, table: schema.Table) -> str:
        options: Mapping[str, str] = table.dialect_options["sqlstream"][TABLE_OPTIONS] or {}
        if not options:
            raise exc.CompileError(
                f'table "{table.name}" names no connector: write Table(…, sqlstream_with={{"connector": "filesystem", …}})'
            )
        pairs = ",\n  ".join(f"{sql_literal(str(k))} = {sql_literal(str(v))}" for k, v in options.items())
        return f" WITH (\n  {pairs}\n)"

    def visit_primary_key_constraint(self, constraint: schema.PrimaryKeyConstraint, **kw: Any) -> str:
        text = super().visit_primary_key_constraint(constraint, **kw)
        return f"{text} NOT ENFORCED" if text else text

    def visit_foreign_key_constraint(self, constraint: schema.ForeignKeyConstraint, **kw: Any) -> str:
        raise exc.CompileError("there are no foreign keys")

    def visit_unique_constraint(self, constraint: schema.UniqueConstraint, **kw: Any) -> str:
        raise exc.CompileError("there are no UNIQUE constraints: declare a primary key")

    def visit_check_constraint(self, constraint: schema.CheckConstraint, **kw: Any) -> str:
        raise exc.CompileError("there are no CHECK constraints")

    def visit_create_index(self, create: Any, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError("there are no indexes")

    def get_column_specification(self, column: schema.Column[Any], **kw: Any) -> str:
        name = self.preparer.format_column(column)
        text = f"{name} {self.dialect.type_compiler_instance.process(column.type, type_expression=column)}"
        if column.server_default is not None:
            raise exc.CompileError(f'column "{column.name}" has a server_default, which tables do not have')
        if not column.nullable:
            text += " NOT NULL"
        if column.comment:
            text += f" COMMENT {sql_literal(column.comment)}"
        return text


_GONE = ("SS4042", "SS5040", "SS5041", "SS5043", "SS6020")
"""Codes of errors after which a connection is of no more use."""


class SqlStreamDialect(Reflects):
    """`sqlstream://[:token@]host[:port][/database][?parameters]`; the parameters are those of `sqlstream.connect`."""

    name = "sqlstream"
    driver = "http"
    scheme = "http"
    default_paramstyle = "qmark"
    statement_compiler = SqlStreamCompiler
    ddl_compiler = SqlStreamDdlCompiler
    type_compiler_cls = SqlStreamTypeCompiler
    preparer = SqlStreamIdentifierPreparer  # type: ignore[assignment]
    construct_arguments = [(schema.Table, {TABLE_OPTIONS: None})]

    supports_statement_cache = True
    supports_alter = False
    supports_comments = True
    inline_comments = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_native_enum = False
    supports_default_values = False
    supports_default_metavalue = False
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = False
    supports_sequences = False
    supports_is_distinct_from = True
    supports_for_update_of = False
    supports_server_side_cursors = False
    use_insertmanyvalues = False
    insert_returning = False
    postfetch_lastrowid = False
    requires_name_normalize = False
    max_identifier_length = 255

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        import sqlstream.client.dbapi

        return sqlstream.client.dbapi

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        parameters = {name: str(value) for name, value in url.query.items()}
        query = f"?{urlencode(parameters)}" if parameters else ""
        host = url.host or "localhost"
        host = f"[{host}]" if ":" in host else host
        options = {"token": url.password} if url.password else {}
        return [f"{self.scheme}://{host}:{url.port or DEFAULT_PORT}{query}"], options

    def on_connect_url(self, url: URL) -> Any:
        """Begin in the URL's database: `/database` or `/catalog/database`."""
        if not url.database:
            return None
        path = ".".join(
            self.identifier_preparer.quote_identifier(part) for part in url.database.split("/") if part
        )

        def use(connection: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"USE {path}")

        return use

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Nothing: each statement has taken effect."""

    def do_ping(self, dbapi_connection: DBAPIConnection) -> bool:
        cursor = dbapi_connection.cursor()
        try:
            cursor.execute("SELECT 1")
            cursor.fetchall()
        finally:
            cursor.close()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, Error) and e.code in _GONE

    def get_isolation_level_values(self, dbapi_conn: DBAPIConnection) -> list[IsolationLevel]:
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: DBAPIConnection) -> IsolationLevel:
        return "AUTOCOMMIT"

    def get_default_isolation_level(self, dbapi_conn: DBAPIConnection) -> IsolationLevel:
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: DBAPIConnection, level: IsolationLevel) -> None:
        """Nothing: AUTOCOMMIT is the only level, and the only one that SQLAlchemy lets through."""


class SqlStreamHttpsDialect(SqlStreamDialect):
    """`sqlstream+https://…`."""

    driver = "https"
    scheme = "https"
    supports_statement_cache = True


class SqlStreamEmbeddedDialect(SqlStreamDialect):
    """`sqlstream+embedded://`: a cluster in this process, with one session that all connections of the engine share."""

    driver = "embedded"
    supports_statement_cache = True

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        return pool.StaticPool

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        if url.host or url.port:
            raise exc.ArgumentError("an embedded cluster has no host: write sqlstream+embedded://")
        parameters = {name: str(value) for name, value in url.query.items()}
        return [f"embedded://?{urlencode(parameters)}" if parameters else "embedded://"], {}
