"""The examples of the pages about SQL, connectors and formats, and the tutorials, run and show what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_harness import ROOT
from documentation import differences, rewrite, with_options

MADE = {"functions.md", "conformance.md"}
"""Pages that other tests write."""
PAGES = [
    page
    for pattern in ("sql/*.md", "connectors/*.md", "formats/*.md", "tutorials/*.md", "*.md")
    for page in sorted((ROOT / "docs").glob(pattern))
    if page.name not in MADE
    and (page.parent != ROOT / "docs" or page.stem in ("concepts", "checkpoints", "limits"))
]


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT / "docs")) for p in PAGES])
def test_a_page_shows_what_appears(page: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    found = differences(page, tmp_path)
    if pytestconfig.getoption("--rewrite"):
        rewrite(page, found)
        return
    assert [(block.text, appears) for block, appears in found] == []


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT / "docs")) for p in PAGES])
def test_tables_of_options_are_those_of_the_declarations(
    page: Path, golden: Callable[[Path, str], None]
) -> None:
    golden(page, with_options(page.read_text(encoding="utf-8")))
