"""Reports calls that cannot be computed before a job is submitted: compiles them once, without rows."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, transform, walk

# These compute every call that type-checks: most expressions need no further check, nor the compiler for it.
_TOTAL = frozenset({
    "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "AND", "OR", "NOT", "IN", "CASE", "IF", "COALESCE",
    "IFNULL", "NULLIF", "NEGATE", "FIELD", "UPPER", "LOWER", "ABS", "CONCAT", "CHAR_LENGTH", "MOD", "PROCTIME",
    "IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE", "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
})  # fmt: skip
_PLAIN_CASTS = frozenset(
    (*sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS, *sql.STRING_ROOTS, *sql.TIMESTAMP_ROOTS)
) | {
    sql.TypeRoot.DECIMAL,
    sql.TypeRoot.BOOLEAN,
    sql.TypeRoot.DATE,
}


def check_expression(expression: Expression) -> None:
    """UserError SS31xx at the position of a call that fails for all data (a malformed pattern, an argument that must be a
    constant, a CAST between types that do not convert)."""
    if all(_is_total(node) for node in walk(expression)):
        return
    # A user's function is not imported where a statement is planned.
    expression = transform(expression, _without_user_call)
    from runtime.evaluate.context import EvaluationContext
    from runtime.evaluate.program import Program

    Program((expression,), EvaluationContext())


def _without_user_call(node: Expression) -> Expression:
    return InputRef(0, node.type) if isinstance(node, Call) and node.ref is not None else node


def _is_total(node: Expression) -> bool:
    if not isinstance(node, Call) or node.ref is not None:
        return True
    if node.function in ("CAST", "TRY_CAST"):
        return node.type.root in _PLAIN_CASTS and node.args[0].type.root in _PLAIN_CASTS
    return node.function in _TOTAL and not any(sql.is_interval(a.type) for a in node.args)
