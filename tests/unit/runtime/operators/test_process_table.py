"""Functions with state, over any split of their rows, restored anywhere at any parallelism, against a model row by row."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import process_functions
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_harness import (
    Clock,
    Collected,
    ManualClock,
    Row,
    feed,
    finish,
    operator_context,
    restored,
    run_operator,
)

from sqlstream import types as sql
from sqlstream.elements import WATERMARK_MAX, Watermark
from sqlstream.errors import UserError
from sqlstream.expressions import Literal, SortKey
from sqlstream.functions.count_window import count_window
from sqlstream.planner.statements.functions import function_ref
from sqlstream.process_functions import declared_function
from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.process import process_table, timers
from sqlstream.runtime.operators.process.states import KeyedList, KeyedMap, KeyedValue, KeySet, Places
from sqlstream.runtime.operators.process.timers import Timers
from sqlstream.runtime.state.operator_state import OperatorState, StateScope
from sqlstream.schema import Field, Schema
from sqlstream.specs.process_table import ProcessInput, ProcessTableSpec

ROWS = Schema.of(("k", sql.STRING), ("v", sql.BIGINT))
SOURCES = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 60)), min_size=1, max_size=40)


def spec_of(cls: type, *arguments: Any, keys: Sequence[int] = (0,), ttl_ms: int = 0) -> ProcessTableSpec:
    declared = declared_function(cls).declared
    ref = function_ref(f"c.d.{cls.__name__.lower()}", cls.__module__, cls.__name__, declared)
    assert ref.process is not None
    inputs = tuple(
        ProcessInput(
            t.name,
            ROWS.names,
            tuple(keys),
            "SET_SEMANTIC_TABLE" in t.traits,
            "PASS_COLUMNS_THROUGH" in t.traits,
        )
        for t in ref.process.tables
    )
    return ProcessTableSpec(
        ref, "f", inputs, arguments or (None,) * (len(ref.parameters) - len(inputs)), ttl_ms
    )


def context_of(spec: ProcessTableSpec, **others: Any) -> Any:
    own = tuple(Field(f.name, f.type) for f in spec.ref.result_type.fields)
    copied = tuple(ROWS.fields[c] for i in spec.inputs for c in i.copied)
    return operator_context([ROWS] * len(spec.inputs), Schema((*copied, *own)), **others)


def split(rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    return [rows[a:b] for a, b in itertools.pairwise(bounds)]


def modelled(rows: list[Row]) -> list[Row]:
    class Value:
        value = 7

        def clear(self) -> None:
            self.value = 7

    class List(list[Any]):
        add = list.append

        def update(self, values: list[Any]) -> None:
            self[:] = values

    states: dict[Any, Any] = defaultdict(lambda: SimpleNamespace(value=Value(), map={}, list=List()))
    found = []
    for key, v in rows:
        own = states[key]
        process_functions.wander(v, own)
        found.append((key, repr((own.value.value, sorted(own.map.items()), [*own.list]))))
    return found


@given(SOURCES, st.lists(st.integers(0, 40), max_size=6))
def test_rows_by_row_are_those_of_a_model_over_any_split(rows: list[Row], cuts: list[int]) -> None:
    spec = spec_of(process_functions.Wandering)
    assert run_operator(spec, context_of(spec), split(rows, cuts)).rows == modelled(rows)


@given(SOURCES, st.lists(st.integers(0, 40), max_size=6))
def test_rows_by_batch_are_numbered_over_any_split(rows: list[Row], cuts: list[int]) -> None:
    spec = spec_of(process_functions.Numbered, Literal(5, sql.BIGINT.not_null()))
    counts: Counter[Any] = Counter()
    expected = []
    for key, _ in rows:
        expected.append((key, 5 + counts[key]))
        counts[key] += 1
    assert run_operator(spec, context_of(spec), split(rows, cuts)).rows == expected
    alone = spec_of(process_functions.Numbered, keys=())
    whole = run_operator(alone, context_of(alone), split(rows, cuts)).rows
    assert whole == [(n + 1,) for n in range(len(rows))]


@given(SOURCES, st.lists(st.integers(0, 40), max_size=6), st.integers(1, 6), st.integers(0, 8))
def test_count_windows_are_those_of_each_key_over_any_split(
    rows: list[Row], cuts: list[int], size: int, slide: int
) -> None:
    number = sql.BIGINT.not_null()
    arguments = (Literal(size, number), Literal(slide, number) if slide else None)
    spec = ProcessTableSpec(
        count_window(), "", (ProcessInput("data", ROWS.names, (0,), True, True),), arguments
    )
    seen: Counter[Any] = Counter()
    expected = []
    for key, v in rows:
        place, seen[key] = seen[key], seen[key] + 1
        starts = range(0, place + 1, slide or size)
        expected += [
            (key, v, n + 1, place - start + 1) for n, start in enumerate(starts) if place < start + size
        ]
    assert run_operator(spec, context_of(spec), split(rows, cuts)).rows == expected


def subtask_of(key: Any, parallelism: int) -> int:
    (group,) = key_groups(hash_columns([pa.array([key], pa.string())]), 128)
    return int(group) * parallelism // 128


@given(
    SOURCES,
    st.lists(st.integers(0, 40), min_size=3, max_size=6),
    st.lists(st.integers(1, 3), min_size=8, max_size=8),
)
def test_state_goes_on_at_any_parallelism(rows: list[Row], cuts: list[int], parallelisms: list[int]) -> None:
    """Keys stay apart, so the rows of each are those of the model."""
    spec = spec_of(process_functions.Wandering)
    context = context_of(spec)
    snapshots: list[Any] = []
    output = Collected()
    for part, parallelism in zip(split(rows, cuts), parallelisms, strict=False):
        subtasks = [restored(spec, context, snapshots, n, parallelism) for n in range(parallelism)]
        for number, operator in enumerate(subtasks):
            own = [row for row in part if subtask_of(row[0], parallelism) == number]
            if own:
                feed(operator, [own], output)
        snapshots = [operator.context.state.snapshot() for operator in subtasks]
    expected = modelled(rows)
    for key in ("a", "b", None):
        assert [r for r in output.rows if r[0] == key] == [r for r in expected if r[0] == key]


def test_columns_of_the_table_are_passed_through() -> None:
    spec = spec_of(process_functions.Doubled, keys=())
    made = run_operator(spec, context_of(spec), [[("a", 1), ("b", 2)]]).rows
    assert made == [("a", 1, "first"), ("a", 1, "second"), ("b", 2, "first"), ("b", 2, "second")]


def test_rows_of_two_tables_meet_by_key() -> None:
    spec = spec_of(process_functions.Paired)
    items = [(1, [("a", 1), ("a", 2)]), (0, [("a", 3), ("b", 4)]), (1, [("b", 5)])]
    assert run_operator(spec, context_of(spec), items).rows == [
        ("a", "a", "right", 1),
        ("a", "a", "right", 2),
        ("a", "a", "left", None),
        ("b", "b", "left", None),
        ("b", "b", "right", 1),
    ]


def test_entries_of_a_map_and_a_state_without_a_time_to_live_of_its_own_expire() -> None:
    clock = ManualClock(0)
    spec = spec_of(process_functions.Wandering, ttl_ms=7_200_000)
    operator, output = make_operator(spec, context_of(spec, now_ms=clock)), Collected()
    feed(operator, [[("a", 2), ("a", 1)]], output)
    clock.now_ms = 3_000_000
    feed(operator, [[("a", 3)]], output)
    clock.now_ms = 3_700_000
    feed(operator, [[("a", 5)]], output)
    clock.now_ms = 7_300_000
    feed(operator, [[("a", 5)]], output)
    assert [row[1] for row in output.rows][1:] == [
        "(8, [(2, '2')], [])",
        "(8, [(2, '2'), (3, '3')], [])",
        "(8, [(3, '3')], [[5, 6]])",
        "(7, [], [[5, 6], [5, 6]])",
    ]
    finish(operator, output)


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("raise", "SS5130", "failed: ValueError: not today"),
        ("too few", "SS5410", 'column "n" of broken has 1 values for 2'),
        ("another column", "SS5411", "columns m for n"),
        ("a text", "SS5411", "'text' for the columns n"),
        ("a wrong type", "SS5131", "returned 'x' (str) for BIGINT"),
        ("beyond the rows", "SS5411", "rows are whole numbers below 2"),
        ("beyond the keys", "SS5130", "IndexError: a position among 2 keys"),
        ("rows and keys", "SS5411", "rows and keys are given both"),
        ("a state of another type", "SS5131", "for INT"),
        ("too many states", "SS5410", 'state "count" has 3 values for 2'),
        ("a number", "SS5131", 'column "n" of broken is a value of type int, which is no column'),
        ("a value for a state", "SS5130", 'AttributeError: "count" is a state: write self.count.value = '),
    ],
)
def test_what_a_function_does_wrong_is_said(how: str, code: str, said: str) -> None:
    spec = spec_of(process_functions.Broken, Literal(how, sql.STRING.not_null()))
    with pytest.raises(UserError) as caught:
        run_operator(spec, context_of(spec), [[("a", 1), ("b", 2)]])
    assert caught.value.code == code
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("a text", "SS5411", "eval returned 'abc' and not the rows to put out"),
        ("a dict", "SS5411", "eval returned {'t': 'abc'} and not the rows to put out"),
        ("too long", "SS5131", "returned 'abcd' (str) for VARCHAR(3)"),
        ("without end", "SS5411", "it makes more than 1,000 rows of one batch"),
    ],
)
def test_what_a_function_by_row_does_wrong_is_said(
    how: str, code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_table, "TABLE_ROWS_MAX", 1000)
    spec = spec_of(process_functions.BrokenByRow, Literal(how, sql.STRING.not_null()))
    with pytest.raises(UserError) as caught:
        run_operator(spec, context_of(spec), [[("a", 1), ("b", 2)]])
    assert caught.value.code == code
    assert said in caught.value.message


def test_texts_of_arrow_are_no_longer_than_declared() -> None:
    spec = spec_of(process_functions.LongTexts)
    with pytest.raises(UserError, match=r"values that are no VARCHAR\(3\): a length of 4 is more than 3"):
        run_operator(spec, context_of(spec), [[("a", 1)]])


# -- timers ------------------------------------------------------------------------------------------


TIMED = Schema.of(("k", sql.STRING), ("v", sql.BIGINT), ("ts", sql.as_rowtime(sql.timestamp(3))))


def timed(cls: type, *arguments: Any) -> tuple[ProcessTableSpec, Any]:
    spec = spec_of(cls, *arguments)
    (read,) = spec.inputs
    spec = msgspec.structs.replace(
        spec, inputs=(msgspec.structs.replace(read, columns=TIMED.names, time_column=2),)
    )
    own = [Field(f.name, f.type) for f in spec.ref.result_type.fields]
    return spec, operator_context([TIMED], Schema((TIMED.fields[0], *own, Field("rowtime", TIMED.types[2]))))


class AlarmModel:
    """The timers of one key, as they fire one by one."""

    def __init__(self) -> None:
        self.timers: dict[str | int, int] = {}
        self.fired = 0

    def register_on_time(self, *arguments: Any) -> None:
        self.timers[arguments[0]] = arguments[-1]

    def clear_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def clear_all_timers(self) -> None:
        self.timers = {}

    def pass_watermark(self, watermark: int, is_last: bool) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        due = set(self.timers) if is_last else None
        while True:
            ready = [
                (t, n if isinstance(n, str) else "", n) for n, t in self.timers.items() if t <= watermark
            ]
            if due is not None:
                ready = [r for r in ready if r[2] in due]
            if not ready:
                return found
            time, shown, name = min(ready, key=lambda r: r[:2])
            del self.timers[name]
            self.fired += 1
            if due is not None:
                due.discard(name)
            if shown == "a" and self.fired % 3:
                self.timers["b"] = time + self.fired
            found.append((f"{shown or None} {time}", time))


ALARMS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(0, 3_000)),
        st.integers(0, 4_000),
    ),
    min_size=1,
    max_size=30,
)


@given(ALARMS, st.integers(0, 30), st.integers(0, 2))
def test_timers_fire_as_those_of_a_model(items: list[Any], cut: int, parallelism: int) -> None:
    """Rows one by one, watermarks that rise, a snapshot anywhere, any parallelism behind it."""
    spec, context = timed(process_functions.Alarmed)
    models: dict[str, AlarmModel] = defaultdict(AlarmModel)
    expected: dict[str, list[Row]] = defaultdict(list)
    output = Collected()
    subtasks = [make_operator(spec, context)]
    watermark = -1
    for number, item in enumerate(items):
        if number == cut:
            snapshots = [operator.context.state.snapshot() for operator in subtasks]
            count = parallelism + 1
            subtasks = [restored(spec, context, snapshots, n, count) for n in range(count)]
        if isinstance(item, tuple):
            key, v, time = item
            feed(subtasks[subtask_of(key, len(subtasks))], [[item]], output)
            if watermark >= 0 and time <= watermark:
                expected[key].append((key, f"late {v}", time))
            else:
                process_functions.alarm(v, time, models[key])
        elif item > watermark:
            watermark = item
            for operator in subtasks:
                feed(operator, [Watermark(watermark)], output)
            for key in models:
                expected[key] += [(key, *f) for f in models[key].pass_watermark(watermark, False)]
    for operator in subtasks:
        finish(operator, output)
    for key in models:
        expected[key] += [(key, *f) for f in models[key].pass_watermark(WATERMARK_MAX, True)]
    for key in "ab":
        assert [row for row in output.rows if row[0] == key] == expected[key]


def test_sessions_by_batch_close_when_the_watermark_has_passed_their_gap() -> None:
    spec, context = timed(process_functions.Sessions, Literal(1_000, sql.BIGINT.not_null()))
    output = run_operator(
        spec,
        context,
        [
            [("a", 1, 0), ("b", 1, 100), ("a", 1, 500)],
            Watermark(600),
            [("a", 1, 1_400)],
            Watermark(1_200),
            [("b", 1, 1_300)],
            Watermark(2_500),
            [("a", 1, 3_000)],
        ],
    )
    assert output.rows == [
        ("b", 1, 0.0, 1_100),
        ("b", 1, 0.0, 2_300),
        ("a", 3, 1.4, 2_400),
        ("a", 1, 0.0, 4_000),
    ]
    assert output.watermarks == [600, 1_200, 2_500, WATERMARK_MAX]


def in_order(spec: ProcessTableSpec) -> ProcessTableSpec:
    inputs = tuple(
        msgspec.structs.replace(i, order_column=2, order=(SortKey(1, is_descending=True),))
        for i in spec.inputs
    )
    return msgspec.structs.replace(spec, inputs=inputs)


@given(ALARMS, st.integers(0, 30), st.integers(0, 2), st.integers(1, 5))
def test_rows_in_order_and_timers_take_turns_by_time(
    items: list[Any], cut: int, parallelism: int, size: int
) -> None:
    """Whatever the watermarks are that cut the rows: as a model that takes each key's rows and timers one by one."""
    spec, context = timed(process_functions.AlarmedInOrder)
    spec = in_order(spec)
    models: dict[str, AlarmModel] = defaultdict(AlarmModel)
    waiting: dict[str, list[tuple[int, int]]] = defaultdict(list)
    expected: dict[str, list[Row]] = defaultdict(list)
    output = Collected()
    subtasks = [make_operator(spec, context)]
    watermark, batch = -1, []

    def pass_watermark(limit: int, is_last: bool) -> None:
        for key in "ab":
            rows = sorted((time, -v) for time, v in waiting[key] if time <= limit)
            waiting[key] = [row for row in waiting[key] if row[0] > limit]
            # Rows of one time are one turn.
            for (time, v), before in zip(rows, [None, *(t for t, _ in rows)], strict=False):
                if time != before:
                    expected[key].extend((key, *f) for f in models[key].pass_watermark(time - 1, False))
                process_functions.alarm(-v, time, models[key])
            expected[key].extend((key, *f) for f in models[key].pass_watermark(limit, is_last))

    for number, item in enumerate([*items, 5_000]):
        if isinstance(item, tuple):
            batch.append(item)
        if not isinstance(item, tuple) or len(batch) == size or number == cut:
            for place, operator in enumerate(subtasks):
                if own := [row for row in batch if subtask_of(row[0], len(subtasks)) == place]:
                    feed(operator, [own], output)
            for key, v, time in batch:
                if time > watermark:
                    waiting[key].append((time, v))
            batch = []
        if number == cut:
            snapshots = [operator.context.state.snapshot() for operator in subtasks]
            subtasks = [
                restored(spec, context, snapshots, n, parallelism + 1) for n in range(parallelism + 1)
            ]
        if not isinstance(item, tuple) and item > watermark:
            watermark = item
            for operator in subtasks:
                feed(operator, [Watermark(watermark)], output)
            pass_watermark(watermark, False)
    for operator in subtasks:
        finish(operator, output)
    pass_watermark(WATERMARK_MAX, True)
    for key in "ab":
        assert [row for row in output.rows if row[0] == key] == expected[key]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5_000)), min_size=1, max_size=40),
    st.lists(st.integers(0, 6_000), max_size=5),
)
def test_sessions_by_batch_in_order_are_those_of_the_sorted_rows(
    rows: list[Any], watermarks: list[int]
) -> None:
    spec, context = timed(process_functions.Sessions, Literal(300, sql.BIGINT.not_null()))
    items: list[Any] = []
    low = -1
    for watermark in [*sorted(watermarks), 10_000]:
        part = [(key, 0, time) for key, time in rows if low < time <= watermark]
        items += [part, Watermark(watermark)] if part else [Watermark(watermark)]
        low = watermark
    found = sorted(
        (key, n, last, seconds) for key, n, seconds, last in run_operator(in_order(spec), context, items).rows
    )
    expected = []
    for key in {key for key, _ in rows}:
        times = sorted(time for k, time in rows if k == key)
        starts = [0, *(i for i in range(1, len(times)) if times[i] - times[i - 1] > 300), len(times)]
        for a, b in itertools.pairwise(starts):
            expected.append((key, b - a, times[b - 1] + 300, (times[b - 1] - times[a]) / 1000))
    assert found == sorted(expected)


