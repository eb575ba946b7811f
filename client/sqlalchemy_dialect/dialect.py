"""The dialect itself: how SQLAlchemy connects, and what it may expect."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import exc, pool, schema
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import ConnectArgsType, DBAPIConnection, IsolationLevel

from sqlstream.client.connection.address import DEFAULT_PORT
from sqlstream.client.dbapi.errors import Error
from sqlstream.client.sqlalchemy_dialect.column_types import SqlStreamTypeCompiler
from sqlstream.client.sqlalchemy_dialect.compiler import (
    TABLE_OPTIONS,
    SqlStreamCompiler,
    SqlStreamDdlCompiler,
    SqlStreamIdentifierPreparer,
)
from sqlstream.client.sqlalchemy_dialect.reflection import Reflects

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

    def connect(self, *args: Any, **options: Any) -> DBAPIConnection:
        return super().connect(*args, **options)

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
