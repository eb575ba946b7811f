"""The declaration and protocol of a type of catalogs, which CREATE CATALOG names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from sqlstream.catalog import CatalogDefinition
    from sqlstream.catalog.manager import Catalog


class CatalogDescriptor(msgspec.Struct, frozen=True):
    """`identifier` is what `'type' = '…'` names. Other options than these, which are all texts, are refused."""

    identifier: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


class CatalogType(Protocol):
    """A type of catalogs of another package. Its module must be cheap to import: `open` imports heavy libraries."""

    descriptor: CatalogDescriptor

    def open(self, name: str, definition: CatalogDefinition) -> Catalog:
        """The catalog of a name and definition. UserError for a wrong option, ExternalError when it cannot be opened."""


@runtime_checkable
class NamesCatalogPaths(Protocol):
    """A type of catalogs that are kept in files."""

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """The local files or directories of a catalog with these options, none for one without files."""


CATALOG_TYPES = {
    descriptor.identifier: descriptor
    for descriptor in (
        CatalogDescriptor("generic_in_memory", optional=("default-database",)),
        CatalogDescriptor("file", ("path",), ("default-database",)),
    )
}
"""Those that come with sqlstream."""
