"""A commit that replaces files, killed at each of its steps: readers see the old files or the new ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from commit_harness import Died, MortalFiles, Process

from sqlstream.runtime.connectors.files.commit_journal import Move, staging_directory, undo_broken_commits
from sqlstream.runtime.connectors.files.file_paths import find_files
from sqlstream.runtime.connectors.files.replacing_commit import commit_replacing, complete_broken_replacements
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable

OLD = ["k=1/part-old-0.csv", "k=2/part-old-1.csv"]
WRITER = "b" * 12
FIRST = Committable("job", LAST_CHECKPOINT_ID, WRITER, 0, {})


def table(path: Path) -> tuple[list[Move], list[str]]:
    """Old files, and staged new ones; returns the moves of these and their names."""
    moves = []
    for name in OLD:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("old")
    staging = Path(staging_directory(str(path), "job", WRITER))
    staging.mkdir()
    for number in range(2):
        name = f"part-{WRITER}-0-{number}.csv"
        (staging / name).write_text("new")
        moves.append(Move(f"{staging.name}/{name}", f"k={number + 2}/{name}"))
    return moves, sorted(move.final for move in moves)


def visible(path: Path) -> list[str]:
    return [
        str(Path(f.path).relative_to(path)) for f in find_files(str(path), LocalFiles(), may_be_empty=True)
    ]


def steps(tmp_path: Path) -> int:
    """How many calls a whole commit makes."""
    calls = 0
    while True:
        path = tmp_path / f"count-{calls}"
        moves, _ = table(path)
        try:
            commit_replacing(str(path), FIRST, moves, lambda: OLD, MortalFiles(Process(calls)))
        except Died:
            calls += 1
            continue
        return calls


def test_readers_see_old_or_new_files_wherever_the_process_dies(tmp_path: Path) -> None:
    outcomes = set()
    for step in range(steps(tmp_path)):
        path = tmp_path / f"die-{step}"
        moves, new = table(path)
        with pytest.raises(Died):
            commit_replacing(str(path), FIRST, moves, lambda: OLD, MortalFiles(Process(step)))
        seen = visible(path)
        assert seen in (OLD, new), step
        outcomes.add(seen == new)
        # The next writer of the table tidies up, and nothing changes for readers.
        undo_broken_commits(str(path), LocalFiles())
        complete_broken_replacements(str(path), LocalFiles())
        assert visible(path) == seen, step
        assert not [p.name for p in path.iterdir() if p.name.startswith((".commit-", ".replaced-"))]
        assert all((path / name).exists() == (seen == OLD) for name in OLD), step
    assert outcomes == {True, False}


def test_a_repeated_commit_completes_the_one_that_broke_off_and_harms_no_later_one(tmp_path: Path) -> None:
    for step in range(steps(tmp_path)):
        path = tmp_path / f"again-{step}"
        moves, new = table(path)
        with pytest.raises(Died):
            commit_replacing(str(path), FIRST, moves, lambda: OLD, MortalFiles(Process(step)))
        commit_replacing(str(path), FIRST, moves, partial(visible, path), LocalFiles())
        assert visible(path) == new, step
        (path / "k=9").mkdir()
        (path / "k=9" / "part-later.csv").write_text("later")
        commit_replacing(str(path), FIRST, moves, partial(visible, path), LocalFiles())
        assert visible(path) == [*new, "k=9/part-later.csv"], step
