"""Packages as pip installs them: a folder with the code and its `.dist-info`, made without pip and without a network."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

GUEST = Path(__file__).parent / "guest_package"


def install(source: Path, folder: Path) -> Path:
    """Put the package of a source folder with a pyproject.toml into `folder`, for PYTHONPATH; returns the folder."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    for package in source.iterdir():
        if package.is_dir():
            shutil.copytree(
                package,
                folder / package.name,
                ignore=shutil.ignore_patterns("__pycache__"),
                dirs_exist_ok=True,
            )
    return write_entry_points(folder, project["name"], project["version"], project["entry-points"])


def write_entry_points(folder: Path, name: str, version: str, groups: dict[str, dict[str, str]]) -> Path:
    """The `.dist-info` of a package alone: its name, its version, and the entry points of each group."""
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{key} = {place}" for key, place in points.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder
