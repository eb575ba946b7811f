"""The files that go with a job: found where 'pipeline.cached-files' says, and sent to the cluster unless it has them."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

from sqlstream import config as options
from sqlstream.client.clusters.cluster_client import ClusterClient
from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.artifacts import PART_BYTES, PYTHON, Artifact
from sqlstream.models import MODEL_FILE

if TYPE_CHECKING:
    from sqlstream.runtime.host.files import LocalFiles
    from sqlstream.spi.files import Files

CACHED_FILES = "pipeline.cached-files"
FILES_MAX = 100
_PART = re.compile(r"(name|path)\s*:\s*(?P<quote>['\"`]?)(?P<value>[^'\"`]*)(?P=quote)")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def named_files(text: str) -> dict[str, str]:
    """The paths of 'pipeline.cached-files' by name. UserError SS5088.

    >>> named_files("name:a,path:/tmp/a.txt;name:b,path:'s3://bucket/b'")
    {'a': '/tmp/a.txt', 'b': 's3://bucket/b'}
    """
    found: dict[str, str] = {}
    for entry in filter(str.strip, text.split(";")):
        parts = [_PART.fullmatch(part.strip()) for part in entry.split(",")]
        values = {part.group(1): part.group("value").strip() for part in parts if part is not None}
        name = values.get("name", "")
        is_whole = None not in parts and len(parts) == 2 and len(values) == 2 and values["path"]
        if not is_whole or _NAME.fullmatch(name) is None or name in found or len(found) == FILES_MAX:
            raise UserError(
                "SS5088",
                f'option "{CACHED_FILES}" names no file, or one twice: "{entry.strip()}"',
                hint=f"write 'name:model,path:models/model.onnx', and ; between as many as {FILES_MAX} of them",
            )
        found[name] = values["path"]
    return found


def shipped_files(config: Mapping[str, str], cluster: ClusterClient, files: Files) -> tuple[Artifact, ...]:
    """The files that jobs with these settings take along, once the cluster has them. `files` are those that the user may name.
    UserError SS5087 for one that is too large, SS5088 for one that is not there."""
    named = named_files(options.get(config, CACHED_FILES))
    return tuple(_sent(name, path, config, cluster, files) for name, path in named.items())


def model_version(path: str, config: Mapping[str, str], files: Files) -> str:
    """The SHA-256 of a model's file. UserError SS5087 for one that is too large, SS5088 for one that is not there."""
    if (known := _DIGEST.fullmatch(path)) is not None:
        return known.group(1)
    with _opened("model", path, config, files) as stream:
        return _DIGESTS.of(stream, options.get(config, "sqlstream.artifacts.max-size"), path)[0]


def shipped_models(
    paths: Mapping[str, str], config: Mapping[str, str], cluster: ClusterClient, files: Files
) -> tuple[Artifact, ...]:
    """The files of models, by the SHA-256 that the plan names, once the cluster has them. ExternalError SS5089 for one that has
    changed since."""
    artifacts = []
    for version, path in paths.items():
        artifact = _sent(MODEL_FILE + version, path, config, cluster, files)
        if artifact.digest != version:
            raise ExternalError(
                "SS5089", f'the file "{path}" of a model has changed while its job was planned'
            )
        artifacts.append(artifact)
    return tuple(artifacts)


def shipped_archives(
    paths: tuple[str, ...], config: Mapping[str, str], cluster: ClusterClient, files: LocalFiles
) -> tuple[tuple[str, ...], tuple[Artifact, ...]]:
    """The paths of Python files that become a part of the plan, and the archives that are too large for it, once the cluster has
    them. UserError SS2033, SS5087."""
    from sqlstream.runtime.python.packing import large_archives

    large = large_archives(paths, files)
    sent = (_sent(f"{PYTHON}{i}", path, config, cluster, files) for i, path in enumerate(large))
    return tuple(path for path in paths if path not in large), tuple(sent)