def test_timers_of_processing_time_fire_by_the_clock_and_are_dropped_at_the_end() -> None:
    clock = ManualClock(0)
    spec = spec_of(process_functions.Ticking)
    context = context_of(spec, now_ms=clock)
    operator, output = make_operator(spec, context), Collected()
    feed(operator, [[("a", 1)], Clock(5), [("b", 1), ("a", 2)], Clock(12)], output)
    assert output.rows == [("a", 1)]
    operator = restored(spec, context, [operator.context.state.snapshot()], 0, 1)
    feed(operator, [Clock(16), Clock(24)], output)
    assert output.rows == [("a", 1), ("b", 1), ("a", 2)]
    feed(operator, [Clock(1_000)], output)
    assert output.rows[3:] == [("b", 2), ("a", 3), ("b", 3)]
    assert operator.next_processing_time_ms() is None
    feed(operator, [[("c", 1)]], output)
    finish(operator, output)
    assert len(output.rows) == 6


def test_a_timer_that_sets_itself_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(process_functions.Alarmed):
        def on_timer(self, ctx: Any) -> None:
            ctx.register_on_time(ctx.time_ms)

    monkeypatch.setattr(process_functions, "Endless", Endless, raising=False)
    monkeypatch.setattr(Endless, "__module__", "process_functions")
    monkeypatch.setattr(timers, "_ROUNDS_MAX", 100)
    spec, context = timed(Endless)
    with pytest.raises(UserError, match="have fired 100 times at one watermark") as caught:
        run_operator(spec, context, [[("a", 0, 5)], Watermark(10)])
    assert caught.value.code == "SS5411"


