"""JSON strings of texts, and texts of JSON strings."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.json.documents import quoted, read_documents
from sqlstream.runtime.evaluate.kernel import Kernel, as_array
from sqlstream.runtime.kernels.json import json_tape


def unquoted(texts: Any) -> pa.Array:
    """The characters of each text in quotes that begins with a JSON string, as in Flink; any other text as it is."""
    texts = as_array(texts, 1) if isinstance(texts, pa.Scalar) else texts
    documents = read_documents(texts)
    is_string = documents.kinds(documents.roots) == json_tape.STRING
    # A blank before or behind the quotes makes it no quoted text.
    has_quotes = _bools(pc.starts_with(texts, '"')) & _bools(pc.ends_with(texts, '"'))
    if not has_quotes.any():
        return texts
    is_quoted = is_string & has_quotes
    read = pc.if_else(pa.array(is_quoted), documents.texts(np.where(is_quoted, documents.roots, -1)), texts)
    is_longer = pa.array(has_quotes & ~is_string & _bools(pc.match_substring_regex(texts, _STRING_AND_MORE)))
    if not is_longer.true_count:
        return read
    # Text behind the string is rare, and no JSON: such texts are unescaped one by one.
    longer = pa.array([_unescaped(text[1:-1]) for text in texts.filter(is_longer).to_pylist()], pa.string())
    return pc.replace_with_mask(read, is_longer, longer)


_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_STRING_AND_MORE = rf'(?s)\A"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"(?:[^\\]|{_ESCAPE})*"\z'


def _unescaped(text: str) -> str:
    escaped = re.sub(r'\\.|"', lambda found: found[0] if len(found[0]) == 2 else '\\"', text, flags=re.DOTALL)
    return str(json.loads(f'"{escaped}"', strict=False)).encode("utf-8", "replace").decode()


def _bools(mask: pa.Array) -> np.ndarray[Any, Any]:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def json_quote(call: Call, context: EvaluationContext) -> Kernel:
    def kernel(given: Any) -> pa.Array:
        texts = as_array(given, 1) if isinstance(given, pa.Scalar) else given
        is_plain = pc.fill_null(pc.match_substring_regex(texts, r"\A[\x00-\x7F]*\z"), True)
        written = quoted(texts, escapes_slash=True)
        if pc.all(is_plain).as_py() is not False:
            return written
        # Python's translation of a text is one call of C for each text.
        others = [f'"{text.translate(_ESCAPES)}"' for text in texts.filter(pc.invert(is_plain)).to_pylist()]
        return pc.replace_with_mask(written, pc.invert(is_plain), pa.array(others, pa.string()))

    return kernel


class _Escapes(dict[int, str]):
    """What JSON_QUOTE writes for a character: beyond ASCII, and for control characters, units of UTF-16. It keeps what it has
    computed, one entry for each character met."""

    def __missing__(self, code: int) -> str:
        units = chr(code).encode("utf-16-be").hex()
        escaped = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        found = self[code] = (
            chr(code) if 32 <= code < 128 else escaped if code >= 32 else escaped.upper().replace("U", "u")
        )
        return found


_ESCAPES = _Escapes({ord(c): f"\\{e}" for c, e in zip('"\\/\b\f\n\r\t', '"\\/bfnrt', strict=True)})


def json_unquote(call: Call, context: EvaluationContext) -> Kernel:
    return unquoted
