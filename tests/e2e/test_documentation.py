"""What README and tour show is what appears."""

from __future__ import annotations

import re
from pathlib import Path

from command_harness import ROOT, sqlstream


def blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def test_the_plans_of_the_tour_are_those_that_explain_prints() -> None:
    (script,) = blocks("docs/tour.md", "sql")
    plans = blocks("docs/tour.md", "text")
    assert len(plans) == 4
    printed = sqlstream("explain", "-", stdin=script).stdout
    for plan in plans:
        assert plan in printed


def test_the_error_in_the_readme_is_the_one_that_appears() -> None:
    shown = [block for block in blocks("README.md", "text") if block.startswith("error[")]
    script = "CREATE VIEW clicks AS SELECT 1 AS user_id;\nSELECT usr_id FROM clicks;\n"
    assert [sqlstream("run", "-", stdin=script).stderr] == shown


def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    (shown,) = [
        block for block in blocks("README.md", "text") if block.startswith("$ sqlstream run queries/")
    ]
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    done = sqlstream("run", "queries/getting_started.sql", cwd=tmp_path)
    # Seconds differ; a warning would be another line.
    printed = re.sub(r" in [\d.]+ s\n", " in … s\n", done.stderr) + done.stdout
    assert printed == re.sub(r" in [\d.]+ s\n", " in … s\n", shown.partition("\n")[2])


def test_the_script_in_the_readme_runs() -> None:
    (script,) = blocks("README.md", "sql")
    assert "3 rows in set" in sqlstream("run", "-", stdin=script).stdout
