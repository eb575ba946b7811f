"""Compiles expressions to functions of batches; exports load on first use, so that a statement that computes nothing does not
load them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlstream.runtime.evaluate.compiled import compile_condition, compile_expression, compile_projections
    from sqlstream.runtime.evaluate.context import EvaluationContext
    from sqlstream.runtime.evaluate.values import evaluate_literal

__all__ = [
    "EvaluationContext",
    "compile_condition",
    "compile_expression",
    "compile_projections",
    "evaluate_literal",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sqlstream.spi.imported_by_need import imported

    module = "values" if name == "evaluate_literal" else "compiled"
    return imported(f"sqlstream.runtime.evaluate.{module}:{name}")
