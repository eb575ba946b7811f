"""Expressions compiled to a list of steps over Arrow columns; equal subexpressions are one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal, inputs_of
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.functions.determinism import is_deterministic
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.fallible import can_fail, fails_rarely
from sqlstream.runtime.evaluate.growth import check_growth
from sqlstream.runtime.evaluate.kernel import Builder, Datum, Kernel, as_array, literal_of, rows_of, too_large
from sqlstream.runtime.evaluate.text.split import split_families, split_family
from sqlstream.runtime.evaluate.values import evaluate_literal
from sqlstream.runtime.kernels.text.text_scan import char_lengths
from sqlstream.runtime.overflow import raises_overflow
from sqlstream.spi.imported_by_need import imported

Columns = Sequence[Any]
_Step = Callable[[list[Datum], Columns, int], Datum]
FOLDED_BYTES_MAX = 1024 * 1024
"""A larger constant is computed when it is needed, and not kept."""

_LAZY = frozenset({"CASE", "IF", "COALESCE", "IFNULL", "AND", "OR"})


class Program:
    """Evaluates expressions over the same input, each distinct deterministic subexpression once per batch.

    A branch of CASE, AND, OR or COALESCE that can fail (a division) is evaluated only for the rows that reach it. All branches
    are evaluated for all rows unless `is_lazy`.
    """

    def __init__(
        self, expressions: Sequence[Expression], context: EvaluationContext, *, is_lazy: bool = True
    ) -> None:
        self._context = context
        self._is_lazy = is_lazy
        self._steps: list[_Step] = []
        self._slots: dict[Expression, int] = {}
        self._constants: dict[int, pa.Scalar] = {}
        self._families = split_families(shared_calls(expressions)) if is_lazy else {}
        self._family_slots: dict[tuple[Call, ...], int] = {}
        self._last_reader: dict[int, int] = {}
        self._results = [self._compile(e) for e in expressions]
        self._read_last = self._values_by_last_reader()

    def run(self, columns: Columns, rows: int) -> list[pa.Array]:
        """One column per expression. `columns` are the input's; those that no expression reads may be None."""
        values: list[Datum] = []
        with self._context:
            for step, read_last in zip(self._steps, self._read_last, strict=True):
                values.append(step(values, columns, rows))
                for slot in read_last:
                    values[slot] = None
        return [as_array(values[slot], rows) for slot in self._results]

    def _values_by_last_reader(self) -> list[tuple[int, ...]]:
        """For each step, the values that no later one reads: they are let go, as each may be as large as a column can be."""
        found: list[tuple[int, ...]] = [()] * len(self._steps)
        for slot, reader in self._last_reader.items():
            if slot not in self._results:
                found[reader] += (slot,)
        return found

    def _compile(self, expression: Expression) -> int:
        slot = self._slots.get(expression)
        if slot is None:
            slot = self._add(self._step_of(expression), expression)
        return slot

    def _add(self, step: _Step, expression: Expression) -> int:
        check_not_given_up()
        self._steps.append(step)
        slot = len(self._steps) - 1
        # A call that is not deterministic (RAND), and all that depends on it, is one step per place in the expressions.
        if is_deterministic(expression):
            self._slots[expression] = slot
        if isinstance(expression, Literal):
            self._constants[slot] = step([], (), 0)
        elif self._folds(expression):
            self._fold(slot)
        return slot

    def _folds(self, expression: Expression) -> bool:
        if not isinstance(expression, Call) or not is_deterministic(expression):
            return False
        slots = [self._slots.get(a) for a in expression.args]
        return bool(slots) and all(s in self._constants for s in slots)

    def _fold(self, slot: int) -> None:
        with raises_overflow():
            self._fold_if_it_succeeds(slot)

    def _fold_if_it_succeeds(self, slot: int) -> None:
        values: list[Datum] = []
        try:
            # What overflows is computed, and told, for each row.
            for step in self._steps:
                is_needed = len(values) == slot or len(values) in self._constants
                values.append(step(values, (), 1) if is_needed else None)
        except UserError:
            # The error is raised only when a row reaches it: the branch may never be taken.
            return
        column = as_array(values[slot], 1)
        if column.nbytes > FOLDED_BYTES_MAX:
            return
        scalar = column[0]
        self._constants[slot] = scalar
        self._steps[slot] = lambda values, columns, rows: scalar

    def _step_of(self, expression: Expression) -> _Step:
        if isinstance(expression, InputRef):
            index = expression.index
            return lambda values, columns, rows: columns[index]
        if isinstance(expression, Literal):
            constant = evaluate_literal(expression)
            return lambda values, columns, rows: constant
        if self._is_lazy and _is_lazy(expression):
            return self._lazy_step(expression)
        return self._call_step(expression)

    def _call_step(self, call: Call) -> _Step:
        call = fused(call)
        builder = builder_of(call)
        args = [self._compile(a) for a in call.args]
        self._last_reader.update(dict.fromkeys(args, len(self._steps)))
        if call in self._families and args[0] not in self._constants:
            return self._family_step(call, args[0])
        target = to_arrow_type(call.type)
        try:
            kernel = builder(self._with_known_args(call, args), self._context)
        except UserError as error:
            # The planner lets pass what its signature does. A constant that it could not compute may be wrong, for every row.
            kernel = _failing(error, target)
        is_constant = all(a in self._constants for a in args)

        def step(values: list[Datum], columns: Columns, rows: int) -> Datum:
            given = [values[a] for a in args]
            if is_constant:
                given = [as_array(g, rows) for g in given]
            try:
                check_growth(call.function, given)
                result = kernel(*given) if given else kernel(rows)
            except UserError as error:
                error.at(call.span)
                raise
            except (pa.ArrowCapacityError, MemoryError) as error:
                raise too_large(f"the results of {call.function}").at(call.span) from error
            return result if result.type == target else pc.cast(result, target, safe=False)

        return step

    def _family_step(self, call: Call, text: int) -> _Step:
        """The step of this call, which picks its result from a step shared by the calls of its family."""
        family = self._families[call]
        if family not in self._family_slots:
            kernel = split_family(family)
            self._steps.append(lambda values, columns, rows: kernel(values[text]))
            self._family_slots[family] = len(self._steps) - 1
        slot, place = self._family_slots[family], family.index(call)
        self._last_reader[slot] = len(self._steps)
        target = to_arrow_type(call.type)

        def step(values: list[Datum], columns: Columns, rows: int) -> Datum:
            result = values[slot][place]
            return result if result.type == target else pc.cast(result, target, safe=False)

        return step

    def _with_known_args(self, call: Call, slots: list[int]) -> Call:
        """The call with constant arguments (-3, CAST('a' AS CHAR)) replaced by literals."""
        known = tuple(
            _as_literal(arg, self._constants[slot]) if slot in self._constants else arg
            for arg, slot in zip(call.args, slots, strict=True)
        )
        return call.with_args(known)

    def _lazy_step(self, call: Call) -> _Step:
        if call.function in ("AND", "OR"):
            lazy = _lazy_connective(call, self._context)
        elif call.function in ("CASE", "IF"):
            lazy = _lazy_case(call, self._context)
        else:
            lazy = _lazy_coalesce(call, self._context)
        if not all(fails_rarely(a) for a in call.args):
            return lazy
        return _unless_it_fails(Program((call,), self._context, is_lazy=False), lazy)


