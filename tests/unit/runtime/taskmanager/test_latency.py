"""Latency markers: when sources send them, what operators note of them, and that checkpoints know nothing of them."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from sqlstream.elements import CheckpointBarrier, LatencyMarker, Watermark
from sqlstream.messages.checkpoint import SavedOperator
from sqlstream.runtime.net.streams.frames import decode_element
from sqlstream.runtime.taskmanager.checkpoints.in_flight import in_flight_items
from sqlstream.runtime.taskmanager.latency import (
    Granularity,
    Latencies,
    LatencySettings,
    MarkerTimer,
    statistics_of,
)
from sqlstream.runtime.taskmanager.metrics import OperatorCounters


def test_markers_are_off_unless_an_interval_is_set_and_in_batch() -> None:
    assert LatencySettings.of({}) is None
    on = {"metrics.latency.interval": "50 ms"}
    assert LatencySettings.of({**on, "execution.runtime-mode": "BATCH"}) is None
    assert LatencySettings.of(on) == LatencySettings(50, Granularity.OPERATOR, 128)


def test_a_source_sends_a_marker_at_once_and_then_each_interval() -> None:
    sent: list[LatencyMarker] = []
    timer = MarkerTimer(100, 1_000, 3, 1, sent.append)
    assert timer.next_ms() == 1_000
    timer.send(1_004)
    assert (sent, timer.next_ms()) == ([LatencyMarker(1_004, 3, 1)], 1_104)


@pytest.mark.parametrize(
    ("granularity", "names"),
    [
        (Granularity.SINGLE, {"latency_count": 3}),
        (Granularity.OPERATOR, {"source_id.1.latency_count": 2, "source_id.2.latency_count": 1}),
        (
            Granularity.SUBTASK,
            {
                "source_id.1.source_subtask_index.0.latency_count": 1,
                "source_id.1.source_subtask_index.1.latency_count": 1,
                "source_id.2.source_subtask_index.0.latency_count": 1,
            },
        ),
    ],
)
def test_latencies_are_kept_apart_as_the_granularity_says(
    granularity: Granularity, names: dict[str, int]
) -> None:
    latencies = Latencies(LatencySettings(10, granularity, 8), lambda: 1_000, is_sink=False)
    for operator, subtask in ((1, 0), (1, 1), (2, 0)):
        latencies.record(LatencyMarker(900, operator, subtask))
    found = latencies.read()
    assert {name: value for name, value in found.items() if name.endswith("count")} == names


def test_statistics_are_of_the_newest_and_those_of_a_sink_count_all_by_size() -> None:
    clock = [0]
    latencies = Latencies(LatencySettings(10, Granularity.OPERATOR, 2), lambda: clock[0], is_sink=True)
    # The clock of the other host may be ahead.
    for arrived_ms in (7_000, 30, -5):
        clock[0] = arrived_ms
        latencies.record(LatencyMarker(0, 4, 0))
    counters = OperatorCounters()
    counters.latencies = latencies
    found = counters.read()
    assert (found["source_id.4.latency_max"], found["source_id.4.latency_count"]) == (30, 2)
    assert (found["endToEndLatency_p99"], found["endToEndLatency.count"]) == (30, 3)
    assert (found["endToEndLatency.le.1"], found["endToEndLatency.le.50"]) == (1, 2)
    assert found["endToEndLatency.sum"] == 7_030


def test_statistics_have_flinks_names() -> None:
    found = statistics_of(list(range(1, 101)))
    assert (found["min"], found["median"], found["p95"], found["p99"], found["max"]) == (1, 51, 96, 100, 100)
    assert found["mean"] == 50.5


def test_a_marker_travels_between_processes_and_is_not_part_of_what_was_under_way() -> None:
    marker = LatencyMarker(7, 3, 1)
    assert decode_element(msgspec.msgpack.encode(marker)) == marker
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2])], names=["n"])
    items = {
        (False, 0, 0): [marker, batch, Watermark(5), marker],
        (True, 0, 1): [marker],
        (False, 0, 2): [CheckpointBarrier(1, 0)],
    }
    stored = in_flight_items(items, SavedOperator(0, ()))
    assert [(s.is_output, s.channel, s.items) for s in stored] == [
        (False, 0, (2, Watermark(5))),
        (False, 2, (CheckpointBarrier(1, 0),)),
    ]


def test_with_a_target_a_marker_counts_from_when_it_was_due() -> None:
    sent: list[LatencyMarker] = []
    timer = MarkerTimer(100, 1_000, 3, 1, sent.append, counts_delay=True)
    timer.send(1_030)
    # The source was at work for longer than the interval: what came meanwhile has waited.
    timer.send(1_350)
    assert [marker.marked_ms for marker in sent] == [1_000, 1_100, 1_200, 1_300]
    assert timer.next_ms() == 1_400
    timer.send(1_000_000)
    assert len(sent) == 4 + 129
    timer.send(900)
    assert len(sent) == 4 + 129
    assert LatencySettings.of(
        {"metrics.latency.interval": "50 ms", "latency.target": "1 s"}
    ) == LatencySettings(50, Granularity.OPERATOR, 128, counts_delay=True)
