"""Three-valued logic."""

from __future__ import annotations

from functools import reduce

import pyarrow.compute as pc

from sqlstream.runtime.evaluate.kernel import Builder, Datum, plain


def _and(*operands: Datum) -> Datum:
    return reduce(pc.and_kleene, operands)


def _or(*operands: Datum) -> Datum:
    return reduce(pc.or_kleene, operands)


BUILDERS: dict[str, Builder] = {
    "AND": plain(_and),
    "OR": plain(_or),
    "NOT": plain(lambda value: pc.invert(value)),
    "IS TRUE": plain(lambda value: pc.fill_null(value, False)),
    "IS NOT TRUE": plain(lambda value: pc.invert(pc.fill_null(value, False))),
    "IS FALSE": plain(lambda value: pc.invert(pc.fill_null(value, True))),
    "IS NOT FALSE": plain(lambda value: pc.fill_null(value, True)),
    "IS UNKNOWN": plain(lambda value: pc.is_null(value)),
    "IS NOT UNKNOWN": plain(lambda value: pc.is_valid(value)),
}
