"""File systems elsewhere: what `Files` promises holds of each, against servers on loopback."""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_servers import PASSWORD, FileServer, running

from sqlstream.errors import ExternalError, FailureReason, UserError
from sqlstream.runtime.connectors.files.file_paths import find_files
from sqlstream.runtime.host.file_systems import FILE_SYSTEMS, escape_pattern, files_of, place_of
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.http_client import Answer, Request
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.runtime.host.stores.http_store import HttpConnection
from sqlstream.spi.files import Files

WRITTEN = ("sftp", "ftp", "webhdfs")


@pytest.fixture(scope="module", params=(*WRITTEN, "http"))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as started:
        yield started


@pytest.fixture
def files(server: FileServer) -> Files:
    return files_of({"path": server.root, **server.login}, LocalFiles())


def written(server: FileServer) -> None:
    if not server.is_written:
        pytest.skip("files are only read over HTTP")


def read(files: Files, path: str) -> bytes:
    with files.open_read(path) as stream:
        return stream.read()


def write(files: Files, path: str, data: bytes) -> None:
    with files.open_write(path) as stream:
        stream.write(data)
        stream.flush()
        files.sync(stream)


def test_files_are_looked_at_listed_and_matched(server: FileServer, files: Files) -> None:
    before_ms = time.time() * 1000 - 5000
    for name in ("look/a.csv", "look/p=1/b b.csv", "look/p=1/deep/c.csv", "look/.x/d.csv", "look/_y.csv"):
        server.put(name, name.encode())
    at = f"{server.root}/look"
    status = files.status(f"{at}/a.csv")
    assert status is not None
    assert (status.path, status.size, status.is_directory) == (f"{at}/a.csv", 10, False)
    assert status.modified_ms > before_ms
    directory = files.status(f"{at}/p=1")
    assert directory is not None
    assert directory.is_directory
    assert files.status(f"{at}/none") is None
    assert files.status(f"{at}/none/below") is None
    found = [f"{at}/a.csv", f"{at}/p=1/b b.csv", f"{at}/p=1/deep/c.csv"]
    assert [f.path for f in files.list_files(at)] == found
    assert files.list_names(at, 10) == [("a.csv", False), ("p=1", True)]
    assert files.match_glob(f"{at}/p*/*.csv") == [f"{at}/p=1/b b.csv"]
    assert files.match_glob(f"{at}/**/c.csv") == [f"{at}/p=1/deep/c.csv"]
    with pytest.raises(ExternalError, match="could not list"):
        files.list_files(f"{server.root}/none")


def test_what_others_add_is_seen_at_the_next_look(server: FileServer, files: Files) -> None:
    server.put("watched/1", b"1")
    assert len(files.list_files(f"{server.root}/watched")) == 1
    server.put("watched/2", b"2")
    assert len(files.list_files(f"{server.root}/watched")) == 2


def test_a_file_is_read_in_order_and_at_random(server: FileServer, files: Files) -> None:
    data = bytes(i * 7 % 251 for i in range(9_000_000))
    server.put("large", data)
    assert read(files, f"{server.root}/large") == data
    with files.map_read(f"{server.root}/large") as stream:
        for begin, size in ((8_999_990, 100), (0, 10), (5_000_000, 70_000), (5_000_100, 3)):
            stream.seek(begin)
            assert stream.read(size) == data[begin : begin + size]
    with pytest.raises(ExternalError, match="could not read"):
        read(files, f"{server.root}/none")


def test_a_file_appears_under_its_name_whole_and_in_place_of_another(
    server: FileServer, files: Files
) -> None:
    written(server)
    for data in (b"first", b"x" * 5_000_000):
        write(files, f"{server.root}/pub/.staging/x", data)
        files.publish(f"{server.root}/pub/.staging/x", f"{server.root}/pub/new/x")
        assert read(files, f"{server.root}/pub/new/x") == data
        assert files.status(f"{server.root}/pub/.staging/x") is None
    with pytest.raises(ExternalError, match="could not publish"):
        files.publish(f"{server.root}/pub/none", f"{server.root}/pub/y")


