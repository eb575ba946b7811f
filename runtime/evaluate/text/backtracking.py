"""Regular expressions that RE2 cannot match, on an engine that backtracks: for a limited time for each text."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream import config
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.kernel import Kernel, as_array, rows_of
from sqlstream.text.regular_expressions import JavaRegex

if TYPE_CHECKING:
    from sqlstream.runtime.evaluate.context import EvaluationContext

TIMEOUT_OPTION = "table.exec.regex.timeout"


def _matches(engine: Any, text: str, seconds: float) -> Iterator[Any]:
    """All matches as Java's find() has them: behind an empty one the search goes on a character later."""
    deadline, start = time.monotonic() + seconds, 0
    while start <= len(text):
        match = engine.search(text, start, timeout=max(deadline - time.monotonic(), 0.001))
        if match is None:
            return
        yield match
        start = match.end() + (match.start() == match.end())


@dataclasses.dataclass(frozen=True)
class Backtracking:
    """The functions of one expression, each a kernel of texts. Equal texts of a batch are looked at once; the engine has no
    function of many texts, so that each distinct one is a call."""

    java: JavaRegex
    timeout_ms: int

    @staticmethod
    def of(java: JavaRegex, context: EvaluationContext) -> Backtracking:
        return Backtracking(java, config.get(context.config, TIMEOUT_OPTION))

    def found(self) -> Kernel:
        """Whether it matches a part of the text."""
        return self._kernel(pa.bool_(), lambda engine, text, s: engine.search(text, timeout=s) is not None)

    def extract(self, group: int) -> Kernel:
        """The text of a group of the first match; NULL without one."""

        def first(engine: Any, text: str, seconds: float) -> str | None:
            match = engine.search(text, timeout=seconds)
            return match[group] if match else None

        return self._kernel(pa.string(), first)

    def replace(self, replacement: str) -> Kernel:
        def replaced(engine: Any, text: str, seconds: float) -> str:
            parts, end = [], 0
            for match in _matches(engine, text, seconds):
                parts += [text[end : match.start()], replacement]
                end = match.end()
            return "".join([*parts, text[end:]])

        return self._kernel(pa.string(), replaced)

    def count(self) -> Kernel:
        return self._kernel(
            pa.int32(), lambda engine, text, seconds: sum(1 for _ in _matches(engine, text, seconds))
        )

    def extract_all(self, group: int) -> Kernel:
        """The texts of a group of all matches; NULL for a group that takes no part in a match."""
        return self._kernel(
            pa.list_(pa.string()),
            lambda engine, text, seconds: [match[group] for match in _matches(engine, text, seconds)],
        )

    def place(self) -> Kernel:
        """The place, from 1, of the first match; 0 without one."""

        def first(engine: Any, text: str, seconds: float) -> int:
            match = engine.search(text, timeout=seconds)
            return match.start() + 1 if match else 0

        return self._kernel(pa.int32(), first)

    def _kernel(self, target: pa.DataType, function: Callable[[Any, str, float], Any]) -> Kernel:
        import regex

        engine = regex.compile(self.java.backtracking)
        seconds = self.timeout_ms / 1000

        def computed(text: str | None) -> Any:
            return None if text is None else function(engine, text, seconds)

        def kernel(text: Any, *_: Any) -> pa.Array:
            encoded = as_array(text, rows_of(text)).dictionary_encode()
            try:
                values = pa.array([computed(t) for t in encoded.dictionary.to_pylist()], target)
            except TimeoutError as error:
                raise self._too_slow() from error
            return values.take(encoded.indices)

        return kernel

    def _too_slow(self) -> UserError:
        return UserError(
            "SS5134",
            f'regular expression "{self.java.java}" takes longer than {self.timeout_ms:,} ms for one text',
            hint=f"it has {self.java.backtracks}: rewrite it without, or SET '{TIMEOUT_OPTION}' = '10 s'",
        )
