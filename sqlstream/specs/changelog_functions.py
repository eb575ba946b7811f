"""Specs of the operators between rows with a column of operations and the changelog that they make."""

from __future__ import annotations

from sqlstream.specs.spec import OperatorSpec, StateBound, keys_or_ttl, until_ttl


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


# Spec of the operator that makes a full changelog of changes by key.


class ChangelogNormalizeSpec(OperatorSpec, frozen=True, tag="changelog_normalize"):
    """Changes by `keys` as a changelog of whole rows (Flink: ChangelogNormalize).

    A row that is added (+I, +U) replaces the one with its key; one that is like the row that is there changes nothing. A -D needs
    only its key: the row that is there is retracted, whole, and one of an unknown key is dropped. A -U that has no +U of its key
    behind it is a -D. In an insert-only input the rows whose `values` are all NULL are the deletions. Unless `keeps_changes`, of
    several changes of a key in a batch the last one counts.
    The output has -U rows only when its mode is RETRACT. `marks`, unless it is negative, is the last column of the input and none
    of the output: it names the values that a row lacks (spi.format.UNKNOWN_VALUES), which are those of the row before. They are
    NULL, and counted in `numUnknownValues`, where there is none.
    """

    keys: tuple[int, ...]
    values: tuple[int, ...] = ()
    state_ttl_ms: int = 0
    marks: int = -1
    keeps_changes: bool = False

    def kept_state(self) -> str:
        return f"the last row of each key; dropped: {until_ttl(self.state_ttl_ms)}"

    def state_bound(self) -> StateBound:
        return keys_or_ttl(bool(self.keys), self.state_ttl_ms)