def test_what_a_clock_does_not_have_is_refused() -> None:
    spec, context = timed(process_functions.Ticking)
    with pytest.raises(UserError, match="with on_time timers are of event time") as caught:
        run_operator(spec, context, [[("a", 6, 1)]])
    assert caught.value.code == "SS5411"
    spec, context = timed(process_functions.Broken, Literal("by key", sql.STRING.not_null()))
    with pytest.raises(UserError, match="output by key has no rowtime"):
        run_operator(spec, context, [[("a", 6, 1)]])
    spec = spec_of(process_functions.Broken, Literal("a deletion", sql.STRING.not_null()))
    with pytest.raises(UserError, match="it puts out -D, and its class"):
        run_operator(spec, context_of(spec), [[("a", 6)]])
    spec = spec_of(process_functions.Broken, Literal("a timer", sql.STRING.not_null()))
    with pytest.raises(UserError, match="it has no on_timer"):
        run_operator(spec, context_of(spec), [[("a", 6)]])


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(-5_000, 20_000)), max_size=30),
    st.integers(-6_000, 21_000),
)
def test_due_slots_are_those_whose_time_has_come(registered: list[tuple[int, int]], limit: int) -> None:
    made = Timers("timers", Places(pa.schema([("k", pa.int64())]), StateScope()), 1_000)
    times: dict[int, int] = {}
    for number, (key, time) in enumerate(registered):
        made.register(KeySet(["k"], [pa.array([key])], 1), "t", np.array([time]))
        times[key] = time
        if number % 7 == 6:
            assert made.first_ms() == min(times.values())
    taken = made.take(limit)
    keys = made.table.keys(taken)[0].to_pylist()
    assert sorted(keys) == sorted(k for k, t in times.items() if t <= limit)
    made.table.forget(taken)
    assert made.first_ms() == min((t for t in times.values() if t > limit), default=None)


