"""The column names of `AS t (x, y)`."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.planner.bind.namespace import Namespace


def column_aliases(
    alias: exp.TableAlias | None, own: tuple[str, ...], namespace: Namespace
) -> tuple[str, ...]:
    """The names that the alias gives to the columns `own`; none where it gives none. UserError SS2012 when their number
    differs or one is repeated."""
    given = tuple(str(c.name) for c in alias.args.get("columns") or ()) if alias is not None else ()
    if not given:
        return ()
    if len(given) != len(own):
        raise UserError(
            "SS2012",
            f"{len(given)} column name{'s' * (len(given) != 1)} for {len(own)} column{'s' * (len(own) != 1)}",
            span=namespace.span(alias),
            hint=f"name all columns, which are {', '.join(own)}",
        )
    if len(set(given)) < len(given):
        raise UserError("SS2012", "a column name is repeated", span=namespace.span(alias), hint="rename one")
    return given
