"""Jobs whose state is larger than the memory that it may take, in real processes."""

from __future__ import annotations

import resource
from pathlib import Path

from command_harness import sqlstream

SCRIPT = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}');
SELECT COUNT(*) AS keys, SUM(n) AS total FROM (SELECT DISTINCT MOD(n * 7919, CAST({keys} AS BIGINT)) AS n FROM numbers);
"""
IN_CHILDREN = ("-D", "sqlstream.in-process.max-input-size=0")


def run(path: Path, rows: int, keys: int, *settings: str, file_bytes_max: int = 0) -> tuple[int, str, str]:
    script = path / "script.sql"
    script.write_text(SCRIPT.format(rows=rows, keys=keys))
    options = [word for setting in settings for word in ("-D", setting)]
    limit = {}
    if file_bytes_max:
        limits = (file_bytes_max, file_bytes_max)
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)}
    done = sqlstream("run", str(script), *IN_CHILDREN, *options, **limit)
    return done.returncode, done.stdout, done.stderr


def test_state_beyond_the_budget_fails_the_job_with_the_name_of_its_operator(tmp_path: Path) -> None:
    code, _, said = run(
        tmp_path,
        2_000_000,
        2_000_000,
        "taskmanager.memory.managed.size=32 mb",
        "restart-strategy.type=fixed-delay",
        "restart-strategy.fixed-delay.attempts=100",
    )
    assert code == 1
    assert 'error[SS6260]: operator "' in said
    assert "all state of its slot takes " in said
    assert "hint: SET 'state.backend.type' = 'mapped' to keep state in files" in said


def test_mapped_state_beyond_the_budget_gives_the_same_result(tmp_path: Path, disk_path: Path) -> None:
    code, out, said = run(
        tmp_path,
        1_500_000,
        1_000_000,
        "taskmanager.memory.managed.size=8 mb",
        "state.backend.type=mapped",
        f"io.tmp.dirs={disk_path}",
    )
    assert code == 0, said
    assert ["+U", "1000000", "499999500000"] in [
        [c.strip() for c in line.strip("|").split("|")] for line in out.splitlines()
    ]
    assert list(disk_path.iterdir()) == []


def test_mapped_state_that_the_disk_does_not_hold_fails_the_job_with_the_name_of_its_operator(
    tmp_path: Path,
) -> None:
    code, _, said = run(
        tmp_path,
        2_000_000,
        2_000_000,
        "state.backend.type=mapped",
        "restart-strategy.type=none",
        f"io.tmp.dirs={tmp_path}",
        file_bytes_max=8 << 20,
    )
    assert code == 1
    assert 'error[SS6262]: operator "' in said
    assert f'could not keep more state in files below "{tmp_path}": file too large' in said
