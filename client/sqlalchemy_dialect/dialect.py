"""The dialect itself: how SQLAlchemy connects and what it may expect; its expressions and CREATE statements as Flink's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import exc, pool, schema
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import ConnectArgsType, DBAPIConnection, IsolationLevel
from sqlalchemy.sql import compiler, elements, selectable

from sqlstream.client.connection.address import DEFAULT_PORT
from sqlstream.client.dbapi.errors import Error
from sqlstream.client.dbapi.literals import sql_literal
from sqlstream.client.sqlalchemy_dialect.column_types import SqlStreamTypeCompiler
from sqlstream.client.sqlalchemy_dialect.reflection import TABLE_OPTIONS, Reflects
from sqlstream.planner.dialect.tokens import RESERVED


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
    """`sqlstream://[:token@]host[:port][/database][?parameters]`; the parameters are those of `sqlstream.connect`, and `host` for
    each other server that may lead in the place of the first."""

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
        parameters = {name: str(value) for name, value in url.query.items() if name != "host"}
        query = f"?{urlencode(parameters)}" if parameters else ""
        others = url.query.get("host", ())
        hosts = [others] if isinstance(others, str) else list(others)
        if url.host or not hosts:
            host = url.host or "localhost"
            host = f"[{host}]" if ":" in host else host
            hosts.insert(0, f"{host}:{url.port or DEFAULT_PORT}")
        options = {"token": url.password} if url.password else {}
        return [f"{self.scheme}://{','.join(hosts)}{query}"], options

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
