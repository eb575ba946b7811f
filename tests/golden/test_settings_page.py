"""docs/settings.md says what the declarations of the options say; `pytest --rewrite` makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlstream.options.page import settings_page

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_of_settings_is_made_from_their_declarations(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, settings_page())
