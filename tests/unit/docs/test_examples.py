"""The examples of the pages about SQL, connectors and formats, and the tutorials, run and show what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_harness import ROOT
from documentation import blocks_of, differences, rewrite, with_options

MADE = {"functions.md", "conformance.md"}
"""Pages that other tests write."""
ALSO = (
    "README.md",
    *(f"docs/{page}.md" for page in ("batch", "checkpoints", "concepts", "limits", "state", "verify", "why")),
)
FOLDERS = ("sql", "connectors", "formats", "tutorials")
PAGES = [
    *(ROOT / page for page in ALSO),
    *(
        page
        for folder in FOLDERS
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
        if page.name not in MADE
    ),
]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_page_shows_what_appears(page: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    # The README is about the folder that it stands in.
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    assert {"sql", "console"} & {block.language for block in blocks_of(page.read_text(encoding="utf-8"))}
    found = differences(page, tmp_path)
    if pytestconfig.getoption("--rewrite"):
        rewrite(page, found)
        return
    assert [(block.text, appears) for block, appears in found] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_tables_of_options_are_those_of_the_declarations(
    page: Path, golden: Callable[[Path, str], None]
) -> None:
    golden(page, with_options(page.read_text(encoding="utf-8")))
