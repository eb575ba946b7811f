"""Flink's settings of local copies."""

from __future__ import annotations

import pytest

from sqlstream.runtime.checkpoint.local_copies import (
    local_copy_directories,
    reads_local_copies,
    writes_local_copies,
)


@pytest.mark.parametrize(
    ("config", "writes", "reads"),
    [
        ({}, False, False),
        ({"execution.state-recovery.from-local": "true"}, True, True),
        ({"execution.checkpointing.local-backup.enabled": "true"}, True, False),
        (
            {
                "execution.state-recovery.from-local": "true",
                "execution.checkpointing.local-backup.enabled": "false",
            },
            False,
            True,
        ),
    ],
)
def test_copies_are_written_where_they_are_read_unless_that_is_set(
    config: dict[str, str], writes: bool, reads: bool
) -> None:
    assert (writes_local_copies(config), reads_local_copies(config)) == (writes, reads)


@pytest.mark.parametrize(
    ("config", "directories"),
    [
        ({}, ()),
        ({"io.tmp.dirs": "/t"}, ("/t",)),
        ({"io.tmp.dirs": "/t", "process.working-dir": "/w/"}, ("/w/localState",)),
        ({"process.working-dir": "/w", "process.taskmanager.working-dir": "/m"}, ("/m/localState",)),
        (
            {"execution.checkpointing.local-backup.dirs": "/a, /b", "process.working-dir": "/w"},
            ("/a", "/b"),
        ),
    ],
)
def test_the_nearest_setting_says_where_they_are(
    config: dict[str, str], directories: tuple[str, ...]
) -> None:
    assert local_copy_directories(config) == directories
