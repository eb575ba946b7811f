"""The one door to file systems: what a path's scheme names, which options it takes, and the files behind it.

Tables, checkpoints, savepoints and artefacts come in here. Whoever opens a path gets `Files`, whatever they are of.
"""

from __future__ import annotations

import functools
import glob
import ipaddress
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from sqlstream.errors import UserError
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles, files_at
from sqlstream.spi.connector import OptionType
from sqlstream.spi.files import Files
from sqlstream.spi.imported_by_need import imported
from sqlstream.spi.table_options import descriptors_of, option, parse_options

_STORES_MAX = 16
_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+):/")
_ENDPOINT = re.compile(r"(?:(https?)://)?([^\s/?#@]+)/?")
_SERVER = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_CONTAINER = re.compile(r"[A-Za-z0-9$-]+@[a-z0-9]+(?:\.[A-Za-z0-9.-]+)?")
_AUTHORITY = re.compile(r"/+[^/]*")


@dataclass(frozen=True, kw_only=True)
class FileSystemOptions:
    """Who asks a file system elsewhere, and where a store is; the path says the rest. Nothing of the surroundings of this process
    logs in: no variable, no file of the user, no role of the machine."""

    endpoint: str | None = option(
        "s3.endpoint",
        OptionType.STRING,
        "The store, as http://host:port or https://host, for a path s3://…; by default Amazon's.",
    )
    region: str = option("s3.endpoint.region", OptionType.STRING, "The region of the store.", "us-east-1")
    access_key: str | None = option(
        "s3.access-key",
        OptionType.STRING,
        "The access key of the user. Without keys the store is asked anonymously.",
    )
    secret_key: str | None = option(
        "s3.secret-key", OptionType.STRING, "The secret key that belongs to the access key."
    )
    gs_endpoint: str | None = option(
        "gs.endpoint",
        OptionType.STRING,
        "The store, as http://host:port or https://host, for a path gs://…; by default Google's.",
    )
    gs_token: str | None = option(
        "gs.access-token",
        OptionType.STRING,
        "An OAuth token of Google's, which is valid for an hour. Without it the store is asked anonymously.",
    )
    azure_key: str | None = option(
        "fs.azure.account.key",
        OptionType.STRING,
        "The key of the storage account that a path abfs[s]://container@account… names. Without it the store is asked "
        "anonymously.",
    )
    azure_endpoint: str | None = option(
        "fs.azure.endpoint",
        OptionType.STRING,
        "The store, as http://host:port, for a path abfs[s]://…; by default Azure's.",
    )
    user: str | None = option(
        "fs.user",
        OptionType.STRING,
        "The user of hdfs, webhdfs, swebhdfs, sftp, ftp, http and https; ftp and http ask anonymously without one.",
    )
    password: str | None = option(
        "fs.password", OptionType.STRING, "The user's password, for sftp, ftp, http, https and swebhdfs."
    )
    private_key: str | None = option(
        "fs.private-key",
        OptionType.STRING,
        "The user's private key for sftp, as text in OpenSSH's or PEM form, in place of a password.",
    )
    host_key: str | None = option(
        "fs.host-key",
        OptionType.STRING,
        "The fingerprint SHA256:… of the key of a server of sftp; several are separated by commas. No other server is trusted.",
    )
    token: str | None = option(
        "fs.token", OptionType.STRING, "A delegation token for webhdfs and swebhdfs, in place of a user."
    )


class Change(Enum):
    """How a file system puts a whole file at its final name."""

    COPY = "a copy within the store, after which the staged one is removed"
    RENAME = "a rename, which replaces a file that is there"
    NEW_NAMES = "a rename to a name that is free: checkpoints need no more, tables that are written do"
    NONE = "nothing can be written"


