"""An environment in which no TaskManager comes up: the command says why, and does not wait for ever."""

from __future__ import annotations

import os
from pathlib import Path

from command_harness import ROOT, environment, sqlstream

NEVER = "slot.request.timeout=1 h"

BREAKS_CHILDREN = """
import sys
if sys.flags.safe_path:
    raise SystemExit("libarrow.so: cannot open shared object file")
"""
"""A module that Python imports first; only children are started with -P."""


def test_a_job_fails_with_the_last_words_of_children_that_never_come_up(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BREAKS_CHILDREN)
    done = sqlstream(
        *("run", "--set", NEVER, "--task-managers", "2", "-"),
        env=environment(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])),
        stdin="CREATE TABLE t (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1'); SELECT n FROM t;",
        shows_traceback=True,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error[SS6003]: no TaskManager is left" in done.stderr
    assert "ended with exit code 1" in done.stderr
    assert (
        done.stderr.count("SystemExit: libarrow.so: cannot open shared object file") == 1
    )  # Not once a child.
