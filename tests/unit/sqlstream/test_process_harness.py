"""A process table function that is tested alone."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import process_functions
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream import (
    SET_SEMANTIC_TABLE,
    Change,
    ChangelogMode,
    Deletion,
    ProcessTableFunction,
    SideOutput,
    TableArgument,
    ValueState,
)
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.testing import ProcessHarness

pytest_plugins = ["sqlstream.testing.pytest_plugin"]


def test_rows_state_and_arguments(process_function: Callable[..., ProcessHarness]) -> None:
    numbered = process_function(process_functions.Numbered, "k STRING, v BIGINT", partition_by="k", first=10)
    assert numbered.columns == ("k", "n")
    assert numbered.feed([("a", 1), ("b", 2), ("a", 3)]).take() == [("a", 10), ("b", 10), ("a", 11)]
    assert numbered.state("count") == {"a": 2, "b": 1}
    numbered.restart().feed([("a", 4)])
    assert (numbered.take(), numbered.take()) == ([("a", 12)], [])
    numbered.feed(pa.record_batch({"k": ["c"], "v": pa.array([1], pa.int64())}))
    assert numbered.take_batches()[0].to_pydict() == {"k": ["c"], "n": [10]}


def test_event_time_timers_and_late_rows(process_function: Callable[..., ProcessHarness]) -> None:
    alarmed = process_function(
        process_functions.Alarmed, "k STRING, v BIGINT, ts TIMESTAMP(3)", partition_by="k", on_time="ts"
    )
    alarmed.feed([("a", 2, "2026-01-01 00:00:01"), ("b", 1, datetime.datetime(2026, 1, 1))])
    at = 1_767_225_600_000
    assert alarmed.timers() == [("b", None, at + 1), ("a", "a", at + 1_004)]
    assert alarmed.advance_watermark("2026-01-01 00:00:00.500").take() == [
        ("b", f"None {at + 1}", datetime.datetime(2026, 1, 1, 0, 0, 0, 1_000))
    ]
    late = datetime.datetime(2026, 1, 1, 0, 0, 0, 500_000)
    assert alarmed.feed([("b", 7, late)]).take() == [("b", "late 7", late)]
    assert [what for _, what, _ in alarmed.restart().finish().take()] == [f"a {at + 1_004}"]
    assert alarmed.state("fired") == {"a": 1, "b": 1}


def test_processing_time_timers_and_the_clock(process_function: Callable[..., ProcessHarness]) -> None:
    ticking = process_function(process_functions.Ticking, "k STRING", partition_by="k")
    ticking.feed([("a",)]).advance_clock(9)
    assert ticking.take() == []
    assert ticking.advance_clock(100).take() == [("a", 1), ("a", 2), ("a", 3)]
    recent = process_function(
        process_functions.Wandering, "k STRING, v BIGINT", partition_by="k", state_ttl_ms=50
    )
    recent.feed([("a", 2), ("a", 5), ("a", 1)])
    assert (recent.state("map"), recent.state("list"), recent.state("value")) == (
        {"a": {2: "2"}},
        {"a": [[5, 6]]},
        {"a": 8},
    )
    recent.advance_clock(60)
    assert (recent.state("map"), recent.state("list")) == ({"a": {2: "2"}}, {})


def test_several_tables_and_keys_of_several_columns() -> None:
    with ProcessHarness(
        process_functions.Paired, {"left": "k STRING, n INT", "right": "k STRING"}, partition_by=["k"]
    ) as paired:
        assert paired.feed([("a",)], "right").take() == [("a", "a", "right", 1)]
        assert paired.feed([("a", 5)], table="left").take() == [("a", "a", "left", None)]
        with pytest.raises(ValueError, match='no table "lef": did you mean "left"'):
            paired.feed([("a", 5)], "lef")
    with ProcessHarness(process_functions.Numbered, "k STRING, g INT", partition_by=("k", "g")) as numbered:
        numbered.feed([("a", 1), ("a", None)])
        assert numbered.state("count") == {("a", 1): 1, ("a", None): 1}


def test_rows_in_order(process_function: Callable[..., ProcessHarness]) -> None:
    columns = "k STRING, ts TIMESTAMP(3)"
    sessions = process_function(
        process_functions.Sessions,
        columns,
        partition_by="k",
        on_time="ts",
        order_by=["ts", "k"],
        gap_ms=1_000,
    )
    times = ("2026-01-01 00:00:05", "2026-01-01 00:00:01", "2026-01-01 00:00:01.500")
    assert sessions.feed([("a", time) for time in times]).take() == []
    sessions.advance_watermark("2026-01-01 00:00:05").feed([("a", "2026-01-01 00:00:04")])
    assert [row[1:3] for row in sessions.restart().finish().take()] == [(2, 0.5), (1, 0.0)]


def test_changes_in_and_out(process_function: Callable[..., ProcessHarness]) -> None:
    for summed in (process_functions.Summed, process_functions.SummedByRow):
        tested = process_function(summed, "k STRING, n BIGINT", partition_by="k")
        assert tested.feed([("a", 5), ("b", 1)]).take() == [("+I", "a", 1, 5), ("+I", "b", 1, 1)]
        kinds = [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
        assert tested.feed([("a", 5), ("a", 7)], kinds=kinds).take()[-1] == ("+I", "a", 1, 7)
        assert tested.feed([("b", 1)], kinds=[RowKind.DELETE]).take() == [("-D", "b", 1, 1)]
    numbered = process_function(process_functions.Numbered, "k STRING", partition_by="k")
    with pytest.raises(ValueError, match="no SUPPORT_UPDATES"):
        numbered.feed([("a",)], kinds=[RowKind.DELETE])


def test_a_changed_class_goes_on_with_its_state() -> None:
    class Before(ProcessTableFunction):
        result_type = "INT"
        input = TableArgument(SET_SEMANTIC_TABLE)
        n = ValueState("INT", default=0)

        def eval(self, ctx: Any, row: Any) -> Any:
            self.n.value += 1
            return [self.n.value]

    class After(Before):
        n = ValueState("BIGINT", default=0)
        more = ValueState("STRING")

    class Other(Before):
        n = ValueState("DATE")

    with ProcessHarness(Before, "k STRING", partition_by="k") as tested:
        tested.feed([("a",), ("a",)]).restart(After).feed([("a",)])
        assert [n for _, n in tested.take()] == [1, 2, 3]
        with pytest.raises(UserError) as caught:
            tested.restart(Other)
    assert caught.value.code == "SS5412"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tables": {"inputs": "k STRING"}}, "reads input, and not inputs"),
        ({"tables": "k STRING", "partition_by": "z"}, 'has no column "z"'),
        ({"tables": "k STRING", "partition_by": "k", "firs": 1}, 'no argument "firs": did you mean "first"'),
    ],
)
def test_what_the_test_does_wrong_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ProcessHarness(process_functions.Numbered, **given)
    with pytest.raises(ValueError, match="needs partition_by"):
        ProcessHarness(process_functions.Wandering, "k STRING, v BIGINT")
    with pytest.raises(ValueError, match='needs its argument "how"'):
        ProcessHarness(process_functions.Broken, "k STRING", partition_by="k")


@pytest.mark.parametrize("function", [process_functions.Sifted, process_functions.SiftedByRow])
@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-9, 9)), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
def test_side_outputs_are_those_of_a_model_over_any_split_and_restarts(
    function: type[ProcessTableFunction], rows: list[tuple[str | None, int]], cuts: list[int]
) -> None:
    counts: Counter[str | None] = Counter()
    numbered, thirds = [], []
    for key, _ in rows:
        counts[key] += 1
        numbered.append((key, counts[key]))
        thirds += [(key, counts[key])] if counts[key] % 3 == 0 else []
    with ProcessHarness(function, "k STRING, v BIGINT", partition_by="k") as sifted:
        bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
        for start, end in itertools.pairwise(bounds):
            sifted.feed(rows[start:end]).restart()
        assert sifted.take() == numbered
        assert sifted.take("odd") == [(key, v, "odd") for key, v in rows if v % 2]
        assert sifted.take("third") == thirds
        assert (sifted.take("third"), sifted.columns_of("odd")) == ([], ("k", "v", "what"))


def test_a_timer_puts_out_to_the_side(process_function: Callable[..., ProcessHarness]) -> None:
    columns = "k STRING, v BIGINT, ts TIMESTAMP(3)"
    sifted = process_function(process_functions.SiftedByRow, columns, partition_by="k", on_time="ts")
    at, later = datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, 0, 0, 0, 500_000)
    sifted.feed([("a", 1, at)]).restart().finish()
    assert (sifted.take(), sifted.take("odd")) == ([("a", 1, at)], [("a", 1, "odd", at)])
    assert sifted.take("time") == [("a", 1_767_225_600_500, later)]
    with pytest.raises(ValueError, match='no output "odt": did you mean "odd"'):
        sifted.take("odt")


def test_rows_that_no_side_output_takes_are_refused() -> None:
    class Wrong(ProcessTableFunction):
        result_type = "ROW<n BIGINT>"
        deletes_rows = True
        input = TableArgument(SET_SEMANTIC_TABLE)
        side = SideOutput("ROW<a INT, b INT>")

        def eval(self, ctx, row):
            match row["v"]:
                case 1:
                    yield self.side(1)
                case 2:
                    yield Deletion(self.side(1, 2))
                case 3:
                    yield self.side(c=1, b=2)
                case 4:
                    yield self.side()
                case 5:
                    yield self.side("x", 2)

    said = [
        ("SS5131", "made (1,) for a row of 2 columns"),
        ("SS5131", 'returned a row of output "side"'),
        ("SS5131", "made {'c': 1, 'b': 2}"),
        ("SS5130", 'a row of output "side" is of values, or of named ones'),
        ("SS5131", 'column "a" of output "side" of Wrong'),
    ]
    for number, (code, message) in enumerate(said, 1):
        with ProcessHarness(Wrong, "k STRING, v BIGINT", partition_by="k") as wrong:
            with pytest.raises(UserError) as caught:
                wrong.feed([("a", number)])
            assert caught.value.code == code, number
            assert message in caught.value.message, (number, caught.value.message)


CHANGING = (
    process_functions.Extremes,
    process_functions.ExtremesRetracted,
    process_functions.ExtremesInBatches,
    process_functions.ExtremesRetractedInBatches,
)


@pytest.mark.parametrize("function", CHANGING)
@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-9, 9)), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
def test_changes_make_the_table_that_is_computed_anew_over_any_split_and_restarts(
    function: type[ProcessTableFunction], rows: list[tuple[str | None, int]], cuts: list[int]
) -> None:
    with ProcessHarness(function, "k STRING, v BIGINT", partition_by="k") as extremes:
        bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
        for start, end in itertools.pairwise(bounds):
            extremes.feed(rows[start:end]).restart()
            values: dict[str | None, list[int]] = {}
            for key, v in rows[:end]:
                values.setdefault(key, []).append(v)
            expected = [(k, min(of), max(of), len(of)) for k, of in values.items() if sum(of) % 2]
            assert sorted(extremes.table(), key=str) == sorted(expected, key=str)


def test_the_kinds_of_changes(process_function: Callable[..., ProcessHarness]) -> None:
    rows = [("a", 1), ("a", 2), ("a", 2), ("a", 1)]
    by_key = process_function(process_functions.Extremes, "k STRING, v BIGINT", partition_by="k").feed(rows)
    assert by_key.take() == [
        ("+U", "a", 1, 1, 1), ("+U", "a", 1, 2, 2), ("+U", "a", 1, 2, 3), ("-D", "a", None, None, None),
    ]  # fmt: skip
    assert by_key.take("gone") == [("a", 6)]
    retracted = process_function(
        process_functions.ExtremesRetracted, "k STRING, v BIGINT", partition_by="k"
    ).feed(rows)
    assert retracted.take() == [
        ("+I", "a", 1, 1, 1), ("-U", "a", 1, 1, 1), ("+U", "a", 1, 2, 2), ("-U", "a", 1, 2, 2),
        ("+U", "a", 1, 2, 3), ("-D", "a", 1, 2, 3),
    ]  # fmt: skip


class Said(ProcessTableFunction):
    """Puts out its rows with the kinds that they name."""

    result_type = "ROW<v BIGINT>"
    changelog_mode = ChangelogMode.RETRACT
    input = TableArgument(SET_SEMANTIC_TABLE)

    def eval(self, ctx, row):
        yield Change(RowKind(row["kind"]), row["v"])


class SaidByKey(Said):
    changelog_mode = ChangelogMode.UPSERT


def test_half_an_update_is_a_row_that_is_added_or_deleted() -> None:
    with ProcessHarness(Said, "k STRING, v BIGINT, kind INT", partition_by="k") as said:
        said.feed([("a", 1, 2), ("a", 1, 1), ("b", 2, 2), ("b", 2, 1), ("b", 3, 2), ("b", 3, 1)])
        found = ["+I a 1", "-D a 1", "+I b 2", "-U b 2", "+U b 3", "-D b 3"]
        assert [" ".join(map(str, row)) for row in said.take()] == found
        assert said.table() == []


@pytest.mark.parametrize(
    ("function", "rows", "message"),
    [
        (Said, [("a", 1, 0), ("a", 2, 3)], "-D ('a', 2) of a row that is not there"),
        (Said, [("a", 1, 0), ("b", 1, 1), ("b", 2, 2)], "-U ('b', 1) of a row"),
        (Said, [("a", 1, 0), ("a", 1, 3), ("a", 1, 3)], "-D ('a', 1) of a row"),
        (SaidByKey, [("a", 1, 2), ("b", 1, 3)], "-D of key ('b',), which has no row"),
    ],
)
def test_a_change_of_a_row_that_is_not_there_is_found(
    function: type[ProcessTableFunction], rows: list[tuple[Any, ...]], message: str
) -> None:
    with ProcessHarness(function, "k STRING, v BIGINT, kind INT", partition_by="k") as said:
        with pytest.raises(AssertionError) as caught:
            said.feed(rows)
        assert message in str(caught.value)


def emitting(mode: ChangelogMode, **arguments: Any) -> type[ProcessTableFunction]:
    class Emits(ProcessTableFunction):
        result_type = "ROW<v BIGINT>"
        changelog_mode = mode
        input = TableArgument(SET_SEMANTIC_TABLE)
        side = SideOutput("BIGINT")

        def on_batch(self, ctx, batch):
            given = dict(arguments)
            if given.pop("aside", False):
                given["output"] = self.side
            ctx.emit(given.pop("columns", [batch.column("v")]), **given)

    return Emits


INSERTS, BY_KEY, RETRACTS = ChangelogMode.INSERT_ONLY, ChangelogMode.UPSERT, ChangelogMode.RETRACT


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (emitting(RETRACTS, kinds=[0, None]), "none of them is NULL"),
        (emitting(RETRACTS, kinds=pa.array([0, None], pa.int8())), "none of them is NULL"),
        (emitting(RETRACTS, kinds=[0]), "kinds are 2 values of RowKind"),
        (emitting(RETRACTS, kinds=[0, 4]), "kinds are 2 values of RowKind"),
        (emitting(RETRACTS, kinds=[True, False]), "kinds are 2 values of RowKind"),
        (emitting(RETRACTS, kinds=0, deletes=True), "kinds and deletes are given both"),
        (emitting(RETRACTS, kinds=RowKind.DELETE, columns=None), "it does not name"),
        (emitting(RETRACTS, kinds=RowKind.DELETE, aside=True), 'puts out -D to output "side"'),
        (emitting(INSERTS, kinds=[0, 2]), "it puts out +U, and its class declares"),
        (emitting(INSERTS, deletes=True), "it puts out -D, and its class declares"),
        (emitting(BY_KEY, kinds=[1, 2]), "it puts out -U, and its class declares changelog_mode UPSERT"),
        (emitting(BY_KEY, kinds=[0, 3], columns=None), "for the columns v"),
    ],
)
def test_kinds_that_have_no_meaning_are_refused(function: type[ProcessTableFunction], message: str) -> None:
    with ProcessHarness(function, "k STRING, v BIGINT", partition_by="k") as emits:
        with pytest.raises(UserError) as caught:
            emits.feed([("a", 1), ("b", 2)])
        assert caught.value.code == "SS5411"
        assert message in caught.value.message
        assert caught.value.hint


def test_rows_with_kinds_are_refused_by_row() -> None:
    class Wrong(ProcessTableFunction):
        result_type = "ROW<v BIGINT>"
        input = TableArgument(SET_SEMANTIC_TABLE)

        def eval(self, ctx, row):
            yield Change(None, 1) if row["v"] else Deletion(2)

    for v, code, message in ((1, "SS5130", "None is not a valid RowKind"), (0, "SS5411", "it puts out -D")):
        with ProcessHarness(Wrong, "k STRING, v BIGINT", partition_by="k") as wrong:
            with pytest.raises(UserError) as caught:
                wrong.feed([("a", v)])
            assert (caught.value.code, message in caught.value.message) == (code, True)
    with (
        ProcessHarness(Said, "k STRING, v BIGINT, kind INT", partition_by="k") as said,
        pytest.raises(ValueError, match="there is no output"),
    ):
        said.take("side")
    with pytest.raises(ValueError, match="only adds rows"):
        ProcessHarness(process_functions.Numbered, "k STRING, v BIGINT", partition_by="k").table()
