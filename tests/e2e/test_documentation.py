"""What the tour shows is what appears."""

from __future__ import annotations

from command_harness import ROOT, sqlstream
from documentation import blocks_of

PAGE = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")


def test_the_plans_of_the_tour_are_those_that_explain_prints() -> None:
    (script,) = (b.text for b in blocks_of(PAGE) if b.language == "sql")
    plans = [b.text for b in blocks_of(PAGE) if b.language == "text"]
    assert len(plans) == 4
    printed = sqlstream("explain", "-", stdin=script).stdout
    for plan in plans:
        assert plan in printed
