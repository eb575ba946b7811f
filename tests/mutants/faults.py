"""Every small fault that can be put into a source text, each as an exact edit."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from collections.abc import Iterator

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: (r"is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.Div: ("/", "*"),
    ast.Pow: (r"\*\*", "*"),
    ast.BitXor: (r"\^", "&"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_TEXT_FOR_PEOPLE = frozenset({"__repr__", "__str__"})
_TUNING = re.compile(r"_*(?!.*(WATERMARK|PRECISION|DIGITS|SCALE))[A-Z0-9_]*_(S|MS|MAX|MIN|BYTES|ROWS)")
"""Module constants with such names bound queues, pauses and batches: one more or one less means the same."""
_LOCK = re.compile(r"self\.\w*(lock|changed|condition)")
_SQL = re.compile(r"\b(SELECT|FROM|WHERE|JOIN|CASE|CAST|COALESCE|OVER|INSERT|UPDATE|DELETE|CREATE)\b")
_SQL_FAULTS = (
    (" AND ", " OR "),
    (" OR ", " AND "),
    ("IS NOT NULL", "IS NULL"),
    ("IS NULL", "IS NOT NULL"),
    ("LEFT JOIN", "JOIN"),
    ("UNION ALL", "UNION"),
    ("DISTINCT ", ""),
    (" DESC", " ASC"),
    (" ASC", " DESC"),
    (" <= ", " < "),
    (" < ", " <= "),
    (" = ", " <> "),
    ("IF NOT EXISTS ", ""),
)
"""What may be wrong in a text of SQL."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """`source[start:end]`, in bytes, becomes `replacement`; `function` is the qualified name of the function around it, or ''."""

    path: str
    line: int
    function: str
    what: str
    start: int
    end: int
    replacement: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.end :]


def faults_of(path: str, source: bytes) -> list[Fault]:
    """All faults of one file, in the order of their places.

    >>> [(f.line, f.what, f.apply(b"if a < 1:\\n    b()\\n")) for f in faults_of("x.py", b"if a < 1:\\n    b()\\n")]
    ... # doctest: +NORMALIZE_WHITESPACE
    [(1, 'condition negated', b'if not (a < 1):\\n    b()\\n'),
     (1, 'comparison turned', b'if a <= 1:\\n    b()\\n'),
     (1, 'constant off by one', b'if a < 2:\\n    b()\\n'),
     (2, 'call dropped', b'if a < 1:\\n    pass\\n')]
    """
    visitor = _Visitor(path, source)
    visitor.visit(ast.parse(source))
    return sorted(visitor.faults, key=lambda f: (f.start, f.end, f.replacement))


class _Visitor(ast.NodeVisitor):
    """Collects faults on the way down; what is for people (texts, types, errors) is passed by."""

    def __init__(self, path: str, source: bytes) -> None:
        self.faults: list[Fault] = []
        self._path = path
        self._source = source
        starts = itertools.accumulate((len(line) for line in source.splitlines(keepends=True)), initial=0)
        self._line_starts = list(starts)
        self._scopes: list[tuple[str, bool]] = []

    # --- places

    def _place(self, line: int, column: int) -> int:
        return self._line_starts[line - 1] + column

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._place(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._place(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _add(self, what: str, start: int, end: int, replacement: str) -> None:
        line = self._source.count(b"\n", 0, start) + 1
        self.faults.append(Fault(self._path, line, self._function(), what, start, end, replacement))

    def _function(self) -> str:
        """The innermost function around, named as a code object names itself."""
        last = max((i for i, (_, is_function) in enumerate(self._scopes) if is_function), default=-1)
        parts = []
        for i, (name, is_function) in enumerate(self._scopes[: last + 1]):
            parts += [name, "<locals>"] if is_function and i < last else [name]
        return ".".join(parts)

    def _between(self, left: ast.expr, right: ast.expr, token: str) -> tuple[int, int] | None:
        """Where the operator between two operands stands."""
        start, end = self._end(left), self._start(right)
        found = re.search(rb"(?<![<>=!*/])" + token.encode() + rb"(?![<>=*/])", self._source[start:end])
        return None if found is None else (start + found.start(), start + found.end())

    # --- what is passed by

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in _TEXT_FOR_PEOPLE:
            return
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self._scopes.append((node.name, True))
        self._visit_body(node.body)
        self._scopes.pop()

    visit_FunctionDef = _visit_function  # noqa: N815 (the name that ast looks for)
    visit_AsyncFunctionDef = _visit_function  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scopes.append((node.name, False))
        self._visit_body(node.body)
        self._scopes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not self._is_tuning([node.target]):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._is_state(node.targets):
            self._add("assignment dropped", self._start(node), self._end(node), "pass")
        if not self._is_tuning(node.targets):
            self.visit(node.value)

    def _is_state(self, targets: list[ast.expr]) -> bool:
        """Whether something outlives the function. What `__init__` forgets is missed at once."""
        is_kept = all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
        return is_kept and bool(self._scopes) and self._scopes[-1] != ("__init__", True)

    def _is_tuning(self, targets: list[ast.expr]) -> bool:
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        return not self._scopes and any(_TUNING.fullmatch(name) for name in names)

    def visit_Raise(self, node: ast.Raise) -> None:
        if self._scopes and "NotImplementedError" not in self._text(node):
            self._add("raise dropped", self._start(node), self._end(node), "pass")

    def visit_With(self, node: ast.With) -> None:
        (item, *others) = node.items
        if not others and item.optional_vars is None and _LOCK.fullmatch(self._text(item.context_expr)):
            self._add("lock removed", self._start(node), self._end(item.context_expr), "if True")
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        first = node.body[0]
        if not isinstance(first, ast.Raise):
            self._add(
                "error not handled",
                self._start(first),
                self._start(first),
                f"raise\n{' ' * first.col_offset}",
            )
        self._visit_body(node.body)

    def visit_match_case(self, node: ast.match_case) -> None:
        pattern = node.pattern
        if node.guard is None:
            end = self._place(pattern.end_lineno, pattern.end_col_offset)
            self._add("case never met", end, end, " if False")
        else:
            self.visit(node.guard)
        self._visit_body(node.body)

    def visit_Assert(self, node: ast.Assert) -> None:
        return

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # Python 3.11 does not say where the expressions within stand.
        return

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not self._scopes:
            return  # a type alias
        self.visit(node.slice)

    # --- faults

    def _visit_body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Call):
            if not isinstance(node.value, ast.Constant):
                self.generic_visit(node)
            return
        called = self._text(node.value.func)
        if called.startswith(("logger.", "super()")):
            return
        self._add("call dropped", self._start(node), self._end(node), "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, (left, right) in zip(node.ops, itertools.pairwise(operands), strict=True):
            token, turned = _COMPARISONS[type(operator)]
            place = self._between(left, right, token)
            if place is not None:
                self._add("comparison turned", *place, turned)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        token, turned = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in itertools.pairwise(node.values):
            place = self._between(left, right, rf"\b{token}\b")
            if place is not None:
                self._add(f"{token} for {turned}", *place, turned)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            end = self._start(node) + len("not")
            while self._source[end : end + 1] == b" ":
                end += 1
            self._add("not removed", self._start(node), end, "")
        elif isinstance(node.op, ast.USub):
            self._add("minus removed", self._start(node), self._start(node.operand), "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        swap = _ARITHMETIC.get(type(node.op))
        is_type = isinstance(node.op, ast.BitOr) and (_is_name(node.left) or _is_name(node.right))
        if swap is not None and not is_type:
            place = self._between(node.left, node.right, swap[0])
            if place is not None:
                self._add("operator swapped", *place, swap[1])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        swap = _ARITHMETIC.get(type(node.op))
        if swap is not None:
            start, end = self._end(node.target), self._start(node.value)
            found = re.search(swap[0].encode(), self._source[start:end])
            assert found is not None
            self._add("operator swapped", start + found.start(), start + found.end(), swap[1])
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("truth turned", self._start(node), self._end(node), str(not node.value))
        elif isinstance(node.value, int):
            self._add("constant off by one", self._start(node), self._end(node), str(node.value + 1))
        elif isinstance(node.value, str) and self._scopes and _SQL.search(node.value):
            self._sql_faults(node)

    def _sql_faults(self, node: ast.Constant) -> None:
        text = self._source[self._start(node) : self._end(node)]
        for right, wrong in _SQL_FAULTS:
            for found in re.finditer(re.escape(right.encode()), text):
                start = self._start(node) + found.start()
                self._add(f"{right.strip()} in SQL", start, start + len(found.group()), wrong)

    def _visit_condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        text = self._text(node.test)
        if text == "TYPE_CHECKING" or text.startswith("__name__"):
            return
        if not isinstance(node.test, ast.UnaryOp | ast.Constant):
            self._add("condition negated", self._start(node.test), self._end(node.test), f"not ({text})")
        self.generic_visit(node)

    visit_If = _visit_condition  # noqa: N815
    visit_While = _visit_condition  # noqa: N815
    visit_IfExp = _visit_condition  # noqa: N815

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool | None)):
            self._add("nothing returned", self._start(node.value), self._end(node.value), "None")
        self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("break for continue", self._start(node), self._end(node), "break")

    def visit_Break(self, node: ast.Break) -> None:
        self._add("continue for break", self._start(node), self._end(node), "continue")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED_CALLS:
            swapped = _SWAPPED_CALLS[node.func.id]
            self._add(f"{swapped} for {node.func.id}", self._start(node.func), self._end(node.func), swapped)
        self._argument_faults(node)
        if self._text(node.func) == "zip":
            # `strict=` checks our own code, as an assert does.
            for argument in node.args:
                self.visit(argument)
        elif not self._text(node.func).startswith(("logger.", "TypeVar", "cast")):
            self.generic_visit(node)

    def _argument_faults(self, node: ast.Call) -> None:
        """An argument that is named is left out, where another one stands before it."""
        passed_by = ("zip", "field", "dataclass", "dataclasses.", "logger.", "sorted", "super")
        if not self._scopes or self._text(node.func).startswith(passed_by):
            return
        before = [*node.args, *(k.value for k in node.keywords)]
        for place, keyword in enumerate(node.keywords, len(node.args)):
            if keyword.arg is not None and place > 0:
                self._add("argument dropped", self._end(before[place - 1]), self._end(keyword.value), "")


def _is_name(node: ast.expr) -> bool:
    """Whether it looks like a type (`int | None`) and not like bits."""
    if isinstance(node, ast.Constant):
        return node.value is None
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and ast.unparse(node)[:1].isupper()


def product_files(names: Iterator[str] | list[str]) -> list[str]:
    """The files, of all that are kept, whose faults the tests are to find."""
    packages = ("sqlstream/", "planner/", "runtime/", "client/")
    return sorted(name for name in names if name.startswith(packages) and name.endswith(".py"))
