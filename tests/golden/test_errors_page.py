"""docs/errors.md says what the table of error codes says; `pytest --rewrite` makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlstream.error_codes import errors_page

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_the_page_of_errors_is_made_from_their_codes(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, errors_page())
