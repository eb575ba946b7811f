"""Slot sharing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.jobmanager.resources.slot_pool import AllocatedSlot, assign_slots, slots_needed

MakeJob = Callable[..., JobGraph]


def _slots(count: int) -> tuple[AllocatedSlot, ...]:
    return tuple(AllocatedSlot(f"a{i}", f"tm{i}#0", f"tm{i}:1", 0) for i in range(count))


def test_a_job_needs_as_many_slots_as_its_widest_vertex(make_job: MakeJob) -> None:
    assert slots_needed(make_job("j", 2, 3)) == 3


def test_subtask_i_of_every_vertex_shares_slot_i(make_job: MakeJob) -> None:
    job = make_job("j", 2, 3)
    placed = assign_slots(job, _slots(3))
    assert {(v[-1], i): s.allocation_id for (v, i), s in placed.items()} == {
        ("0", 0): "a0",
        ("0", 1): "a1",
        ("1", 0): "a0",
        ("1", 1): "a1",
        ("1", 2): "a2",
    }


def test_slot_sharing_groups_do_not_share(make_job: MakeJob) -> None:
    job = make_job("j", 1, 2)
    alone = msgspec.structs.replace(job.vertices[1], slot_sharing_group="other")
    job = msgspec.structs.replace(job, vertices=(job.vertices[0], alone))
    assert slots_needed(job) == 3
    placed = assign_slots(job, _slots(3))
    assert [s.allocation_id for s in placed.values()] == ["a0", "a1", "a2"]