def test_directories_go_when_they_are_empty(server: FileServer, files: Files) -> None:
    written(server)
    write(files, f"{server.root}/dirs/a/b/x", b"1")
    files.remove_directory_if_empty(f"{server.root}/dirs/a")
    assert files.status(f"{server.root}/dirs/a/b/x") is not None
    files.remove(f"{server.root}/dirs/a/b/x")
    files.remove(f"{server.root}/dirs/a/b/x")
    files.remove_directory_if_empty(f"{server.root}/dirs/a/b")
    files.remove_directory_if_empty(f"{server.root}/dirs/a/b")
    assert files.status(f"{server.root}/dirs/a/b") is None
    write(files, f"{server.root}/dirs/a/c/y", b"1")
    files.make_directories(f"{server.root}/dirs/a/d/e")
    files.make_directories(f"{server.root}/dirs/a/d/e")
    files.remove(f"{server.root}/dirs")
    files.remove(f"{server.root}/dirs")
    assert files.status(f"{server.root}/dirs") is None


def test_threads_read_and_write_beside_each_other(server: FileServer, files: Files) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(5):
                data = f"{number} {i}".encode() * 10_000
                if server.is_written:
                    write(files, f"{server.root}/threads/{number}/{i}", data)
                else:
                    server.put(f"threads/{number}/{i}", data)
                assert read(files, f"{server.root}/threads/{number}/{i}") == data
                assert len(files.list_files(f"{server.root}/threads/{number}")) == i + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures


def test_a_wrong_login_is_an_error_that_waiting_does_not_heal(server: FileServer) -> None:
    if not server.login:
        pytest.skip("it asks nobody")
    options = {"path": server.root, **server.login, "fs.user": "nobody"}
    with pytest.raises(ExternalError) as raised:
        files_of(options, LocalFiles()).status(f"{server.root}/a")
    assert raised.value.reason is FailureReason.ACCESS_REFUSED
    assert PASSWORD not in f"{raised.value} {raised.value.detail}"


def test_connections_that_a_server_has_closed_meanwhile_are_made_anew(tmp_path: Path) -> None:
    with running("sftp", tmp_path) as server:
        server.put("a", b"rows")
        files = files_of({"path": server.root, **server.login}, LocalFiles())
        streams = [files.open_read(f"{server.root}/a") for _ in range(3)]
        for stream in streams:
            stream.close()
        assert len(server.calls) == 3
        for connection in server.calls:
            connection.abort()
        assert read(files, f"{server.root}/a") == b"rows"
        assert len(server.calls) == 4
        # A change is not made twice: nobody knows whether it had its effect.
        server.calls[-1].abort()
        with pytest.raises(ExternalError, match="could not publish"):
            files.publish(f"{server.root}/a", f"{server.root}/b")


def test_a_server_of_sftp_with_another_key_is_told_nothing(tmp_path: Path) -> None:
    with running("sftp", tmp_path) as server:
        options = {"path": server.root, **server.login, "fs.host-key": "SHA256:other"}
        with pytest.raises(UserError, match=r'"fs\.host-key" does not name') as raised:
            files_of(options, LocalFiles()).status(f"{server.root}/a")
        assert raised.value.code == "SS5086"
        options = {"path": server.root, **server.login, "fs.private-key": "no key"}
        with pytest.raises(UserError, match="is no private key"):
            files_of(options, LocalFiles()).status(f"{server.root}/a")


