"""Which tables a Spark with other machines can read."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.batch.spark.task_arguments import refuse_local_checkpoints, refuse_local_files
from sqlstream.schema import Schema
from sqlstream.specs import InferTableSpec, SourceSpec

SCHEMA = Schema.of(("n", sql.BIGINT))


def table(**options: str) -> SourceSpec:
    return SourceSpec("dim", "duckdb", options, SCHEMA, SCHEMA.names)


def test_a_file_that_duckdb_reads_is_refused_until_it_is_said_to_be_shared() -> None:
    specs = [table(path="dim.csv")]
    with pytest.raises(UserError) as refused:
        refuse_local_files(specs, {})
    assert refused.value.code == "SS4057"
    refuse_local_files(specs, {"execution.files-are-shared": "true"})


def test_a_file_whose_columns_are_asked_for_is_refused_too() -> None:
    with pytest.raises(UserError, match=r'table "/data/a\.csv" has files of this machine') as refused:
        refuse_local_files([InferTableSpec({"connector": "filesystem", "path": "/data/a.csv"})], {})
    assert refused.value.code == "SS4057"


def test_a_table_in_a_file_system_elsewhere_is_seen_by_all_machines() -> None:
    for path in ("s3://bucket/a", "sftp://host/a", "https://host/a"):
        options = {"path": path, "format": "csv"}
        refuse_local_files([SourceSpec("t", "filesystem", options, SCHEMA, SCHEMA.names)], {})


def test_a_database_at_an_address_has_no_files_of_this_machine() -> None:
    refuse_local_files([table(path="dbname=shop host=db1", type="postgres")], {})


@pytest.mark.parametrize(
    "config",
    [
        {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": "/data"},
        {"execution.checkpointing.interval": "1 s", "execution.checkpointing.savepoint-dir": "/data"},
        {"execution.state-recovery.path": "/data"},
    ],
)
def test_checkpoints_in_a_directory_of_this_machine_are_refused(config: dict[str, str]) -> None:
    with pytest.raises(UserError, match='is the directory "/data" of this machine') as refused:
        refuse_local_checkpoints(config)
    assert refused.value.code == "SS4057"
    refuse_local_checkpoints({**config, "execution.files-are-shared": "true"})
    for place in ("s3://bucket/a", "sftp://host/a", "webhdfs://host/a"):
        refuse_local_checkpoints({key: value.replace("/data", place) for key, value in config.items()})
