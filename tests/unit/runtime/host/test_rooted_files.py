"""No path leads out of the given directories."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles, files_at


@pytest.fixture
def places(tmp_path: Path) -> tuple[RootedFiles, Path, Path]:
    """The files below `in`, `in` itself with a link `link` to `out`, and `out` with a file."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    for directory in (inside / "sub", outside, tmp_path / "in2"):
        directory.mkdir(parents=True)
    (inside / "a.csv").write_text("1\n")
    (outside / "s.csv").write_text("secret\n")
    (tmp_path / "in2" / "b.csv").write_text("2\n")
    (inside / "link").symlink_to(outside)
    (inside / "file.csv").symlink_to(outside / "s.csv")
    return RootedFiles(FilePlaces((str(inside),))), inside, outside


CALLS: dict[str, Callable[[RootedFiles, str], Any]] = {
    "open_read": lambda f, p: f.open_read(p),
    "map_read": lambda f, p: f.map_read(p),
    "open_write": lambda f, p: f.open_write(p),
    "status": lambda f, p: f.status(p),
    "list_files": lambda f, p: f.list_files(os.path.dirname(p)),
    "match_glob": lambda f, p: f.match_glob(f"{os.path.dirname(p)}/*.csv"),
    "lock": lambda f, p: f.lock(p),
    "remove": lambda f, p: f.remove(p),
    "make_directories": lambda f, p: f.make_directories(p),
    "remove_directory_if_empty": lambda f, p: f.remove_directory_if_empty(p),
    "publish from": lambda f, p: f.publish(p, f"{p}.new"),
}


@pytest.mark.parametrize(
    "path",
    ["../out/s.csv", "sub/../../out/s.csv", "link/s.csv", "../in2/b.csv", "link/../out/s.csv", "..", "link/"],
)
@pytest.mark.parametrize("name", CALLS)
def test_every_call_refuses_a_path_that_leads_outside(
    places: tuple[RootedFiles, Path, Path], path: str, name: str
) -> None:
    files, inside, outside = places
    with pytest.raises(UserError, match="lies outside of the directories that this server allows") as caught:
        CALLS[name](files, f"{inside}/{path}")
    assert caught.value.code == "SS5030"
    assert (outside / "s.csv").read_text() == "secret\n"
    assert sorted(p.name for p in outside.iterdir()) == ["s.csv"]


def test_links_to_files_and_targets_outside_are_refused(places: tuple[RootedFiles, Path, Path]) -> None:
    files, inside, outside = places
    with pytest.raises(UserError, match="lies outside"):
        files.open_read(f"{inside}/file.csv")
    with pytest.raises(UserError, match="lies outside"):
        files.open_write(f"{inside}/file.csv")
    with pytest.raises(UserError, match="lies outside"):
        files.list_files(str(inside))
    with pytest.raises(UserError, match="lies outside"):
        files.match_glob(f"{inside}/*/*.csv")
    with pytest.raises(UserError, match="leads upwards"):
        files.match_glob(f"{inside}/*/../../out/*.csv")
    with pytest.raises(UserError, match="lies outside"):
        files.publish(f"{inside}/a.csv", f"{outside}/a.csv")
    assert (outside / "s.csv").read_text() == "secret\n"


def test_what_lies_inside_works_as_everywhere(places: tuple[RootedFiles, Path, Path]) -> None:
    files, inside, _ = places
    with files.open_read(f"{inside}/sub/../a.csv") as stream:
        assert stream.read() == b"1\n"
    with files.open_write(f"{inside}/new/b.csv") as stream:
        stream.write(b"longer than before\n")
    with files.open_write(f"{inside}/new/b.csv") as stream:
        stream.write(b"2\n")
    assert (inside / "new" / "b.csv").read_bytes() == b"2\n"
    assert [f.path for f in files.list_files(f"{inside}/new")] == [f"{inside}/new/b.csv"]
    assert files.match_glob(f"{inside}/n*/*.csv") == [f"{inside}/new/b.csv"]
    files.publish(f"{inside}/new/b.csv", f"{inside}/c.csv")
    files.remove(f"{inside}/link")
    assert sorted(os.listdir(inside)) == ["a.csv", "c.csv", "file.csv", "new", "sub"]