# -- states by batch ---------------------------------------------------------------------------------


KEYS = pa.schema([("k", pa.string()), ("n", pa.int32())])


def key_set(keys: list[tuple[Any, Any]]) -> KeySet:
    return KeySet(KEYS.names, [pa.array([k[i] for k in keys], KEYS.field(i).type) for i in (0, 1)], len(keys))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "clear", "entries"]),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), min_size=1, max_size=4, unique=True),
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 4), st.one_of(st.none(), st.integers())), max_size=8
        ),
    ),
    max_size=12,
)


@given(STEPS)
def test_a_map_by_batch_is_a_dict_by_key(steps: Any) -> None:
    state = KeyedMap("m", sql.map_of(sql.INT, sql.STRING), 0, Places(KEYS, StateScope()))
    model: dict[Any, dict[int, str | None]] = defaultdict(dict)
    for kind, owners, entries in steps:
        keys = key_set(owners)
        groups = np.array([g % len(owners) for g, _, _ in entries], dtype=np.int64)
        map_keys = [m for _, m, _ in entries]
        of_rows = [owners[g] for g in groups]
        if kind == "put":
            values = [None if v is None else str(v) for _, _, v in entries]
            state.put(keys, groups, map_keys, values)
            for owner, m, v in zip(of_rows, map_keys, values, strict=True):
                model[owner][m] = v
        elif kind == "remove":
            state.remove(keys, groups, map_keys)
            for owner, m in zip(of_rows, map_keys, strict=True):
                model[owner].pop(m, None)
        elif kind == "clear":
            state.clear(keys)
            for owner in owners:
                model[owner].clear()
        else:
            places, found, values = state.entries(keys)
            read = {o: {} for o in owners}
            for place, m, v in zip(places.tolist(), found.to_pylist(), values.to_pylist(), strict=True):
                read[owners[place]][m] = v
            assert read == {o: model[o] for o in owners}
        got = state.get(keys, groups, map_keys).to_pylist()
        assert got == [model[o].get(m) for o, m in zip(of_rows, map_keys, strict=True)]


