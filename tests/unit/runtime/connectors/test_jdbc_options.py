"""The options and URLs of connector `jdbc`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jdbc_harness import FILES, read, source

from sqlstream import types as sql
from sqlstream.errors import ExternalError, Retry, UserError
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.jdbc.database import DatabaseKind, ReadUrl, parse_url
from sqlstream.runtime.connectors.jdbc.driver import external_error
from sqlstream.runtime.connectors.jdbc.options import Partitions, read_options
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Schema

TESTS = Path(__file__).parents[3]
SCHEMA = Schema.of(("k", sql.BIGINT), ("name", sql.STRING))
POSTGRES = "jdbc:postgresql://host:5433/shop"
SQLITE = "jdbc:sqlite:/tmp/shop.sqlite"


@pytest.mark.parametrize(
    ("url", "address", "schema"),
    [
        (POSTGRES, "host='host' port='5433' dbname='shop'", ""),
        ("jdbc:postgresql:shop", "host='localhost' port='5432' dbname='shop'", ""),
        ("jdbc:postgresql:///shop", "host='localhost' port='5432' dbname='shop'", ""),
        ("jdbc:postgresql://[::1]/a%20b", "host='::1' port='5432' dbname='a b'", ""),
        (f"{POSTGRES}?ssl=true", "host='host' port='5433' dbname='shop' sslmode='verify-full'", ""),
        (f"{POSTGRES}?currentSchema=s&sslmode=require", "host='host' port='5433' dbname='shop' sslmode='require'", "s"),
        (f"{POSTGRES}?connectTimeout=3&tcpKeepAlive=true&ApplicationName=it's",
         "host='host' port='5433' dbname='shop' connect_timeout='3' keepalives='1' application_name='it\\'s'", ""),
        (f"{POSTGRES}?reWriteBatchedInserts=true&stringtype=unspecified", "host='host' port='5433' dbname='shop'", ""),
    ],
)  # fmt: skip
def test_a_url_of_postgres_becomes_keywords_of_its_client(url: str, address: str, schema: str) -> None:
    assert parse_url(url) == ReadUrl(DatabaseKind.POSTGRES, address, schema)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://host/shop", "begins with 'jdbc:'"),
        ("jdbc:oracle:thin:@host", 'knows no database "oracle"'),
        ("jdbc:mysql://host/shop", "reads no mysql databases"),
        ("jdbc:duckdb:/tmp/a.duckdb", "reads no duckdb databases"),
        ("jdbc:sqlite::memory:", "names no file"),
        ("jdbc:sqlite:", "names no file"),
        ("jdbc:sqlite:file:/tmp/a?mode=rw", "names no file"),
        ("jdbc:sqlite:/tmp/a.sqlite?journal_mode=WAL", "has properties"),
        ("jdbc:sqlite:s3://bucket/a.sqlite", 'file system "s3"'),
        ("jdbc:postgresql://user:pass@host/shop", "contains a password"),
        (f"{POSTGRES}?password=secret", "contains a password"),
        (f"{POSTGRES}?sslpassword=secret", "contains a password"),
        (f"{POSTGRES}?sslkey=/root/key", 'property "sslkey"'),
        (f"{POSTGRES}?sslmode=require&socketFactory=x", 'property "socketFactory"'),
        (f"{POSTGRES}?reWriteBatchedInserts=false", 'property "reWriteBatchedInserts=false"'),
        (f"{POSTGRES}?connectTimeout=soon", "takes whole seconds"),
        (f"{POSTGRES}?currentSchema=a,b", "takes one schema"),
        ("jdbc:postgresql://a,b/shop", "names several servers"),
        ("jdbc:postgresql://host:x/shop", "no host and port"),
    ],
)
def test_a_url_that_is_not_obeyed_is_refused_without_its_secrets(url: str, words: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_url(url)
    assert words in raised.value.message
    assert raised.value.hint
    assert "secret" not in raised.value.message + raised.value.hint


def test_a_value_of_a_url_cannot_bring_another_keyword() -> None:
    read = parse_url("jdbc:postgresql://host/shop'%20passfile='/root/.pgpass")
    assert read.address == "host='host' port='5432' dbname='shop\\' passfile=\\'/root/.pgpass'"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": POSTGRES, "driver": "oracle.jdbc.OracleDriver"}, "no driver of PostgreSQL"),
        ({"url": SQLITE, "driver": "org.postgresql.Driver"}, "no driver of SQLite"),
        ({"url": POSTGRES, "username": "u"}, 'needs the option "password"'),
        ({"url": POSTGRES, "password": "p"}, 'needs the option "username"'),
        ({"url": SQLITE, "username": "u", "password": "p"}, "no use for SQLite"),
        ({"url": SQLITE, "connection.max-retry-timeout": "1500ms"}, "whole seconds"),
        ({"url": SQLITE, "scan.partition.column": "k"}, 'needs the option "scan.partition.num"'),
        (
            {"url": SQLITE, "scan.partition.column": "k", "scan.partition.num": "2", "scan.partition.lower-bound": "5",
             "scan.partition.upper-bound": "4"},
            "is 5, which is above",
        ),
        (
            {"url": SQLITE, "scan.partition.column": "k", "scan.partition.num": "10001", "scan.partition.lower-bound": "1",
             "scan.partition.upper-bound": "40000"},
            "at most 10000, not 10001",
        ),
        ({"url": SQLITE, "lookup.partial-cache.max-rows": "5"}, "has no use with 'lookup.cache' = 'NONE'"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(UserError) as raised:
        connector("jdbc").validate("dim", SCHEMA, {"table-name": "dim", **options})
    assert words in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("url", "declared"),
    [
        (POSTGRES, sql.timestamp(9)),
        (POSTGRES, sql.array(sql.array(sql.INT))),
        (SQLITE, sql.array(sql.INT)),
        (SQLITE, sql.map_of(sql.INT, sql.INT)),
    ],
)
def test_types_that_the_database_lacks_are_refused(url: str, declared: sql.LogicalType) -> None:
    with pytest.raises(UserError, match='connector "jdbc" carries no'):
        connector("jdbc").validate("dim", Schema.of(("a", declared)), {"url": url, "table-name": "dim"})


def test_the_defaults_are_those_of_flink() -> None:
    read = read_options({"url": f"{POSTGRES}?currentSchema=s", "table-name": "t"})
    assert (read.table.schema, read.table.table) == ("s", "t")
    assert (read.flush_rows_max, read.flush_interval_ms, read.sink_retries_max) == (100, 1000, 3)
    assert (read.fetch_rows, read.is_auto_commit, read.database.connect_timeout_s) == (0, True, 60)


@pytest.mark.parametrize(
    "partitions", [Partitions("k", 1, 0, 0), Partitions("k", 7, -3, 96), Partitions("k", 9, 5, 8)]
)
def test_ranges_hold_every_number_once(partitions: Partitions) -> None:
    found = [
        n
        for first, end, is_included in partitions.ranges()
        for n in range(first, end + (1 if is_included else 0))
    ]
    assert found == list(range(partitions.lower, partitions.upper + 1))


def test_a_server_connects_to_database_servers_where_it_is_told_to() -> None:
    spec = source({"url": POSTGRES, "table-name": "t"}, SCHEMA)
    with pytest.raises(UserError, match="connects to no database servers"):
        read(spec, files=RootedFiles(FilePlaces()))


def test_a_missing_driver_is_named_with_what_to_install() -> None:
    """In a process whose search path lacks the driver."""
    code = (
        "import sys; sys.modules['adbc_driver_sqlite'] = None\n"
        "from jdbc_harness import read, source, FILES\n"
        "from sqlstream.errors import UserError\n"
        "from sqlstream.schema import Schema\n"
        "from sqlstream import types as sql\n"
        "options = {'url': f'jdbc:sqlite:{sys.executable}', 'table-name': 't'}\n"
        "try: read(source(options, Schema.of(('k', sql.INT))))\n"
        "except UserError as error: print(error.code, error.message, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=TESTS, check=False
    )
    assert done.stdout == (
        "SS5063 the driver of SQLite is not installed install it: pip install 'sqlstream[jdbc]'\n"
    ), done.stderr


DATABASE = read_options(
    {"url": POSTGRES, "table-name": "t", "username": "shop", "password": "it's secret"}
).database


@pytest.mark.parametrize(
    ("words", "state", "code", "retry"),
    [
        ('IO: [libpq] Failed to connect: server at "h", port 1 failed: Connection refused\n\tIs', "", "SS5060", Retry.BACKOFF),
        ('server at "h" failed: FATAL:  password authentication failed for user "shop"\n', "", "SS5060", Retry.NEVER),
        ('connection to server at "h" failed: FATAL:  database "nix" does not exist\n', "", "SS5060", Retry.NEVER),
        ("ERROR:  permission denied for table t", "42501", "SS5067", Retry.NEVER),
        ("FATAL:  terminating connection due to administrator command", "57P01", "SS5060", Retry.BACKOFF),
        ("server closed the connection unexpectedly", "", "SS5060", Retry.BACKOFF),
        ("ERROR:  deadlock detected", "40P01", "SS5060", Retry.BACKOFF),
    ],
)  # fmt: skip
def test_what_may_pass_is_tried_again_and_nothing_else(
    words: str, state: str, code: str, retry: Retry
) -> None:
    error = external_error(DATABASE, words, state)
    assert isinstance(error, ExternalError)
    assert (error.code, error.retry) == (code, retry)
    assert error.hint


def test_the_password_is_in_no_error() -> None:
    error = external_error(DATABASE, "no such option it's secret near 'it\\'s secret'")
    assert error.detail == "no such option ****** near '******'"


def test_a_path_of_sqlite_becomes_absolute_and_an_address_stays() -> None:
    made = connector("jdbc")
    assert (
        made.with_absolute_paths({"url": "jdbc:sqlite:a.db", "table-name": "t"}, "/x")["url"]
        == "jdbc:sqlite:/x/a.db"
    )  # type: ignore[attr-defined]
    assert made.paths({"url": POSTGRES, "table-name": "t"}) == ()  # type: ignore[attr-defined]
    assert made.input_bytes(source({"url": SQLITE + ".absent", "table-name": "t"}, SCHEMA), FILES) == 0  # type: ignore[attr-defined]