@dataclass(frozen=True)
class FileSystem:
    """What stands behind a scheme. `make` is `module:function`, called with the place and the options. `takes` are the fields of
    `FileSystemOptions` that have a use. `has_buckets`: what stands for the server in the path is the beginning of the key."""

    make: str
    takes: tuple[str, ...]
    change: Change
    has_buckets: bool = False
    checks_addresses: bool = False
    authority: re.Pattern[str] = _SERVER
    example: str = ""

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(_KEYS[name] for name in self.takes)


FILE_OPTIONS = descriptors_of(FileSystemOptions)
_KEYS = {f.name: d.key for f, d in zip(fields(FileSystemOptions), FILE_OPTIONS, strict=True)}
_HERE = "sqlstream.runtime.host.stores"
_S3 = FileSystem(
    f"{_HERE}.arrow_stores:s3",
    ("endpoint", "region", "access_key", "secret_key"),
    Change.COPY,
    has_buckets=True,
    authority=re.compile(r"[^*?\[@:]+"),
    example="s3://bucket/directory",
)
_GS = FileSystem(
    f"{_HERE}.arrow_stores:gs",
    ("gs_endpoint", "gs_token"),
    Change.COPY,
    has_buckets=True,
    authority=re.compile(r"[^*?\[@:]+"),
    example="gs://bucket/directory",
)
_ABFS = FileSystem(
    f"{_HERE}.arrow_stores:abfs",
    ("azure_key", "azure_endpoint"),
    Change.COPY,
    authority=_CONTAINER,
    example="abfss://container@account.dfs.core.windows.net/directory",
)
_HDFS = FileSystem(
    f"{_HERE}.arrow_stores:hdfs", ("user",), Change.NEW_NAMES, example="hdfs://namenode:8020/directory"
)
_WEBHDFS = FileSystem(
    f"{_HERE}.fsspec_connections:webhdfs",
    ("user", "token"),
    Change.RENAME,
    example="webhdfs://namenode:9870/directory",
)
_SWEBHDFS = FileSystem(
    f"{_HERE}.fsspec_connections:webhdfs",
    ("user", "password", "token"),
    Change.RENAME,
    example="swebhdfs://namenode:9871/directory",
)
_SFTP = FileSystem(
    f"{_HERE}.fsspec_connections:sftp",
    ("user", "password", "private_key", "host_key"),
    Change.RENAME,
    example="sftp://host/directory",
)
_FTP = FileSystem(
    f"{_HERE}.ftp_connection:ftp", ("user", "password"), Change.RENAME, example="ftp://host/directory"
)
_HTTP = FileSystem(
    f"{_HERE}.http_store:http",
    ("user", "password"),
    Change.NONE,
    checks_addresses=True,
    example="https://host/directory",
)
_ALLUXIO = FileSystem(
    f"{_HERE}.fsspec_connections:alluxio", (), Change.NONE, example="alluxio://worker/directory"
)
FILE_SYSTEMS: Mapping[str, FileSystem] = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GS,
    "abfs": _ABFS,
    "abfss": _ABFS,
    "hdfs": _HDFS,
    "webhdfs": _WEBHDFS,
    "swebhdfs": _SWEBHDFS,
    "sftp": _SFTP,
    "ftp": _FTP,
    "http": _HTTP,
    "https": _HTTP,
    "alluxio": _ALLUXIO,
}
"""Every scheme but `file`."""


def scheme_of(path: str) -> str:
    """In small letters; empty for a path without one."""
    found = _SCHEME.match(path)
    return found.group(1).lower() if found is not None else ""


def is_in_store(path: str) -> bool:
    """Whether a path lies in a file system elsewhere, and not on this machine."""
    return scheme_of(path) in FILE_SYSTEMS


def key_start(path: str) -> int:
    """Where a path begins behind what names its server or store, in which brackets are no pattern: 0 for one of this machine."""
    found = _AUTHORITY.match(path, path.index(":") + 1) if is_in_store(path) else None
    return found.end() if found is not None else 0


