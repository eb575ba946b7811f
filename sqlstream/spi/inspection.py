"""What the planner asks of files that a statement names by their path, and of Python objects that are functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlstream.catalog import CatalogFunction
from sqlstream.catalog.objects import InferredTable
from sqlstream.function_ref import InspectedFunction


class FileInference(Protocol):
    """Reads as much of files as tells their columns. One object serves one statement: it lists the files of a path once.

    Errors are SqlStreamError without a position. UserError SS5002: no file is there. SS5024: no table can be inferred from a
    file. SS5025: files do not make one table. SS5030: a path lies outside of the allowed directories.
    """

    def format(self, path: str) -> str:
        """The format of the files at a path, by their suffix."""

    def table(self, options: Mapping[str, str]) -> InferredTable:
        """The table of the files at `path`, one of the options; `format` is another, and those of the format hold."""


# What the planner asks of Python objects: those that CREATE FUNCTION names, and those that other packages bring.


class FunctionInspector(Protocol):
    """Imports modules of users. One object serves one statement.

    Errors are SqlStreamError without a position: UserError SS2031 when the object cannot be imported, or is not what a decorator
    has made; SS2033 for files that cannot be shipped, SS2034 where Python functions are not allowed.
    """

    def inspect(self, module: str, attribute: str, files: tuple[str, ...]) -> InspectedFunction:
        """The declaration of `module.attribute`, which may be in one of the files."""


class InstalledFunctions(Protocol):
    """The functions that other packages bring. Names are in small letters."""

    def find(self, name: str) -> CatalogFunction | None:
        """None when no package brings the name. UserError SS4014, SS4015 for a package that cannot be used."""

    def names(self) -> list[str]: ...
