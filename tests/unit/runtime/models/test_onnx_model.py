"""Models of scikit-learn in ONNX files, over any split of their rows, against scikit-learn itself."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from operator_harness import operator_context, run_operator

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.models import MODEL_FILE, ModelRef
from sqlstream.python_functions import use_cached_files
from sqlstream.runtime.models.onnx_model import OnnxModel
from sqlstream.schema import Field, Schema
from sqlstream.specs import ModelPredictSpec

RNG = np.random.default_rng(7)
X = RNG.normal(size=(400, 3)).astype(np.float32)
Y = X @ np.array([2.0, -1.0, 0.5], dtype=np.float32)
THREE = Schema.of(("a", sql.DOUBLE), ("b", sql.FLOAT), ("c", sql.DOUBLE))
LABELLED = Schema.of(("label", sql.BIGINT), ("probabilities", sql.array(sql.FLOAT)))
ROWS = st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-4, 4).map(float))] * 3), max_size=30)


@functools.cache
def classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(X, (Y > 0).astype(np.int64))


@functools.cache
def trees() -> Any:
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import skl2onnx

    directory = tmp_path_factory.mktemp("models")
    for name, model, options in (
        ("classifier", classifier(), {"zipmap": False}),
        ("zipmap", classifier(), {}),
        ("trees", trees(), None),
    ):
        made = skl2onnx.to_onnx(model, X[:1], options=options)
        (directory / f"{name}.onnx").write_bytes(made.SerializeToString())
    return directory


@pytest.fixture(autouse=True)
def shipped(files: Path) -> Iterator[None]:
    use_cached_files({MODEL_FILE + path.stem: str(path) for path in files.iterdir()})
    yield
    use_cached_files({})


def ref(name: str, inputs: Schema, outputs: Schema, **options: str) -> ModelRef:
    return ModelRef("c.d.m", "onnx", inputs, outputs, {"path": f"{name}.onnx", **options}, name)


def predicted(model: ModelRef, batches: list[list[tuple[Any, ...]]], columns: tuple[int, ...] = ()) -> Any:
    width = len(model.inputs)
    fields = [model.inputs.fields[c] for c in columns] + list(model.outputs.fields)
    spec = ModelPredictSpec(model, columns, tuple(range(width)))
    return run_operator(spec, operator_context([model.inputs], Schema(tuple(fields))), batches).rows


def given_one(tensor: str, shape: list[Any], inputs: Schema, values: list[Any], files: Path) -> list[Any]:
    """What a file returns that returns its input."""
    element = getattr(TensorProto, tensor)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info("y", element, shape)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = files / "identity.onnx"
    path.write_bytes(made.SerializeToString())
    use_cached_files({MODEL_FILE + "identity": str(path)})
    model = OnnxModel(ref("identity", inputs, Schema(tuple(Field("y", t) for t in inputs.types[:1]))))
    batch = pa.RecordBatch.from_arrays(values, names=list(inputs.names))
    (found,) = model.predict(batch)
    return list(found.to_pylist())


@given(ROWS, st.lists(st.integers(0, 30), max_size=4), st.sampled_from(["1", "3", "8192"]))
def test_a_classifier_says_over_any_split_what_scikit_learn_says(
    rows: list[tuple[Any, ...]], cuts: list[int], batch_size: str
) -> None:
    bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    batches = [rows[a:b] for a, b in itertools.pairwise(bounds)]
    found = predicted(ref("classifier", THREE, LABELLED, **{"batch-size": batch_size}), batches, (0, 2))
    assert [row[:2] for row in found] == [(row[0], row[2]) for row in rows]
    for row, (_, _, label, probabilities) in zip(rows, found, strict=True):
        if None in row:
            assert (label, probabilities) == (None, None)
        else:
            x = np.array([row], dtype=np.float32)
            assert label == classifier().predict(x)[0]
            assert probabilities == pytest.approx(classifier().predict_proba(x)[0], abs=1e-5)


def test_trees_say_what_scikit_learn_says() -> None:
    rows = [tuple(map(float, row)) for row in X]
    found = predicted(ref("trees", THREE, Schema.of(("price", sql.DOUBLE))), [rows])
    assert [row[0] for row in found] == pytest.approx(list(trees().predict(X)), abs=1e-4)


def written(
    name: str, operator: str, given: list[int | None], made: list[int | None], files: Path, **attributes: int
) -> None:
    """A file of one operator over a tensor of this shape, that says it makes one of the other."""
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, given)],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, made)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    (files / f"{name}.onnx").write_bytes(model.SerializeToString())
    use_cached_files({MODEL_FILE + name: str(files / f"{name}.onnx")})


def test_outputs_are_found_by_name_in_their_order_or_as_columns_of_one(files: Path) -> None:
    only = predicted(ref("classifier", THREE, Schema.of(("LABEL", sql.STRING))), [[(9.0, 0.0, 0.0)]])
    assert only == [("1",)]
    in_order = Schema.of(("is_good", sql.INT), ("p", sql.array(sql.DOUBLE)))
    ((good, p),) = predicted(ref("classifier", THREE, in_order), [[(9.0, 0.0, 0.0)]])
    assert (good, len(p)) == (1, 2)
    written("negative", "Neg", [None, 2], [None, 2], files)
    two = Schema.of(("a", sql.DOUBLE), ("b", sql.DOUBLE))
    assert predicted(ref("negative", two, two), [[(1.0, 2.0)], [(3.0, -4.0)]]) == [(-1.0, -2.0), (-3.0, 4.0)]
    arrays = Schema.of(("a", sql.array(sql.DOUBLE)))
    assert predicted(ref("negative", arrays, arrays), [[([1.0, 2.0],)]]) == [([-1.0, -2.0],)]


@pytest.mark.parametrize(
    ("operator", "shape", "outputs", "said"),
    [
        ("ReduceSum", [], Schema.of(("y", sql.DOUBLE)), 'returned 1 values of "y" for 2 rows'),
        ("Neg", [None, None], Schema.of(("y", sql.DOUBLE)), 'output "y" of model "m" is no DOUBLE'),
        ("Identity", [None, None], Schema.of(*[(n, sql.DOUBLE) for n in "yz"]), "and OUTPUT has 2 columns"),
    ],
)
def test_a_result_of_another_shape_is_refused(
    operator: str, shape: list[int | None], outputs: Schema, said: str, files: Path
) -> None:
    keeps = {"keepdims": 0} if operator == "ReduceSum" else {}
    written("shaped", operator, [None, None], shape, files, **keeps)
    with pytest.raises(UserError, match=said):
        predicted(ref("shaped", THREE, outputs), [[(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)]])


def test_an_array_may_have_one_value_a_row(files: Path) -> None:
    written("single", "Neg", [None, 1], [None, None], files)
    one = Schema.of(("a", sql.array(sql.DOUBLE)))
    assert predicted(ref("single", one, one), [[([1.0],), ([2.0],)]]) == [([-1.0],), ([-2.0],)]


def test_values_become_the_elements_that_a_file_takes(files: Path) -> None:
    column = Schema.of(("x", sql.BIGINT))
    assert given_one("INT32", [None], column, [pa.array([1, -2])], files) == [1, -2]
    assert given_one("FLOAT", [None, 1], column, [pa.array([1, -2])], files) == [1, -2]
    text = Schema.of(("x", sql.STRING))
    assert given_one("STRING", [None, 1], text, [pa.array(["a", "ö"])], files) == ["a", "ö"]
    flags = Schema.of(("x", sql.BOOLEAN))
    assert given_one("BOOL", [None, 1], flags, [pa.array([True, False])], files) == [True, False]
    for tensor, schema, values, said in (
        ("INT32", column, pa.array([2**40]), "was given a value that is no int32"),
        ("FLOAT", Schema.of(("x", sql.array(sql.FLOAT))), pa.array([[1.0], [1.0, 2.0]]), "ARRAYs of 1 to 2"),
        ("FLOAT", Schema.of(("x", sql.array(sql.FLOAT))), pa.array([[None], [1.0]]), "an ARRAY with a NULL"),
    ):
        with pytest.raises(UserError, match=said) as caught:
            given_one(tensor, [None, None], schema, [values], files)
        assert caught.value.code == "SS5432"


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "said"),
    [
        (
            "classifier",
            Schema.of(("a", sql.DOUBLE)),
            LABELLED,
            "has the shape [None, 3], and INPUT 1 columns",
        ),
        ("classifier", Schema.of(*[(n, sql.STRING) for n in "abc"]), LABELLED, "is of type STRING"),
        ("classifier", THREE, Schema.of(("x", sql.BIGINT)), "OUTPUT has 1 columns that are none of them"),
        (
            "classifier",
            THREE,
            Schema.of(("label", sql.BIGINT), ("probabilities", sql.FLOAT)),
            "has the shape",
        ),
        ("zipmap", THREE, LABELLED, "and no tensor of values"),
    ],
)
def test_a_declaration_that_does_not_fit_its_file_is_refused(
    name: str, inputs: Schema, outputs: Schema, said: str
) -> None:
    with pytest.raises(UserError) as caught:
        OnnxModel(ref(name, inputs, outputs))
    assert caught.value.code == "SS5431"
    assert said in caught.value.message


def test_what_is_no_model_and_what_is_no_value_is_said(files: Path) -> None:
    (files / "text.onnx").write_text("not a model")
    use_cached_files({MODEL_FILE + path.stem: str(path) for path in files.iterdir()})
    with pytest.raises(UserError, match="cannot be opened") as caught:
        OnnxModel(ref("text", THREE, LABELLED))
    assert caught.value.code == "SS5431"
    with pytest.raises(UserError, match='output "price" of model "m" is no INT') as caught:
        predicted(ref("trees", THREE, Schema.of(("price", sql.INT))), [[(0.3, 0.2, 0.1)]])
    assert caught.value.code == "SS5432"
