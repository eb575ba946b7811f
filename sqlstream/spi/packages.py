"""What other packages bring: connectors, formats, catalogs and functions, which they name as entry points.

    [project.entry-points."sqlstream.connectors"]
    pulse = "sqlstream_pulse.connector:Pulse"

Whoever runs `pip install` for such a package can name `pulse` in the next process. What comes with sqlstream goes first: entry
points are read when a name is not one of those, or when all names are asked for.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from sqlstream.errors import UserError
from sqlstream.spi.imported_by_need import imported

API_VERSION = 1
"""The version of the protocols in sqlstream/spi. A class of another package has it as `sqlstream_api`; it grows when a class that
follows them would have to change."""


class Kind(enum.Enum):
    """What a package can bring: its word in messages. The group of its entry points has the word in the plural."""

    CONNECTOR = "connector"
    FORMAT = "format"
    CATALOG = "catalog"
    FUNCTION = "function"

    @property
    def group(self) -> str:
        return f"sqlstream.{self.value}s"


class Guest(msgspec.Struct, frozen=True):
    """A name that a package brings: `place` is `module:attribute`, `package` its name and version."""

    kind: Kind
    name: str
    place: str
    package: str

    @property
    def label(self) -> str:
        """How messages name it: `connector "pulse" of package sqlstream-pulse 0.1.0`."""
        return f'{self.kind.value} "{self.name}" of package {self.package}'

    @property
    def distribution(self) -> str:
        """The name of the package alone, as `pip install` takes it."""
        return self.package.partition(" ")[0]

    @property
    def module(self) -> str:
        return self.place.partition(":")[0]


def guest_names(kind: Kind) -> list[str]:
    """All names of this kind that packages bring."""
    return sorted(_guests(kind))


def find_guest(kind: Kind, name: str) -> Guest | None:
    """Who brings the name. UserError SS4014 when several packages do."""
    found = _guests(kind).get(name, ())
    if len(found) > 1:
        packages = sorted(guest.package for guest in found)
        raise UserError("SS4014", f'several packages bring a {kind.value} "{name}": {", ".join(packages)}')
    return found[0] if found else None


def all_guests() -> list[Guest]:
    """Every name of every kind, also one that several packages bring."""
    return [guest for kind in Kind for brought in _guests(kind).values() for guest in brought]


def load_guest(guest: Guest) -> Any:
    """The object of the entry point. UserError SS4015, with the reason, when importing it fails."""
    try:
        return imported(guest.place)
    except Exception as error:  # whatever the code of a package raises
        raise UserError(
            "SS4015",
            f"{guest.label} cannot be imported: {_said(error)}",
            hint=_import_hint(guest, error),
        ) from error


def make_guest(guest: Guest, descriptor_type: type) -> Any:
    """An instance of the guest's class, whose `descriptor` is of this type. UserError SS4015 when it is none, SS4016 when it is
    made for another version of the protocols."""
    found = load_guest(guest)
    version = getattr(found, "sqlstream_api", None)
    if version != API_VERSION:
        is_newer = isinstance(version, int) and version > API_VERSION
        said = "says no version" if version is None else f"is made for version {version}"
        raise UserError(
            "SS4016",
            f"{guest.label} {said} of sqlstream's protocols; this is version {API_VERSION}",
            hint=f"upgrade {'sqlstream' if is_newer else guest.distribution}, or install versions that fit",
        )
    try:
        made = found()
    except Exception as error:
        raise UserError(
            "SS4015",
            f"{guest.label} cannot be made: {_said(error)}",
            hint=f"report it to the authors of {guest.distribution}",
        ) from error
    descriptor = getattr(made, "descriptor", None)
    if not isinstance(descriptor, descriptor_type) or descriptor.identifier != guest.name:  # type: ignore[attr-defined]
        raise UserError(
            "SS4015",
            f'{guest.label} is "{guest.place}", which has no {descriptor_type.__name__} of that name',
            hint="its attribute `descriptor` has the name of the entry point as its identifier",
        )
    return made


def _said(error: Exception) -> str:
    """The first line of what a package's code has raised."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"


def _import_hint(guest: Guest, error: Exception) -> str:
    package = guest.distribution
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if guest.module == error.name or guest.module.startswith(f"{error.name}."):
            return f"install {package} in each environment that runs tasks"
        return f"install {error.name}, or {package} anew with what it needs"
    return f"report it to the authors of {package}, or uninstall it"


@functools.cache
def _guests(kind: Kind) -> Mapping[str, tuple[Guest, ...]]:
    """By name, in small letters for functions. Read once in a process."""
    from importlib.metadata import entry_points

    found: dict[str, dict[str, Guest]] = {}
    for point in entry_points(group=kind.group):
        name = point.name.lower() if kind is Kind.FUNCTION else point.name
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "of no name"
        found.setdefault(name, {})[package] = Guest(kind, name, point.value.replace(" ", ""), package)
    return {name: tuple(by_package.values()) for name, by_package in found.items()}
