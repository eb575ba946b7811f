"""Formats of PRINTF: java.util.Formatter's specifiers, read and compared with the types of the values."""

from __future__ import annotations

import dataclasses
import re

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.types import LogicalType, TypeRoot

_SPECIFIER = re.compile(
    r"%(?:(?P<index>\d+)\$)?(?P<flags>[-+ 0,#(]*)(?P<width>[1-9]\d*)?(?:\.(?P<precision>\d+))?(?P<conversion>[a-zA-Z%])"
)
_FIXED_DIGITS_MAX = 18
_WIDTH_MAX = 10_000
_FLAGS = {"s": "-", "d": "-+ 0,", "x": "-0", "o": "-0", "f": "-+ 0,", "b": "-"}
"""The flags that each conversion takes."""
_UPPER = "SXB"
"""Conversions whose capital writes in capitals."""
_NOT_BUILT = "aAcCeEgGhHtT"
"""Conversions of Java besides these."""


class _Invalid(Exception):
    """A format that Java does not take, for which the result is NULL."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of a format: `text` as it is, or the argument `index` by a conversion."""

    text: str = ""
    index: int = -1
    flags: str = ""
    width: int = 0
    precision: int | None = None
    conversion: str = ""

    @property
    def kind(self) -> str:
        """The conversion in small letters."""
        return self.conversion.lower()

    @property
    def digits(self) -> int:
        """The digits behind the point of %f."""
        return 6 if self.precision is None else self.precision


def read_format(form: str, types: list[LogicalType]) -> list[Piece] | None:
    """The parts of a format for values of these types; None for one that Java does not take. UserError SS3462 for one that Java
    takes, and this engine does not."""
    try:
        pieces = _pieces(form)
        for piece in pieces:
            if piece.conversion:
                _check(piece, types)
    except _Invalid:
        return None
    return pieces


def _pieces(form: str) -> list[Piece]:
    pieces, at, following = [], 0, 0
    while at < len(form):
        percent = form.find("%", at)
        if percent < 0:
            pieces.append(Piece(form[at:]))
            break
        pieces.append(Piece(form[at:percent]))
        found = _SPECIFIER.match(form, percent)
        if found is None:
            raise _Invalid
        at, conversion = found.end(), found["conversion"]
        flags, width = found["flags"], int(found["width"] or 0)
        precision = int(found["precision"]) if found["precision"] else None
        if width > _WIDTH_MAX or (precision or 0) > _WIDTH_MAX or len(set(flags)) < len(flags):
            raise _Invalid
        if conversion in "%n":
            pieces.append(_padded_mark(conversion, flags, width, precision))
            continue
        if found["index"]:
            index = int(found["index"]) - 1
        else:
            index, following = following, following + 1
        pieces.append(Piece("", index, flags, width, precision, conversion))
    return [piece for piece in pieces if piece.text or piece.conversion]


def _padded_mark(conversion: str, flags: str, width: int, precision: int | None) -> Piece:
    if precision is not None or (conversion == "n" and (flags or width)) or set(flags) - {"-"}:
        raise _Invalid
    if conversion == "n":
        return Piece("\n")
    return Piece("%".ljust(width) if "-" in flags else "%".rjust(width))


def _check(piece: Piece, types: list[LogicalType]) -> None:
    """Whether a conversion can write the value that it names."""
    if not 0 <= piece.index < len(types):
        raise _Invalid
    is_known = piece.kind in _FLAGS and (piece.conversion.islower() or piece.conversion in _UPPER)
    if not is_known or set(piece.flags) - set(_FLAGS[piece.kind]):
        if piece.conversion in _NOT_BUILT or piece.conversion in _FLAGS:
            hint = "use %s, %d, %x, %o, %f, %b, %n or %%, with the flags - + 0 , and a space"
            raise UserError("SS3462", f"PRINTF does not know %{piece.flags}{piece.conversion}", hint=hint)
        raise _Invalid
    is_zeroed = "0" in piece.flags
    if (("-" in piece.flags or is_zeroed) and not piece.width) or (is_zeroed and "-" in piece.flags):
        raise _Invalid
    _check_value(piece, types[piece.index])


def _check_value(piece: Piece, t: LogicalType) -> None:
    if t.root is TypeRoot.NULL:
        is_taken = True
    elif piece.kind in "dxo":
        is_taken = sql.is_integer(t)
    elif piece.kind == "f":
        is_taken = t.root in (*sql.APPROXIMATE_ROOTS, TypeRoot.DECIMAL)
    else:
        is_taken = True
    if not is_taken or (piece.kind in "dxo" and piece.precision is not None):
        raise _Invalid
    if piece.kind in "xo" and set(piece.flags) & set("+ ,"):
        raise _Invalid
    if piece.kind == "f" and piece.digits > _FIXED_DIGITS_MAX:
        raise UserError(
            "SS3462", f"PRINTF has at most {_FIXED_DIGITS_MAX} digits behind the point", hint="ask for fewer"
        )
