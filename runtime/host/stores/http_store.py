"""Files of a web server, which are only read: by requests for parts, and by the links of a directory's page.

The client is that of connector http, which calls no address that tables may not call, and follows redirections no further."""

from __future__ import annotations

import base64
import dataclasses
import email.utils
import io
import re
import urllib.parse
from typing import BinaryIO, cast

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.file_systems import FileSystemOptions, Place
from sqlstream.runtime.host.http_addresses import Certificates
from sqlstream.runtime.host.http_client import Answer, HttpClient, Request, failure_of
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.runtime.host.stores.remote_store import (
    SILENCE_S_MAX,
    Entry,
    ReadByParts,
    ReadingConnection,
    RemoteStore,
)
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

    def part(self, path: str, begin: int, size: int, first: Answer | None) -> Answer:
        """These bytes of a file, of which `first` was the answer with the first of them. ExternalError SS5001 for a server that
        does not send parts, and for a file that has changed since."""
        within = f"bytes={begin}-{begin + size - 1}".encode()
        answer = self._ask("GET", path, {"range": within, **_unless_changed(first)})
        if first is not None and (answer.status in (412, 416) or _has_changed(first, answer)):
            raise self.changed(path)
        if answer.status == 206:
            return answer
        if answer.status == 200 and begin == 0:
            return dataclasses.replace(answer, body=answer.body[:size])
        if answer.status == 200:
            raise self._unread(path, "the server sends no parts of files")
        raise failure_of(answer, self._request("GET", path))

    def changed(self, path: str) -> ExternalError:
        return self._unread(path, "the file has changed while it was read")

    def _unread(self, path: str, reason: str) -> ExternalError:
        return ExternalError("SS5001", f'could not read "{self._origin}{path}": {reason}')

    def close(self) -> None:
        """Others may use it."""

    def _ask(self, method: str, path: str, protocol: dict[str, bytes] | None = None) -> Answer:
        return self._client.call(self._request(method, path, protocol))

    def _request(self, method: str, path: str, protocol: dict[str, bytes] | None = None) -> Request:
        url = f"{self._origin}{urllib.parse.quote(path, safe=_PLAIN)}"
        return Request(method, url, self._headers, protocol=protocol or {})


class _Parts(ReadByParts):
    """A file that is read by requests for parts, all of them of the file that the first one found. State: the position, and the
    answer to the first request, without its bytes."""

    def __init__(self, connection: HttpConnection, path: str, size: int) -> None:
        super().__init__(size, _PART_BYTES)
        self._connection, self._path = connection, path
        self._first: Answer | None = None

    def part(self, position: int, size: int) -> bytes:
        answer = self._connection.part(self._path, position, size, self._first)
        if answer.status == 206 and _whole_size(answer) not in (None, self._size):
            raise self._connection.changed(self._path)
        self._first = self._first or dataclasses.replace(answer, body=b"")
        if not answer.body:
            raise OSError("the server sends less than the file has")
        return answer.body


def _unless_changed(first: Answer | None) -> dict[str, bytes]:
    """The condition under which the server sends a further part (RFC 9110, 13.1); else it answers 412."""
    headers = first.headers if first is not None else {}
    if (tag := headers.get("etag", "")).startswith('"'):
        return {"if-match": tag.encode("latin-1")}
    if date := headers.get("last-modified"):
        return {"if-unmodified-since": date.encode("latin-1")}
    return {}


def _has_changed(first: Answer, answer: Answer) -> bool:
    """Servers may pass over conditions."""
    for name in ("etag", "last-modified"):
        if name in first.headers and name in answer.headers:
            return first.headers[name] != answer.headers[name]
    return False


def _whole_size(answer: Answer) -> int | None:
    whole = answer.headers.get("content-range", "").rpartition("/")[2] or answer.headers.get(
        "content-length", ""
    )
    return int(whole) if whole.isdecimal() else None


def _size(answer: Answer, path: str) -> int:
    size = _whole_size(answer)
    if size is None:
        raise OSError(f"the server does not say how large {path} is")
    return size


def _modified_ns(answer: Answer) -> int:
    try:
        at = email.utils.parsedate_to_datetime(answer.headers.get("last-modified", ""))
    except ValueError:
        return 0
    return int(at.timestamp()) * 1_000_000_000
