"""Functions of bitmaps: sets of 32-bit numbers that are compared without a sign."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.functions.arguments import BYTES, Argument, scalar
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import BIGINT, BITMAP, INT, STRING, TypeRoot

BITMAP_ARGUMENT = Argument(lambda t: t.root is TypeRoot.BITMAP, BITMAP)
_AT_MOST_INT = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER)
_INTEGERS = Argument(
    lambda t: t.root is TypeRoot.ARRAY and t.element is not None and t.element.root in _AT_MOST_INT,
    sql.array(INT),
    target=sql.array(INT),
)


def _of_two(name: str) -> ScalarFunction:
    return scalar(name, f"{name}(bitmap1, bitmap2)", (BITMAP_ARGUMENT, BITMAP_ARGUMENT), BITMAP)


BATCH_REASON = "an engine has no bitmaps"

FUNCTIONS: tuple[ScalarFunction, ...] = (
    *(_of_two(name) for name in ("BITMAP_AND", "BITMAP_ANDNOT", "BITMAP_OR", "BITMAP_XOR")),
    scalar("BITMAP_BUILD", "BITMAP_BUILD(array of INT)", (_INTEGERS,), BITMAP),
    scalar("BITMAP_CARDINALITY", "BITMAP_CARDINALITY(bitmap)", (BITMAP_ARGUMENT,), BIGINT),
    scalar("BITMAP_FROM_BYTES", "BITMAP_FROM_BYTES(bytes)", (BYTES,), BITMAP),
    scalar("BITMAP_TO_ARRAY", "BITMAP_TO_ARRAY(bitmap)", (BITMAP_ARGUMENT,), sql.array(INT)),
    scalar("BITMAP_TO_BYTES", "BITMAP_TO_BYTES(bitmap)", (BITMAP_ARGUMENT,), sql.BYTES),
    scalar("BITMAP_TO_STRING", "BITMAP_TO_STRING(bitmap)", (BITMAP_ARGUMENT,), STRING),
)
