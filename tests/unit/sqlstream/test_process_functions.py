"""What a class of a process table function declares, and what is refused."""

from __future__ import annotations

import datetime
from typing import Any

import process_functions
import pytest

from sqlstream import (
    OPTIONAL_PARTITION_BY,
    PASS_COLUMNS_THROUGH,
    ROW_SEMANTIC_TABLE,
    SET_SEMANTIC_TABLE,
    SUPPORT_UPDATES,
    ListState,
    MapState,
    ProcessTableFunction,
    ScalarArgument,
    TableArgument,
    ValueState,
)
from sqlstream.function_ref import DEFAULT_TTL, DeclaredState, DeclaredTable, FunctionMode, StateShape
from sqlstream.process_functions import declared_function
from sqlstream.python_functions import DeclarationError


def test_a_class_is_its_declaration() -> None:
    class Mixed(process_functions.Wandering):
        """One line.

        Another.
        """

        list = MapState("INT", "STRING", ttl=datetime.timedelta(minutes=1))
        limit = ScalarArgument("INT", default=3)
        map = 1  # no state any more
        forever = ValueState("ROW<a INT>", ttl="0 s")

    declared = declared_function(Mixed).declared
    assert declared.parameters == ("input", "limit")
    assert declared.argument_types == ("", "INT")
    assert (declared.optional, declared.comment, declared.mode) == (1, "One line.", FunctionMode.GENERAL)
    assert declared.process is not None
    assert declared.process.tables == (DeclaredTable("input", ("SET_SEMANTIC_TABLE",)),)
    assert declared.process.states == (
        DeclaredState("value", StateShape.VALUE, "BIGINT", DEFAULT_TTL),
        DeclaredState("list", StateShape.MAP, "MAP<INT, STRING>", 60_000),
        DeclaredState("forever", StateShape.VALUE, "ROW<a INT>", 0),
    )
    assert declared_function(process_functions.Numbered).declared.mode is FunctionMode.ARROW


SET, ROW = TableArgument(SET_SEMANTIC_TABLE), TableArgument(ROW_SEMANTIC_TABLE)


def named(name: str, argument: Any) -> dict[str, Any]:
    argument.__set_name__(None, name)
    return {name: argument}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "reads no table"),
        (named("on_time", TableArgument()), '"on_time" has a meaning of its own'),
        (named("open", TableArgument()), '"open" has a meaning of its own'),
        ({"a": SET, "result_type": ""}, "declares no result_type"),
        ({"a": SET, "eval": ProcessTableFunction.eval}, "either on_batch or eval"),
        ({"a": SET, "on_batch": lambda self, ctx, batch: None}, "either on_batch or eval"),
        ({"a": ROW, "n": ValueState("INT")}, "a function with state reads its tables as SET_SEMANTIC_TABLE"),
        ({"a": SET, "b": ROW}, "of several tables each has SET_SEMANTIC_TABLE"),
        ({"a": SET, "b": TableArgument(SET_SEMANTIC_TABLE, PASS_COLUMNS_THROUGH)}, "that reads one"),
        ({"a": TableArgument(PASS_COLUMNS_THROUGH)}, "either ROW_SEMANTIC_TABLE or SET_SEMANTIC_TABLE"),
        ({"a": TableArgument(ROW_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY)}, "takes no PARTITION BY"),
        ({"a": TableArgument(ROW_SEMANTIC_TABLE, SUPPORT_UPDATES)}, "has set semantics"),
        ({"a": TableArgument("SET_SEMANTIC_TABLE")}, "a trait of table"),  # type: ignore[arg-type]
        ({"n": ScalarArgument("INT", default=1), "a": SET}, "stand behind the others"),
        ({"a": SET, "l": ListState("INT", ttl="soon")}, "is no duration"),
    ],
)
def test_a_class_without_a_meaning_is_refused(body: dict[str, Any], said: str) -> None:
    made = {"result_type": "ROW<n INT>", "eval": lambda self, ctx, row: None, **body}
    with pytest.raises(DeclarationError, match=said):
        declared_function(type("Wrong", (ProcessTableFunction,), made))


def test_a_state_outside_of_a_call_says_so() -> None:
    function = process_functions.Wandering()
    with pytest.raises(RuntimeError, match='state "value" is there while the engine calls the function'):
        _ = function.value.value
