"""Models that learn from mini-batches, against scikit-learn and the same steps in numpy, over any split of their rows."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_harness import Collected, batch, feed, finish, operator_context, restored, run_operator

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.messages.ledger import DONE, FILTERED
from sqlstream.models import K_MEANS, LINEAR, LOGISTIC
from sqlstream.runtime.models.training import KMeans, Regression, nearest_centres
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs.train_model import INTERCEPT, PUBLISHED, TrainModelSpec

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2_000, 3)) * [1.0, 50.0, 0.01] + [0.0, 300.0, 1.0]
TRUE = np.array([2.0, -0.1, 70.0])
Y = X @ TRUE - 4.0
LABELS = (Y + RNG.normal(size=len(Y)) * 3 > np.median(Y)).astype(float)
NAMES = ("a", "b", "c")


def spec(algorithm: str, **changes: Any) -> TrainModelSpec:
    common: dict[str, Any] = {"mini_batch_size": 20}
    if algorithm == K_MEANS:
        common |= {"clusters": 3}
    else:
        common |= {"learning_rate": 0.1, "standardizes": True}
    return TrainModelSpec("m", algorithm, NAMES, **{**common, **changes})


def steps(learner: Any, x: Any, y: Any, size: int) -> list[float]:
    return [
        learner.learn(x[i : i + size], y[i : i + size], number)
        for number, i in enumerate(range(0, len(x), size))
    ]


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("algorithm", [LINEAR, LOGISTIC])
def test_steps_of_one_row_are_those_of_scikit_learn(algorithm: str, l2: float) -> None:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    ours = Regression(spec(algorithm, mini_batch_size=1, learning_rate=0.01, l2=l2, standardizes=False))
    x = RNG.normal(size=(300, 3))
    common = {"learning_rate": "constant", "eta0": 0.01, "alpha": l2, "shuffle": False}
    if algorithm == LINEAR:
        y, theirs = x @ TRUE + 1, SGDRegressor(**common)
        theirs.partial_fit(x, y)
    else:
        y, theirs = (x[:, 0] > 0).astype(float), SGDClassifier(loss="log_loss", **common)
        theirs.partial_fit(x, y, classes=[0.0, 1.0])
    steps(ours, x, y, 1)
    found = ours.weights()[2]
    np.testing.assert_allclose(found, [*theirs.coef_.ravel(), theirs.intercept_[0]], rtol=1e-9, atol=1e-12)


def test_a_step_is_the_mean_gradient_of_the_standardised_rows_so_far() -> None:
    """By the plain formulas, with the sums over all rows anew."""
    ours = Regression(spec(LINEAR, learning_rate_decay=0.5, l2=0.1))
    weights, intercept = np.zeros(3), 0.0
    for number, i in enumerate(range(0, 200, 20)):
        mean, deviation = X[: i + 20].mean(axis=0), X[: i + 20].std(axis=0)
        x, y = (X[i : i + 20] - mean) / deviation, Y[i : i + 20]
        scaled, shifted = weights * deviation, intercept + weights @ mean
        missed = x @ scaled + shifted - y
        rate = 0.1 / (1 + 0.5 * number)
        scaled = scaled - rate * (x.T @ missed / 20 + 0.1 * scaled)
        shifted -= rate * missed.mean()
        weights, intercept = scaled / deviation, shifted - (scaled / deviation) @ mean
        loss = ours.learn(X[i : i + 20], y, number)
        assert loss == pytest.approx(np.mean(missed**2))
    np.testing.assert_allclose(ours.weights()[2], [*weights, intercept], rtol=1e-8)


def test_a_regression_comes_close_to_the_exact_solution_whatever_the_scale_of_its_features() -> None:
    from sklearn.linear_model import LinearRegression

    ours = Regression(spec(LINEAR))
    losses = steps(ours, X, Y, 20)
    assert losses[-1] < 1e-6 < 100 < losses[0]
    exact = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(ours.weights()[2], [*exact.coef_, exact.intercept_], rtol=2e-3)


def test_a_classifier_agrees_with_the_exact_one_on_nearly_all_rows() -> None:
    from sklearn.linear_model import LogisticRegression

    ours = Regression(spec(LOGISTIC, learning_rate_decay=0.01))
    x, y = np.tile(X, (10, 1)), np.tile(LABELS, 10)
    steps(ours, x, y, 20)
    *weights, intercept = ours.weights()[2]
    exact = LogisticRegression(C=1e6, max_iter=10_000).fit((X - X.mean(0)) / X.std(0), LABELS)
    said = X @ np.array(weights) + intercept > 0
    assert np.mean(said == exact.predict((X - X.mean(0)) / X.std(0))) > 0.97


def test_a_feature_that_never_changes_keeps_its_weight() -> None:
    ours = Regression(spec(LINEAR))
    x = np.column_stack([X[:, 0], np.full(len(X), 7.0), X[:, 2]])
    steps(ours, x, 2 * x[:, 0], 20)
    found = ours.weights()[2]
    assert found[1] == 0.0
    assert found[0] == pytest.approx(2, rel=1e-3)


def blobs(count: int) -> Any:
    places = np.array([[0.0, 0.0, 0.0], [10.0, 0.0, 5.0], [0.0, 10.0, -5.0]])
    return places[np.arange(count) % 3] + RNG.normal(size=(count, 3))


def test_centres_move_as_those_of_scikit_learn() -> None:
    from sklearn.cluster import MiniBatchKMeans

    ours, x = KMeans(spec(K_MEANS)), blobs(400)
    ours._choose(x[:20], 0)
    theirs = MiniBatchKMeans(3, init=ours._centres.copy(), n_init=1, reassignment_ratio=0.0)
    for number, i in enumerate(range(0, 400, 20)):
        ours.learn(x[i : i + 20], x[i : i + 20, 0], number)
        theirs.partial_fit(x[i : i + 20])
        np.testing.assert_allclose(ours._centres, theirs.cluster_centers_, rtol=1e-9, atol=1e-12)


def test_centres_find_the_clusters_and_follow_them_where_earlier_rows_count_less() -> None:
    x = blobs(1_200)
    moving = x + np.arange(len(x))[:, None] // 30 * [0.5, 0.0, 0.0]
    found = {}
    for decay in (1.0, 0.5):
        ours = KMeans(spec(K_MEANS, decay=decay, seed=1))
        steps(ours, moving, np.zeros(len(x)), 30)
        found[decay] = nearest_centres(moving[-30:], ours._centres)[1].mean()
    assert found[0.5] < 5 < 10 < found[1.0]


def test_there_are_no_more_centres_than_different_rows() -> None:
    ours = KMeans(spec(K_MEANS))
    same = np.ones((20, 3))
    assert ours.learn(same, same[:, 0], 0) == 0.0
    assert ours.weights() == ([0, 0, 0], [*NAMES], [1.0, 1.0, 1.0])
    ours.learn(np.vstack([same, same * 5]), np.zeros(40), 1)
    assert sorted(ours._centres[:, 0].tolist()) == [1.0, 5.0]


# The operator.


CASES = {
    "linear": (spec(LINEAR, mini_batch_size=7, l2=0.01), sql.DOUBLE),
    "logistic": (spec(LOGISTIC, mini_batch_size=7), sql.BOOLEAN),
    "k-means": (spec(K_MEANS, mini_batch_size=7), None),
}
VALUES = st.one_of(st.none(), st.just(math.nan), st.just(math.inf), st.integers(-9, 9).map(float))
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES, st.one_of(st.none(), st.booleans())), max_size=60)


def schema_of(label: Any) -> Schema:
    fields = [(name, sql.DOUBLE) for name in NAMES]
    return Schema.of(*fields, *([] if label is None else [("label", label)]))


def shaped(rows: list[Any], label: Any) -> list[Any]:
    """The rows with a label of its type, or without one."""
    if label is None:
        return [row[:3] for row in rows]
    return [(*row[:3], row[3] if label == sql.BOOLEAN or row[3] is None else float(row[3])) for row in rows]


def at_once(name: str, rows: list[Any]) -> list[Any]:
    training, label = CASES[name]
    context = operator_context([schema_of(label)], PUBLISHED)
    return run_operator(training, context, [batch(schema_of(label), rows)] if rows else []).rows


@pytest.mark.parametrize("name", CASES)
@given(rows=ROWS, seed=st.integers(0, 2**32 - 1))
def test_splits_and_restores_change_no_bit_of_the_weights(name: str, rows: list[Any], seed: int) -> None:
    training, label = CASES[name]
    schema, fate = schema_of(label), random.Random(seed)
    rows = shaped(rows, label)
    context = operator_context([schema], PUBLISHED)
    operator, output, place = make_operator(training, context), Collected(), 0
    while place < len(rows):
        taken = rows[place : place + fate.randint(1, 12)]
        place += len(taken)
        feed(operator, [batch(schema, taken)], output)
        usable = [r for r in rows[:place] if all(v is not None and math.isfinite(v) for v in r)]
        assert operator.held_rows() == len(usable) % 7
        if fate.random() < 0.3:
            operator.prepare_snapshot(output)
            operator = restored(training, context, [operator.context.state.snapshot()], 0, 1)
    finish(operator, output)
    versions = sorted({row[0] for row in output.rows})
    assert versions == list(range(1, len(versions) + 1))
    newest = [row[1:] for row in output.rows if row[0] == versions[-1]] if versions else []
    assert newest == [row[1:] for row in at_once(name, rows)]


def test_rows_with_nothing_or_no_number_are_counted_and_left_out() -> None:
    training, label = CASES["linear"]
    counted: dict[str, int] = {}

    def count(name: str, n: int) -> None:
        counted[name] = counted.get(name, 0) + n

    rows = [(float(i), 1.0, 2.0, 3.0) for i in range(10)]
    bad = [
        (None, 1.0, 1.0, 1.0),
        (1.0, math.nan, 1.0, 1.0),
        (1.0, 1.0, -math.inf, 1.0),
        (1.0, 1.0, 1.0, None),
    ]
    context = operator_context([schema_of(label)], PUBLISHED, count=count)
    output = run_operator(training, context, [batch(schema_of(label), rows + bad)])
    assert counted == {FILTERED: 4, DONE: 10}
    # What comes at the end is a mini-batch too.
    assert {row[2:4] for row in output.rows} == {(10, 4)}
    assert [row[6] for row in output.rows] == [*NAMES, INTERCEPT]


def test_a_version_comes_before_a_checkpoint_when_something_was_learned() -> None:
    training, label = CASES["linear"]
    schema = schema_of(label)
    operator, output = make_operator(training, operator_context([schema], PUBLISHED)), Collected()
    versions = []
    for count in (6, 1, 0, 14):
        feed(operator, [batch(schema, [(float(i), 1.0, 2.0, 3.0) for i in range(count)])], output)
        operator.prepare_snapshot(output)
        versions.append(max((row[0] for row in output.rows), default=0))
    assert versions == [0, 1, 1, 2]


def test_mini_batches_of_another_size_go_on_with_the_rows_that_wait() -> None:
    training, label = CASES["linear"]
    schema = schema_of(label)
    context = operator_context([schema], PUBLISHED)
    operator = make_operator(training, context)
    rows = [(float(i), float(i % 3), 2.0, 3.0) for i in range(6)]
    feed(operator, [batch(schema, rows)], Collected())
    smaller = spec(LINEAR, mini_batch_size=2, l2=0.01)
    moved = restored(smaller, context, [operator.context.state.snapshot()], 0, 1)
    assert moved.held_rows() == 6
    output = Collected()
    finish(moved, output)
    expected = run_operator(smaller, operator_context([schema], PUBLISHED), [batch(schema, rows)])
    assert output.rows == expected.rows


def test_weights_that_are_no_numbers_are_never_published() -> None:
    label = sql.DOUBLE
    diverging = spec(LINEAR, learning_rate=10.0, standardizes=False, mini_batch_size=2)
    rows = [(float(i) * 100, 1.0, 2.0, 3.0) for i in range(400)]
    with pytest.raises(UserError, match="left the range of numbers after 400 rows") as raised:
        run_operator(
            diverging, operator_context([schema_of(label)], PUBLISHED), [batch(schema_of(label), rows)]
        )
    assert (raised.value.code, "learning-rate" in raised.value.hint) == ("SS3530", True)
    clusters = spec(K_MEANS, clusters=2, mini_batch_size=2)
    features = schema_of(None)
    far = [tuple(x for _ in features.names) for x in (-1e300, 1e300, 1e299)]
    with pytest.raises(UserError) as raised:
        run_operator(clusters, operator_context([features], PUBLISHED), [batch(features, far)])
    assert (raised.value.code, "divide" in raised.value.hint) == ("SS3530", True)
