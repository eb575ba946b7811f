"""Every example in a docstring gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    ".".join(("sqlstream", *path.relative_to(place).with_suffix("").parts))
    # The other three are parts of the first, which has links to them.
    for place in (ROOT / "sqlstream", ROOT)
    for part in (("",) if place != ROOT else ("planner", "runtime", "client"))
    for path in (place / part).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_hold(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried
    assert failed == 0
