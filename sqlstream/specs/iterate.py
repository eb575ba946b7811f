"""Spec of the operator that runs a recursive query: its step is a chain of other operators inside it."""

from __future__ import annotations

import msgspec

from sqlstream.bounds import Count
from sqlstream.schema import Schema
from sqlstream.specs.aggregate import GroupAggregateSpec
from sqlstream.specs.calc import CalcSpec, ExpandSpec, UnnestSpec
from sqlstream.specs.join import JoinSpec
from sqlstream.specs.over import OverSpec
from sqlstream.specs.rank import RankSpec
from sqlstream.specs.spec import OperatorSpec, StateBound


class UnrollSpec(OperatorSpec, frozen=True, tag="unroll"):
    """Of a query of WITH MUTUALLY RECURSIVE: the rows that come (SIGN_COLUMN 1) and go (-1) in rounds (ROUND_COLUMN), its last
    two columns, become the rows that there are between rounds. They have the first round in which there are these rows of
    their group `keys`, and the first in which there are others, ROUND_MAX for none, instead of the two columns.
    With `is_distinct` the rows that come and go if each counts once; `keys` are all columns then. With `is_greatest` the keys are
    the first columns, and of each column behind them the groups have the least value, or the greatest one (True): the rows that
    come and go are those of the groups.
    """

    keys: tuple[Count, ...]
    is_distinct: bool
    is_greatest: tuple[bool, ...] = ()

    def kept_state(self) -> str:
        return "how often each row comes and goes in each round; dropped: when it is retracted"

    def state_bound(self) -> StateBound:
        return StateBound("the rows of the recursive query", False)


InnerSpec = (
    CalcSpec | JoinSpec | GroupAggregateSpec | RankSpec | OverSpec | UnnestSpec | ExpandSpec | UnrollSpec
)
"""What a step consists of: operators whose changes depend on rows alone, and not on time."""

ROUND_MAX = 1 << 62

SIGN_COLUMN = "$sign"

ROUND_COLUMN = "$round"
"""The last column of rows within a step that has rounds."""


class InnerOperator(msgspec.Struct, frozen=True):
    """An operator of a step. `inputs` are, by ordinal, the numbers of what it reads; several of one ordinal are a union. `schema`
    and `is_insert_only` are of its output. `exchanges` are, by ordinal, the columns by whose values its rows meet in one
    subtask; without any they stay where they are."""

    name: str
    spec: InnerSpec
    inputs: tuple[tuple[Count, ...], ...]
    schema: Schema
    is_insert_only: bool
    exchanges: tuple[tuple[Count, ...], ...] = ()


def inner_table_prefix(inner: InnerOperator, place: int) -> str:
    """What the names of the tables begin with that the operator at this place of a step has.

    >>> from sqlstream.specs.calc import CalcSpec
    >>> inner_table_prefix(InnerOperator("Calc", CalcSpec(()), ((0,),), Schema(()), True), 1)
    'calc2_'
    """
    return f"{inner.name.lower()}{place + 1}_"


class IterateSpec(OperatorSpec, frozen=True, tag="iterate"):
    """The rows of a recursive query `name`: those of input 0 are round 0, and the step makes round n + 1 of round n alone, until
    there are none. The result is the rows of all rounds (UNION ALL), or with `is_distinct` each distinct row once; a round then
    has the rows that no earlier one has.

    The step reads number 0, the rows of the last round, and the numbers of the other inputs. Its `operators` have the numbers
    from there on, each after what it reads. `results` are the numbers whose rows are the next round.
    With `has_rounds` rows within the step have their round as last column, which every operator of the step keeps apart.
    `is_linear`: the step treats each row of the last round alone, so that the rounds of rows do not matter for the result.
    `is_insert_only`: no row of a round is ever retracted.
    `placements` are, by number, the columns by whose values the rows of the recursive query (0) and of the other inputs are
    distributed among subtasks; without any there is one subtask.
    """

    name: str
    operators: tuple[InnerOperator, ...]
    results: tuple[Count, ...]
    is_distinct: bool
    has_rounds: bool
    is_linear: bool
    is_insert_only: bool
    placements: tuple[tuple[Count, ...], ...] = ()

    def kept_state(self) -> str:
        kept = []
        if self.is_distinct:
            kept.append(
                "how often each row is made in each round" if self.has_rounds else "each distinct row"
            )
        inner = [o.name for o in self.operators if o.spec.kept_state()]
        if inner:
            kept.append(f"the state of its step ({', '.join(inner)})")
        if not kept:
            return ""
        return f"{', '.join(kept)}; dropped: {'never' if self.is_insert_only else 'when it is retracted'}"

    def state_bound(self) -> StateBound:
        return StateBound("the rows of the recursive query and of the tables that its step reads", False)


class MutualIterateSpec(OperatorSpec, frozen=True, tag="mutual_iterate"):
    """The rows of queries `names` that read each other and themselves, each with `columns`. At first there are none. In a round
    the queries come in turn, and each then has the rows that it makes of those that there are; until a round changes nothing.

    The queries read the numbers 0, 1, … for the rows of these queries, and those behind them for the inputs. The `operators`
    have the numbers from there on, each after what it reads. `results` are by query the numbers whose rows are its rows.
    Within the queries rows have two further columns: the turn from which on they are there (ROUND_COLUMN), and 1 or, for rows
    that are there no more, -1 (SIGN_COLUMN). Turn `len(names) * r + i` is that of query i in round r = 1, 2, ….
    Without `has_rounds` rows only come, as those of the inputs do, and are made of rows that came: they have no more columns, and
    those of a query `is_distinct` count once.
    With `extremes` the rows of a query that agree in the columns with 0 are one row, which has the least value of a column with
    -1 and the greatest of one with 1. Better values make better rows. With `has_ranks` rows may go, and have as last column the
    rank (ROUND_COLUMN) of the row that they are made of.
    With `has_sums` the best values of FLOAT and DOUBLE are parts of sums, of which none may be NaN.
    After `rounds_max` rounds (0: the limit of the settings) the rows are those that there are then, or it is an error.
    `placements` are, by number, the columns by whose values the rows of the queries and of the inputs are distributed among
    subtasks, () for rows that stay where they are made; without any there is one subtask.
    The output is the rows of the queries `read`: see planner.relational.MutualIterate.
    """

    names: tuple[str, ...]
    columns: tuple[Schema, ...]
    operators: tuple[InnerOperator, ...]
    results: tuple[tuple[Count, ...], ...]
    read: tuple[Count, ...]
    rounds_max: Count
    is_error: bool
    has_rounds: bool = True
    is_distinct: tuple[bool, ...] = ()
    extremes: tuple[tuple[int, ...], ...] = ()
    has_ranks: bool = False
    placements: tuple[tuple[Count, ...], ...] = ()
    has_sums: bool = False

    def kept_state(self) -> str:
        inner = sorted({o.name for o in self.operators if o.spec.kept_state()})
        of_queries = f", the state of its queries ({', '.join(inner)})" if inner else ""
        if self.has_ranks:
            return f"each row that is made of another one{of_queries}; dropped: when it is retracted"
        if not self.has_rounds:
            return f"each distinct row{of_queries}; dropped: never"
        return f"how often each row comes and goes in each round{of_queries}; dropped: when it is retracted"

    def state_bound(self) -> StateBound:
        return StateBound("the rows of the recursive queries and of the tables that they read", False)


class IterateInputSpec(OperatorSpec, frozen=True, tag="iterate_input"):
    """Input `ordinal` of an Iterate, while its step is planned; no job has it."""

    ordinal: int