def test_a_directory_that_becomes_a_link_while_it_is_opened_is_noticed(
    places: tuple[RootedFiles, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, inside, outside = places
    (inside / "sub" / "s.csv").write_text("mine\n")
    honest = RootedFiles.check

    def swapped(self: RootedFiles, path: str) -> str:
        real = honest(self, path)
        if path.endswith("sub/s.csv") and not (inside / "sub").is_symlink():
            (inside / "sub" / "s.csv").unlink()
            (inside / "sub").rmdir()
            (inside / "sub").symlink_to(outside)
        return real

    monkeypatch.setattr(RootedFiles, "check", swapped)
    with pytest.raises(UserError, match="was moved outside while it was opened"):
        files.open_read(f"{inside}/sub/s.csv")


def test_a_file_that_becomes_a_link_while_it_is_mapped_is_not_followed(
    places: tuple[RootedFiles, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, inside, outside = places
    honest = RootedFiles.open_read

    def swapped(self: RootedFiles, path: str) -> BinaryIO:
        stream = honest(self, path)
        (inside / "a.csv").unlink()
        (inside / "a.csv").symlink_to(outside / "s.csv")
        return stream

    monkeypatch.setattr(RootedFiles, "open_read", swapped)
    assert files.map_read(f"{inside}/a.csv").read() == b"1\n"


def test_an_empty_file_is_mapped_as_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert LocalFiles().map_read(f"{tmp_path}/empty").read() == b""


def test_without_roots_all_files_are_allowed() -> None:
    assert type(files_at(None)) is LocalFiles


def test_a_denied_directory_is_refused_also_within_the_roots(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "token").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    files = RootedFiles(FilePlaces(("/",), (str(tmp_path / "data"),)))
    for path in ("data/token", "link/token", "data", "x/../data/token"):
        with pytest.raises(UserError, match="belongs to the server itself"):
            files.open_read(f"{tmp_path}/{path}")
        with pytest.raises(UserError, match="belongs to the server itself"):
            files.status(f"{tmp_path}/{path}")
    with pytest.raises(UserError, match="belongs to the server itself"):
        files.match_glob(f"{tmp_path}/*/token")
    (tmp_path / "database").touch()
    assert files.status(f"{tmp_path}/database") is not None


# Nothing can be made or removed at any of these paths, so that a fault in the check does no harm.
@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/sys/kernel/notes", "/dev/pts/none", "{link}/self/maps"]
)
@pytest.mark.parametrize("name", CALLS)
def test_directories_of_the_operating_system_are_refused(tmp_path: Path, path: str, name: str) -> None:
    (tmp_path / "link").symlink_to("/proc")
    with pytest.raises(UserError, match="belongs to the operating system: it lies below") as caught:
        CALLS[name](RootedFiles(FilePlaces()), path.format(link=tmp_path / "link"))
    assert caught.value.code == "SS5030"


def test_a_root_within_a_system_directory_and_files_in_memory_are_allowed(tmp_path: Path) -> None:
    files = RootedFiles(FilePlaces(("/proc/self/net",)))
    with pytest.raises(UserError, match="belongs to the operating system"):
        files.check("/proc/self/environ")
    real = os.path.realpath("/proc/self/net")
    assert RootedFiles(FilePlaces((real,))).check("/proc/self/net/dev") == f"{real}/dev"
    assert RootedFiles(FilePlaces()).check("/dev/shm/t/a.csv") == "/dev/shm/t/a.csv"


def test_a_pipe_is_neither_read_nor_written(places: tuple[RootedFiles, Path, Path]) -> None:
    files, inside, _ = places
    os.mkfifo(inside / "pipe")
    with pytest.raises(UserError, match=r"could not read .* it is a named pipe"):
        files.open_read(f"{inside}/pipe")
    with pytest.raises(UserError, match=r"could not write .* it is a named pipe") as caught:
        files.open_write(f"{inside}/pipe")
    assert caught.value.code == "SS5017"
