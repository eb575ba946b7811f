"""An archive of Spark's classes is written on demand, and used where nobody else can have changed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.runtime.batch.spark.class_archive import ClassArchive
from sqlstream.runtime.batch.spark.settings import CLASS_ARCHIVE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of Java and of Spark; the cache of the user is beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "home" / "jars").mkdir(parents=True)
    (tmp_path / "home" / "jars" / "spark.jar").write_text("1")
    return tmp_path / "home"


WRITE = {CLASS_ARCHIVE: "write"}


def start(home: Path, **settings: str) -> ClassArchive:
    return ClassArchive(str(home), str(home), settings)


def write(home: Path, content: str = "classes", **settings: str) -> None:
    """As a Java does that writes its archive when it ends."""
    archive = start(home, **WRITE, **settings)
    assert archive.is_written
    Path(archive.java_options[0].removeprefix("-XX:ArchiveClassesAtExit=")).write_text(content)
    archive.keep()
    archive.drop()


def kept(home: Path) -> list[Path]:
    return sorted((home.parent / "cache" / "sqlstream" / "java").iterdir())


def test_an_archive_is_written_when_it_is_asked_for_and_used_from_then_on(home: Path) -> None:
    assert start(home).java_options == []
    write(home)
    later = start(home)
    (path,) = kept(home)
    assert not later.is_written
    assert later.java_options[0] == f"-XX:SharedArchiveFile={path}"
    assert path.read_text() == "classes"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert start(home, **{CLASS_ARCHIVE: "none"}).java_options == []


def test_another_spark_or_class_path_has_another_archive(home: Path) -> None:
    write(home)
    assert start(home, **{"spark.driver.extraClassPath": "/lib/other.jar"}).java_options == []
    (home / "jars" / "other.jar").write_text("2")
    assert start(home).java_options == []


def test_an_archive_that_others_can_write_is_not_used(home: Path) -> None:
    write(home)
    kept(home)[0].chmod(0o666)
    assert start(home).java_options == []
    write(home, "newer classes")
    assert Path(start(home).java_options[0].partition("=")[2]).read_text() == "newer classes"


def test_an_archive_that_was_cut_off_is_not_used(home: Path) -> None:
    write(home)
    kept(home)[0].write_text("class")
    assert start(home).java_options == []


def test_nothing_is_kept_of_a_java_that_wrote_nothing_or_was_killed(home: Path) -> None:
    archive = start(home, **WRITE)
    archive.keep()
    Path(archive.java_options[0].removeprefix("-XX:ArchiveClassesAtExit=")).write_text("half")
    archive.drop()
    assert kept(home) == []


def test_a_user_without_a_directory_to_write_has_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home.parent / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    monkeypatch.setattr("tempfile.tempdir", str(file))
    archive = start(home, **WRITE)
    assert archive.java_options == []
    archive.keep()
    archive.drop()


def test_those_written_last_are_kept(home: Path) -> None:
    for number in range(4):
        write(home, str(number), **{"spark.driver.extraClassPath": str(number)})
        os.utime(max(kept(home), key=lambda path: path.stat().st_mtime_ns), (number, number))
    assert sorted(path.read_text() for path in kept(home)) == ["2", "3"]
