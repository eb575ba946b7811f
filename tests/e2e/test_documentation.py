"""What README and tour show is what appears."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60


def blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def sqlstream(command: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sqlstream", command, "-"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=script,
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_plans_of_the_tour_are_those_that_explain_prints() -> None:
    (script,) = blocks("docs/tour.md", "sql")
    plans = blocks("docs/tour.md", "text")
    assert len(plans) == 4
    printed = sqlstream("explain", script).stdout
    for plan in plans:
        assert plan in printed


def test_the_error_in_the_readme_is_the_one_that_appears() -> None:
    shown = [block for block in blocks("README.md", "text") if block.startswith("error[")]
    script = "CREATE VIEW clicks AS SELECT 1 AS user_id;\nSELECT usr_id FROM clicks;\n"
    assert [sqlstream("run", script).stderr] == shown


def test_the_script_in_the_readme_runs() -> None:
    (script,) = blocks("README.md", "sql")
    assert "3 rows in set" in sqlstream("run", script).stdout
