"""Checkpoints on one disk and a table on another, under deaths of all processes and power cuts at any call: every row is there
once. `--seed N` replays one run."""

from __future__ import annotations

from simulation.stored_job import Damaged, StoredJob

LIES = 0.3
"""The share of syncs of state that a lying disk does not carry out. Seeds with an odd number have one."""


def test_rows_are_visible_once_and_a_disk_that_lies_leads_to_an_error_at_worst(seed: int) -> None:
    job = StoredJob(seed, lies=LIES if seed % 2 else 0)
    try:
        job.run()
    except Damaged:
        assert seed % 2, "\n".join(job.story)
        # Those of a completed checkpoint, each once: `run` has looked after each death.
        return
    found = job.visible()
    assert found == list(range(job.rows)), job.story_of(found)
