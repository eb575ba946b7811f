"""docs/python.md and docs/python-api.md are doctests; the files that a page shows are there."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from documentation import blocks_of

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(("page", "examples"), [("python.md", 30), ("python-api.md", 25)])
def test_its_examples_hold(page: str, examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in blocks_of((DOCS / page).read_text(encoding="utf-8")):
        if block.language == "file":
            (tmp_path / block.name).write_text(block.text)
    monkeypatch.syspath_prepend(tmp_path)
    failed, tried = doctest.testfile(
        str(DOCS / page), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL
    )
    assert (failed, tried > examples) == (0, True)
