"""Functions of bitmaps: sets of 32-bit numbers that are compared without a sign."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.functions.arguments import BYTES, Argument, scalar
from sqlstream.functions.signature import Rejects, ScalarFunction
from sqlstream.types import BIGINT, BITMAP, INT, STRING, TypeRoot

BITMAP_ARGUMENT = Argument(lambda t: t.root is TypeRoot.BITMAP, BITMAP)
_AT_MOST_INT = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER)
_INTEGERS = Argument(
    lambda t: t.root is TypeRoot.ARRAY and t.element is not None and t.element.root in _AT_MOST_INT,
    sql.array(INT),
    target=sql.array(INT),
)


def _of_two(name: str) -> ScalarFunction:
    return scalar(f"{name}(bitmap1, bitmap2)", f"bitmap:{name}", (BITMAP_ARGUMENT, BITMAP_ARGUMENT), BITMAP)


BATCH_REASON = "an engine has no bitmaps"

FUNCTIONS: tuple[ScalarFunction, ...] = (
    _of_two("BITMAP_AND").described(
        "The values that both bitmaps have.",
        "BITMAP_TO_STRING(BITMAP_AND(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{2}",
    ),
    _of_two("BITMAP_ANDNOT").described(
        "The values of the first bitmap that the second one lacks.",
        "BITMAP_TO_STRING(BITMAP_ANDNOT(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{1}",
    ),
    _of_two("BITMAP_OR").described(
        "The values that one of the bitmaps has.",
        "BITMAP_TO_STRING(BITMAP_OR(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{1,2,3}",
    ),
    _of_two("BITMAP_XOR").described(
        "The values that exactly one of the bitmaps has.",
        "BITMAP_TO_STRING(BITMAP_XOR(BITMAP_BUILD(ARRAY[1, 2]), BITMAP_BUILD(ARRAY[2, 3])))",
        "{1,3}",
    ),
    scalar("BITMAP_BUILD(array of INT)", "bitmap:build_bitmap", (_INTEGERS,), BITMAP).described(
        "The set of the numbers of an array that are not NULL.",
        "BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[3, 1, 3]))",
        "{1,3}",
    ),
    scalar("BITMAP_CARDINALITY(bitmap)", "bitmap:BITMAP_CARDINALITY", (BITMAP_ARGUMENT,), BIGINT).described(
        "The number of values of a bitmap.", "BITMAP_CARDINALITY(BITMAP_BUILD(ARRAY[3, 1, 3]))", "2"
    ),
    scalar(
        "BITMAP_FROM_BYTES(bytes)", "bitmap:BITMAP_FROM_BYTES", (BYTES,), BITMAP, rejects=Rejects.VALUES
    ).described(
        "The bitmap of bytes in the portable form of 32-bit Roaring bitmaps; other bytes fail the job.",
        "BITMAP_TO_STRING(BITMAP_FROM_BYTES(x'3A3000000100000000000000100000000700'))",
        "{7}",
    ),
    scalar("BITMAP_TO_ARRAY(bitmap)", "bitmap:to_array", (BITMAP_ARGUMENT,), sql.array(INT)).described(
        "The values of a bitmap in ascending order without a sign, negative numbers last.",
        "BITMAP_TO_ARRAY(BITMAP_BUILD(ARRAY[-1, 5]))",
        "[5, -1]",
    ),
    scalar("BITMAP_TO_BYTES(bitmap)", "bitmap:BITMAP_TO_BYTES", (BITMAP_ARGUMENT,), sql.BYTES).described(
        "A bitmap in the portable form of 32-bit Roaring bitmaps; equal bitmaps have equal bytes.",
        "BITMAP_CARDINALITY(BITMAP_FROM_BYTES(BITMAP_TO_BYTES(BITMAP_BUILD(ARRAY[7]))))",
        "1",
    ),
    scalar("BITMAP_TO_STRING(bitmap)", "bitmap:BITMAP_TO_STRING", (BITMAP_ARGUMENT,), STRING).described(
        "The values of a bitmap as text without a sign; a text above half a million characters ends with dots.",
        "BITMAP_TO_STRING(BITMAP_BUILD(ARRAY[-1, 5]))",
        "{5,4294967295}",
    ),
)
