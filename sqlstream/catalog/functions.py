"""Functions that users have written in Python, as a catalog holds them."""

from __future__ import annotations

import msgspec

from sqlstream.catalog.objects import ObjectPath
from sqlstream.function_ref import FunctionRef


class CatalogFunction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function as CREATE FUNCTION resolved it. Its name is in small letters.

    `class_name` is `module.name` of the Python object, `files` what USING names: they go with each job that calls the function.
    A temporary system function has a path without catalog and database, and so has one that a `package` brings, which no catalog
    holds."""

    path: ObjectPath
    class_name: str
    ref: FunctionRef
    files: tuple[str, ...] = ()
    comment: str = ""
    is_temporary: bool = False
    package: str = ""

    @property
    def is_system(self) -> bool:
        return not self.path.catalog


def system_path(name: str) -> ObjectPath:
    """The path of a temporary system function, or of a package's."""
    return ObjectPath("", "", name)
