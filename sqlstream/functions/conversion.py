"""CAST and TRY_CAST: the target is the type of the call, and the binder checks that the cast exists."""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.functions.arguments import as_given, scalar
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import LogicalType, TypeRoot


def _check(call: Call) -> None:
    _check_parts(call.args[0].type, call.type)


def _check_parts(source: LogicalType, target: LogicalType) -> None:
    """UserError SS3106 where elements of a MULTISET would become those of another type."""
    if source.root is not target.root or source.same_as(target):
        return
    if source.root is TypeRoot.MULTISET:
        raise UserError(
            "SS3106", f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)} is not supported"
        )
    for a, b in ((source.element, target.element), (source.key, target.key)):
        if a is not None and b is not None:
            _check_parts(a, b)
    for field, other in zip(source.fields, target.fields, strict=False):
        _check_parts(field.type, other.type)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "CAST(value AS type)", "cast:cast", as_given, lambda types: None, args=(1, 1), check=_check
    ).described(
        "The value in another type; a text that does not fit fails the job.", "CAST('12' AS INT)", "12"
    ),
    scalar(
        "TRY_CAST(value AS type)", "cast:cast", as_given, lambda types: None, args=(1, 1), check=_check
    ).described("The value in another type, NULL where it does not fit.", "TRY_CAST('12' AS INT)", "12"),
)
