"""Rows wait for a server of models in their order, however they are cut into batches and moved between subtasks."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from http_harness import Asked, HttpServer, Reply, http_server
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server_harness import answer_to, embedding_of, openai
from operator_harness import Collected, Row, feed, operator_context, restore, share_of

from sqlstream import types as sql
from sqlstream.elements import WATERMARK_MAX, Watermark, WatermarkStatus
from sqlstream.errors import ExternalError, UserError
from sqlstream.models import ModelRef
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.operators.remote_predict import RemotePredict
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.schema import Schema
from sqlstream.specs import RemotePredictSpec

ROWS = Schema.of(("n", sql.BIGINT), ("x", sql.STRING))
KEY_GROUPS = 8
WAIT_S = 60


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with http_server(openai) as made:
        yield made


def model_of(server: HttpServer, task: str, **options: str) -> ModelRef:
    output = sql.STRING if task == "chat/completions" else sql.array(sql.FLOAT)
    given = {"provider": "openai", "endpoint": f"{server.url}/v1/{task}", "api-key": "k", "model": "m"}
    return ModelRef(
        "c.d.m",
        "openai",
        Schema.of(("input", sql.STRING)),
        Schema.of(("said", output)),
        given | {key.replace("_", "-"): value for key, value in options.items()},
    )


def made(
    model: ModelRef,
    concurrent_max: int = 3,
    subtask: int = 0,
    parallelism: int = 1,
    wake: Callable[[], None] = lambda: None,
) -> RemotePredict:
    context = operator_context(
        [ROWS],
        Schema((*ROWS.fields, *model.outputs.fields)),
        subtask=subtask,
        parallelism=parallelism,
        max_parallelism=KEY_GROUPS,
        pause_ms=lambda ms: time.sleep(ms / 10_000),
    )
    operator = RemotePredict(RemotePredictSpec(model, (0, 1), (1,), concurrent_max=concurrent_max), context)
    operator.connect(LocalFiles(), wake)
    return operator


def ended(operator: RemotePredict, output: Collected) -> None:
    """All that waits is answered."""
    assert operator.on_watermark(WATERMARK_MAX, output) == WATERMARK_MAX
    operator.close()


def expected(rows: list[Row], task: str) -> list[Row]:
    said = answer_to if task == "chat/completions" else embedding_of
    return [(n, x, None if x is None else said(x)) for n, x in rows]


def flat(rows: list[list[Row]]) -> list[Row]:
    return [row for batch in rows for row in batch]


def hashable(rows: list[Row]) -> Counter[Row]:
    return Counter((n, x, tuple(said) if isinstance(said, list) else said) for n, x, said in rows)


texts = st.none() | st.sampled_from(["", "a", "bc", "def", "ghij"])
batches = st.lists(st.lists(texts, max_size=6), max_size=5)
tasks = st.sampled_from(["chat/completions", "embeddings"])


def numbered(cut: list[list[str | None]]) -> list[list[Row]]:
    n = iter(range(1000))
    return [[(next(n), x) for x in batch] for batch in cut]


@settings(deadline=None, max_examples=30)
@given(batches, tasks, st.integers(1, 4))
def test_rows_keep_their_order_and_watermarks_come_behind_the_rows_before_them(
    server: HttpServer, cut: list[list[str | None]], task: str, size: int
) -> None:
    options = {"batch_size": str(size)} if task == "embeddings" else {}
    operator, output = made(model_of(server, task, **options)), Collected()
    rows = numbered(cut)
    for number, batch in enumerate(rows):
        feed(operator, [batch, Watermark(number)], output)
    ended(operator, output)
    assert output.rows == expected(flat(rows), task)
    seen = 0
    for element in output.elements:
        if isinstance(element, Watermark):
            assert seen >= sum(map(len, rows[: element.timestamp_ms + 1]))
        else:
            seen += element.num_rows  # type: ignore[union-attr]


@settings(deadline=None, max_examples=30)
@given(batches, batches, tasks, st.integers(1, 3), st.integers(1, 3))
def test_rows_that_wait_at_a_snapshot_are_asked_for_again_by_any_number_of_subtasks(
    server: HttpServer,
    before: list[list[str | None]],
    after: list[list[str | None]],
    task: str,
    old: int,
    new: int,
) -> None:
    rows = numbered([*before, *after])
    output = Collected()
    snapshots: list[OperatorSnapshot] = []
    model = model_of(server, task)
    for subtask in range(old):
        operator = made(model, subtask=subtask, parallelism=old)
        feed(operator, rows[subtask : len(before) : old], output)
        operator.flush(output)
        operator.prepare_snapshot(output)
        held = operator.held_rows()
        snapshots.append(operator.context.state.snapshot())
        assert held == sum(t.num_rows for t in snapshots[-1].keyed.values())
        operator.close()
    for subtask in range(new):
        operator = made(model, subtask=subtask, parallelism=new)
        restore(operator, share_of(snapshots, subtask, new, KEY_GROUPS))
        feed(operator, rows[len(before) + subtask :: new], output)
        ended(operator, output)
    assert hashable(output.rows) == hashable(expected(flat(rows), task))


class Gate:
    """A server that answers when it is told to. State: how many requests wait, and how many may pass."""

    def __init__(self) -> None:
        self.may_pass = threading.Semaphore(0)
        self.came = threading.Semaphore(0)

    def __call__(self, asked: Asked) -> Reply:
        self.came.release()
        assert self.may_pass.acquire(timeout=WAIT_S)
        return openai(asked)


def test_the_task_takes_no_input_while_many_rows_wait_and_is_woken_by_answers() -> None:
    gate, woken, output = Gate(), threading.Semaphore(0), Collected()
    with http_server(gate) as server:
        operator = made(model_of(server, "chat/completions"), concurrent_max=2, wake=woken.release)
        assert (operator.has_room(), operator.is_settled(), operator.next_processing_time_ms()) == (
            True,
            True,
            None,
        )
        feed(operator, [[(n, str(n)) for n in range(5)]], output)
        for _ in range(2):
            assert gate.came.acquire(timeout=WAIT_S)
        assert (operator.has_room(), operator.is_settled(), operator.held_rows()) == (False, False, 5)
        assert operator.next_processing_time_ms() is None
        assert (operator.on_watermark(7, output), operator.on_idle(True, output)) == (None, None)
        for answered in range(1, 6):
            gate.may_pass.release()
            assert woken.acquire(timeout=WAIT_S)
            assert operator.next_processing_time_ms() == 0
            operator.on_processing_time(0, output)
            if answered == 2:
                # A third and a fourth are asked for: never more than two at once.
                assert len(server.asked) <= 4
        assert output.rows == expected([(n, str(n)) for n in range(5)], "chat/completions")
        assert output.elements[-2:] == [Watermark(7), WatermarkStatus(True)]
        assert (operator.has_room(), operator.is_settled(), operator.held_rows()) == (True, True, 0)
        operator.close()


def test_rows_of_a_cancelled_task_get_no_null_for_an_answer_that_it_does_not_wait_for() -> None:
    gate, woken, output = Gate(), threading.Semaphore(0), Collected()
    with http_server(gate) as server:
        ignoring = model_of(server, "chat/completions", error_handling_strategy="IGNORE")
        operator = made(ignoring, wake=woken.release)
        feed(operator, [[(0, "a")]], output)
        assert gate.came.acquire(timeout=WAIT_S)
        assert operator._model is not None
        operator._model.abort()
        assert woken.acquire(timeout=WAIT_S)
        gate.may_pass.release()
        with pytest.raises(ExternalError):
            operator.on_processing_time(0, output)
        operator.close()
    assert output.rows == []


def test_small_batches_go_into_one_request_while_the_server_is_busy() -> None:
    gate, output = Gate(), Collected()
    with http_server(gate) as server:
        operator = made(model_of(server, "embeddings", batch_size="4"), concurrent_max=1)
        feed(operator, [[(n, "x" * n)] for n in range(7)], output)
        for _ in range(3):
            gate.may_pass.release()
        ended(operator, output)
        assert [len(texts_of(asked)) for asked in server.asked] == [1, 4, 2]
    assert output.rows == expected([(n, "x" * n) for n in range(7)], "embeddings")


def texts_of(asked: Asked) -> list[Any]:
    found: list[Any] = json.loads(asked.body)["input"]
    return found


def test_the_tokens_used_are_those_of_the_job_wherever_it_goes_on(server: HttpServer) -> None:
    """A character costs a token; of 10 the job uses 8, and goes on with other subtasks, which have 2 for all of them."""
    model = model_of(server, "chat/completions", **{"budget.tokens": "10", "budget.action": "IGNORE"})
    output, snapshots = Collected(), []
    for subtask in range(2):
        operator = made(model, 1, subtask, 2)
        feed(operator, [[(subtask, "abcd")]], output)
        operator.on_watermark(WATERMARK_MAX, output)
        operator.flush(output)
        snapshots.append(operator.context.state.snapshot())
        operator.close()
    output = Collected()
    operator = made(model, 1)
    restore(operator, share_of(snapshots, 0, 1, KEY_GROUPS))
    feed(operator, [[(2, "abc"), (3, "d"), (4, None)]], output)
    ended(operator, output)
    assert output.rows == [(2, "abc", "CBA"), (3, "d", None), (4, None, None)]
    failing = made(model_of(server, "chat/completions", **{"budget.tokens": "3"}), 1)
    feed(failing, [[(1, "abc"), (2, "d")]], output)
    with pytest.raises(UserError, match="has used its 3 tokens") as raised:
        failing.on_watermark(WATERMARK_MAX, output)
    assert raised.value.code == "SS5444"
    failing.close()


def test_an_operator_that_is_not_connected_asks_nobody(server: HttpServer) -> None:
    """EXPLAIN STATE makes one."""
    asked = len(server.asked)
    context = operator_context([ROWS], Schema((*ROWS.fields, *model_of(server, "embeddings").outputs.fields)))
    operator = RemotePredict(RemotePredictSpec(model_of(server, "embeddings"), (0, 1), (1,)), context)
    feed(operator, [[(1, "a")]], Collected())
    (kept,) = operator.context.state.snapshot().keyed.values()
    assert (kept.num_rows, len(server.asked)) == (1, asked)
    operator.close()
