"""Whatever options a table of connector `duckdb` is given: it is refused with an error for its user, or it is read."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import batch

from sqlstream import types as sql
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import ExternalError, UserError
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.duckdb.options import OPTIONS
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, LooksUp, SourceStatus

SCHEMA = Schema.of(("k", sql.BIGINT), ("name", sql.STRING))
FILES = ["dim.duckdb", "dim.csv", "dim.jsonl", "dim.parquet", "none.csv", "*.csv", "dim.sqlite"]
PATHS = [*FILES, "dim", "", ".", "a\0b", "dbname=x", "x://y.csv"]
VALUES = {
    "STRING": ["", "dim", "main.dim", "a.b.c", "10:15", "25:00", ";", "\\t", "'", '"', "\n", "é"],
    "ENUM": ["FULL", "partial", "NONE", "csv", "DuckDB", "postgres", "TIMED", "PERIODIC", "FIXED_RATE", "x"],
    "INTEGER": ["1", "0", "-1", "9999999999999999999", "1.5", "", "x"],
    "LONG": ["1", "0", "9223372036854775808", "x"],
    "BOOLEAN": ["true", "FALSE", "yes", ""],
    "DURATION": ["1 s", "10min", "0 s", "-1 s", "1", "99999999999999 d", "soon"],
}
KEYS = {option.key: VALUES[option.type.name] for option in OPTIONS}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options")
    with duckdb.connect(str(path / "dim.duckdb")) as connection:
        connection.execute("CREATE TABLE dim AS SELECT 1::BIGINT AS k, 'one' AS name")
        for ending in ("csv", "parquet"):
            connection.execute(f"COPY dim TO '{path}/dim.{ending}'")
    (path / "dim.jsonl").write_text('{"k": 1, "name": "one"}\n')
    return path


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with local_session() as made:
        yield made


given_options = st.dictionaries(
    st.sampled_from(sorted(KEYS.keys() - {"path"})), st.integers(0, 100), max_size=4
)


@given(st.sampled_from(PATHS), given_options, st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_choice_of_options_is_refused_or_read(
    session: Session, directory: Path, path: str, chosen: dict[str, int], is_absolute: bool
) -> None:
    options = {"path": f"{directory}/{path}" if is_absolute else path}
    options |= {key: KEYS[key][number % len(KEYS[key])] for key, number in chosen.items()}
    listed = ", ".join(
        "'{}' = '{}'".format(*(t.replace("'", "''") for t in pair)) for pair in options.items()
    )
    create = f"CREATE TABLE dim (k BIGINT, name STRING) WITH ('connector' = 'duckdb', {listed})"
    session.execute(parse_statement("DROP TABLE IF EXISTS dim"))
    try:
        session.execute(parse_statement(create))
    except UserError:
        return
    source = SourceSpec("dim", "duckdb", options, SCHEMA, SCHEMA.names)
    with contextlib.suppress(UserError, ExternalError):
        assert read(source) == [{"k": 1, "name": "one"}]
    with contextlib.suppress(UserError, ExternalError):
        assert looked_up(source) == [{"k": 1, "name": "one"}]


def context() -> ConnectorContext:
    # Whoever polls again has waited for long enough.
    now_ms = itertools.count(0, 10_000).__next__
    return ConnectorContext("j", "v", 0, 1, 0, 100, {}, now_ms, lambda name, n: None, LocalFiles())


def read(source: SourceSpec) -> list[dict[str, object]]:
    reader = connector("duckdb").source(source, context(), None)
    try:
        rows: list[dict[str, object]] = []
        for _ in range(50):
            polled = reader.poll()
            if polled is SourceStatus.END:
                return rows
            if isinstance(polled, pa.RecordBatch):
                rows += polled.to_pylist()
        raise AssertionError("the table has no end")
    finally:
        reader.close()


def looked_up(source: SourceSpec) -> list[dict[str, object]]:
    made = connector("duckdb")
    assert isinstance(made, LooksUp)
    keys = batch(SCHEMA.select((0,)), [(1,), (2,)])
    return made.lookup_source(source, ("k",), context()).lookup(keys).to_pylist()
