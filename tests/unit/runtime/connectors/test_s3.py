"""The options of tables in S3."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.files.rejected_rows import rejected_rows_directory
from sqlstream.runtime.host.file_systems import files_of
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.batch_relation import ThroughReader

SCHEMA = Schema.of(("v", sql.INT))
CONNECTOR = Filesystem()


def options(**others: str) -> dict[str, str]:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in others.items()}
    return {"path": "s3://bucket/t", "format": "csv", **named}


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"path": "s3://"}, "SS4002", "names no bucket"),
        ({"path": "s3://b*/t"}, "SS4002", "names no bucket"),
        ({"path": "xyz://bucket/t"}, "SS4002", 'names the file system "xyz"'),
        ({"path": "/t", "s3__endpoint": "http://a:1"}, "SS4003", '"s3.endpoint" of table "t" has no use'),
        ({"s3__access_key": "a"}, "SS4005", '"s3.secret-key" of table "t" is missing'),
        ({"s3__secret_key": "hidden"}, "SS4005", '"s3.access-key" of table "t" is missing'),
        ({"s3__endpoint": "ftp://a"}, "SS4002", "no address of a store"),
        ({"s3__endpoint": "http://a:1/path"}, "SS4002", "no address of a store"),
        ({"source__rejected_rows__path": "/r"}, "SS4003", "are not kept"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(given: dict[str, str], code: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as raised:
        CONNECTOR.validate("t", SCHEMA, options(**given))
    assert raised.value.code == code
    assert "hidden" not in str(raised.value)


def test_a_path_in_a_store_is_no_place_of_this_machine() -> None:
    CONNECTOR.validate("t", SCHEMA, options(path="s3a://bucket/*/t", s3__endpoint="localhost:9000"))
    assert CONNECTOR.paths(options()) == ()
    assert CONNECTOR.with_absolute_paths(options(), "/home") == options()
    source = SourceSpec("t", "filesystem", options(format="parquet"), SCHEMA, ("v",))
    assert rejected_rows_directory(source) is None
    assert CONNECTOR.batch_relation(source, "duckdb", LocalFiles(), lambda: None) == ThroughReader()
    assert CONNECTOR.staging_directory(SinkSpec("t", "filesystem", options(), SCHEMA), "job", "claim") is None


def test_a_server_without_database_servers_asks_no_store() -> None:
    with pytest.raises(UserError, match="connects to no database servers"):
        files_of(options(), RootedFiles(FilePlaces()))
    files = RootedFiles(FilePlaces(("/tmp",)))
    assert files_of(options(path="/tmp/t"), files) is files
