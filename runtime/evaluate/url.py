"""Addresses of the web and of hosts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.by_parameter import by_parameter
from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.kernel import Builder, Kernel, is_literal, literal_of
from runtime.evaluate.pattern import name_groups
from runtime.evaluate.string import in_duckdb
from sqlstream import duckdb_texts
from sqlstream.expressions import Call
from sqlstream.regular_expressions import MalformedRegex, checked_regex

_URL = (
    r"(?s)\A\s*(?P<protocol>(?i:https?|ftp|file|jar|mailto)):"
    r"(?:(?P<slashes>//)(?P<authority>(?P<user>[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:@\[\]]*)(?::[0-9]*)?))?"
    r"(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<ref>#.*)?\z"
)
_PARTS = {
    "PROTOCOL": ("protocol", False),
    "AUTHORITY": ("authority", False),
    "USERINFO": ("user", True),
    "HOST": ("host", False),
    "PATH": ("path", False),
    "QUERY": ("query", True),
    "REF": ("ref", True),
}
"""The group of each part, and whether it has a mark around it, without which it is NULL."""


def _parse_url(call: Call, context: EvaluationContext) -> Kernel:
    if is_literal(call, 1, 2):
        return _part(*(literal_of(call, i) for i in range(1, len(call.args))))
    return by_parameter(_part, pa.string())


def _part(name: str, key: str | None = None) -> Kernel:
    """A part of the URL, or the value of this key (a regular expression) in its QUERY; NULL when there is none."""
    if key is not None:
        return _of_key(key) if name == "QUERY" else _nothing
    if name == "FILE":
        return lambda url, *_: _file(pc.extract_regex(url, _URL))
    if name not in _PARTS:
        return _nothing
    return lambda url, *_: _group(pc.extract_regex(url, _URL), name)


def _nothing(url: pa.Array, *_: object) -> pa.Array:
    return pa.nulls(len(url), pa.string())


def _group(found: pa.Array, name: str) -> pa.Array:
    group, is_marked = _PARTS[name]
    part = pc.struct_field(found, [group])
    nothing = pa.scalar(None, pa.string())
    if name == "AUTHORITY":
        return pc.if_else(pc.equal(pc.struct_field(found, ["slashes"]), ""), nothing, part)
    if name == "PROTOCOL":
        return pc.utf8_lower(part)
    if not is_marked:
        return part
    inner = pc.utf8_slice_codeunits(part, 0, -1) if name == "USERINFO" else pc.utf8_slice_codeunits(part, 1)
    return pc.if_else(pc.equal(part, ""), nothing, inner)


def _file(found: pa.Array) -> pa.Array:
    """The path with the query."""
    parts = (pc.struct_field(found, [name]) for name in ("path", "query"))
    return pc.binary_join_element_wise(*parts, "")


def _of_key(key: str) -> Kernel:
    try:
        named, _ = name_groups(checked_regex(key))
    except MalformedRegex:
        return _nothing
    regex = f"(?:&|^)(?:{named})=(?P<value>[^&]*)"

    def kernel(url: pa.Array, *_: object) -> pa.Array:
        query = _group(pc.extract_regex(url, _URL), "QUERY")
        return pc.struct_field(pc.extract_regex(query, regex), ["value"])

    return kernel


BUILDERS: dict[str, Builder] = {
    "URL_ENCODE": in_duckdb(duckdb_texts.URL_ENCODE),
    "URL_DECODE": in_duckdb(duckdb_texts.URL_DECODE),
    "PARSE_URL": _parse_url,
    "INET_ATON": in_duckdb(duckdb_texts.INET_ATON),
    "INET_NTOA": in_duckdb(duckdb_texts.INET_NTOA),
}
