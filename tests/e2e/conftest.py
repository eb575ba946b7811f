"""What the tests of the command share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write a SQL file; its path."""

    def write(text: str) -> str:
        path = tmp_path / "script.sql"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
