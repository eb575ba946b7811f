"""IS JSON, JSON_LENGTH and JSON_TYPE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.expressions import Call
from sqlstream.functions.json import plain_path
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.json.documents import Documents, read_documents
from sqlstream.runtime.evaluate.json.follow import follow
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, as_arrays, literal_of
from sqlstream.runtime.kernels import json_tape
from sqlstream.text.json_path import Path

Numbers = np.ndarray[Any, Any]
_NAMES = pa.array(["string", "number", "boolean", "boolean", "null", "array", "object"])


def is_json(call: Call, context: EvaluationContext) -> Kernel:
    """(text, kind): whether a text is JSON of a kind: VALUE, SCALAR, ARRAY or OBJECT."""
    kind = literal_of(call, 1)

    def kernel(text: Datum, *_: Datum) -> pa.Array:
        documents = read_documents(text)
        kinds = documents.kinds(documents.roots)
        if kind == "SCALAR":
            holds = (kinds >= 0) & (kinds < json_tape.ARRAY)
        elif kind == "VALUE":
            holds = kinds >= 0
        else:
            holds = kinds == (json_tape.ARRAY if kind == "ARRAY" else json_tape.OBJECT)
        return pa.array(holds, mask=documents.text.is_null().to_numpy(zero_copy_only=False))

    return kernel


def _plain_path(call: Call) -> Path | None:
    return Path(True, ()) if len(call.args) == 1 else plain_path(call, literal_of(call, 1))


def _single(path: Path, text: pa.Array) -> tuple[Documents, Numbers]:
    """The one value at the path; -1 where there are none or several."""
    found = follow(Path(True, path.steps), read_documents(text))
    if found.is_definite:
        return found.documents, found.values
    offsets = found.offsets()
    has_one = np.diff(offsets) == 1
    values = np.full(len(has_one), -1, np.int32)
    values[has_one] = found.values[offsets[:-1][has_one]]
    return found.documents, values


def json_length(call: Call, context: EvaluationContext) -> Kernel:
    """(document[, path]): how many elements an array and members an object has; 1 for a scalar."""
    path = _plain_path(call)

    def kernel(*given: Datum) -> pa.Array:
        text = as_arrays(*given)[0]
        if path is None:
            return pa.nulls(len(text), pa.int32())
        documents, values = _single(path, text)
        is_scalar = documents.kinds(values) < json_tape.ARRAY
        return pa.array(np.where(is_scalar, 1, documents.counts(values)), pa.int32(), mask=values < 0)

    return kernel


def json_type(call: Call, context: EvaluationContext) -> Kernel:
    """(document[, path]): object, array, string, number, boolean or null."""
    path = _plain_path(call)

    def kernel(*given: Datum) -> pa.Array:
        text = as_arrays(*given)[0]
        if path is None:
            return pa.nulls(len(text), pa.string())
        documents, values = _single(path, text)
        return _NAMES.take(pa.array(documents.kinds(values).astype(np.int32), mask=values < 0))

    return kernel
