"""Options by which tables wait for each other."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream.errors import UserError
from sqlstream.specs.watermark import Alignment

GROUP, DRIFT, INTERVAL = (f"scan.watermark.alignment.{n}" for n in ("group", "max-drift", "update-interval"))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({GROUP: "g"}, "SS4005", f'option "{GROUP}" needs the option "{DRIFT}"'),
        ({DRIFT: "1 s"}, "SS4005", f'option "{DRIFT}" needs the option "{GROUP}"'),
        ({INTERVAL: "1 s"}, "SS4005", f'option "{INTERVAL}" needs the option "{GROUP}"'),
        ({GROUP: " ", DRIFT: "1 s"}, "SS4002", f'option "{GROUP}" is empty'),
        ({GROUP: "g", DRIFT: "soon"}, "SS4002", "soon"),
        ({GROUP: "g", DRIFT: "1 s", INTERVAL: "0 s"}, "SS4002", INTERVAL),
    ],
)
def test_options_that_do_not_fit_are_refused_where_they_stand(
    planner: Planner, options: dict[str, str], code: str, message: str
) -> None:
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    with pytest.raises(UserError) as refused:
        planner.plan(f"SELECT id FROM e /*+ OPTIONS({listed}) */")
    assert refused.value.code == code
    assert message in refused.value.message
    assert refused.value.span is not None


def test_a_table_without_a_watermark_is_refused(planner: Planner) -> None:
    with pytest.raises(UserError, match="has no watermark by which it could be aligned") as refused:
        planner.plan(f"SELECT a FROM t /*+ OPTIONS('{GROUP}' = 'g', '{DRIFT}' = '1 s') */")
    assert (refused.value.code, refused.value.span is not None) == ("SS4003", True)


def test_the_interval_has_a_default() -> None:
    assert Alignment.of({}) is None
    assert Alignment.of({GROUP: "g", DRIFT: "2 min"}) == Alignment("g", 120_000, 1_000)
    assert Alignment.of({GROUP: "g", DRIFT: "0 s", INTERVAL: "50 ms"}) == Alignment("g", 0, 50)
