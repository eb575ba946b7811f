"""What increments follow, from checkpoint to checkpoint."""

from __future__ import annotations

import pytest

from sqlstream.errors import InternalError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, TableState
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.taskmanager.checkpoints.state_write import SegmentChains, behind


def segment(checkpoint_id: int, rows: int = 1) -> StateSegment:
    return StateSegment(f"shared/e-1-{checkpoint_id}.arrow", 0, 64, 0, rows, 0, 127, checkpoint_id > 1)


def saved(*checkpoint_ids: int, operator_id: int = 7) -> tuple[SavedOperator, ...]:
    segments = tuple(segment(id) for id in checkpoint_ids)
    return (SavedOperator(operator_id, (TableState("groups", True, segments),)),)


def test_an_increment_stands_behind_the_segments_of_the_checkpoint_that_it_follows() -> None:
    chains = SegmentChains()
    chains.add(1, saved(1))
    chains.completed(1)
    second = behind(chains.base(), saved(2), {7: OperatorSnapshot(increments={"groups": 1})})
    assert second == saved(1, 2)
    chains.add(2, second)
    chains.completed(2)
    # It holds the changes of 2 as well, so it replaces that segment.
    assert behind(chains.base(), saved(3), {7: OperatorSnapshot(increments={"groups": 1})}) == saved(1, 3)
    assert behind(chains.base(), saved(3), {7: OperatorSnapshot(increments={"groups": 2})}) == saved(1, 2, 3)
    assert behind(chains.base(), saved(3), {7: OperatorSnapshot()}) == saved(3)


def test_an_increment_without_rows_adds_no_segment() -> None:
    chains = SegmentChains()
    chains.add(1, saved(1))
    chains.completed(1)
    empty = (SavedOperator(7, (TableState("groups", True, (segment(2, rows=0),)),)),)
    assert behind(chains.base(), empty, {7: OperatorSnapshot(increments={"groups": 1})}) == saved(1)


def test_an_increment_of_what_the_task_has_not_saved_is_our_bug() -> None:
    with pytest.raises(InternalError, match='"groups" follows checkpoint 1, which its task has not saved'):
        behind(SegmentChains().base(), saved(2), {7: OperatorSnapshot(increments={"groups": 1})})


def test_a_checkpoint_that_may_be_complete_and_refers_to_less_makes_the_next_whole() -> None:
    chains = SegmentChains()
    chains.add(1, saved(1))
    assert not chains.is_whole_due(7)
    chains.completed(1)
    chains.add(2, saved(1, 2))
    assert not chains.is_whole_due(7), "what follows 1 follows a part of 2"
    chains.add(3, saved(3))
    assert chains.is_whole_due(7)
    assert not chains.is_whole_due(8), "of another operator"
    chains.aborted(3)
    assert not chains.is_whole_due(7)
    chains.add(4, saved(4))
    chains.completed(4)
    assert not chains.is_whole_due(7)
    chains.completed(2)
    chains.aborted(4)
    assert behind(chains.base(), saved(5), {7: OperatorSnapshot(increments={"groups": 4})}) == saved(4, 5)