def escape_pattern(path: str) -> str:
    """The pattern that matches this path alone.

    >>> escape_pattern("ftp://[::1]/a[1]"), escape_pattern("/a*")
    ('ftp://[::1]/a[[]1]', '/a[*]')
    """
    start = key_start(path)
    return path[:start] + glob.escape(path[start:])


def change_of(path: str) -> Change:
    """How files are published at a path, which may be one of this machine."""
    return FILE_SYSTEMS[scheme_of(path)].change if is_in_store(path) else Change.RENAME


def require_writable_table(path: str, table: str) -> None:
    """UserError SS5085 for a path where nothing can be written, or nothing replaced, which the commits of tables need."""
    change = change_of(path)
    if change not in (Change.NONE, Change.NEW_NAMES):
        return
    raise UserError(
        "SS5085",
        f'table "{table}" cannot be written: tables at "{scheme_of(path)}://" are only read',
        hint="write to webhdfs://, which replaces files at once"
        if change is Change.NEW_NAMES
        else "write to another file system: docs/file-systems.md lists what each can do",
    )


@dataclass(frozen=True)
class Place:
    """A path in its parts: `sftp`, `host:22` and `/directory`."""

    scheme: str
    authority: str
    key: str

    @property
    def path(self) -> str:
        return f"{self.scheme}://{self.authority}{self.key}"

    @property
    def server(self) -> tuple[str, int | None]:
        """The host, an address of IPv6 without its brackets, and the port."""
        found = _SERVER.fullmatch(self.authority)
        assert found is not None
        return found[1].strip("[]"), int(found[2]) if found[2] else None


def _is_authority(system: FileSystem, authority: str) -> bool:
    """Libraries take a port that is beyond 16 bits modulo these, or for the usual one."""
    found = system.authority.fullmatch(authority)
    if found is None or system.authority is not _SERVER:
        return found is not None
    host, port = found.groups()
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host.strip("[]"))
        except ValueError:
            return False
    return not port or 0 < int(port) < 1 << 16


def place_of(path: str, what: str = 'option "path"') -> Place:
    """The place of a path for which `is_in_store`. UserError SS4002 for one that names no bucket or server, or holds a login."""
    scheme = scheme_of(path)
    system = FILE_SYSTEMS[scheme]
    rest = path.partition(":")[2].strip("/")
    authority, _, key = rest.partition("/")
    if "@" in authority and system is not _ABFS:
        raise UserError(
            "SS4002",
            f"{what} holds a user or password",
            option="path",
            hint="give them by options such as 'fs.user' and 'fs.password', whose values no message shows",
        )
    if not _is_authority(system, authority) or "\0" in rest or "//" in rest:
        kind = "bucket of a store" if system.has_buckets or system is _ABFS else "server"
        raise UserError(
            "SS4002",
            f'{what} names no {kind}: "{path}"',
            option="path",
            hint=f"write a path such as {system.example}",
        )
    if system is _HTTP:
        # What users write is an address; from here on it has the names of files.
        key = urllib.parse.unquote(key)
    return Place("s3" if scheme == "s3a" else scheme, authority, f"/{key}" if key else "")


# The options of a table.


def check_options(table: str, options: Mapping[str, str]) -> None:
    """UserError SS4002, SS4003 and SS4005 for options of file systems that do not fit the path or each other."""
    path = options["path"]
    system = FILE_SYSTEMS.get(scheme_of(path))
    given = [descriptor.key for descriptor in FILE_OPTIONS if descriptor.key in options]
    unused = next((key for key in given if system is None or key not in system.keys), None)
    if unused is not None:
        where = "is of this machine" if system is None else f'is of file system "{scheme_of(path)}"'
        raise UserError(
            "SS4003",
            f'option "{unused}" of table "{table}" has no use: the path "{path}" {where}',
            option=unused,
            hint="leave it out, or write a path such as s3://bucket/directory",
        )
    for key in ("s3.endpoint", "gs.endpoint", "fs.azure.endpoint"):
        if key in options and _ENDPOINT.fullmatch(options[key]) is None:
            raise UserError(
                "SS4002",
                f'option "{key}" of table "{table}" is no address of a store',
                option=key,
                hint="write one such as http://localhost:9000",
            )
    check_login(f'of table "{table}"', options, path)


