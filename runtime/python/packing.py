"""The Python files of a statement as one archive: what goes with the job."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

from sqlstream.errors import UserError
from sqlstream.graph.python_files import PythonFiles

ARCHIVE_BYTES_MAX = 8 * 1024 * 1024
"""The largest archive, compressed: it is part of the plan."""
CONTENT_BYTES_MAX = 64 * 1024 * 1024
FILES_MAX = 2000
LARGE_FILES_MAX = 50_000

_OURS = "sqlstream"
_NATIVE = (".so", ".pyd", ".dylib", ".dll")
_LEFT_OUT = re.compile(r"(^|/)(__pycache__|\.[^/]*|[^/]*\.dist-info)(/|$)")
_HINT = "ship less, or install the packages where the TaskManagers run"


def split_paths(text: str) -> tuple[str, ...]:
    """The paths of 'python.files'."""
    return tuple(path for part in text.split(",") if (path := part.strip()))


def pack(paths: tuple[str, ...], files: Any) -> PythonFiles | None:
    """The archive of the .py and .zip files and directories at `paths`, which `files` reads; None for no path. A directory,
    and the top of a .zip, are what is importable in it. UserError SS2033 for what cannot be shipped, ExternalError for what
    cannot be read."""
    contents: dict[str, bytes] = {}
    size = 0
    for path in dict.fromkeys(paths):
        for name, content in _read(path, files):
            if _LEFT_OUT.search(name):
                continue
            _check_name(name, path)
            if contents.setdefault(name, content) != content:
                raise _refusal(
                    f'"{path}" has another "{name}" than the files before it', "give one of them another name"
                )
            size += len(content)
            if size > CONTENT_BYTES_MAX or len(contents) > FILES_MAX:
                limit = f"{FILES_MAX} files of {CONTENT_BYTES_MAX >> 20} MiB together"
                raise _refusal(f'"{path}" makes the Python files of a job more than {limit}', _HINT)
    if not contents:
        return None
    archive = _archive(contents)
    if len(archive) > ARCHIVE_BYTES_MAX:
        limit = f"{ARCHIVE_BYTES_MAX >> 20} MiB"
        raise _refusal(f'"{paths[-1]}": the Python files of a job take more than {limit}, compressed', _HINT)
    return PythonFiles(hashlib.sha256(archive).hexdigest(), archive)


def large_archives(paths: tuple[str, ...], files: Any) -> tuple[str, ...]:
    """Those of the paths that are archives too large to be a part of the plan, which go beside it, as they are. UserError SS2033
    for one that cannot be shipped."""
    found = []
    for path in dict.fromkeys(paths):
        status = files.status(path) if path.endswith((".zip", ".whl")) else None
        if status is not None and not status.is_directory and status.size > ARCHIVE_BYTES_MAX:
            with _opened(path, files) as archive:
                entries = [
                    e for e in archive.infolist() if not e.is_dir() and not _LEFT_OUT.search(e.filename)
                ]
            if len(entries) > LARGE_FILES_MAX:
                raise _refusal(f'"{path}" has more than {LARGE_FILES_MAX} files', _HINT)
            for entry in entries:
                _check_entry(entry, path)
                _check_name(entry.filename, path)
            found.append(path)
    return tuple(found)


@contextlib.contextmanager
def _opened(path: str, files: Any) -> Iterator[zipfile.ZipFile]:
    try:
        with files.open_read(path) as stream, zipfile.ZipFile(stream) as archive:
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise _refusal(f'"{path}" is no zip archive: {error}', "write it with python -m zipfile") from error


def _check_entry(entry: zipfile.ZipInfo, path: str) -> None:
    if entry.file_size > CONTENT_BYTES_MAX:
        raise _refusal(f'"{entry.filename}" in "{path}" is too large', _HINT)


def _read(path: str, files: Any) -> Iterator[tuple[str, bytes]]:
    """The names within the archive, and the contents."""
    status = files.status(path)
    if status is None and not os.path.isdir(files.absolute(path)):
        raise _refusal(f'the Python file "{path}" does not exist', "name a .py or .zip file, or a directory")
    if os.path.isdir(files.absolute(path)):
        for found in files.list_files(path):
            name = os.path.relpath(files.absolute(found.path), files.absolute(path)).replace(os.sep, "/")
            if not _LEFT_OUT.search(name):
                yield name, _content(found.path, files)
    elif path.endswith((".zip", ".whl")):
        with _opened(path, files) as archive:
            for entry in archive.infolist():
                _check_entry(entry, path)
                if not entry.is_dir():
                    yield entry.filename, archive.read(entry)
    elif path.endswith(".py"):
        yield os.path.basename(path), _content(path, files)
    else:
        raise _refusal(f'"{path}" is no Python file', "name a .py or .zip file, or a directory")


def _content(path: str, files: Any) -> bytes:
    with files.open_read(path) as stream:
        content: bytes = stream.read(CONTENT_BYTES_MAX + 1)
    if len(content) > CONTENT_BYTES_MAX:
        raise _refusal(f'"{path}" has more than {CONTENT_BYTES_MAX >> 20} MiB', _HINT)
    return content


def _check_name(name: str, path: str) -> None:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise _refusal(f'"{path}" has a file outside of it, "{name}"', "write the archive anew")
    if name.endswith(_NATIVE):
        hint = "install the package where the TaskManagers run"
        raise _refusal(f'"{name}" in "{path}" is machine code, which is not shipped', hint)
    top = parts[0].removesuffix(".py")
    if top == _OURS or top in sys.stdlib_module_names:
        whose = _OURS if top == _OURS else "Python itself"
        raise _refusal(f'"{path}" has a module "{top}", which is one of {whose}', "give it another name")


def _archive(contents: dict[str, bytes]) -> bytes:
    """The same archive for the same contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            archive.writestr(zipfile.ZipInfo(name), contents[name], zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def _refusal(message: str, hint: str) -> UserError:
    return UserError("SS2033", message, hint=hint)
