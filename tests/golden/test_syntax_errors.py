"""Each script in errors/syntax is refused with exactly the text beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream.errors import UserError, render_error
from sqlstream.planner.dialect.parser import parse_script

CASES = sorted((Path(__file__).parent / "errors" / "syntax").glob("*.sql"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_script_that_is_no_sql_is_refused_with_its_position(
    case: Path, golden: Callable[[Path, str], None]
) -> None:
    script = case.read_text()
    with pytest.raises(UserError) as raised:
        parse_script(script)
    assert raised.value.span is not None
    golden(case.with_suffix(".out"), render_error(raised.value, script))
