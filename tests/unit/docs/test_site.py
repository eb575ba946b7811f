"""The site of the documentation has all pages in its menu, and no link beyond them."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import yaml
from command_harness import ROOT

DOCS = ROOT / "docs"


def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / ".ci" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_menu_once() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = site()._pages(site().expanded(settings["nav"], DOCS))
    assert sorted(pages) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_a_link_to_the_code_is_its_words() -> None:
    text = "[run.py](../client/run.py) and [SQL](sql/index.md#statements), ![shell](pictures/shell.svg), [x](https://example.org)"
    assert site().without_outside_links(text, "tour.md", DOCS) == text.replace(
        "[run.py](../client/run.py)", "run.py"
    )


def test_nothing_of_the_site_is_fetched_from_elsewhere() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    # Others bring scripts or pictures from servers of their own.
    assert settings["plugins"] == ["search"]
    pages = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")]
    assert [
        text for page in pages for text in re.findall(r"!\[[^\]]*\]\(https?:[^)]*\)|<img[^>]*https?:", page)
    ] == []
