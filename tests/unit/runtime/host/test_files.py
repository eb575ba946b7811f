"""The file system room: what it finds and how it fails."""

import errno
import io
import os
import socket
import stat
from pathlib import Path

import pytest

from sqlstream.errors import ExternalError, FailureReason, Retry, UserError
from sqlstream.runtime.host.files import LocalFiles, file_error
from sqlstream.spi.files import FileStatus


def test_files_are_listed_in_order_without_hidden_ones(tmp_path):
    for name in ("b.csv", "a/x.csv", "a/.hidden.csv", "_tmp/y.csv", "_success"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    found = [f.path.removeprefix(f"{tmp_path}/") for f in LocalFiles().list_files(str(tmp_path))]
    assert found == ["a/x.csv", "b.csv"]


@pytest.mark.parametrize(
    "links", [[], ["d/up"], ["d/all"], ["d/up", "d/across", "elsewhere/back", "d/broken"]]
)
def test_links_are_followed_but_not_in_circles(tmp_path, links):
    """Whether a directory is listed or a pattern reaches into all of it."""
    for name in ("t/a.csv", "t/d/b.csv", "elsewhere/c.csv", "elsewhere/.git/e.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "t/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "t/f.csv").symlink_to(tmp_path / "t/a.csv")
    targets = {"d/up": "t", "d/all": "", "d/across": "elsewhere", "elsewhere/back": "t/d", "d/broken": "none"}
    for link in links:
        place = tmp_path / link if link.startswith("elsewhere") else tmp_path / "t" / link
        place.symlink_to(tmp_path / targets[link])
    expected = ["a.csv", "d/b.csv", "f.csv", "link/c.csv"]
    if len(links) > 1:
        expected = ["a.csv", "d/across/c.csv", "d/b.csv", "f.csv", "link/back/b.csv", "link/c.csv"]
    root = f"{tmp_path}/t/"
    listed = [f.path.removeprefix(root) for f in LocalFiles().list_files(root)]
    assert listed == expected
    assert [path.removeprefix(root) for path in LocalFiles().match_glob(f"{root}**/*.csv")] == expected


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ExternalError) as caught:
        LocalFiles().open_read(str(tmp_path / "none.csv"))
    assert caught.value.code == "SS5001"
    assert caught.value.message == f'could not read "{tmp_path}/none.csv": no such file or directory'


def test_writing_makes_directories_and_renaming_puts_a_file_in_place(tmp_path):
    files = LocalFiles()
    with files.open_write(str(tmp_path / "d/part.tmp")) as stream:
        stream.write(b"rows")
    files.publish(str(tmp_path / "d/part.tmp"), str(tmp_path / "e/part.csv"))
    assert (tmp_path / "e/part.csv").read_bytes() == b"rows"
    assert files.status(str(tmp_path / "d/part.tmp")) is None


def test_removing_what_is_not_there_is_fine(tmp_path):
    files = LocalFiles()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/f").write_text("x")
    files.remove_directory_if_empty(str(tmp_path / "full"))
    assert (tmp_path / "full").exists()
    files.remove(str(tmp_path / "full"))
    files.remove(str(tmp_path / "full"))
    assert not (tmp_path / "full").exists()


def test_a_lock_is_held_by_one_and_never_on_a_file_that_is_gone(tmp_path):
    path = str(tmp_path / "locked")
    files = LocalFiles()
    assert files.lock(path) is None
    (tmp_path / "locked").write_text("x")
    held = files.lock(path)
    assert held is not None
    assert held.read() == b"x"
    assert files.lock(path) is None
    held.close()
    again = files.lock(path)
    assert again is not None
    again.close()


def test_a_directory_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(path):
        if path.endswith("closed"):
            raise PermissionError(errno.EACCES, "", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ExternalError, match='closed": permission denied'):
        LocalFiles().list_files(str(tmp_path))


def _pipe(path):
    os.mkfifo(path)
    return path


def _link_to_pipe(path):
    os.mkfifo(f"{path}.pipe")
    os.symlink(f"{path}.pipe", path)
    return path


