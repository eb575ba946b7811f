"""All code is imported from one package: a module beside a user's script has no name of ours."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("planner", "runtime", "client")


def _imported(path: Path) -> set[str]:
    """The top-level packages that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


def test_nothing_imports_a_part_as_a_package_of_its_own() -> None:
    """In the root of a checkout `import planner` would work, and load every module a second time."""
    files = [
        path
        for part in (*PARTS, "sqlstream", "tests", "queries")
        for path in (ROOT / part).rglob("*.py")
        if any(f"import {name}" in (text := path.read_text()) or f"from {name}" in text for name in PARTS)
    ]
    assert {str(path.relative_to(ROOT)) for path in files if _imported(path) & set(PARTS)} == set()


def test_the_parts_are_reached_through_the_package() -> None:
    assert all((ROOT / "sqlstream" / name).resolve() == ROOT / name for name in (*PARTS, "queries"))
