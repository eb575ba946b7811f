"""docs/sql/functions.md says what the signatures and descriptions say; `pytest --rewrite` makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlstream.functions.page import functions_page

PAGE = Path(__file__).parents[2] / "docs" / "sql" / "functions.md"


def test_the_page_of_functions_is_made_from_their_signatures(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, functions_page())