def _failing(error: UserError, target: pa.DataType) -> Kernel:
    """Fails as soon as there is a row."""

    def kernel(*given: Datum) -> pa.Array:
        if rows_of(*given):
            raise error.with_traceback(None)
        return pa.nulls(0, target)

    return kernel


def builder_of(call: Call) -> Builder:
    """Where the signature of the function says that it is. Its module is loaded by the first call of one of its functions."""
    if call.ref is not None:
        place = "python.calls:build_user_call"
    elif call.function in FUSED:
        return FUSED[call.function]
    else:
        place = f"evaluate.{SCALAR_FUNCTIONS[call.function].implementation}"
    builder: Builder = imported(f"sqlstream.runtime.{place}")
    return builder


def _unless_it_fails(eager: Program, lazy: _Step) -> _Step:
    """Evaluate all branches over all rows, which is cheaper; if one fails, the batch is evaluated branch by branch."""

    def step(values: list[Datum], columns: Columns, rows: int) -> Datum:
        try:
            with raises_overflow():
                return eager.run(columns, rows)[0]
        except UserError:
            return lazy(values, columns, rows)

    return step


def shared_calls(expressions: Iterable[Expression]) -> Iterator[Call]:
    """Of these, the calls whose results can be shared: what is not deterministic is computed for each call."""
    return (call for call in _eager_calls(expressions) if is_deterministic(call))


def _eager_calls(expressions: Iterable[Expression]) -> Iterator[Call]:
    """The calls that a program over these expressions makes for every row."""
    for expression in expressions:
        if isinstance(expression, Call) and not _is_lazy(expression):
            yield expression
            yield from _eager_calls(expression.args)


def _is_lazy(call: Call) -> bool:
    return call.function in _LAZY and any(can_fail(a) for a in call.args[1:])


_PLAIN_TYPES = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string)
"""Types of constants whose value is the same as Python's, and as a Literal's."""


def _as_literal(expression: Expression, constant: pa.Scalar) -> Expression:
    if isinstance(expression, Literal):
        return expression
    is_plain = not constant.is_valid or any(is_type(constant.type) for is_type in _PLAIN_TYPES)
    return Literal(constant.as_py(), expression.type) if is_plain else expression


def _select(columns: Columns, rows: int, selected: Any, expression: Expression) -> tuple[list[Any], int]:
    """The rows `selected` (positions) of the columns that the expression reads."""
    if len(selected) == rows:
        return list(columns), rows
    taken: list[Any] = [None] * len(columns)
    for index in inputs_of(expression):
        taken[index] = columns[index].take(pa.array(selected))
    return taken, len(selected)


