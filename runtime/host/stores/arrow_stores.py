"""The file systems of pyarrow: S3, Google's and Azure's stores, and HDFS by libhdfs."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlstream.errors import UserError
from sqlstream.runtime.host.file_systems import FileSystemOptions, Place, endpoint_of
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.spi.files import Files

if TYPE_CHECKING:
    from pyarrow import fs

_CONNECT_TIMEOUT_S = 10
_REQUEST_TIMEOUT_S = 60
_TRIES_MAX = 3
_TOKEN_LIFE = datetime.timedelta(hours=1)
_NAME_NODE_PORT = 8020


def s3(place: Place, options: FileSystemOptions, files: Files) -> Files:
    from pyarrow import fs

    login: dict[str, Any] = {"anonymous": True}
    if options.access_key:
        login = {"access_key": options.access_key, "secret_key": options.secret_key}
    where: dict[str, Any] = {}
    if (endpoint := endpoint_of(options.endpoint)) is not None:
        where = {"endpoint_override": endpoint[1], "scheme": endpoint[0]}
    store = fs.S3FileSystem(
        **login,
        **where,
        region=options.region,
        connect_timeout=_CONNECT_TIMEOUT_S,
        request_timeout=_REQUEST_TIMEOUT_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES_MAX),
    )
    return StoreFiles(store, "s3://")


def gs(place: Place, options: FileSystemOptions, files: Files) -> Files:
    from pyarrow import fs

    login: dict[str, Any] = {"anonymous": True}
    if options.gs_token:
        ends = datetime.datetime.now(datetime.UTC) + _TOKEN_LIFE
        login = {"access_token": options.gs_token, "credential_token_expiration": ends}
    where: dict[str, Any] = {}
    if (endpoint := endpoint_of(options.gs_endpoint)) is not None:
        where = {"endpoint_override": endpoint[1], "scheme": endpoint[0]}
    store = fs.GcsFileSystem(
        **login, **where, retry_time_limit=datetime.timedelta(seconds=_REQUEST_TIMEOUT_S)
    )
    return StoreFiles(cast(Any, _WithDirectories(store)), "gs://")


class _WithDirectories:
    """Google's store as pyarrow has it, but for this: a directory that nobody has made, and which is there with its files, is
    listed too. It is found among the names of all files below. No state."""

    def __init__(self, store: fs.FileSystem) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_file_info(self, asked: Any) -> Any:
        from pyarrow import fs

        if isinstance(asked, str) or asked.recursive:
            return self._store.get_file_info(asked)
        below = fs.FileSelector(asked.base_dir, recursive=True, allow_not_found=asked.allow_not_found)
        found: dict[str, fs.FileInfo] = {}
        for info in self._store.get_file_info(below):
            name, _, rest = info.path[len(asked.base_dir) :].strip("/").partition("/")
            path = f"{asked.base_dir}/{name}"
            if not rest:
                found[path] = info
            elif path not in found:
                found[path] = fs.FileInfo(path, fs.FileType.Directory)
        return list(found.values())


def abfs(place: Place, options: FileSystemOptions, files: Files) -> Files:
    """The container is the beginning of the key: the path `abfs://c@account/x` is `c/x` in the store."""
    from pyarrow import fs

    container, _, account = place.authority.partition("@")
    where: dict[str, Any] = {}
    if (endpoint := endpoint_of(options.azure_endpoint)) is not None:
        scheme, server = endpoint
        where = {f"{kind}_storage_authority": server for kind in ("blob", "dfs")}
        where |= {f"{kind}_storage_scheme": scheme for kind in ("blob", "dfs")}
    store = fs.AzureFileSystem(account.partition(".")[0], account_key=options.azure_key, **where)
    return StoreFiles(store, place.path, container)


def hdfs(place: Place, options: FileSystemOptions, files: Files) -> Files:
    """UserError SS5084 where libhdfs, or the Java that it needs, is not found."""
    from pyarrow import fs

    host, port = place.server
    try:
        store = fs.HadoopFileSystem(host, port or _NAME_NODE_PORT, user=options.user)
    except OSError as error:
        if "libhdfs" not in str(error) and "libjvm" not in str(error):
            from sqlstream.runtime.host.files import file_error

            raise file_error("reach", place.path, error) from error
        raise UserError(
            "SS5084",
            'file system "hdfs" needs libhdfs and a Java, which were not found',
            # libhdfs lists all places where it has looked for a Java.
            detail=str(error).partition("\n")[0],
            hint="set HADOOP_HOME, JAVA_HOME and CLASSPATH, or use webhdfs://, which needs none of them",
        ) from error
    return StoreFiles(store, place.path, renames=True)
