"""Users' functions give what a loop over the rows gives, however the rows are cut into batches and the state is moved."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import python_functions
from moved_jobs import plan_job, run_job
from operator_harness import final_table
from property.test_moved_state import TABLES, scripts
from python_functions import Mean, Seen

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import AggregateCall, Call, InputRef
from sqlstream.function_ref import FunctionRef
from sqlstream.functions.user import scalar_signature
from sqlstream.planner.dialect.parser import parse_type
from sqlstream.runtime.aggregates import make_accumulator
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.python.calls import build_user_call
from sqlstream.types import BIGINT, DOUBLE, INT, STRING, LogicalType


def ref_of(name: str) -> FunctionRef:
    """The reference that CREATE FUNCTION would make."""
    declared = getattr(python_functions, name).declared
    return FunctionRef(
        f"c.d.{name.lower()}",
        "python_functions",
        name,
        declared.kind,
        declared.mode,
        declared.parameters,
        tuple(parse_type(t) if t else None for t in declared.argument_types),
        parse_type(declared.result_type),
        declared.optional,
        declared.is_variadic,
        declared.is_deterministic,
        parse_type(declared.accumulator_type) if declared.accumulator_type else None,
        declared.methods,
    )


def called(name: str, *columns: tuple[list[Any], LogicalType], config: dict[str, str] | None = None) -> Any:
    ref = ref_of(name)
    types = tuple(t for _, t in columns)
    result = scalar_signature(ref).result_type(types)
    assert result is not None
    call = Call(ref.name, tuple(InputRef(i, t) for i, t in enumerate(types)), result, None, ref)
    kernel = build_user_call(call, EvaluationContext(config=config or {}))
    arrays = [pa.array(values, to_arrow_type(t)) for values, t in columns]
    return kernel(*arrays) if arrays else kernel(3)


def test_a_row_with_null_where_none_is_taken_has_the_result_null_and_others_their_own() -> None:
    fate = random.Random(1)
    values = [fate.choice([None, fate.randrange(100)]) for _ in range(1000)]
    texts = [fate.choice([None, "ab", "c"]) for _ in values]
    cuts = sorted(fate.sample(range(1000), 7))
    for begin, end in zip([0, *cuts], [*cuts, 1000], strict=True):
        part, words = values[begin:end], texts[begin:end]
        wanted: list[Any] = [None if v is None else v + 1 for v in part]
        assert called("add_one", (part, BIGINT)).to_pylist() == wanted
        wanted = [None if v is None else f"v{v}" for v in part]
        assert called("fetched", (part, BIGINT)).to_pylist() == wanted
        wanted = [None if v is None else 2 * v for v in part]
        assert called("twice", (part, BIGINT)).to_pylist() == wanted
        wanted = ["-" if w is None else w * 2 for w in words]
        assert called("repeated", (words, STRING)).to_pylist() == wanted
        wanted = [None if w is None else [(w, len(w))] for w in words]
        found = called("words", (words, STRING)).to_pylist()
        assert [None if f is None else [tuple(r.values()) for r in f] for f in found] == wanted
    assert python_functions.WAITING == {"now": 0, "most": 10}


def test_rows_of_a_batch_are_those_of_a_loop_over_its_rows() -> None:
    fate = random.Random(2)
    texts = [fate.choice([None, "", "a", "bc  d", " e fgh i", "ä"]) for _ in range(500)]
    cuts = sorted(fate.sample(range(500), 7))
    found: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, 500], strict=True):
        found += called("words_by_batch", (texts[begin:end], STRING)).to_pylist()
    wanted = [[(word, len(word)) for word in (text or "").split()] for text in texts]
    assert [[tuple(row.values()) for row in rows] for rows in found] == wanted
    halves = called("halves", ([3, None], BIGINT)).to_pylist()
    assert halves == [[{"n": 3, "half": 1.5}], [{"n": 0, "half": None}]]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (0, "returned int, which is no table"),
        (1, "returned the columns m for n"),
        (2, "returned 2 rows for 3 rows"),
        (3, "returned row numbers that are not those of 3 rows in order"),
        (4, "returned row numbers that are not those of 3 rows in order"),
        (5, "returned 3 row numbers of int64 for 3 rows"),
        (6, "returned 3 row numbers of string for 3 rows"),
        (7, 'returned NULL for BIGINT NOT NULL for column "n"'),
        (8, 'returned an array of string for BIGINT for column "n"'),
        (9, "returned list, which is no Arrow array"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(kind: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        called("badly_made", ([kind] * 3, BIGINT))
    assert (caught.value.code, caught.value.message) == ("SS5131", f"Python function badly_made {message}")


def test_values_are_those_of_python() -> None:
    text = (["a"], STRING)
    row = ([{"a": 1, "b": [1.5]}], parse_type("ROW<a INT, b ARRAY<DOUBLE>>"))
    mapped = ([[("a", 1)]], parse_type("MAP<STRING, INT>"))
    time = ([1_000_000_001], parse_type("TIMESTAMP(9)"))
    number = ([None], BIGINT)
    found = called("kinds", text, row, mapped, time, number).to_pylist()
    assert found == ["str dict dict datetime NoneType"]
    assert called("kinds").as_py() == ""


@pytest.mark.parametrize(
    ("name", "values", "code", "message"),
    [
        ("failing", [5, 3], "SS5130", "Python function failing failed for (3): ZeroDivisionError"),
        ("mistyped", [1, 2], "SS5131", "Python function mistyped returned 1.5 (float) for INT"),
        ("too_few", [1, 2], "SS5131", "Python function too_few returned 1 values for 2 rows"),
        ("too_long", [1, 2], "SS5131", "Python function too_long returned 'äbcd' (str) for VARCHAR(3)"),
        (
            "too_long_batch",
            [1],
            "SS5131",
            "Python function too_long_batch returned a value that does not fit VARBINARY(3)",
        ),
        ("never", [1], "SS5133", "Python function never took longer than 0.02 s"),
    ],
)
def test_errors_say_what_the_function_did(name: str, values: list[int], code: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        called(name, (values, BIGINT), config={"table.exec.async-scalar.timeout": "20 ms"})
    assert caught.value.code == code
    assert caught.value.message.startswith(message)
    if code == "SS5130":
        lines = caught.value.detail.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert [line.rsplit(" ", 1)[1] for line in lines if line.startswith("  File")] == [
            "failing",
            "_inner",
        ]
        assert lines[-1].startswith("ZeroDivisionError:")


@pytest.mark.parametrize(
    ("name", "raised"), [("interrupting", "KeyboardInterrupt"), ("cancelling", "CancelledError")]
)
def test_what_is_no_exception_is_a_failure_of_the_function_too(name: str, raised: str) -> None:
    """In a task, whose thread it would end without a word."""
    with ThreadPoolExecutor(1) as thread, pytest.raises(UserError) as caught:
        thread.submit(called, name, ([7], BIGINT)).result()
    assert caught.value.code == "SS5130"
    assert caught.value.message == f"Python function {name} failed for (7): {raised}"


def test_a_generator_without_an_end_is_told_how_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.python.calls.TABLE_ROWS_MAX", 100)
    with pytest.raises(UserError) as caught:
        called("endless", ([1], BIGINT))
    assert caught.value.message.endswith("makes more than 100 rows of one batch")
    assert caught.value.hint.startswith("end the generator")


def test_elements_are_cast_as_values_are() -> None:
    signature = scalar_signature(ref_of("total"))
    for given, taken in (
        ("ARRAY<INT NOT NULL>", "ARRAY<BIGINT>"),
        ("ARRAY<DOUBLE>", None),
        ("ARRAY<ARRAY<INT>>", None),
    ):
        coerced = signature.coerce((parse_type(given),))
        assert (coerced and str(coerced[0])) == taken


def test_an_aggregate_may_change_its_accumulator_in_place() -> None:
    call = AggregateCall("inplace", (0,), BIGINT, ref=ref_of("InPlace"))
    local, merged = (make_accumulator(call, (BIGINT,), True) for _ in range(2))
    for accumulator in (local, merged):
        accumulator.resize(2)
        for values, signs in (([1, 2, 3], [1, 1, 1]), ([2], [-1])):
            accumulator.accumulate(
                np.zeros(len(values), np.int64), [pa.array(values)], np.array(signs, np.int8)
            )
    merged.merge(np.arange(2), local.columns(np.arange(2)))
    assert merged.results(np.arange(2)).to_pylist() == [8, 0]


def test_a_failed_call_is_made_again_where_that_is_set() -> None:
    assert called("second_time", ([1, 2], BIGINT)).to_pylist() == [1, 2]
    with pytest.raises(UserError) as caught:
        called("second_time", ([3], BIGINT), config={"table.exec.async-scalar.retry-strategy": "NO_RETRY"})
    assert "OSError: not yet" in caught.value.message


def test_an_aggregate_is_the_same_whatever_the_batches_and_moves_of_its_state() -> None:
    fate = random.Random(2)
    types = (BIGINT, BIGINT)
    mean, seen = ref_of("Mean"), ref_of("Seen")
    calls = [AggregateCall("mean", (0, 1), DOUBLE, ref=mean), AggregateCall("seen", (0,), STRING, ref=seen)]
    for _ in range(5):
        rows: list[tuple[int, Any, int, int]] = []
        for _ in range(300):
            if rows and fate.random() < 0.3:
                slot, v, w, _ = fate.choice(rows)
                rows.append((slot, v, w, -1))
            else:
                rows.append(
                    (fate.randrange(8), fate.choice([None, fate.randrange(9)]), fate.randrange(1, 4), 1)
                )
        wanted_mean: dict[int, Any] = {}
        wanted_seen: dict[int, Any] = {}
        for slot, v, w, sign in rows:
            if v is not None:
                acc = wanted_mean.setdefault(slot, Mean.target.create_accumulator())
                change = Mean.target.accumulate if sign > 0 else Mean.target.retract
                wanted_mean[slot] = change(acc, v, w)
            if sign > 0:
                acc = wanted_seen.setdefault(slot, Seen.target.create_accumulator())
                wanted_seen[slot] = Seen.target.accumulate(acc, v)
        slots = np.arange(8)
        for call, wanted in zip(calls, (wanted_mean, wanted_seen), strict=True):
            accumulator = make_accumulator(call, types[: len(call.args)], True)
            accumulator.resize(8)
            at = 0
            while at < len(rows):
                part = rows[at : at + fate.randrange(1, 60)]
                at += len(part)
                if call is calls[1]:
                    part = [r for r in part if r[3] > 0]
                arrays = [pa.array([r[i] for r in part], pa.int64()) for i in (1, 2)][: len(call.args)]
                signs = np.array([r[3] for r in part], dtype=np.int8)
                accumulator.accumulate(np.array([r[0] for r in part], dtype=np.int64), arrays, signs)
                moved = make_accumulator(call, types[: len(call.args)], True)
                moved.resize(8)
                moved.load(slots, accumulator.columns(slots))
                accumulator = moved
            target = Mean.target if call is calls[0] else Seen.target
            expected = [target.get_value(wanted.get(s, target.create_accumulator())) for s in range(8)]
            assert accumulator.results(slots).to_pylist() == expected
            assert accumulator.nbytes() > 0
            accumulator.reset(slots[:4])
            empty = target.get_value(target.create_accumulator())
            assert accumulator.results(slots).to_pylist() == [empty] * 4 + expected[4:]


@pytest.mark.parametrize(
    "frame",
    [
        "ORDER BY rt",
        "ORDER BY rt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        "ORDER BY rt RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW",
        "ORDER BY rt ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    ],
)
def test_an_aggregate_over_frames_is_that_of_the_rows_in_them(frame: str) -> None:
    """`mean` retracts rows that leave a frame, `seen` cannot: it is computed anew."""
    query = f"""SELECT id, mean(v, 2) OVER w, SUM(v) OVER w, COUNT(v) OVER w, seen(v) OVER w,
        mean(v, 1) FILTER (WHERE v > 3) OVER w, SUM(v) FILTER (WHERE v > 3) OVER w, COUNT(v) FILTER (WHERE v > 3) OVER w
        FROM bids WINDOW w AS (PARTITION BY k {frame})"""
    graph = plan_job(TABLES + query)
    found = final_table(run_job(graph, scripts(3), [1, 2], 3))
    assert sum(found.values()) > 50
    for _, mean, total, count, seen, some, some_total, some_count in found:
        assert mean == (total / count if count else None)
        assert some == (some_total / some_count if some_count else None)
        assert (len(seen.split(",")) if seen else 0) <= count


def test_integers_are_integers() -> None:
    assert called("mistyped", ([1, 4], INT)).type == pa.int32()