def _is_true(mask: pa.Array) -> Any:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def _scatter(parts: list[tuple[Any, pa.Array]], rows: int, target: pa.DataType) -> pa.Array:
    """One column from parts (positions, values); the positions cover all rows."""
    if len(parts) == 1:
        return parts[0][1].cast(target)
    order = np.concatenate([positions for positions, _ in parts])
    inverse = np.empty(rows, dtype=np.int64)
    inverse[order] = np.arange(rows)
    return pa.concat_arrays([values.cast(target) for _, values in parts]).take(pa.array(inverse))


def _lazy_case(call: Call, context: EvaluationContext) -> _Step:
    branches = [
        (condition, Program((condition,), context), value, Program((value,), context))
        for condition, value in zip(call.args[0:-1:2], call.args[1:-1:2], strict=True)
    ]
    otherwise = Program(call.args[-1:], context)
    target = to_arrow_type(call.type)

    def step(values: list[Datum], columns: Columns, rows: int) -> pa.Array:
        remaining = np.arange(rows)
        parts: list[tuple[Any, pa.Array]] = []
        for condition, is_met, value, result in branches:
            mask = _is_true(is_met.run(*_select(columns, rows, remaining, condition))[0])
            chosen = remaining[mask]
            if len(chosen):
                parts.append((chosen, result.run(*_select(columns, rows, chosen, value))[0]))
            remaining = remaining[~mask]
        if len(remaining) or not parts:
            parts.append((remaining, otherwise.run(*_select(columns, rows, remaining, call.args[-1]))[0]))
        return _scatter(parts, rows, target)

    return step


def _lazy_coalesce(call: Call, context: EvaluationContext) -> _Step:
    """COALESCE and IFNULL: each argument is evaluated once, for the rows in which all before it are NULL."""
    *before, last = [(arg, Program((arg,), context)) for arg in call.args]
    target = to_arrow_type(call.type)

    def step(values: list[Datum], columns: Columns, rows: int) -> pa.Array:
        remaining = np.arange(rows)
        parts: list[tuple[Any, pa.Array]] = []
        for arg, program in before:
            found = program.run(*_select(columns, rows, remaining, arg))[0]
            is_found = found.is_valid().to_numpy(zero_copy_only=False)
            parts.append((remaining[is_found], found.drop_null()))
            remaining = remaining[~is_found]
            if not len(remaining):
                break
        else:
            arg, program = last
            parts.append((remaining, program.run(*_select(columns, rows, remaining, arg))[0]))
        return _scatter(parts, rows, target)

    return step


def _lazy_connective(call: Call, context: EvaluationContext) -> _Step:
    """AND and OR from left to right: an operand is evaluated only for rows that the operands before it do not decide."""
    operands = [(arg, Program((arg,), context)) for arg in call.args]
    decided = call.function == "OR"
    combine = pc.or_kleene if decided else pc.and_kleene

    def step(values: list[Datum], columns: Columns, rows: int) -> pa.Array:
        result = operands[0][1].run(columns, rows)[0]
        for arg, program in operands[1:]:
            open_rows = pc.fill_null(pc.not_equal(result, decided), True).to_numpy(zero_copy_only=False)
            chosen = np.flatnonzero(open_rows)
            if not len(chosen):
                return result
            part = program.run(*_select(columns, rows, chosen, arg))[0]
            rest = np.flatnonzero(~open_rows)
            neutral = pa.repeat(pa.scalar(decided), len(rest))
            result = combine(result, _scatter([(chosen, part), (rest, neutral)], rows, pa.bool_()))
        return result

    return step


# Calls of which one kernel computes two: no text is made whose length alone is wanted.


LENGTH_REPLACED = "CHAR_LENGTH OF REPLACE"
_LENGTHS = ("CHAR_LENGTH", "CHARACTER_LENGTH")


def fused(call: Call) -> Call:
    """The call that computes this one and its argument, or the same."""
    match call:
        case Call(
            function=length,
            ref=None,
            args=(
                Call(
                    function="REPLACE",
                    ref=None,
                    args=(text, Literal(value=str() as s) as search, Literal(value=str()) as by),
                ),
            ),
        ) if length in _LENGTHS and s:
            return Call(LENGTH_REPLACED, (text, search, by), call.type, call.span)
    return call


def _length_replaced(call: Call, context: EvaluationContext) -> Kernel:
    """The number of characters after a REPLACE: each time that the text is found adds the difference of two lengths."""
    search, replacement = literal_of(call, 1), literal_of(call, 2)
    growth = len(replacement) - len(search)
    if len(search.encode()) == 1:
        return lambda text, *_: char_lengths(text, ord(search), growth)

    def kernel(text: pa.Array, *_: Datum) -> pa.Array:
        found = pc.multiply(pc.count_substring(text, search), pa.scalar(growth, pa.int32()))
        return pc.add(char_lengths(text), found)

    return kernel


FUSED: dict[str, Builder] = {LENGTH_REPLACED: _length_replaced}
"""The builders of calls that only `fused` makes."""
