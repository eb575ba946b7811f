"""Which operators of a job an operator reads, directly or through others."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.bounds import Count
from sqlstream.graph.job_graph import NETWORK_INPUT, JobGraph

OperatorInputs = tuple[tuple[Count, ...], ...]
"""The ids of the operators that each input reads, by the input's ordinal."""


def operator_inputs(job: JobGraph) -> dict[int, OperatorInputs]:
    """By the id of each operator."""
    found: dict[int, OperatorInputs] = {}
    for vertex in job.vertices:
        edges = job.inputs_of(vertex.id)
        count = max((e.ordinal + 1 for e in edges), default=0)
        head = tuple(tuple(e.source_operator for e in edges if e.ordinal == n) for n in range(count))
        for operator in vertex.operators:
            found[operator.id] = head if operator.input == NETWORK_INPUT else ((operator.input,),)
    return found


def reached_inputs(inputs: Mapping[int, OperatorInputs]) -> dict[int, frozenset[tuple[int, int]]]:
    """The operators that the rows of each one reach, with the ordinals of the inputs at which they come.

    >>> reached_inputs({1: (), 2: ((1,),), 3: ((), (2,))})[1] == {(2, 0), (3, 1)}
    True
    """
    readers: dict[int, list[tuple[int, int]]] = {id: [] for id in inputs}
    for id, by_ordinal in inputs.items():
        for ordinal, read in enumerate(by_ordinal):
            for source in read:
                readers.setdefault(source, []).append((id, ordinal))
    return {id: _reached(id, readers) for id in inputs}


def _reached(id: int, readers: Mapping[int, list[tuple[int, int]]]) -> frozenset[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    waiting = list(readers[id])
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += readers[place[0]]
    return frozenset(found)