def check_login(whose: str, options: Mapping[str, str], path: str) -> None:
    """UserError SS4002 and SS4005 for a login of which a part is missing; `options` may be those of a table, or settings."""
    system = FILE_SYSTEMS.get(scheme_of(path))
    if system is _S3:
        _check_keys(whose, options)
    elif system is _SFTP:
        for key, use in (("fs.user", "who asks"), ("fs.host-key", "by which key the server is known")):
            if not options.get(key):
                raise _missing(
                    key,
                    whose,
                    f"say {use}"
                    if key == "fs.user"
                    else "ssh-keyscan HOST | ssh-keygen -lf - shows the fingerprint",
                )
        if not options.get("fs.password") and not options.get("fs.private-key"):
            raise _missing("fs.password", whose, "give a password or a 'fs.private-key'", given="fs.user")
    elif options.get("fs.password") and not options.get("fs.user"):
        raise _missing("fs.user", whose, "say whose password it is", given="fs.password")


def _check_keys(whose: str, options: Mapping[str, str]) -> None:
    pair = ("s3.access-key", "s3.secret-key")
    missing = [key for key in pair if not options.get(key)]
    if len(missing) == 1:
        raise _missing(
            missing[0],
            whose,
            "give both keys, or none to ask the store anonymously",
            given=next(key for key in pair if key in options),
        )
    if len(missing) == 2 and any(key in options for key in pair):
        raise UserError(
            "SS4002",
            f"the keys {whose} are empty",
            option=next(key for key in pair if key in options),
            hint="give both keys, or leave both out to ask the store anonymously",
        )


def _missing(key: str, whose: str, hint: str, given: str = "path") -> UserError:
    return UserError("SS4005", f'option "{key}" {whose} is missing', option=given, hint=hint)


# Files.


def files_of(options: Mapping[str, str], files: Files) -> Files:
    """The files of a table: those where its path lies, or the given ones for a path of this machine. UserError SS5031 where
    tables may not lie on other servers, SS5084 for a file system whose library is missing."""
    if not is_in_store(options["path"]):
        return files
    return files.guarding(remote_files(options["path"], parse_options(FileSystemOptions, options), files))


def remote_files(path: str, options: FileSystemOptions, files: Files) -> Files:
    """The same for a path for which `is_in_store`; `files` say what may be reached."""
    place = place_of(path)
    system = FILE_SYSTEMS[place.scheme]
    if not system.checks_addresses:
        files.require_database_servers()
    used: dict[str, Any] = {name: getattr(options, name) or None for name in system.takes}
    places = files.places if isinstance(files, RootedFiles) and system.checks_addresses else None
    where = Place(place.scheme, "" if system.has_buckets else place.authority, "")
    return _opened(where, FileSystemOptions(**{**dict.fromkeys(_KEYS), **used}), places)


@functools.lru_cache(_STORES_MAX)
def _opened(place: Place, options: FileSystemOptions, places: FilePlaces | None) -> Files:
    """Tables of one store share its connections."""
    made: Callable[[Place, FileSystemOptions, Files], Files] = imported(FILE_SYSTEMS[place.scheme].make)
    return made(place, options, files_at(places))


def endpoint_of(text: str | None) -> tuple[str, str] | None:
    """The scheme and the server of an option such as `s3.endpoint`; None without one."""
    found = _ENDPOINT.fullmatch(text or "")
    return (found.group(1) or "https", found.group(2)) if found is not None else None


def missing_library(scheme: str, name: str) -> UserError:
    """A file system needs a Python package that is not installed."""
    return UserError(
        "SS5084",
        f'file system "{scheme}" needs the Python package "{name}", which is not installed',
        hint="install it: pip install 'sqlstream[files]'",
    )
