"""A chain of operators: order of calls, watermarks, ends and blame."""

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import deferred

from sqlstream.changelog import ChangelogMode
from sqlstream.elements import WATERMARK_MAX, EndOfInput, LatencyMarker, Watermark, WatermarkStatus
from sqlstream.errors import Span
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.operators.operator import Operator, OperatorContext
from sqlstream.runtime.taskmanager.latency import Granularity, Latencies, LatencySettings
from sqlstream.runtime.taskmanager.metrics import TaskTimes
from sqlstream.runtime.taskmanager.operator_chain import ChainPosition, OperatorChain
from sqlstream.runtime.taskmanager.result_partition import ResultPartition, splitter
from sqlstream.schema import Schema
from sqlstream.specs import DropUpdateBeforeSpec
from sqlstream.types import BIGINT

SCHEMA = Schema.of(("v", BIGINT))
MODE = ChangelogMode.INSERT_ONLY


class Recorder(Operator):
    """Hands everything on, writes down what it saw, and emits one row when it finishes."""

    def __init__(self, name, log, due_ms=None):
        super().__init__(DropUpdateBeforeSpec(), OperatorContext((SCHEMA,), (MODE,), SCHEMA, MODE))
        self.name, self.log, self.due_ms = name, log, due_ms

    def on_batch(self, batch, input_index, output):
        self.log.append((self.name, batch.column(0).to_pylist()))
        if batch.column(0)[0].as_py() < 0:
            raise ValueError(self.name)
        output.emit(batch)

    def on_watermark(self, watermark_ms, output):
        self.log.append((self.name, f"watermark {watermark_ms}"))
        return watermark_ms

    def next_processing_time_ms(self):
        return self.due_ms

    def on_processing_time(self, now_ms, output):
        self.log.append((self.name, f"time {now_ms}"))
        self.due_ms = None

    def on_end_of_input(self, input_index, output):
        self.log.append((self.name, "end"))

    def on_finish(self, output):
        output.emit(rows(99))

    def close(self):
        self.log.append((self.name, "closed"))
        if self.name == "b":
            raise OSError("cannot close")


def rows(*values):
    return pa.record_batch({"v": pa.array(values, pa.int64())})


class Chain:
    """a ─► b and a ─► c; c sends to a channel."""

    def __init__(self):
        self.log, self.now_ms, self.position = [], 1000, ChainPosition()
        self.chain = OperatorChain(self.position, lambda: self.now_ms)
        self.operators = {}
        for id, (name, input) in enumerate((("a", NETWORK_INPUT), ("b", 0), ("c", 0))):
            chained = ChainedOperator(
                id,
                name,
                name,
                DropUpdateBeforeSpec(),
                input,
                (SCHEMA,),
                (MODE,),
                SCHEMA,
                MODE,
                span=Span(id, 9),
            )
            self.operators[name] = Recorder(name, self.log)
            self.chain.add(chained, lambda counters, name=name: self.operators[name])
        self.channel = Channel(1 << 20)
        self.chain.connect(2, ResultPartition((self.channel,), splitter(FORWARD, 1, 0, 128), TaskTimes()))

    def sent(self):
        items = []
        while (queued := self.channel.take()[0]) is not None:
            item = queued.item
            items.append(item.to_pydict()["v"] if isinstance(item, pa.RecordBatch) else item)
        return items


@pytest.fixture
def chain():
    return Chain()


def test_a_batch_goes_down_every_branch_in_order(chain):
    chain.chain.head.on_batch(rows(1, 2), 0)
    assert chain.log == [("a", [1, 2]), ("b", [1, 2]), ("c", [1, 2])]
    assert chain.sent() == [[1, 2]]
    assert chain.chain.counters[2].read() == {"numRecordsIn": 2, "numRecordsOut": 2}


def test_empty_batches_are_dropped(chain):
    chain.chain.head.output.emit(rows())
    assert chain.log == []
    assert chain.sent() == []


def test_a_marker_passes_every_operator_and_those_that_keep_latencies_note_it(chain):
    settings = LatencySettings(100, Granularity.SINGLE, 8)
    chain.chain.counters[2].latencies = Latencies(settings, lambda: chain.now_ms, is_sink=False)
    chain.chain.head.on_marker(LatencyMarker(970, 7, 0))
    assert (chain.log, chain.sent()) == ([], [LatencyMarker(970, 7, 0)])
    assert chain.chain.counters[2].read()["latency_max"] == 30
    assert chain.chain.counters[1].read() == {"numRecordsIn": 0, "numRecordsOut": 0}


def test_watermarks_only_rise_and_a_status_is_said_once(chain):
    head = chain.chain.head
    for timestamp_ms in (5, 5, 3, 7):
        head.on_watermark(timestamp_ms)
    head.on_idle(True)
    head.on_idle(True)
    assert chain.sent() == [Watermark(5), Watermark(7), WatermarkStatus(True)]