@given(
    st.lists(
        st.tuples(st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 9)), max_size=6), st.booleans()),
        max_size=8,
    )
)
def test_lists_and_values_by_batch_are_those_of_a_model(steps: Any) -> None:
    places = Places(KEYS, StateScope())
    lists = KeyedList("l", sql.array(sql.BIGINT), 0, places)
    values = KeyedValue("v", sql.STRING, "none", 0, places)
    model: dict[int, list[int]] = defaultdict(list)
    owners = [("a", 0), ("b", 1), ("c", None)]
    for added, clears in steps:
        keys = key_set(owners)
        lists.append(
            keys, np.array([g for g, _ in added], dtype=np.int64), pa.array([v for _, v in added], pa.int64())
        )
        for group, value in added:
            model[group].append(value)
        assert lists.get(keys).to_pylist() == [model[g] for g in range(3)]
        some = np.array([bool(model[g]) for g in range(3)])
        values.put(keys.take(some), [str(model[g]) for g in range(3) if some[g]])
        expected = [str(model[g]) if some[g] else "none" for g in range(3)]
        assert values.get(keys).to_pylist() == expected
        if clears:
            lists.clear(keys.take(np.array([1])))
            values.put(keys.take(np.array([1])), [None])
            model[1] = []
            assert values.get(keys).to_pylist()[1] == "none"


