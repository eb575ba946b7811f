"""Specs of the operators between rows with a column of operations and the changelog that they make."""

from __future__ import annotations

from sqlstream.specs.spec import OperatorSpec


class FromChangelogSpec(OperatorSpec, frozen=True, tag="from_changelog"):
    """The columns of the input but `op`, those of `keys` first. `op` has a text of `codes`: the row kind (RowKind) stands at the
    same place of `kinds`.

    Input is insert-only. A row with another text, or NULL, fails the job, unless `skips_invalid`: then it is dropped and counted
    in `numInvalidOperations`.
    """

    op: int
    codes: tuple[str, ...]
    kinds: tuple[int, ...]
    skips_invalid: bool = False
    keys: tuple[int, ...] = ()


class ToChangelogSpec(OperatorSpec, frozen=True, tag="to_changelog"):
    """The text that `codes` has for the kind of each row, then the columns of the input; rows of a kind without one are left
    out. Output is insert-only.

    With `keys` these columns come first, and an update of a row whose key changes is a -D and a +I.
    """

    codes: tuple[str | None, ...]
    keys: tuple[int, ...] = ()
