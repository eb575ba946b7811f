"""Addresses of the web and of hosts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Kernel,
    as_array,
    is_literal,
    literal_of,
    null_mask,
    rows_of,
)
from sqlstream.runtime.evaluate.text.pattern import name_groups
from sqlstream.runtime.evaluate.text.string import in_duckdb
from sqlstream.runtime.kernels.buffers import validity_buffer, view_buffer, view_offsets
from sqlstream.runtime.kernels.text import urls
from sqlstream.runtime.kernels.text.replace import copy_parts_into
from sqlstream.text.regular_expressions import MalformedRegex, linear_regex

_PARTS = {
    "PROTOCOL": urls.PROTOCOL,
    "AUTHORITY": urls.AUTHORITY,
    "USERINFO": urls.USERINFO,
    "HOST": urls.HOST,
    "PATH": urls.PATH,
    "QUERY": urls.QUERY,
    "REF": urls.REF,
    "FILE": urls.FILE,
}


def parse_url(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1, 2):
        return _part(*(literal_of(call, i) for i in range(1, len(call.args))))
    return by_parameter(_part, pa.string())


def _part(name: str, key: str | None = None) -> Kernel:
    """A part of the URL, or the value of this key (a regular expression) in its QUERY; NULL when there is none."""
    if key is not None:
        return _of_key(key) if name == "QUERY" else _nothing
    if name not in _PARTS:
        return _nothing
    return lambda url, *_: _found(as_array(url, rows_of(url)), name)


def _nothing(url: pa.Array, *_: object) -> pa.Array:
    return pa.nulls(len(url), pa.string())


def _found(url: pa.Array, name: str) -> pa.Array:
    """A part of each URL; NULL for a text that is no URL or has no such part."""
    rows = len(url)
    offsets, _ = view_offsets(url)
    data = view_buffer(url.buffers()[2], np.uint8, 0, int(offsets[-1]))
    starts, places, is_found = (
        np.empty(rows, np.int32),
        np.empty(rows + 1, np.int32),
        np.empty(rows, np.uint8),
    )
    urls.find_url_parts_into(starts, places, is_found, data, offsets[: rows + 1], _PARTS[name])
    out = np.empty(int(places[-1]) + 8, np.uint8)
    copy_parts_into(out, starts, places, data)
    nulls = null_mask(url)
    valid = is_found if nulls is None else is_found * ~nulls
    found = pa.StringArray.from_buffers(
        rows, pa.py_buffer(places), pa.py_buffer(out), None if valid.all() else validity_buffer(valid)
    )
    return pc.utf8_lower(found) if name == "PROTOCOL" else found


def _of_key(key: str) -> Kernel:
    try:
        named, _ = name_groups(linear_regex(key))
    except MalformedRegex:
        return _nothing
    regex = f"(?:&|^)(?:{named})=(?P<value>[^&]*)"

    def kernel(url: pa.Array, *_: object) -> pa.Array:
        query = _found(as_array(url, rows_of(url)), "QUERY")
        return pc.struct_field(pc.extract_regex(query, regex), ["value"])

    return kernel


# As Java's URLEncoder writes: a space is +, and * stays.
URL_ENCODE = in_duckdb("replace(replace(replace(url_encode(a0), '%20', '+'), '~', '%7E'), '%2A', '*')")
URL_DECODE = in_duckdb(
    r"CASE WHEN regexp_full_match(a0, '(?s)(?:[^%]|%[0-9A-Fa-f]{2})*') THEN "
    r"try(url_decode(replace(a0, '+', ' '))) END"
)
_NUMBERS = "list_transform(string_split(a0, '.'), lambda x: CAST(x AS BIGINT))"
INET_ATON = in_duckdb(
    r"CASE WHEN regexp_full_match(a0, '0*[0-9]{1,3}(?:\.0*[0-9]{1,3}){0,3}') THEN "
    "list_transform([" + _NUMBERS + "], lambda n: CASE WHEN list_max(n) > 255 THEN NULL "
    "WHEN len(n) = 1 THEN n[1] WHEN len(n) = 2 THEN n[1] * 16777216 + n[2] "
    "WHEN len(n) = 3 THEN n[1] * 16777216 + n[2] * 65536 + n[3] "
    "ELSE n[1] * 16777216 + n[2] * 65536 + n[3] * 256 + n[4] END)[1] END"
)
INET_NTOA = in_duckdb(
    "CASE WHEN a0 BETWEEN 0 AND 4294967295 THEN "
    "concat_ws('.', a0 // 16777216, a0 // 65536 % 256, a0 // 256 % 256, a0 % 256) END"
)
