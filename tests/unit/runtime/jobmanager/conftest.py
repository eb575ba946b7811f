"""Small job graphs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec

EMPTY = Schema(())
MODE = ChangelogMode.INSERT_ONLY


def _vertex(index: int, spec: SourceSpec | SinkSpec, parallelism: int) -> JobVertex:
    operator = ChainedOperator(
        index, f"uid{index}", spec.table, spec, NETWORK_INPUT, (EMPTY,), (MODE,), EMPTY, MODE
    )
    return JobVertex(f"{index:032x}", spec.table, (operator,), parallelism, 128)


@pytest.fixture
def make_job() -> Callable[..., JobGraph]:
    """A source into a sink: `make_job("j1", 2, 1)` has two source subtasks and one sink subtask."""

    def make(
        job_id: str = "j1",
        sources: int = 1,
        sinks: int = 1,
        exchange: ExchangeKind = ExchangeKind.HASH,
        config: dict[str, str] | None = None,
    ) -> JobGraph:
        source = _vertex(0, SourceSpec("bids", "nexmark", {}, EMPTY, ()), sources)
        sink = _vertex(1, SinkSpec("out", "filesystem", {}, EMPTY), sinks)
        edge = JobEdge(7, source.id, 0, sink.id, 0, Exchange(exchange), EMPTY, MODE)
        return JobGraph(job_id, f"insert {job_id}", (source, sink), (edge,), config or {})

    return make
