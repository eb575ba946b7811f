"""docs/python.md and docs/python-api.md are doctests."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(("page", "examples"), [("python.md", 30), ("python-api.md", 25)])
def test_its_examples_hold(page: str, examples: int) -> None:
    failed, tried = doctest.testfile(
        str(DOCS / page), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL
    )
    assert (failed, tried > examples) == (0, True)
