"""Hash functions."""

from __future__ import annotations

from runtime.evaluate.kernel import Builder
from runtime.evaluate.string import in_duckdb

BUILDERS: dict[str, Builder] = {
    "MD5": in_duckdb("md5(a0)"),
    "SHA1": in_duckdb("sha1(a0)"),
    "SHA256": in_duckdb("sha256(a0)"),
}
