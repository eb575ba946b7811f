"""What editors are told of `sql_functions` is what the signatures say."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

from sqlstream.client.dbapi.tables.calls import FORMS_IN_PYTHON, functions, is_aggregate
from sqlstream.functions.placed import OVER_FUNCTIONS
from sqlstream.functions.signature import AggregateFunction, DescribedFunction, ScalarFunction

STUB = Path(__file__).parents[2] / "client" / "dbapi" / "tables" / "functions.pyi"
_HEAD = '''\
# fmt: off
"""SQL's functions, made of their signatures: pytest tests/golden/test_function_stub.py --rewrite."""

from sqlstream.client.dbapi.tables.expressions import Aggregation, Expression, Value
'''


def test_the_stub_has_all_functions(golden: Callable[[Path, str], None]) -> None:
    parts = [_entry(name, function) for name, function in sorted(functions().items())]
    golden(STUB, "\n".join((_HEAD, *parts)))


def _entry(name: str, function: DescribedFunction) -> str:
    parameters = FORMS_IN_PYTHON.get(function.name) or _parameters(function)
    result = "Expression"
    if is_aggregate(function.name):
        result = "Aggregation"
    if result == "Aggregation" and function.name not in OVER_FUNCTIONS:
        star = "" if "*" in parameters else "*, "
        parameters = ", ".join(filter(None, (parameters, f"{star}distinct: bool = False")))
    said = f"{function.usage}: {function.description}"
    if function.example:
        said += f" `{function.example}` is `{function.value}`."
    # Nothing in it is an escape, nor ends the text.
    said = said.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    lines = textwrap.wrap(said, 120, break_long_words=False, break_on_hyphens=False)
    text = "\n    ".join(lines)
    end = "\n    " if text.endswith('"') else ""
    return f'def {name}({parameters}) -> {result}:\n    """{text}{end}"""\n'


def _parameters(function: DescribedFunction) -> str:
    """The names in the usage where these are all arguments, in their order."""
    found = re.fullmatch(r"\w+(?:\(([\w, \[\]]*)\))?", function.usage.partition(" or ")[0])
    inner = found[1] or "" if found is not None else "["
    names = [f"{n}_" if keyword.iskeyword(n) else n for n in re.findall(r"\w+", inner)]
    if isinstance(function, ScalarFunction | AggregateFunction):
        least, most = function.args_min, function.args_max
    else:
        least, most = len(re.findall(r"\w+", inner.partition("[")[0])), len(names)
    if inner.startswith("[") or len(names) != most or len(set(names)) != len(names):
        return "*values: Value"
    parts = [f"{n}: Value{'' if i < least else ' = ...'}" for i, n in enumerate(names)]
    return ", ".join((*parts, "/")) if parts else ""
