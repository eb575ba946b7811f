"""Checkpoints on one disk and a table on another, under deaths of all processes and power cuts at any call: every row is there
once. `--seed N` replays one run."""

from __future__ import annotations

from simulation.stored_job import Damaged, StoredJob


def test_rows_are_visible_once_after_deaths_and_power_cuts_at_any_call(seed: int) -> None:
    job = StoredJob(seed)
    job.run()
    found = job.visible()
    assert found == list(range(job.rows)), job.story_of(found)


def test_a_disk_that_loses_what_it_has_synced_leads_to_an_error_and_to_no_wrong_row(seed: int) -> None:
    job = StoredJob(seed, lies=0.3)
    try:
        job.run()
    except Damaged:
        found = job.visible()
        assert found == list(range(len(found))), job.story_of(found)
    else:
        found = job.visible()
        assert found == list(range(job.rows)), job.story_of(found)
