"""The documentation names what is there: files it links to, options, functions, and examples that can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlstream.functions import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS
from sqlstream.functions.rewritten import REWRITTEN
from sqlstream.planner.bind.expressions.calls import callable_names
from sqlstream.planner.bind.relations.table_options import _WATERMARK_OPTIONS
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.runtime.connectors import CONNECTORS, connector
from sqlstream.runtime.formats import FORMATS, format_of

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SQL_PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
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


def documented(key: str) -> bool:
    return f"`{key}`" in SQL_PAGE


def test_the_sql_page_names_every_option_of_watermarks() -> None:
    assert [o.key for o in _WATERMARK_OPTIONS if not documented(o.key)] == []


@pytest.mark.parametrize("identifier", CONNECTORS)
def test_the_sql_page_names_every_connector_and_its_options(identifier: str) -> None:
    descriptor = connector(identifier).descriptor
    assert re.search(rf"^### .*\b{identifier}\b|`{identifier}`", SQL_PAGE, re.MULTILINE)
    assert [o.key for o in descriptor.options if not documented(o.key)] == []
    assert [key for key in descriptor.reading.metadata if not documented(key)] == []


@pytest.mark.parametrize("identifier", FORMATS)
def test_the_sql_page_names_every_format_and_its_options(identifier: str) -> None:
    assert f"### {identifier}\n" in SQL_PAGE
    options = format_of(identifier).descriptor.options
    assert [o.key for o in options if not documented(f"{identifier}.{o.key}")] == []


def test_the_sql_page_names_every_function() -> None:
    page = SQL_PAGE[SQL_PAGE.index("## Functions") : SQL_PAGE.index("## Connectors")]
    assert [name for name in callable_names() if f"`{name}`" not in page] == []


def test_the_sql_page_names_no_function_that_is_not_there() -> None:
    page = SQL_PAGE[SQL_PAGE.index("**Comparison**") : SQL_PAGE.index("## Connectors")]
    named = set(re.findall(r"`([A-Z][A-Z0-9_ ]+)`", page)) - {
        "BETWEEN",
        "DATE",
        "DESC",
        "ESCAPE",
        "NULL",
        "TIME",
        "TO",
    }
    assert named - SCALAR_FUNCTIONS.keys() - AGGREGATE_FUNCTIONS.keys() - REWRITTEN.keys() == set()
