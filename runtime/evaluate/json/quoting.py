"""JSON strings of texts, and texts of JSON strings."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.json.documents import read_documents, strings
from runtime.evaluate.kernel import BATCH_BYTES_MAX, Kernel, as_array, null_mask, too_large
from runtime.kernels import json_tape
from runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream.expressions import Call


def quoted(texts: pa.Array, *, escapes_slash: bool = False) -> pa.Array:
    """Each text as a JSON string with its quotes, as Jackson writes it; NULL for NULL."""
    offsets, _ = view_offsets(texts)
    data = view_buffer(texts.buffers()[2], np.uint8, 0, int(offsets[-1]))
    used = data[int(offsets[0]) :]
    needs_escape = int(np.count_nonzero((used < 32) | (used == 34) | (used == 92)))
    needs_escape += int(np.count_nonzero(used == 47)) if escapes_slash else 0
    size = len(used) + 5 * needs_escape + 2 * len(texts)
    if size > BATCH_BYTES_MAX:
        raise too_large("a column of JSON strings")
    out, places = np.empty(size + 8, np.uint8), np.zeros(len(texts) + 1, np.int32)
    json_tape.quote_into(out, places, data, offsets[: len(texts) + 1], escapes_slash)
    return strings(places, out, null_mask(texts))


@functools.lru_cache(1_000)
def escaped_name(name: str) -> np.ndarray[Any, Any]:
    """A name as it stands between quotes in canonical JSON."""
    text = quoted(pa.array([name])).to_pylist()[0]
    return np.frombuffer(text[1:-1].encode(), np.uint8)


def unquoted(texts: Any) -> pa.Array:
    """The characters of each text that is a JSON string; any other text as it is."""
    texts = as_array(texts, 1) if isinstance(texts, pa.Scalar) else texts
    documents = read_documents(texts)
    is_string = documents.kinds(documents.roots) == json_tape.STRING
    # A blank before or behind the quotes makes it no quoted text.
    is_quoted = is_string & _bools(pc.starts_with(texts, '"')) & _bools(pc.ends_with(texts, '"'))
    if not is_quoted.any():
        return texts
    return pc.if_else(pa.array(is_quoted), documents.texts(np.where(is_quoted, documents.roots, -1)), texts)


def _bools(mask: pa.Array) -> np.ndarray[Any, Any]:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def json_quote(call: Call, context: EvaluationContext) -> Kernel:
    return lambda text: quoted(as_array(text, 1) if isinstance(text, pa.Scalar) else text, escapes_slash=True)


def json_unquote(call: Call, context: EvaluationContext) -> Kernel:
    return unquoted
