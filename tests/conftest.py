"""Golden files: `golden(path, text)` compares, and `pytest --rewrite` writes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# Output that a command does not flush must be missed, also where the surroundings turn buffers off.
os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write golden files instead of comparing with them"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Hold `text` to the file at `path`."""

    def compare(path: Path, text: str) -> None:
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--rewrite"):
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest --rewrite"
        assert text == path.read_text()

    return compare
