"""What one attempt needs of the state of its vertex: descriptors would grow with the square of the parallelism otherwise."""

from __future__ import annotations

from msgspec.structs import replace

from sqlstream.graph.job_graph import JobVertex
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.messages.checkpoint import SavedOperator, SubtaskState, TableState, TaskRestore
from sqlstream.specs import ValuesSpec


def share_of(restore: TaskRestore, vertex: JobVertex, subtask: int) -> TaskRestore:
    """The same with only those segments that may have key groups of the subtask, shared tables, and the items that were in flight
    to and from it; an attempt that only passes on the end of its input loads nothing. Of as many subtasks as there were each gets
    only what it has saved itself."""
    if restore.is_finished:
        return replace(restore, states=())
    key_groups = key_groups_of(subtask, vertex.parallelism, vertex.max_parallelism)
    # Rows that are part of the statement have no splits that could be assigned: each reader leaves out what any has read.
    needs_splits = isinstance(vertex.operators[0].spec, ValuesSpec)
    states = tuple(
        SubtaskState(
            operators=_operators(
                state, key_groups, is_loaded=not restore.is_own or n == subtask, is_whole=restore.is_own
            ),
            splits=state.splits if needs_splits else None,
            in_flight=state.in_flight if n == subtask else (),
            channels=state.channels if restore.is_own and n == subtask else (),
        )
        for n, state in enumerate(restore.states)
    )
    return replace(restore, states=states)


def _operators(
    state: SubtaskState, key_groups: range, *, is_loaded: bool, is_whole: bool
) -> tuple[SavedOperator, ...]:
    if not is_loaded:
        return ()
    return state.operators if is_whole else tuple(_operator(o, key_groups) for o in state.operators)


def _operator(operator: SavedOperator, key_groups: range) -> SavedOperator:
    return replace(operator, tables=tuple(_table(t, key_groups) for t in operator.tables))


def _table(table: TableState, key_groups: range) -> TableState:
    if not table.is_keyed:
        return table
    segments = tuple(
        s
        for s in table.segments
        if s.first_key_group < key_groups.stop and s.last_key_group >= key_groups.start
    )
    return replace(table, segments=segments)
