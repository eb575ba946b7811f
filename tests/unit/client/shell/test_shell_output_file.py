"""Rows into files: all or nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from sqlstream import types as sql
from sqlstream.client.shell.output_file import OutputFile, checked_path
from sqlstream.client.shell.shell_answers import FileWriting
from sqlstream.errors import ExternalError, UserError
from sqlstream.schema import Schema

SCHEMA = Schema.of(("n", sql.INT))
CHANGES = pa.RecordBatch.from_arrays(
    [pa.array([1, 1, 2], pa.int32()), pa.array([0, 1, 2], pa.int8())], ["n", "$row_kind"]
)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_changelog_has_a_column_for_its_kinds(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"changes{suffix}"
    file = OutputFile(path, SCHEMA, with_op=True, time_zone="UTC")
    file.write(CHANGES)
    assert not path.exists()
    file.finish()
    expected = [("+I", 1), ("-U", 1), ("+U", 2)]
    if suffix == ".parquet":
        assert [(r["op"], r["n"]) for r in pyarrow.parquet.read_table(path).to_pylist()] == expected
    elif suffix == ".csv":
        assert path.read_text() == "op,n\n+I,1\n-U,1\n+U,2\n"
    else:
        assert path.read_text().splitlines()[2] == '{"op":"+U","n":2}'
    assert (file.rows, os.listdir(tmp_path)) == (3, [path.name])
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_an_abort_leaves_nothing(tmp_path: Path) -> None:
    file = OutputFile(tmp_path / "a.csv", SCHEMA, with_op=False, time_zone="UTC")
    file.write(CHANGES)
    file.abort()
    assert os.listdir(tmp_path) == []


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "a", str(tmp_path / "no" / "a.csv")):
        with pytest.raises(UserError, match=r"says no format|cannot be written"):
            checked_path(name)


def test_a_directory_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    path = tmp_path / "closed" / "inner" / "a.csv"
    as_root = os.geteuid() == 0
    for parent in (tmp_path, *tmp_path.parents[:2]) if as_root else ():
        parent.chmod(0o711)
    (tmp_path / "closed").chmod(0)
    try:
        if as_root:
            os.seteuid(65534)
        with pytest.raises(ExternalError, match="permission denied") as caught:
            checked_path(str(path))
    finally:
        if as_root:
            os.seteuid(0)
        (tmp_path / "closed").chmod(0o700)
    assert (caught.value.code, str(path) in caught.value.message) == ("SS5001", True)


def test_a_full_disk_is_told() -> None:
    with pytest.raises(ExternalError, match="cannot write"):
        OutputFile(Path("/proc/a.csv"), SCHEMA, with_op=False, time_zone="UTC")


def test_a_column_with_the_name_of_the_kinds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="op"):
        OutputFile(tmp_path / "a.parquet", Schema.of(("op", sql.INT)), with_op=True, time_zone="UTC")
    assert os.listdir(tmp_path) == []


class _BrokenResult:
    """One batch, and then a fault that is none of ours."""

    is_bounded = False
    schema = SCHEMA

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield CHANGES
        raise ValueError("a fault")


def test_any_fault_while_rows_are_written_is_raised(tmp_path: Path) -> None:
    """Otherwise the incomplete file would be renamed to the name that the user gave."""
    file = OutputFile(tmp_path / "a.csv", SCHEMA, with_op=True, time_zone="UTC")
    writing = FileWriting(_BrokenResult(), file)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a fault"):
        writing.wait()
    assert not writing.has_stopped()
    file.abort()
    assert os.listdir(tmp_path) == []