def _sent(name: str, path: str, config: Mapping[str, str], cluster: ClusterClient, files: Files) -> Artifact:
    if (known := _DIGEST.fullmatch(path)) is not None:
        size = cluster.artifact_size(known.group(1))
        if size is None:
            raise _missing(
                name, path, "upload it again: the cluster keeps a file for an hour until a job needs it"
            )
        return Artifact(name, known.group(1), size)
    size_max: int = options.get(config, "sqlstream.artifacts.max-size")
    with _opened(name, path, config, files) as stream:
        digest, size = _DIGESTS.of(stream, size_max, path)
    artifact = Artifact(name, digest, size)
    there = cluster.add_artifact_part(artifact, 0, b"")
    if there < size:
        with _opened(name, path, config, files) as stream:
            stream.seek(there)
            _send(artifact, there, stream, cluster, path)
    return artifact


def _opened(name: str, path: str, config: Mapping[str, str], files: Files) -> BinaryIO:
    """UserError SS5088 for what is no file."""
    from sqlstream.runtime.connectors.files.file_paths import table_path
    from sqlstream.runtime.host.file_systems import files_of

    place = table_path(path)
    files = files_of({**{key: value for key, value in config.items() if value}, "path": path}, files)
    status = files.status(place)
    if status is None or status.is_directory:
        raise _missing(name, path, "name a file; a directory goes as an archive")
    return files.open_read(place)


class _Digests:
    """Those of local files, so that a large one is not read for each statement. A file is another one once its number, its bytes
    or its times change; one that has changed only now may do so again unseen, and is not kept. Thread-safe.

    State: the digests of KEPT_MAX files, those that were asked for last."""

    KEPT_MAX = 256
    SETTLED_NS = 2_000_000_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, ...], str] = {}

    def of(self, stream: BinaryIO, size_max: int, path: str) -> tuple[str, int]:
        """The SHA-256 in hex and the bytes of an open file. UserError SS5087."""
        from sqlstream.runtime.host.artifacts import digest_of, too_large

        before = self._look(stream)
        with self._lock:
            digest = self._kept.pop(before, None) if before else None
        size = before[2] if before else 0
        if digest is None:
            with _reading(path):
                digest, size = digest_of(stream, size_max, path)
        if size > size_max:
            raise too_large(path, size_max)
        if before and before == self._look(stream) and max(before[3:]) + self.SETTLED_NS < time.time_ns():
            with self._lock:
                self._kept[before] = digest
                while len(self._kept) > self.KEPT_MAX:
                    del self._kept[next(iter(self._kept))]
        return digest, size

    @staticmethod
    def _look(stream: BinaryIO) -> tuple[int, ...]:
        """Device, number, bytes and times; nothing for a file of a store elsewhere."""
        try:
            found = os.fstat(stream.fileno())
        except (AttributeError, OSError):
            return ()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_DIGESTS = _Digests()


def _send(artifact: Artifact, there: int, stream: object, cluster: ClusterClient, path: str) -> None:
    """ExternalError SS5089 for a file that changes meanwhile."""
    while there < artifact.size:
        with _reading(path):
            data = stream.read(PART_BYTES)  # type: ignore[attr-defined]
        if not data:
            raise ExternalError("SS5089", f'"{path}" has become shorter while it was sent')
        taken = cluster.add_artifact_part(artifact, there, data)
        if taken != there + len(data):
            # Somebody else sends the same file: go on behind what is there.
            stream.seek(taken)  # type: ignore[attr-defined]
        there = taken


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """ExternalError SS5001 for a file that can be opened and not read, as some of /proc."""
    from sqlstream.runtime.host.files import file_error

    try:
        yield
    except OSError as error:
        raise file_error("read", path, error) from error


def _missing(name: str, path: str, hint: str) -> UserError:
    return UserError("SS5088", f'the file "{name}" that goes with the job is not there: "{path}"', hint=hint)
