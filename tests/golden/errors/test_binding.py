"""Each script under binding/ is refused with exactly the error beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from planner_harness import TABLES, Planner

from sqlstream.errors import UserError, render_error

SCRIPTS = sorted((Path(__file__).parent / "binding").glob("*.sql"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_is_refused_with_its_golden_error(
    script: Path, golden: Callable[[Path, str], None]
) -> None:
    planner = Planner()
    planner.run(TABLES)
    text = script.read_text()
    with pytest.raises(UserError) as refused:
        planner.run(text)
    golden(script.with_suffix(".out"), render_error(refused.value, text))
