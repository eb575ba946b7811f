"""What a process does before it ends, however it leaves; and the temporary directories that it removes then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def run(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_was_given_last_is_called_first_however_the_process_ends(tmp_path: Path) -> None:
    given = "from sqlstream.runtime.host.process_end import before_end, leave;"
    given += "[before_end(lambda i=i: print(i, flush=True)) for i in (1, 2)];"
    left = run(f"{given} leave(7)", tmp_path)
    assert (left.returncode, left.stdout) == (7, "2\n1\n")
    ended = run(f"{given} print('end', flush=True)", tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "end\n2\n1\n")


def test_an_action_that_fails_or_hangs_keeps_no_process_alive(tmp_path: Path) -> None:
    given = "import time; from sqlstream.runtime.host.process_end import before_end, leave; before_end({}); leave(7, 0.2)"
    assert run(given.format("lambda: time.sleep(600)"), tmp_path).returncode == 7
    assert run(given.format("lambda: 1 / 0").replace(", 0.2", ""), tmp_path).returncode == 7


@pytest.mark.parametrize("end", ["leave(0)", "leave(0, 5)", "pass", "raise ValueError"])
def test_spill_directories_are_removed_before_the_process_ends(tmp_path: Path, end: str) -> None:
    text = (
        "from sqlstream.runtime.host.process_end import leave; from sqlstream.runtime.host.spill_directory import *; import os\n"
        "directory = make_spill_directory(); open(f'{directory}/rows', 'w').close()\n"
        f"print(os.listdir(directory), flush=True)\n{end}"
    )
    assert run(text, tmp_path).stdout == "['rows']\n"
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_killed_process_is_removed_by_another_once_it_is_old(tmp_path: Path) -> None:
    make = "from sqlstream.runtime.host import spill_directory as s; import os; s.YOUNG_S = {}; s.make_spill_directory();"
    run(f"{make.format(60)} os.kill(os.getpid(), 9)", tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    run(make.format(60), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    run(make.format(0), tmp_path)
    assert list(tmp_path.iterdir()) == []
