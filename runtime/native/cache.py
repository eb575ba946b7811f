"""Where the object code of kernels comes from, and where it is kept between processes.

One file holds the object code of one file of kernels. Its name carries a digest of all that the code depends on, so code that
is out of date is never found. A checksum finds what was damaged; it is compiled again.

* **Shipped code** is a part of the package `runtime`, in `kernels/x86_64_v3`. It runs on Linux with any x86-64 processor that
  has AVX2. Its digest is that of the sources: the file of kernels, `intrinsics.py` and what generates code in this package.
  Only the processor's instructions and CPython's and numpy's binary interfaces matter to it, not their versions.
* **Compiled code** is made where no shipped code fits. Its digest also holds the versions of numba, llvmlite, numpy and Python,
  and the processor. Old code is removed once newer code has been written a few times.

Compiled code is kept in the first of these that can be written: `.kernel_cache` in the package `runtime`,
`$XDG_CACHE_HOME/sqlstream/kernels` (by default `~/.cache/sqlstream/kernels`), a directory of this user's in the temporary
folder. `SQLSTREAM_KERNEL_CACHE`, when set, wins over all of these and over shipped code. Everybody may read what is written
there; code is run only from files and directories that this user or root owns and nobody else can write.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sqlstream.runtime.host.cache_directory import is_safe, user_directories, writable_directory
from sqlstream.runtime.native import loader

logger = logging.getLogger(__name__)

VARIABLE = "SQLSTREAM_KERNEL_CACHE"
_SUFFIX = ".kernels"
_HERE = Path(__file__).resolve().parent
_RUNTIME = _HERE.parent
SHIPPED = _RUNTIME / "kernels" / "x86_64_v3"
_GENERATORS = (
    *(_HERE / f"{name}.py" for name in ("compiler", "definition", "entry", "loader")),
    _RUNTIME / "kernels" / "intrinsics.py",
)
"""What every kernel is made with, apart from its own file."""

_KERNELS_PACKAGE = "sqlstream.runtime.kernels."
_OWNERS_ALONE_WRITE = 0o755
_CHECKSUM_BYTES = 32
_DIGEST_CHARACTERS = 32

_VERSIONS_MAX = 3
"""Files kept for one file of kernels, those written last: the user's cache is shared by installations, such as one for work and
one for tests, and each compiles for a minute what another one has removed."""


class Deferred:
    """A kernel without object code, which is compiled when it is first called. Thread-safe. State: its machine code, then."""

    def __init__(self, function: Callable[..., Any], compiled: Callable[[], Callable[..., Any]]) -> None:
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self._compiled = compiled
        self._lock = threading.Lock()
        self._machine_code: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._machine_code or self.compile())(*arguments)

    def compile(self) -> Callable[..., Any]:
        """The machine code, which is made at the first call."""
        with self._lock:
            if self._machine_code is None:
                self._machine_code = self._compiled()
            return self._machine_code


class ModuleKernels:
    """The kernels of one file. State: the addresses of those that are loaded, whose code the linker has; those that are not."""

    def __init__(self, module: str) -> None:
        self._module = module
        source = _source(module)
        self._path_name = _compiled_name(module, source)
        objects = _read_shipped(module, source) or _read(self._path_name)
        self._addresses: dict[str, int] = loader.LINKER.load(objects) if objects else {}
        self.deferred: list[Deferred] = []

    def load(self, function: Callable[..., Any], signatures: Sequence[str]) -> Callable[..., Any]:
        """The machine code of a kernel as a function; where there is none, a function that compiles it first."""
        symbol = f"{self._module}.{function.__name__}"
        if symbol in self._addresses:
            return loader.LINKER.function(function.__name__, self._addresses[symbol], function.__doc__)
        deferred = Deferred(function, lambda: self._compile(function, signatures, symbol))
        self.deferred.append(deferred)
        return deferred

    def _compile(
        self, function: Callable[..., Any], signatures: Sequence[str], symbol: str
    ) -> Callable[..., Any]:
        say_what_takes_long()
        from sqlstream.runtime.native.compiler import compile_kernel

        code = compile_kernel(function, signatures, symbol)
        (address,) = loader.LINKER.load({symbol: code}).values()
        _write(self._path_name, {**_read(self._path_name), symbol: code})
        _remove_old(stem_of(self._module))
        return loader.LINKER.function(function.__name__, address, function.__doc__)


_MODULES: dict[str, ModuleKernels] = {}
_LOCK = threading.Lock()


def kernels_of(module: str) -> ModuleKernels:
    """The kernels of a file that is being imported."""
    with _LOCK:
        if module not in _MODULES:
            _MODULES[module] = ModuleKernels(module)
        return _MODULES[module]


def cache_directories() -> tuple[Path, ...]:
    """Where compiled code is looked for, best first; it is written to the first that can be. Creates nothing."""
    if chosen := os.environ.get(VARIABLE):
        return (Path(chosen),)
    return (_RUNTIME / ".kernel_cache", *user_directories("kernels"))


@functools.cache
def _environment() -> bytes:
    """What compiled code depends on beside its sources."""
    import importlib.util

    digest = hashlib.sha256(f"{sys.implementation.cache_tag}\n{loader.host()}".encode())
    for package in ("numba", "llvmlite", "numpy"):
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        file = Path(found.origin).parent / ("version.py" if package == "numpy" else "_version.py")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.digest()


@functools.cache
def _generators() -> bytes:
    digest = hashlib.sha256()
    for file in _GENERATORS:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.digest()


def _source(module: str) -> bytes:
    path = sys.modules[module].__file__
    assert path is not None
    return Path(path).read_bytes()


def stem_of(module: str) -> str:
    """What the names of a module's files of code begin with: `json.json_tape`."""
    return module.removeprefix(_KERNELS_PACKAGE)


