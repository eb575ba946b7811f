"""DuckDB as a sniffer: it reads one sample of text, and nothing else."""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlstream import types as sql
from sqlstream.runtime.host.files import file_error
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CONFIG: dict[str, Any] = {
    "threads": 1,
    "memory_limit": "512MB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""Nothing is loaded over the network, whatever a sample holds."""

DATE_FORMAT = "%Y-%m-%d"
"""The one way of writing dates that the text formats read; DuckDB would take others."""

_connections: dict[int, DuckDBPyConnection] = {}
"""Those that are in use, by thread."""

_SCALARS = {
    "BOOLEAN": sql.BOOLEAN,
    "TINYINT": sql.TINYINT,
    "SMALLINT": sql.SMALLINT,
    "INTEGER": sql.INT,
    "BIGINT": sql.BIGINT,
    "UBIGINT": sql.decimal(20, 0),
    "HUGEINT": sql.decimal(38, 0),
    "UHUGEINT": sql.decimal(38, 0),
    "FLOAT": sql.FLOAT,
    "DOUBLE": sql.DOUBLE,
    "DATE": sql.DATE,
    "TIME": sql.time(3),
    "TIMESTAMP": sql.timestamp(6),
    "TIMESTAMP_NS": sql.timestamp(9),
    "TIMESTAMP WITH TIME ZONE": sql.timestamp_ltz(6),
}
"""DuckDB's types of text. What is not here (VARCHAR, JSON, UUID, "NULL") is read as STRING, as it is written."""


@contextlib.contextmanager
def sniffing(sample: bytes) -> Iterator[tuple[DuckDBPyConnection, str]]:
    """A connection, and the path of a file that holds the sample until the end. ExternalError SS5001 when it cannot be
    written."""
    import duckdb

    with tempfile.NamedTemporaryFile(prefix="sqlstream-sample-") as file:
        try:
            file.write(sample)
            file.flush()
        except OSError as error:
            raise file_error("write", file.name, error) from error
        with duckdb.connect(":memory:", config=_CONFIG) as connection:
            _connections[threading.get_ident()] = connection
            try:
                yield connection, file.name
            finally:
                del _connections[threading.get_ident()]


def interrupt_sniffing(thread_id: int) -> None:
    """End what DuckDB sniffs on a thread, if it does, with an error."""
    import duckdb

    connection = _connections.get(thread_id)
    if connection is not None:
        with contextlib.suppress(duckdb.Error):
            connection.interrupt()


def scalar_type(duckdb_type: str) -> LogicalType:
    """The SQL type of a column of text that DuckDB gives a scalar type."""
    return _SCALARS.get(duckdb_type, sql.STRING)


def nested_type(duckdb_type: Any) -> LogicalType:
    """The SQL type of a DuckDBPyType."""
    match duckdb_type.id:
        case "struct":
            return sql.row(*[(name, nested_type(t)) for name, t in duckdb_type.children])
        case "list" | "array":
            return sql.array(nested_type(duckdb_type.children[0][1]))
        case "map":
            return sql.map_of(sql.STRING, nested_type(duckdb_type.children[1][1]))
    return scalar_type(str(duckdb_type))


def first_line(error: Exception) -> str:
    """The reason in an error of DuckDB's, without the kind of the error and the name of the sample's file."""
    text = re.sub(r' (in|sniffing) file "[^"]*sqlstream-sample-[^"]*"', "", str(error).strip())
    text = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text).split("\n", 1)[0].rstrip(". ")
    return text[:1].lower() + text[1:]
