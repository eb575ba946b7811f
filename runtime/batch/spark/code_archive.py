"""Our packages, and those that bring connectors, formats and functions, as an archive for the workers of a Spark cluster."""

from __future__ import annotations

import importlib.util
import os
import zipfile
from typing import TYPE_CHECKING

from sqlstream.runtime.host.process import import_root
from sqlstream.spi.packages import Guest, Kind, all_guests

if TYPE_CHECKING:
    from pyspark import SparkContext

ARCHIVE = "sqlstream_code"
"""The directory among a job's files into which Spark unpacks the archive. Kernels are loaded from files, not from an archive."""

_LEFT_OUT = frozenset(("planner", "client", "queries", "__pycache__"))
"""What plans statements and answers users: workers do neither."""
_SUFFIXES = (".py", ".kernels", ".txt")
_NATIVE = (".so", ".pyd", ".dylib")


def add_our_code(context: SparkContext, directory: str) -> None:
    """Ship our packages to every worker: they run the code of this process, whatever version is installed there."""
    path = os.path.join(directory, f"{ARCHIVE}.zip")
    write_code_archive(path)
    context.addArchive(f"{path}#{ARCHIVE}")


def write_code_archive(path: str) -> None:
    """What readers and writers of tables import, with compiled kernels. Dependencies must be installed where the workers run.

    Packages with entry points of ours are in it with these, so that workers find them by name. One that has machine code, or is
    no directory or file, is left to be installed there: a worker without it says so.
    """
    root = import_root()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        # In a checkout, the parts of the package are links.
        for directory, parts, files in os.walk(os.path.join(root, "sqlstream"), followlinks=True):
            parts[:] = sorted(set(parts) - _LEFT_OUT)
            for file in sorted(files):
                if file.endswith(_SUFFIXES):
                    name = os.path.join(directory, file)
                    archive.write(name, os.path.relpath(name, root))
        guests = all_guests()
        for top in sorted({guest.module.partition(".")[0] for guest in guests}):
            _add_package(archive, top)
        for package in sorted({guest.package for guest in guests}):
            _add_entry_points(archive, package, [guest for guest in guests if guest.package == package])


def _add_package(archive: zipfile.ZipFile, top: str) -> None:
    """The sources of a top-level package or module, unless it cannot run from an archive that is unpacked elsewhere."""
    found = importlib.util.find_spec(top)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if found is None or not (places or (found.origin or "").endswith(".py")):
        return
    if not places:
        assert found.origin is not None
        archive.write(found.origin, os.path.basename(found.origin))
        return
    names = [
        os.path.join(directory, file)
        for directory, _, files in os.walk(places[0])
        for file in sorted(files)
        if "__pycache__" not in directory
    ]
    if any(name.endswith(_NATIVE) for name in names):
        return
    for name in names:
        archive.write(name, os.path.join(top, os.path.relpath(name, places[0])))


def _add_entry_points(archive: zipfile.ZipFile, package: str, guests: list[Guest]) -> None:
    """A package's name and entry points, as an installation has them."""
    name, _, version = package.partition(" ")
    directory = f"{name.replace('-', '_')}-{version}.dist-info"
    archive.writestr(f"{directory}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = {
        kind.group: [f"{guest.name} = {guest.place}" for guest in guests if guest.kind is kind]
        for kind in Kind
    }
    text = "\n".join(f"[{group}]\n" + "\n".join(lines) + "\n" for group, lines in groups.items() if lines)
    archive.writestr(f"{directory}/entry_points.txt", text)