def test_a_data_node_that_fails_is_no_content(tmp_path: Path) -> None:
    with running("webhdfs", tmp_path) as server:
        server.put("a", b"rows")
        files = files_of({"path": server.root, **server.login}, LocalFiles())
        with files.open_read(f"{server.root}/a") as stream:
            (tmp_path / "a").unlink()
            (tmp_path / "a").mkdir()
            with pytest.raises(OSError, match="403"):
                stream.read()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("sftp://ann:hunter2@host/a", "holds a user or password"),
        ("ftp://ann@host/a", "holds a user or password"),
        ("http://ann:hunter2@host/a", "holds a user or password"),
        ("abfs://account/a", "names no bucket"),
        ("sftp:///a", None),
        ("sftp://", "names no server"),
        ("sftp://host:0/a", "names no server"),
        ("ftp://host:99999/a", "names no server"),
        ("sftp://host/a//b", "names no server"),
        ("webhdfs://ho*st/a", "names no server"),
        ("sftp://[::1]:0/a", "names no server"),
        ("sftp://[::1]x/a", "names no server"),
        ("sftp://[1:2]/a", "names no server"),
        ("sftp://::1/a", "names no server"),
        ("gs://", "names no bucket"),
    ],
)
def test_paths_that_name_no_place_are_refused_without_their_passwords(path: str, words: str | None) -> None:
    if words is None:
        assert place_of(path).authority == "a"
        return
    with pytest.raises(UserError, match=words) as raised:
        place_of(path)
    assert raised.value.code == "SS4002"
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "server"),
    [
        ("sftp://[::1]:2222/a", ("::1", 2222)),
        ("ftp://[2001:db8::2]/a", ("2001:db8::2", None)),
        ("sftp://host:22/a", ("host", 22)),
        ("webhdfs://10.0.0.1/a", ("10.0.0.1", None)),
    ],
)
def test_a_server_is_a_name_or_an_address(path: str, server: tuple[str, int | None]) -> None:
    assert place_of(path).server == server


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this machine has no IPv6")
def test_the_brackets_of_an_address_are_no_part_of_a_pattern(tmp_path: Path) -> None:
    with running("ftp6", tmp_path) as server:
        server.put("d/a.csv", b"1")
        server.put("d/b.txt", b"2")
        files = files_of({"path": server.root, **server.login}, LocalFiles())
        for path, names in (("d/*.csv", ["a.csv"]), ("d", ["a.csv", "b.txt"])):
            found = find_files(f"{server.root}/{path}", files, may_be_empty=False)
            assert [file.path for file in found] == [f"{server.root}/d/{name}" for name in names]
        assert files.match_glob(f"{escape_pattern(server.root)}/d/[b]*") == [f"{server.root}/d/b.txt"]


def test_a_server_reaches_file_systems_as_database_servers_and_http_as_tables_of_http_do(
    tmp_path: Path,
) -> None:
    for scheme, system in FILE_SYSTEMS.items():
        path = system.example.replace(system.example.partition(":")[0], scheme, 1)
        if not system.checks_addresses:
            with pytest.raises(UserError, match="connects to no database servers"):
                files_of({"path": path, "fs.user": "a"}, RootedFiles(FilePlaces()))
    with running("http", tmp_path) as server:
        server.put("a", b"1")
        inside = files_of({"path": server.root}, RootedFiles(FilePlaces()))
        with pytest.raises(UserError, match="no address of the internet"):
            inside.status(f"{server.root}/a")
        allowed = files_of({"path": server.root}, RootedFiles(FilePlaces(has_private_addresses=True)))
        assert allowed.status(f"{server.root}/a") is not None


