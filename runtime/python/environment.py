"""The modules of a job within a process that serves several: each archive is imported once, and its modules hide no other job's.

A module that was shipped is found by its plain name. Of two jobs that ship different modules of one name each has its own:
the names in `sys.modules` are those of the archive that was imported from last, and functions keep the modules that they were
made in.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import io
import itertools
import os
import sys
import threading
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from sqlstream.graph.python_files import PythonFiles
from sqlstream.python_functions import cached_files, use_cached_files

KEPT_MAX = 16
"""Archives whose modules a process keeps; a job that is still running keeps those that it uses."""

_lock = threading.RLock()
_kept: OrderedDict[str, PythonEnvironment] = OrderedDict()
_in_front: PythonEnvironment | None = None
_of_thread = threading.local()


class Contents:
    """The files of archives by their names: those of one from memory, of others from the disk, the first that has one.

    State: the open archives."""

    def __init__(self, archive: bytes | None, large: Sequence[str]) -> None:
        self._small: dict[str, bytes] = {}
        if archive is not None:
            with zipfile.ZipFile(io.BytesIO(archive)) as small:
                self._small = {name: small.read(name) for name in small.namelist()}
        self._large: dict[str, zipfile.ZipFile] = {}
        for opened in map(zipfile.ZipFile, large):
            self._large = {**dict.fromkeys(opened.namelist(), opened), **self._large}

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self._small, self._large)

    def __contains__(self, name: str) -> bool:
        return name in self._small or name in self._large

    def get(self, name: str) -> bytes | None:
        if name in self._small or name not in self._large:
            return self._small.get(name)
        return self._large[name].read(name)


class PythonEnvironment(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the modules of one archive from memory, and of `large` ones from the disk. State: the modules, while those
    of another archive are in front."""

    def __init__(self, files: PythonFiles | None, large: Sequence[str] = ()) -> None:
        digests = [files.digest] if files is not None else [os.path.basename(path) for path in large]
        self._prefix = f"<python.files {digests[0][:12]}>/"
        self._modules: dict[str, types.ModuleType] = {}
        self._contents = Contents(files.archive if files is not None else None, large)
        self._packages = {
            "/".join(parts[:i])
            for name in self._contents
            if name.endswith(".py") and (parts := name.split("/"))
            for i in range(1, len(parts))
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        place = fullname.replace(".", "/")
        is_package = place in self._packages
        name = f"{place}/__init__.py" if is_package else f"{place}.py"
        if not is_package and name not in self._contents:
            return None
        spec = importlib.util.spec_from_loader(
            fullname, self, origin=self._prefix + name, is_package=is_package
        )
        if spec is not None:
            spec.has_location = True
            if is_package:
                spec.submodule_search_locations = [f"{self._prefix}{place}"]
        return spec

    def get_source(self, fullname: str) -> str:
        place = fullname.replace(".", "/")
        for name in (f"{place}/__init__.py", f"{place}.py"):
            if (content := self._contents.get(name)) is not None:
                return importlib.util.decode_source(content)
        # A directory of modules without __init__.py.
        return ""

    def is_package(self, fullname: str) -> bool:
        return fullname.replace(".", "/") in self._packages

    def get_code(self, fullname: str) -> types.CodeType:
        place = fullname.replace(".", "/")
        name = f"{place}/__init__.py" if self.is_package(fullname) else f"{place}.py"
        return compile(self.get_source(fullname), self._prefix + name, "exec", dont_inherit=True)

    def get_data(self, path: str) -> bytes:
        """For `pkgutil.get_data`."""
        found = self._contents.get(path.removeprefix(self._prefix))
        if found is None:
            raise FileNotFoundError(path)
        return found

    def bring_to_front(self) -> None:
        """Make the names in `sys.modules` those of this archive."""
        global _in_front
        if _in_front is self:
            return
        if _in_front is not None:
            _in_front.withdraw()
        sys.meta_path.insert(0, self)
        sys.modules.update(self._modules)
        _in_front = self

    def withdraw(self) -> None:
        own = {n: m for n, m in sys.modules.items() if getattr(m, "__loader__", None) is self}
        self._modules = own
        for name in own:
            del sys.modules[name]
        sys.meta_path.remove(self)

    def is_own_file(self, filename: str) -> bool:
        return filename.startswith(self._prefix)


def use_files(
    files: PythonFiles | None, paths: dict[str, str] | None = None, large: Sequence[str] = ()
) -> None:
    """Have this thread import from the archive, and from the `large` ones at these paths, until it is called again; without any,
    from what is installed alone. `paths` are the files that functions open by name: modules may keep what they have read, so that
    those of jobs with other files are others."""
    use_cached_files(paths or {})
    if files is None and not large:
        _of_thread.environment = None
        return
    digest = files.digest if files is not None else ""
    key = repr((digest, sorted((paths or {}).items()), *large))
    with _lock:
        found = _kept.pop(key, None) or PythonEnvironment(files, large)
        _kept[key] = found
        while len(_kept) > KEPT_MAX:
            _kept.popitem(last=False)
    _of_thread.environment = found


def files_of_thread() -> Callable[[], None]:
    """What makes another thread import from the archive of this one, and find the files that its functions open."""
    environment, paths = getattr(_of_thread, "environment", None), cached_files()

    def take() -> None:
        _of_thread.environment = environment
        use_cached_files(paths)

    return take


def import_object(module: str, attribute: str) -> Any:
    """The object, from the archive of this thread or from what is installed. Whatever the import raises; AttributeError when
    the module has no such name."""
    global _in_front
    environment: PythonEnvironment | None = getattr(_of_thread, "environment", None)
    with _lock:
        if environment is not None:
            environment.bring_to_front()
        elif _in_front is not None:
            _in_front.withdraw()
            _in_front = None
        return getattr(importlib.import_module(module), attribute)