def _socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
    return path


def _link_to_device(path):
    os.symlink("/dev/zero", path)
    return path


@pytest.mark.parametrize("make", [_pipe, _link_to_pipe, _socket, _link_to_device])
def test_what_is_no_file_is_refused_at_once(make, tmp_path):
    path = make(str(tmp_path / "f"))
    with pytest.raises(UserError, match=f'could not read "{path}": it is a ') as caught:
        LocalFiles().open_read(path)
    assert caught.value.code == "SS5017"
    with pytest.raises(UserError, match="it is a "):
        LocalFiles().lock(path)


def test_a_pipe_that_takes_the_place_of_a_file_is_refused_too(tmp_path, monkeypatch):
    (tmp_path / "f").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    open_file = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: open_file(str(tmp_path / "pipe"), flags))
    with pytest.raises(UserError, match="it is a named pipe"):
        LocalFiles().open_read(str(tmp_path / "f"))


@pytest.mark.parametrize("name", ["x" * 300, "file/below", "x/" * 3000, "loop/x"])
def test_what_cannot_exist_is_not_there(name, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    path, files = str(tmp_path / name), LocalFiles()
    assert files.status(path) is None
    files.remove(path)
    files.remove_directory_if_empty(path)
    assert (tmp_path / "file").read_text() == "x"


def test_a_status_says_what_is_there(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"12345")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    files = LocalFiles()
    placed_ms = os.stat(path).st_ctime_ns // 1_000_000
    assert files.status(str(path)) == FileStatus(str(path), 5, 1_700_000_000_123, False, placed_ms)
    found = files.status(str(tmp_path))
    assert found is not None
    assert found.is_directory


def test_names_and_paths_have_the_bounds_of_the_system(tmp_path):
    files = LocalFiles()
    longest = files.name_bytes_max(str(tmp_path))
    assert files.name_bytes_max(str(tmp_path / "not" / "there" / "yet")) == longest
    (tmp_path / ("x" * longest)).write_bytes(b"")
    with pytest.raises(OSError, match="too long"):
        (tmp_path / ("x" * (longest + 1))).write_bytes(b"")
    paths = files.path_bytes_max()
    assert os.path.exists("/" * paths)
    with pytest.raises(OSError, match="too long"):
        os.stat("/" * (paths + 1))


def test_names_are_listed_in_order_up_to_a_bound_with_their_kind(tmp_path):
    for name in ("b", ".hidden", "_hidden", "_kept=1"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "a").mkdir()
    files = LocalFiles()
    assert files.list_names(str(tmp_path), 9) == [("_kept=1", False), ("a", True), ("b", False)]
    assert len(files.list_names(str(tmp_path), 2)) == 2
    with pytest.raises(ExternalError, match="could not list"):
        files.list_names(str(tmp_path / "none"), 9)


def test_a_pattern_reaches_into_directories(tmp_path):
    for name in ("z.csv", "d/e/a.csv", "d/b.csv", "d/b.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    matched = LocalFiles().match_glob(f"{tmp_path}/**/*.csv")
    assert [m.removeprefix(f"{tmp_path}/") for m in matched] == ["d/b.csv", "d/e/a.csv", "z.csv"]
    assert LocalFiles().match_glob(f"{tmp_path}/*.csv") == [f"{tmp_path}/z.csv"]


def test_what_is_read_comes_from_the_file_and_no_buffer(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with LocalFiles().open_read(str(path)) as stream:
        assert isinstance(stream, io.FileIO)
        assert not os.get_inheritable(stream.fileno())


@pytest.mark.parametrize(
    ("number", "hint", "is_lasting"),
    [
        (errno.ENOSPC, "free space on the disk, then run the statement again", False),
        (errno.EACCES, "give the user that runs sqlstream access to the path", True),
        (errno.EPERM, "give the user that runs sqlstream access to the path", True),
        (errno.EROFS, "its file system is read-only: name a path on another, or mount it for writing", True),
        (
            errno.ENOTDIR,
            "what it names as a directory is none: name another path, or move the file away",
            True,
        ),
        (errno.ENOENT, "check the path; a relative one starts where sqlstream was started", False),
        (errno.EIO, "check its path, the rights of the user, and the room on the disk", False),
    ],
)
def test_the_hint_of_a_failure_and_whether_a_job_is_restarted_depend_on_its_cause(number, hint, is_lasting):
    error = file_error("write", "/p", OSError(number, "x"))
    assert (error.code, error.retry, error.hint) == ("SS5001", Retry.NEVER, hint)
    assert (error.reason is FailureReason.ACCESS_REFUSED) is is_lasting
    assert error.message == f'could not write "/p": {os.strerror(number).lower()}'
    far = file_error("write", "ftp://h/p", OSError(errno.ECONNREFUSED, "x"))
    assert far.hint == "check the path, and that the server can be reached"
    assert file_error("list", "/p", OSError("odd")).message == 'could not list "/p": odd'


def test_a_directory_that_takes_no_files_is_told_before_any_is_written(tmp_path, monkeypatch):
    files = LocalFiles()
    files.require_writable(str(tmp_path / "not/there"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ExternalError, match="not a directory"):
        files.require_writable(str(tmp_path / "file/t"))
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))
    with pytest.raises(ExternalError, match="permission denied") as refused:
        files.require_writable(str(tmp_path / "not/there"))
    assert refused.value.reason is FailureReason.ACCESS_REFUSED


def test_only_a_directory_that_is_empty_is_removed_as_one(tmp_path):
    files = LocalFiles()
    (tmp_path / "empty").mkdir()
    files.remove_directory_if_empty(str(tmp_path / "empty"))
    assert not (tmp_path / "empty").exists()
    files.remove_directory_if_empty(str(tmp_path / "empty"))
    (tmp_path / "link").symlink_to(tmp_path)
    files.remove(str(tmp_path / "link"))
    assert tmp_path.exists()
    assert not (tmp_path / "link").is_symlink()


def test_the_longest_name_is_that_of_the_nearest_directory_which_is_there(monkeypatch):
    def pathconf(path: str, name: str) -> int:
        if path != "/":
            raise FileNotFoundError(path)
        return 143

    monkeypatch.setattr(os, "pathconf", pathconf)
    assert LocalFiles().name_bytes_max("/not/there") == 143
    monkeypatch.setattr(os, "pathconf", lambda path, name: _fail_to_tell())
    assert LocalFiles().name_bytes_max("/not/there") == 255


def _fail_to_tell() -> int:
    raise OSError(errno.EINVAL, "no such limit")


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        (
            "When reading key 'x': AWS Error ACCESS_DENIED during HeadObject operation: No response body.",
            True,
        ),
        ("When listing: AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation: no such key", True),
        ("AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject operation", True),
        ("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation", True),
        ("AWS Error UNKNOWN (HTTP status 500) during HeadObject operation: No response body.", False),
        ("AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 7", False),
        ("AWS Error NO_SUCH_BUCKET during PutObject operation", False),
    ],
)
def test_a_store_that_refuses_the_keys_is_told_from_one_that_fails(said: str, is_refused: bool) -> None:
    error = file_error("read", "s3://bucket/x", OSError(said))
    assert (error.code, error.retry, error.detail) == ("SS5001", Retry.NEVER, said)
    assert (error.reason is FailureReason.ACCESS_REFUSED) is is_refused
    assert ("'s3.access-key' and 's3.secret-key'" in error.hint) is is_refused


def test_a_file_takes_the_place_of_no_pipe_and_of_a_link_itself(tmp_path: Path) -> None:
    staged, pipe, link = (str(tmp_path / name) for name in ("staged", "pipe", "link"))
    os.mkfifo(pipe)
    os.symlink(pipe, link)
    (tmp_path / "staged").write_text("a")
    with pytest.raises(UserError) as raised:
        LocalFiles().publish(staged, pipe)
    assert raised.value.code == "SS5017"
    LocalFiles().publish(staged, link)
    assert (stat.S_ISFIFO(os.stat(pipe).st_mode), (tmp_path / "link").read_text()) == (True, "a")
