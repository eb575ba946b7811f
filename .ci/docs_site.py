"""What the site of the documentation needs beyond mkdocs: whole folders in its menu, and pages without links to the code."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def expanded(nav: list[Any], docs: Path) -> list[Any]:
    """The menu, in which `folder/*` is the pages of that folder that no other entry names, its index first."""
    named = set(_pages(nav))
    return [_expanded(item, docs, named) for item in nav]


def _pages(nav: list[Any]) -> list[str]:
    found: list[str] = []
    for item in nav:
        (target,) = item.values() if isinstance(item, dict) else (item,)
        found += _pages(target) if isinstance(target, list) else [target]
    return found


def _expanded(item: Any, docs: Path, named: set[str]) -> Any:
    if isinstance(item, str):
        return item
    ((title, target),) = item.items()
    if isinstance(target, list):
        return {title: [_expanded(i, docs, named) for i in target]}
    if not target.endswith("/*"):
        return item
    files = sorted((docs / target[:-2]).glob("*.md"), key=lambda path: (path.name != "index.md", path.name))
    pages = [path.relative_to(docs).as_posix() for path in files]
    return {title: [page for page in pages if page not in named]}


def without_outside_links(markdown: str, page: str, docs: Path) -> str:
    """The text of a page in which links to files beyond the documentation are their words alone."""

    def words(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), found[2]))
        is_inside = "://" in found[2] or (docs / target).is_file()
        return found[0] if is_inside else found[1]

    return LINK.sub(words, markdown)


def on_config(config: Any) -> Any:
    config["nav"] = expanded(config["nav"], Path(config["docs_dir"]))
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    return without_outside_links(markdown, page.file.src_uri, Path(config["docs_dir"]))
