"""Where the object code of kernels is kept between processes.

One file holds the object code of one file of kernels. Its name carries a digest of all that the code depends on: the text of
that file, of `runtime/kernels/intrinsics.py` and of this package, the versions of numba, llvmlite, numpy and Python, and the
processor. So code that is out of date is never found, and is removed once newer code has been written a few times. A checksum
finds what was damaged; it is compiled again.

The directory is `.kernel_cache` in the package `runtime` when that can be written or has been filled by whoever installed
it, else `$XDG_CACHE_HOME/sqlstream/kernels` (by default `~/.cache/sqlstream/kernels`). `SQLSTREAM_KERNEL_CACHE`, when set,
wins. Code is run only from files and directories that this user or root owns and nobody else can write.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runtime.native import loader

_VARIABLE = "SQLSTREAM_KERNEL_CACHE"
_SUFFIX = ".kernels"
_HERE = Path(__file__).resolve().parent
_RUNTIME = _HERE.parent
_CHECKSUM_BYTES = 32
_DIGEST_CHARACTERS = 32

_VERSIONS_MAX = 3
"""Files kept for one file of kernels, those written last: the user's cache is shared by installations, such as one for work and
one for tests, and each compiles for a minute what another one has removed."""


class ModuleKernels:
    """The kernels of one file. State: the addresses of those that are loaded; the linker has their code."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._stem = module.removeprefix("runtime.kernels.")
        self._path_name = f"{self._stem}-{_digest(module)}{_SUFFIX}"
        objects = _read(self._path_name)
        self._addresses: dict[str, int] = loader.LINKER.load(objects) if objects else {}

    def load(self, function: Callable[..., Any], signatures: Sequence[str]) -> Callable[..., Any]:
        """The machine code of a kernel as a function."""
        name = function.__name__
        symbol = f"{self._module}.{name}"
        if symbol not in self._addresses:
            from runtime.native.compiler import compile_kernel

            code = compile_kernel(function, signatures, symbol)
            self._addresses |= loader.LINKER.load({symbol: code})
            _write(self._path_name, {**_read(self._path_name), symbol: code})
            _remove_old(self._stem)
        return loader.LINKER.function(name, self._addresses[symbol], function.__doc__)


_MODULES: dict[str, ModuleKernels] = {}
_LOCK = threading.Lock()


def kernels_of(module: str) -> ModuleKernels:
    """The kernels of a file that is being imported."""
    with _LOCK:
        if module not in _MODULES:
            _MODULES[module] = ModuleKernels(module)
        return _MODULES[module]


def cache_directories() -> tuple[Path, ...]:
    """Where object code is looked for, best first; it is written to the first that can be. Creates nothing."""
    if chosen := os.environ.get(_VARIABLE):
        return (Path(chosen),)
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return (_RUNTIME / ".kernel_cache", Path(cache_home) / "sqlstream" / "kernels")


def is_safe(path: Path) -> bool:
    """Whether nobody but this user and root can have put code there."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.cache
def _environment() -> bytes:
    """All that every kernel depends on."""
    import importlib.util

    parts = [sys.implementation.cache_tag, loader.host()]
    files = [*sorted(_HERE.glob("*.py")), _RUNTIME / "kernels" / "intrinsics.py"]
    for package in ("numba", "llvmlite", "numpy"):
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        place = Path(found.origin).parent
        files.append(place / ("version.py" if package == "numpy" else "_version.py"))
    digest = hashlib.sha256("\n".join(parts).encode())
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.digest()


def _digest(module: str) -> str:
    source = sys.modules[module].__file__
    assert source is not None
    text = Path(source).read_bytes()
    digest = hashlib.sha256(_environment() + hashlib.sha256(text).digest())
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


def _read(name: str) -> dict[str, bytes]:
    """Object code by symbol; empty when there is none, or it is damaged, or others could have changed it."""
    for directory in cache_directories():
        path = directory / name
        if not (is_safe(path) and is_safe(directory)):
            continue
        try:
            data = path.read_bytes()
        except OSError:
            continue
        checksum, content = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
        if hashlib.sha256(content).digest() == checksum:
            return msgspec.msgpack.decode(content, type=dict[str, bytes])
    return {}


@contextlib.contextmanager
def _removed_on_error(path: str) -> Iterator[None]:
    try:
        yield
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


def _write(name: str, objects: Mapping[str, bytes]) -> None:
    """Put object code where the next process finds it. Where nothing can be written it is compiled again each time."""
    content = msgspec.msgpack.encode(objects)
    for directory in cache_directories():
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_safe(directory):
                continue
            # A process that reads meanwhile finds the old file or the new one.
            with (
                tempfile.NamedTemporaryFile(dir=directory, delete=False) as file,
                _removed_on_error(file.name),
            ):
                file.write(hashlib.sha256(content).digest() + content)
                file.flush()
                os.replace(file.name, directory / name)
            return


def _remove_old(stem: str) -> None:
    """Remove code of the same kernels that was written long before: its digest is most likely that of an earlier version."""
    for directory in cache_directories():
        if not is_safe(directory):
            continue
        with contextlib.suppress(OSError):
            found = list(directory.glob(f"{stem}-{'?' * _DIGEST_CHARACTERS}{_SUFFIX}"))
            found.sort(key=lambda path: path.stat().st_mtime_ns)
            for path in found[:-_VERSIONS_MAX]:
                path.unlink(missing_ok=True)
