"""Files of a web server, which are only read: by requests for parts, and by the links of a directory's page.

The client is that of connector http, which calls no address that tables may not call, and follows redirections no further."""

from __future__ import annotations

import base64
import email.utils
import io
import re
import urllib.parse
from typing import Any, BinaryIO, cast

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.file_systems import FileSystemOptions, Place
from sqlstream.runtime.host.http_addresses import Certificates
from sqlstream.runtime.host.http_client import Answer, HttpClient, Request, failure_of
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.runtime.host.stores.remote_store import SILENCE_S_MAX, Entry, ReadingConnection, RemoteStore
from sqlstream.spi.files import Files

_LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"'#?]+)["']""", re.IGNORECASE)
_PART_BYTES = 4 << 20
_PAGE_BYTES_MAX = 16 << 20
_FOUND_ELSEWHERE = (301, 302, 303, 307, 308)
_GONE = (404, 410)
_PLAIN = "/=,;:@!$&'()*+~"


def http(place: Place, options: FileSystemOptions, files: Files) -> Files:
    client = HttpClient(files, Certificates(), SILENCE_S_MAX, _PAGE_BYTES_MAX)
    headers = {}
    if options.user:
        login = f"{options.user}:{options.password or ''}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
    connection = HttpConnection(client, place.path, headers)
    return StoreFiles(RemoteStore(lambda: connection), place.path)


class HttpConnection(ReadingConnection):
    """Implements `Connection`, as far as files are read. Several threads may use it. Paths have the names of
    files, which addresses escape. No state but the client's connections."""

    errors: tuple[type[Exception], ...] = (ValueError,)

    def __init__(self, client: HttpClient, origin: str, headers: dict[str, str]) -> None:
        self._client, self._origin, self._headers = client, origin, headers

    def info(self, path: str) -> Entry | None:
        answer = self._ask("HEAD", path)
        if answer.status in _GONE:
            return None
        if answer.status in _FOUND_ELSEWHERE:
            target = urllib.parse.urlsplit(answer.headers.get("location", "")).path
            if urllib.parse.unquote(target) == f"{path}/":
                return Entry(path, True, 0, 0)
            # A file that lies elsewhere: where it leads is asked with GET, of which the client checks each address.
            answer = self._ask("GET", path, {"range": b"bytes=0-0"})
        if answer.status not in (200, 206):
            raise failure_of(answer, self._request("HEAD", path))
        return Entry(path, path == "/" or path.endswith("/"), _size(answer, path), _modified_ns(answer))

    def list(self, path: str) -> list[Entry]:
        directory = f"{path.rstrip('/')}/"
        answer = self._ask("GET", directory)
        if answer.status in _GONE:
            raise FileNotFoundError(f"there is no {directory}")
        if answer.status != 200:
            raise failure_of(answer, self._request("GET", directory))
        base = f"{self._origin}{urllib.parse.quote(directory, safe=_PLAIN)}"
        names: dict[str, bool] = {}
        for link in _LINK.findall(answer.body.decode("utf-8", "replace")):
            target = urllib.parse.urljoin(base, link.replace("&amp;", "&"))
            name = urllib.parse.unquote(target.removeprefix(base))
            # Only what lies in this directory: no way up, and no other server.
            if target.startswith(base) and name.rstrip("/") and "/" not in name.rstrip("/"):
                names[name.rstrip("/")] = name.endswith("/")
        entries = (
            Entry(directory + name, True, 0, 0) if is_directory else self.info(directory + name)
            for name, is_directory in names.items()
        )
        return [entry for entry in entries if entry is not None]

    def open_read(self, path: str) -> BinaryIO:
        found = self.info(path)
        if found is None:
            raise FileNotFoundError(f"there is no {path}")
        return cast(BinaryIO, io.BufferedReader(_Parts(self, path, found.size), _PART_BYTES))

    def part(self, path: str, begin: int, size: int) -> bytes:
        """These bytes of a file. ExternalError SS5001 for a server that does not send parts."""
        answer = self._ask("GET", path, {"range": f"bytes={begin}-{begin + size - 1}".encode()})
        if answer.status == 206:
            return answer.body
        if answer.status == 200 and begin == 0:
            return answer.body[:size]
        if answer.status == 200:
            raise ExternalError(
                "SS5001", f'could not read "{self._origin}{path}": the server sends no parts of files'
            )
        raise failure_of(answer, self._request("GET", path))

    def close(self) -> None:
        """Others may use it."""

    def _ask(self, method: str, path: str, protocol: dict[str, bytes] | None = None) -> Answer:
        return self._client.call(self._request(method, path, protocol))

    def _request(self, method: str, path: str, protocol: dict[str, bytes] | None = None) -> Request:
        url = f"{self._origin}{urllib.parse.quote(path, safe=_PLAIN)}"
        return Request(method, url, self._headers, protocol=protocol or {})


class _Parts(io.RawIOBase):
    """A file that is read by requests for parts. State: the position."""

    def __init__(self, connection: HttpConnection, path: str, size: int) -> None:
        self._connection, self._path, self._size = connection, path, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        size = min(len(view), self._size - self._position, _PART_BYTES)
        if size <= 0:
            return 0
        data = self._connection.part(self._path, self._position, size)
        if not data:
            raise OSError("the server sends less than the file has")
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


def _size(answer: Answer, path: str) -> int:
    whole = answer.headers.get("content-range", "").rpartition("/")[2] or answer.headers.get(
        "content-length", ""
    )
    if not whole.isdecimal():
        raise OSError(f"the server does not say how large {path} is")
    return int(whole)


def _modified_ns(answer: Answer) -> int:
    try:
        at = email.utils.parsedate_to_datetime(answer.headers.get("last-modified", ""))
    except ValueError:
        return 0
    return int(at.timestamp()) * 1_000_000_000
