"""What a function of another package must do: the same in every mode, however rows are cut into batches."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from sqlstream.testing.check import Check, expect_refused, rows_of

MODES = (
    {"parallelism.default": "1"},
    {"parallelism.default": "2", "execution.batch-rows": "1"},
    {"execution.runtime-mode": "BATCH"},
)


@dataclasses.dataclass(frozen=True)
class FunctionCase:
    """A function and examples.

    `over` are rows, as VALUES has them, of the columns `columns`. `examples` map calls to what they give: a value for each row,
    in order of the first column; of an aggregate, one value.
    """

    function: str
    columns: str
    over: tuple[str, ...]
    examples: tuple[tuple[str, Any], ...]
    is_aggregate: bool = False

    def checks(self) -> list[Check]:
        return [
            Check(f"{self.function}: examples", self._examples),
            Check(f"{self.function}: errors", self._errors),
        ]

    def _examples(self, directory: Path) -> None:
        first = self.columns.partition(",")[0].strip()
        order = "" if self.is_aggregate else f" ORDER BY {first}"
        rows = ", ".join(f"({row})" for row in self.over)
        for config in MODES:
            for call, wanted in self.examples:
                made = rows_of([f"SELECT {call} FROM (VALUES {rows}) AS t({self.columns}){order}"], config)
                values = [row[0] for row in made]
                expected = [wanted] if self.is_aggregate else list(wanted)
                assert values == expected, f"{call} gives {values} instead of {expected} with {config}"

    def _errors(self, directory: Path) -> None:
        arguments = ", ".join(["1"] * 40)
        expect_refused(f"EXPLAIN SELECT {self.function}({arguments})", "SS2006", "too many arguments")
