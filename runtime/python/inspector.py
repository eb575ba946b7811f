"""Inspects Python functions in this process: for sessions whose user is the one who runs it."""

from __future__ import annotations

from typing import Any

from sqlstream.function_ref import InspectedFunction
from sqlstream.runtime.python.environment import use_files
from sqlstream.runtime.python.loading import load_function
from sqlstream.runtime.python.packing import pack, split_paths


class LocalFunctionInspector:
    """Implements `FunctionInspector`. `python_files` is the setting, and `files` the file system that may be read."""

    def __init__(self, python_files: str, files: Any) -> None:
        self._paths = split_paths(python_files)
        self._files = files

    def inspect(self, module: str, attribute: str, files: tuple[str, ...]) -> InspectedFunction:
        use_files(pack((*files, *self._paths), self._files))
        try:
            return load_function(module, attribute, "SS2031").declared
        finally:
            use_files(None)
