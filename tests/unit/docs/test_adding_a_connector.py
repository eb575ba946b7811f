"""The connector of docs/adding/connector.md and the format of format.md: laid over the tree, they run in three engines."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from document_overlay import ROOT, Overlay, blocks, each_engine

from sqlstream.runtime.connectors import CONNECTORS
from sqlstream.runtime.formats import FORMATS


@dataclasses.dataclass(frozen=True)
class Page:
    """A page of docs/adding, and the folder and stem of the files that it adds."""

    file: str
    folder: str
    stem: str

    @property
    def test(self) -> str:
        return f"tests/unit/runtime/{self.folder}/test_{self.stem}.py"

    @property
    def document(self) -> str:
        return f"docs/{self.folder}/{self.stem}.md"

    def overlay(self, path: Path) -> Overlay:
        registry = f"runtime/{self.folder}/__init__.py"
        folders = (str(Path(file).parent) for file in (self.test, self.document))
        made = Overlay(path, (registry, *folders, "tests/unit/docs/*.py", "tests/*.py"))
        code, line, checks = blocks(self.file, "python")
        made.write(f"runtime/{self.folder}/{self.stem}.py", code)
        made.insert(registry, line, "\n}\n")
        made.write(self.test, checks)
        page = (ROOT / "docs/adding" / self.file).read_text(encoding="utf-8")
        (document,) = re.findall(r"````markdown\n(.*?)````", page, re.DOTALL)
        made.write(self.document, document)
        return made


PAGES = [Page("connector.md", "connectors", "numbers"), Page("format.md", "formats", "arrow")]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.file)


@each_page
@pytest.mark.timeout(600)
def test_what_the_page_adds_passes_its_tests_and_is_documented(page: Page, tmp_path: Path) -> None:
    overlay = page.overlay(tmp_path)
    (command,) = re.findall(r"`pytest (\S+) --rewrite`", (ROOT / "docs/adding" / page.file).read_text())
    chosen = f"test_{page.stem} or {page.document.removeprefix('docs/')}"
    said = overlay.pytest(page.test, command, "--rewrite", "-v", "-k", chosen)
    assert page.test in said
    overlay.pytest(command, "tests/unit/docs/test_links.py", "-k", page.stem)
    (table,) = re.findall(r"\+--.*--\+\n", blocks(page.file, "text")[0], re.DOTALL)
    assert table in (overlay.path / page.document).read_text()


@each_page
@pytest.mark.timeout(600)
@each_engine
def test_what_the_page_adds_runs_in_every_engine(page: Page, engine: str, tmp_path: Path) -> None:
    overlay = page.overlay(tmp_path)
    shown = blocks(page.file, "text")[0]
    found = re.search(r"\$ cat \S+\n(.*?)\n\$ sqlstream run[^\n]*\n(.*--\+\n)", shown, re.DOTALL)
    assert found is not None
    assert found[2] in overlay.run(found[1], engine)


def test_the_tree_has_no_such_connector_and_format() -> None:
    assert not {page.stem for page in PAGES} & {*CONNECTORS, *FORMATS}