def test_rows_emitted_at_the_end_come_before_the_last_watermark(chain):
    chain.chain.head.on_watermark(WATERMARK_MAX)
    chain.chain.head.on_end_of_input(0)
    chain.chain.head.finish(chain.now_ms)
    last = f"watermark {WATERMARK_MAX}"
    assert [e for name, e in chain.log if name == "c"] == [[99], last, "end", "time 1000"]
    assert chain.sent() == [[99], [99], Watermark(WATERMARK_MAX), EndOfInput()]


def test_the_operator_that_raised_is_to_blame(chain):
    with pytest.raises(ValueError, match="a"):
        chain.chain.head.on_batch(rows(-1), 0)
    assert chain.position.current.name == "a"


def test_after_a_call_the_caller_is_where_it_was(chain):
    chain.chain.head.on_batch(rows(1), 0)
    chain.chain.head.on_watermark(1)
    assert chain.position.current.name == "c"
    chain.position.current = None
    chain.chain.head.on_batch(rows(1), 0)
    assert chain.position.current is None


def test_every_operator_is_closed_also_when_one_fails_to(chain):
    with pytest.raises(OSError, match="cannot close"):
        chain.chain.close()
    assert chain.log == [("c", "closed"), ("b", "closed"), ("a", "closed")]


def test_timers_fire_when_their_time_has_come_and_bound_the_wait(chain):
    chain.operators["b"].due_ms = 1250
    timers = chain.chain.timers
    assert timers.wait_s(None) == 0.25
    assert timers.wait_s(0.1) == 0.1
    timers.fire_due()
    assert chain.log == []
    chain.now_ms = 1300
    timers.fire_due()
    assert chain.log == [("b", "time 1300")]
    assert timers.wait_s(None) is None


def test_an_operator_that_emits_without_end_is_stopped_by_a_cancellation():
    class Cancelled(Exception):
        pass

    def check_cancelled():
        raise Cancelled

    chain = OperatorChain(ChainPosition(), lambda: 0, check_cancelled)
    chained = ChainedOperator(
        0, "u", "endless", DropUpdateBeforeSpec(), NETWORK_INPUT, (SCHEMA,), (MODE,), SCHEMA, MODE
    )
    chain.add(chained, lambda counters: Recorder("endless", []))
    with pytest.raises(Cancelled):
        chain.head.output.emit(rows(1))


def test_a_closed_chain_holds_no_operator():
    chain = OperatorChain(ChainPosition(), lambda: 0)
    operators = [Recorder("a", []), Recorder("c", [], due_ms=5)]
    for id, operator in enumerate(operators):
        chained = ChainedOperator(
            id,
            "",
            "",
            DropUpdateBeforeSpec(),
            id - 1 if id else NETWORK_INPUT,
            (SCHEMA,),
            (MODE,),
            SCHEMA,
            MODE,
        )
        chain.add(chained, lambda counters, operator=operator: operator)
    outputs, held = [chain.output(0), chain.output(1)], [weakref.ref(operator) for operator in operators]
    chain.close()
    gc.collect()
    gc.disable()
    try:
        del operators, operator
        assert [reference() for reference in held] == [None, None]
    finally:
        gc.enable()
    assert outputs


def test_a_selection_goes_on_as_a_batch_of_its_rows(chain):
    chain.chain.output(0).emit_rows(rows(1, 2, 3), np.array([0, 2], dtype=np.int32))
    assert chain.log == [("b", [1, 3]), ("c", [1, 3])]
    assert not chain.chain.output(0).splits_rows
    chain.chain.output(2).emit_rows(rows(1, 2, 3), np.array([1], dtype=np.int32))
    assert chain.sent() == [[1, 3], [2]]


def test_rows_that_are_built_when_they_are_read_are_built_for_a_channel_and_for_operators_that_read_all(
    chain,
):
    chain.chain.output(0).emit_deferred(deferred(rows(1, 2)))
    assert chain.log == [("b", [1, 2]), ("c", [1, 2])]
    chain.chain.output(2).emit_deferred(deferred(rows(3)))
    chain.chain.output(0).emit_deferred(deferred(rows()))
    assert chain.sent() == [[1, 2], [3]]
    assert len(chain.log) == 2
    assert [chain.chain.counters[i].records_out for i in (0, 2)] == [2, 3]


def test_a_selection_before_a_hash_exchange_is_split_like_its_rows(chain):
    channels = tuple(Channel(1 << 20) for _ in range(2))
    by_key = splitter(Exchange(ExchangeKind.HASH, (0,)), 2, 0, 128)
    made = OperatorChain(ChainPosition(), lambda: 0)
    source = chain.chain.nodes[0].chained
    output, counters = made.add_source(source)
    made.connect(source.id, ResultPartition(channels, by_key, TaskTimes()))
    assert output.splits_rows
    output.emit_rows(rows(*range(100)), np.arange(0, 100, 2, dtype=np.int32))
    output.emit_rows(rows(1, 2), np.array([], dtype=np.int32))
    parts = [channel.take()[0].item.column(0).to_pylist() for channel in channels]
    assert sorted(parts[0] + parts[1]) == list(range(0, 100, 2))
    assert all(part == sorted(part) and part for part in parts)
    assert [channel.take() for channel in channels] == [(None, False)] * 2
    assert counters.records_out == 50