class ReplacedFile:
    """A client of a server where a file is replaced behind its first part. State: what was asked."""

    def __init__(self, before: dict[str, str], after: dict[str, str], status: int = 206) -> None:
        self._answers = [(before, 206), (after, status)]
        self.asked: list[dict[str, bytes]] = []

    def call(self, request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer(200, {"content-length": "8000000"}, b"", request.url)
        headers, status = self._answers[min(len(self.asked), 1)]
        self.asked.append({k: v for k, v in request.protocol.items() if k != "range"})
        within = {"content-range": f"{request.protocol['range'].decode()}/8000000".replace("=", " ")}
        return Answer(status, {**within, **headers}, b"x" * (4 << 20), request.url)


DATE, LATER = "Sun, 29 Nov 2026 10:00:00 GMT", "Sun, 29 Nov 2026 10:00:01 GMT"


@pytest.mark.parametrize(
    ("before", "after", "status", "condition"),
    [
        ({"etag": '"a"', "last-modified": DATE}, {}, 412, {"if-match": b'"a"'}),
        ({"etag": '"a"'}, {"etag": '"b"'}, 206, {"if-match": b'"a"'}),
        ({"etag": 'W/"a"'}, {"etag": 'W/"b"'}, 206, {}),
        ({"last-modified": DATE}, {"last-modified": LATER}, 206, {"if-unmodified-since": DATE.encode()}),
        ({}, {"content-range": "bytes 4194304-7999998/7999999"}, 206, {}),
        ({}, {"content-range": "bytes */10"}, 416, {}),
    ],
)
def test_a_file_that_is_replaced_while_it_is_read_is_no_mix_of_both(
    before: dict[str, str], after: dict[str, str], status: int, condition: dict[str, bytes]
) -> None:
    client = ReplacedFile(before, after, status)
    connection = HttpConnection(client, "http://host", {})  # type: ignore[arg-type]
    with connection.open_read("/a") as stream:
        assert stream.read(10) == b"x" * 10
        with pytest.raises(ExternalError, match="the file has changed while it was read"):
            stream.read()
    assert client.asked == [{}, condition]


def test_hdfs_without_its_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nonexistent")
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(UserError, match="needs libhdfs") as raised:
        files_of({"path": "hdfs://namenode/a"}, LocalFiles())
    assert (raised.value.code, "webhdfs" in raised.value.hint) == ("SS5084", True)


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("paramiko", "fsspec.implementations.webhdfs", "alluxiofs"):
        monkeypatch.setitem(sys.modules, module, None)
    for path, words in (("sftp://h/a", "files"), ("webhdfs://h/a", "files"), ("alluxio://h/a", "alluxiofs")):
        login = {"fs.user": "missing", "fs.password": "x", "fs.host-key": "SHA256:x"}
        with pytest.raises(UserError, match="is not installed") as raised:
            files_of({"path": path, **login}, LocalFiles())
        assert (raised.value.code, words in raised.value.hint) == ("SS5084", True)


def test_a_token_of_webhdfs_is_in_no_error(tmp_path: Path) -> None:
    with running("webhdfs", tmp_path) as server:
        options = {"path": server.root, "fs.token": "hunter2hunter2"}
        for root in (server.root, "webhdfs://127.0.0.1:1"):
            with pytest.raises(ExternalError) as raised:
                files_of({**options, "path": root}, LocalFiles()).status(f"{root}/a")
            assert "hunter2" not in f"{raised.value} {raised.value.detail}"
        assert "delegation=hunter2" not in str(raised.value.detail)
        assert "******" in raised.value.detail


def test_alluxio_is_read_by_the_library_of_its_makers(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    asked: list[dict[str, object]] = []

    class Alluxio(MemoryFileSystem):  # type: ignore[misc]
        def __init__(self, **named: object) -> None:
            asked.append(named)
            super().__init__()

    module = types.ModuleType("alluxiofs")
    module.AlluxioFileSystem = Alluxio  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "alluxiofs", module)
    with Alluxio().open("/t/a.csv", "wb") as stream:
        stream.write(b"1")
    files = files_of({"path": "alluxio://worker:28081/t"}, LocalFiles())
    assert [f.path for f in files.list_files("alluxio://worker:28081/t")] == [
        "alluxio://worker:28081/t/a.csv"
    ]
    assert read(files, "alluxio://worker:28081/t/a.csv") == b"1"
    assert asked[-1] == {"worker_hosts": "worker", "worker_http_port": 28081, "use_listings_cache": False}
    with pytest.raises(ExternalError, match="could not write"):
        files.open_write("alluxio://worker:28081/t/b.csv")
