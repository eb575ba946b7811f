"""Keys of tables from before 'connector' = '…', and from before Flink renamed them.

They are not taken, since several stand for one: the hint is what an option is called today.
"""

from __future__ import annotations

from collections.abc import Container

_CACHE = "lookup.partial-cache"

_TABLES: dict[str, str] = {
    "lookup.cache.max-rows": f"{_CACHE}.max-rows",
    "lookup.cache.ttl": f"{_CACHE}.expire-after-write",
    "lookup.cache.caching-missing-key": f"{_CACHE}.cache-missing-key",
    "connector.lookup.cache.max-rows": f"{_CACHE}.max-rows",
    "connector.lookup.cache.ttl": f"{_CACHE}.expire-after-write",
    "connector.lookup.max-retries": "lookup.max-retries",
    "connector.type": "connector",
    "connector.path": "path",
    "connector.url": "url",
    "connector.table": "table-name",
    "connector.driver": "driver",
    "connector.username": "username",
    "connector.password": "password",
    "connector.read.partition.column": "scan.partition.column",
    "connector.read.partition.num": "scan.partition.num",
    "connector.read.partition.lower-bound": "scan.partition.lower-bound",
    "connector.read.partition.upper-bound": "scan.partition.upper-bound",
    "connector.read.fetch-size": "scan.fetch-size",
    "connector.write.flush.max-rows": "sink.buffer-flush.max-rows",
    "connector.write.flush.interval": "sink.buffer-flush.interval",
    "connector.write.max-retries": "sink.max-retries",
    "format.type": "format",
    "format.field-delimiter": "csv.field-delimiter",
    "format.quote-character": "csv.quote-character",
    "format.escape-character": "csv.escape-character",
    "format.array-element-delimiter": "csv.array-element-delimiter",
    "format.allow-comments": "csv.allow-comments",
    "format.null-literal": "csv.null-literal",
    "format.fail-on-missing-field": "json.fail-on-missing-field",
}
_LEFT_OUT = ("connector.property-version", "format.property-version", "update-mode", "format.derive-schema")


def table_hint(key: str, known: Container[str]) -> str:
    """What to write instead of a table's old key, where `known` are the keys that it may have; empty for another key."""
    if key in _LEFT_OUT:
        return "leave it out"
    new = _TABLES.get(key)
    if key == "format.ignore-parse-errors":
        new = next((k for k in ("csv.ignore-parse-errors", "json.ignore-parse-errors") if k in known), None)
    if new is None or new not in known:
        return ""
    cached = " with 'lookup.cache' = 'PARTIAL'" if new.startswith(_CACHE) else ""
    return f"write '{new}'{cached}, as it is called today"
