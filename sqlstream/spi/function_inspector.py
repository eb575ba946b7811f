"""What the planner asks of Python objects: those that CREATE FUNCTION names, and those that other packages bring."""

from __future__ import annotations

from typing import Protocol

from sqlstream.catalog import CatalogFunction
from sqlstream.function_ref import InspectedFunction


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