def saved(state_type: Any, values: list[Any]) -> Any:
    scope = StateScope()
    state = KeyedValue("v", state_type, None, 0, Places(KEYS, scope))
    state.put(key_set([("a", i) for i in range(len(values))]), values)
    owner = OperatorState(scope)
    owner.add(state.table)
    return owner.snapshot()


def test_a_state_is_read_as_a_wider_type() -> None:
    wider = KeyedValue("v", sql.BIGINT, 0, 0, Places(KEYS, StateScope()))
    wider.table.load(saved(sql.INT, [1, None, -3]).of("v"))
    assert wider.get(key_set([("a", 0), ("a", 1), ("a", 2), ("b", 0)])).to_pylist() == [1, 0, -3, 0]


def test_a_state_that_its_new_type_cannot_hold_is_refused() -> None:
    narrower = KeyedValue("v", sql.TINYINT, 0, 0, Places(KEYS, StateScope()))
    with pytest.raises(UserError, match='state "v" was saved as int32') as caught:
        narrower.table.load(saved(sql.INT, [1, 300]).of("v"))
    assert caught.value.code == "SS5412"


def test_a_state_that_was_added_is_empty_and_one_that_was_removed_is_forgotten() -> None:
    spec = spec_of(process_functions.Wandering)
    operator, output = make_operator(spec, context_of(spec)), Collected()
    feed(operator, [[("a", 1), ("a", 5)]], output)
    snapshot = operator.context.state.snapshot()
    other = spec_of(process_functions.Numbered)
    numbered = restored(other, context_of(other), [snapshot], 0, 1)
    feed(numbered, [[("a", 1)]], output)
    assert output.rows[-1] == ("a", 1)


def test_the_bytes_of_state_are_those_of_its_tables() -> None:
    spec = spec_of(process_functions.Wandering)
    operator, output = make_operator(spec, context_of(spec)), Collected()
    before = operator.context.state.nbytes()
    feed(operator, [[(str(n), n) for n in range(5_000)]], output)
    assert operator.context.state.nbytes() > before + 5_000 * 8
