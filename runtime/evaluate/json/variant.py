"""VARIANT: a value of JSON, which is read once and kept as its canonical text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.by_parameter import rows_by_code
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.json.construct import repeated_names, with_sorted_names
from sqlstream.runtime.evaluate.json.documents import NumberForm, read_documents
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, as_arrays, null_mask
from sqlstream.runtime.kernels.json import json_tape

Numbers = np.ndarray[Any, Any]
_HINT = "TRY_PARSE_JSON gives NULL; IS JSON tests a text"


def parse_json(call: Call, context: EvaluationContext) -> Kernel:
    """(text[, whether names may be repeated]): the value of a JSON text. Other text is an error, or NULL for TRY_PARSE_JSON."""
    is_try = call.function == "TRY_PARSE_JSON"

    def kernel(*given: Datum) -> pa.Array:
        text, *allows = as_arrays(*given)
        documents = read_documents(text, NumberForm.VARIANT)
        rejected = np.zeros(len(text), bool)
        repeated = repeated_names(documents)
        rejected[_rows_of(documents.roots, repeated)] = True
        if allows:
            rejected &= ~pc.fill_null(allows[0], False).to_numpy(zero_copy_only=False)
        is_null = null_mask(text, *allows)
        rejected |= documents.roots < 0
        rejected &= ~is_null if is_null is not None else True
        if rejected.any() and not is_try:
            raise _malformed(text[int(np.flatnonzero(rejected)[0])].as_py())
        ordered = with_sorted_names(documents)
        hidden = rejected if is_null is None else rejected | is_null
        return ordered.json(np.where(hidden, -1, ordered.roots))

    return kernel


def _rows_of(roots: Numbers, values: Numbers) -> Numbers:
    """The rows in whose documents the values are: a document's values follow its root in the tape."""
    rows = np.flatnonzero(roots >= 0)
    return rows[np.searchsorted(roots[rows], values, side="right") - 1] if len(values) else values


def _malformed(text: str) -> UserError:
    shown = text if len(text) <= 60 else text[:60] + "…"
    return UserError("SS5102", f"PARSE_JSON found malformed JSON, or a name twice: '{shown}'", hint=_HINT)


def variant_item(call: Call, context: EvaluationContext) -> Kernel:
    """(variant, name or index from 1): the member or element; NULL where there is none."""
    is_name = sql.is_string(call.args[1].type)

    def kernel(*given: Datum) -> pa.Array:
        variants, keys = as_arrays(*given)
        documents = read_documents(variants, NumberForm.VARIANT)
        encoded = keys.dictionary_encode()
        found = np.full(len(variants), -1, np.int32)
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        names = encoded.dictionary.to_pylist()
        for rows in rows_by_code(codes):
            code = codes[rows[0]]
            key = names[code] if code >= 0 else None
            if key is None:
                continue
            if is_name:
                found[rows] = documents.member(documents.roots[rows], key)
            elif key >= 1:
                found[rows] = documents.element(documents.roots[rows], key - 1)
        return documents.json(found)

    return kernel


def variant_text(call: Call, context: EvaluationContext) -> Kernel:
    """(variant): the characters of a text, and other values as JSON; NULL for JSON's null."""

    def kernel(*given: Datum) -> pa.Array:
        (variants,) = as_arrays(*given)
        documents = read_documents(variants, NumberForm.VARIANT)
        kinds = documents.kinds(documents.roots)
        is_string = kinds == json_tape.STRING
        texts = documents.texts(np.where(is_string, documents.roots, -1))
        others = pc.if_else(pa.array(kinds == json_tape.NULL), pa.scalar(None, pa.string()), variants)
        return pc.if_else(pa.array(is_string), texts, others)

    return kernel
