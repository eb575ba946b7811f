"""The documentation names what is there: files it links to, options, functions, and examples that can be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream import __version__
from sqlstream.client.catalog.stored import FORMAT as CATALOG_VERSION
from sqlstream.client.gateway.routes import VERSIONS as GATEWAY_VERSIONS
from sqlstream.client.server.job_store import FORMAT_VERSION as JOBS_VERSION
from sqlstream.client.server.place_formats import OURS
from sqlstream.functions import CALLABLE, SCALAR_FUNCTIONS
from sqlstream.kept_formats import TABLE_LOGS, TOKENS
from sqlstream.messages.manifest import MANIFEST_VERSION
from sqlstream.planner.bind.expressions.calls import callable_names
from sqlstream.planner.bind.relations.table_options import _WATERMARK_OPTIONS
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.runtime.connectors import CONNECTORS, connector
from sqlstream.runtime.formats import FORMATS, format_of
from sqlstream.spi.packages import API_VERSION

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = [t.partition("#")[0] for t in LINK.findall(prose) if "://" not in t and not t.startswith("#")]
    missing = [t for t in targets if not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_every_sql_example_is_sql(page: Path) -> None:
    for language, text in FENCED.findall(page.read_text(encoding="utf-8")):
        if language == "sql":
            assert parse_script(text)


HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PUNCTUATION = re.compile(r"[^\w\- ]")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(prose))
    return {PUNCTUATION.sub("", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_every_anchor_is_that_of_a_heading(page: Path) -> None:
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    links = [t.partition("#") for t in LINK.findall(prose) if "://" not in t and "#" in t]
    found = [(page.parent / path if path else page, anchor) for path, _, anchor in links]
    wrong = [
        f"{path.name}#{anchor}"
        for path, anchor in found
        if path.suffix == ".md" and path.exists() and anchor not in anchors(path)
    ]
    assert wrong == []


NAMED_FILE = re.compile(r"`(\w+\.)?(\w+)`\s+\(\[([^\]]+)\]\(([^)#]+\.py)\)\)")
FILE_LINK = re.compile(r"\[([\w./\\]+\.py)\]\(([^)#]+\.py)\)")


@pytest.mark.parametrize("page", ["tour", "architecture"])
def test_what_is_named_before_a_link_to_the_code_stands_in_that_file(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    named = [(name, ROOT / "docs" / path) for _, name, _, path in NAMED_FILE.findall(text)]
    assert named != []
    wrong = [
        f"{name} {file.name}"
        for name, file in named
        if not re.search(
            rf"^\s*(def|class) {name}\b|^\s*{name}\b.*=|\"{name}\"", file.read_text(), re.MULTILINE
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_a_link_to_the_code_has_the_name_of_the_file(page: Path, golden: Callable[[Path, str], None]) -> None:
    """`pytest --rewrite` names the files that have moved."""

    def named(found: re.Match[str]) -> str:
        label, path = found[1].replace("\\", ""), found[2]
        return found[0] if Path(label).name == Path(path).name else f"[{Path(path).name}]({path})"

    golden(page, FILE_LINK.sub(named, page.read_text(encoding="utf-8")))


def test_the_page_of_upgrades_has_the_versions_of_the_files() -> None:
    page = (ROOT / "docs/upgrade.md").read_text(encoding="utf-8")
    versions = dict(re.findall(r"^\| ([a-z ]+)[^|]*\| (\d+) \|", page, re.MULTILINE))
    assert versions == {
        "checkpoints and savepoints ": str(MANIFEST_VERSION),
        "jobs of a server ": str(JOBS_VERSION),
        "a catalog of type ": str(CATALOG_VERSION),
        "names and hashes of tokens ": str(TOKENS.version),
        "what the log of a table of files has of jobs ": str(TABLE_LOGS.version),
        "the data directory": str(OURS.version),
    }
    assert f"is a number: it is {API_VERSION}." in page
    assert f"versions v{min(GATEWAY_VERSIONS)} to v{max(GATEWAY_VERSIONS)}" in page
    assert f"release {__version__}" in page


def test_pages_that_the_code_names_are_there() -> None:
    packages = ("sqlstream", "planner", "runtime", "client")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py") if not file.is_symlink()]
    named = {
        name for file in files for name in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def text_of(folder: str) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / folder).glob("*.md")))


def test_the_page_of_time_names_the_options_of_watermarks() -> None:
    page = (ROOT / "docs/sql/time.md").read_text(encoding="utf-8")
    assert [o.key for o in _WATERMARK_OPTIONS if f"`{o.key}`" not in page] == []


@pytest.mark.parametrize(
    "identifier", sorted(i for i in CONNECTORS if not connector(i).descriptor.is_internal)
)
def test_a_connector_has_a_page_with_its_options_and_metadata(identifier: str) -> None:
    page = (ROOT / f"docs/connectors/{identifier}.md").read_text(encoding="utf-8")
    descriptor = connector(identifier).descriptor
    keys = [*(o.key for o in descriptor.options), *descriptor.reading.metadata]
    assert page.startswith(f"# {identifier}\n")
    assert [key for key in keys if f"`{key}`" not in page] == []


@pytest.mark.parametrize("identifier", FORMATS)
def test_a_format_has_a_page_with_its_options(identifier: str) -> None:
    page = (ROOT / f"docs/formats/{identifier}.md").read_text(encoding="utf-8")
    options = format_of(identifier).descriptor.options
    assert page.startswith(f"# {identifier}\n")
    assert [o.key for o in options if f"`{identifier}.{o.key}`" not in page] == []


def test_the_pages_name_every_function() -> None:
    pages = text_of("sql")
    assert [name for name in callable_names() if not re.search(rf"`{re.escape(name)}[`(]", pages)] == []


@pytest.mark.parametrize("page", ["expressions", "time"])
def test_the_pages_name_no_function_that_is_not_there(page: str) -> None:
    text = FENCED.sub("", (ROOT / f"docs/sql/{page}.md").read_text(encoding="utf-8"))
    words = {
        "BETWEEN",
        "DATE",
        "DESC",
        "ESCAPE",
        "NULL",
        "TIME",
        "TO",
        "STRING",
        "VARIANT",
        "GROUP BY",
        "OVER",
    }
    words |= {"WITHIN GROUP", "DISTINCT", "TABLESAMPLE", "SHOW TABLES", "DESCRIBE", "TIMESTAMP", "IGNORE"}
    named = set(re.findall(r"`([A-Z][A-Z0-9_ ]+)`", text)) - words
    assert named - SCALAR_FUNCTIONS.keys() - CALLABLE.keys() == set()


def test_a_release_is_told_in_30_lines_under_four_titles() -> None:
    _, *releases = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert releases[0].startswith("[Unreleased]")
    assert releases[1].startswith(f"[{__version__}] - ")
    for release in releases:
        lines = [line for line in release.splitlines() if line.strip()]
        assert len(lines) <= 30
        assert {line for line in lines if line.startswith("###")} <= {
            f"### {t}" for t in ("New", "Faster", "Breaking", "Fixed")
        }