def _name(module: str, source: bytes, environment: bytes) -> str:
    digest = hashlib.sha256(environment + _generators() + hashlib.sha256(source).digest())
    return f"{stem_of(module)}-{digest.hexdigest()[:_DIGEST_CHARACTERS]}{_SUFFIX}"


def shipped_name(module: str, source: bytes) -> str:
    """The name of the file with the shipped code of a file of kernels."""
    return _name(module, source, b"")


def _compiled_name(module: str, source: bytes) -> str:
    return _name(module, source, _environment())


def _read_shipped(module: str, source: bytes) -> dict[str, bytes]:
    """Shipped code by symbol; empty where there is none that fits. It is as safe as the package that it is a part of."""
    if VARIABLE in os.environ or not module.startswith(_KERNELS_PACKAGE) or not loader.runs_shipped_code():
        return {}
    return _read_file(SHIPPED / shipped_name(module, source)) or {}


def _read(name: str) -> dict[str, bytes]:
    """Compiled code by symbol; empty when there is none, or it is damaged, or others could have changed it."""
    for directory in cache_directories():
        path = directory / name
        if is_safe(path) and is_safe(directory) and (objects := _read_file(path)) is not None:
            return objects
    return {}


def _read_file(path: Path) -> dict[str, bytes] | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    checksum, content = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if hashlib.sha256(content).digest() != checksum:
        return None
    return msgspec.msgpack.decode(content, type=dict[str, bytes])


def _directory_to_write() -> Path | None:
    return writable_directory(cache_directories(), _OWNERS_ALONE_WRITE)


@functools.cache
def say_what_takes_long() -> None:
    """One line before a process compiles for the first time."""
    directory = _directory_to_write()
    kept = (
        f"once, for they are kept in {directory}"
        if directory
        else f"at every start: no directory can be written to keep them. Set {VARIABLE} to one of yours"
    )
    logger.warning("compiling kernels for this processor, which takes some seconds: %s", kept)


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
    directory = _directory_to_write()
    if directory is not None:
        with contextlib.suppress(OSError):
            write_file(directory / name, objects)


def write_file(path: Path, objects: Mapping[str, bytes]) -> None:
    """Write object code by symbol, for everybody to read. OSError when that fails, which leaves nothing."""
    content = msgspec.msgpack.encode(objects)
    # A process that reads meanwhile finds the old file or the new one.
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file, _removed_on_error(file.name):
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fchmod(file.fileno(), _OWNERS_ALONE_WRITE & 0o666)
        os.replace(file.name, path)


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
