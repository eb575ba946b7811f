"""Functions as DuckDB SQL over the argument a0: what a stream computes a batch with, and what queries are lowered to."""

from __future__ import annotations

# As Java's URLEncoder writes: a space is +, and * stays.
URL_ENCODE = "replace(replace(replace(url_encode(a0), '%20', '+'), '~', '%7E'), '%2A', '*')"
URL_DECODE = (
    r"CASE WHEN regexp_full_match(a0, '(?s)(?:[^%]|%[0-9A-Fa-f]{2})*') THEN "
    r"try(url_decode(replace(a0, '+', ' '))) END"
)
_NUMBERS = "list_transform(string_split(a0, '.'), lambda x: CAST(x AS BIGINT))"
INET_ATON = (
    r"CASE WHEN regexp_full_match(a0, '0*[0-9]{1,3}(?:\.0*[0-9]{1,3}){0,3}') THEN "
    "list_transform([" + _NUMBERS + "], lambda n: CASE WHEN list_max(n) > 255 THEN NULL "
    "WHEN len(n) = 1 THEN n[1] WHEN len(n) = 2 THEN n[1] * 16777216 + n[2] "
    "WHEN len(n) = 3 THEN n[1] * 16777216 + n[2] * 65536 + n[3] "
    "ELSE n[1] * 16777216 + n[2] * 65536 + n[3] * 256 + n[4] END)[1] END"
)
INET_NTOA = (
    "CASE WHEN a0 BETWEEN 0 AND 4294967295 THEN "
    "concat_ws('.', a0 // 16777216, a0 // 65536 % 256, a0 // 256 % 256, a0 % 256) END"
)

UNHEX = (
    "CASE WHEN regexp_full_match(a0, '[0-9A-Fa-f]*') THEN "
    "CASE WHEN length(a0) % 2 = 0 THEN from_hex(a0) ELSE from_hex('00' || substr(a0, 2)) END END"
)
