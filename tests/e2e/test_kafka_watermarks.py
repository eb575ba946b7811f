"""A partition without messages and the watermark of the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_harness import TIMEOUT_S
from kafka_mock import MockCluster, mock_cluster
from spark_harness.processes import wait_until

from sqlstream.elements import WATERMARK_MIN
from sqlstream.expressions import InputRef
from sqlstream.runtime.connectors.kafka.connector import Kafka
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.specs.source import SourceWatermark
from sqlstream.spi.connector import ConnectorContext, MakesWatermarks, MeasuresSplits, SourceStatus
from sqlstream.types import timestamp_ltz

AT_MS = 1_714_564_800_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster(1) as made:
        yield made


@pytest.mark.parametrize("idle_timeout_ms", [0, 1_000])
def test_a_partition_without_messages_holds_the_watermark_until_it_is_idle(
    cluster: MockCluster, idle_timeout_ms: int
) -> None:
    topic = cluster.topic(2)
    cluster.send(topic, ['{"ts":"2024-05-01 12:00:00.000Z"}'])
    clock = [0]
    context = ConnectorContext(
        job_id="j", vertex_id="v", subtask=0, parallelism=1, batch_rows=10, now_ms=lambda: clock[0], attempt=0,
        config={}, count=lambda name, n: None, files=LocalFiles(),
    )  # fmt: skip
    time = InputRef(0, timestamp_ltz(3))
    spec = SourceSpec(
        "t",
        "kafka",
        cluster.options(topic, **{"json.timestamp-format.standard": "SQL"}),
        Schema.of(("ts", timestamp_ltz(3))),
        ("ts",),
        watermark=SourceWatermark(time, time, idle_timeout_ms=idle_timeout_ms),
        is_bounded=False,
    )
    positions = [{"topic": topic, "partition": n, "offset": 0} for n in (0, 1)]
    reader = Kafka().source(spec, context, positions)
    assert isinstance(reader, MakesWatermarks)
    try:
        wait_until(lambda: not isinstance(reader.poll(), SourceStatus), TIMEOUT_S)
        assert reader.watermark_ms() == WATERMARK_MIN
        assert isinstance(reader, MeasuresSplits)
        # Both are read to their ends; that without messages has no watermark, and holds that of the table.
        wait_until(lambda: reader.poll() and all(s.pending == 0 for s in reader.measure()), TIMEOUT_S)
        first, second = (s.name for s in reader.measure() if s.watermark_ms), reader.measure()[1]
        assert (list(first), second.watermark_ms, second.is_idle) == ([f"{topic}-0"], None, False)
        # The partition with messages has some again, as both would be idle else.
        clock[0] = 2_000
        cluster.send(topic, ['{"ts":"2024-05-01 12:00:00.000Z"}'])
        wait_until(lambda: not isinstance(reader.poll(), SourceStatus), TIMEOUT_S)
        idle = [f"{topic}-1"] if idle_timeout_ms else []
        assert [s.name for s in reader.measure() if s.is_idle] == idle
        assert reader.watermark_ms() == (AT_MS if idle_timeout_ms else WATERMARK_MIN)
    finally:
        reader.close()
