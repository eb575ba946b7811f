"""Users' functions in queries: names of calls → functions of the session and of the catalogs."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.cancellation import check_not_given_up
from sqlstream.catalog import CatalogFunction, CatalogReader, ObjectPath, system_path
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expressions import Call, Expression
from sqlstream.function_ref import FunctionKind
from sqlstream.functions.user import scalar_signature
from sqlstream.planner.bind.context import BindContext, resolve_path
from sqlstream.planner.bind.expressions.calls import check_argument_count, is_builtin, resolve_types
from sqlstream.planner.bind.expressions.casts import cast_to
from sqlstream.planner.bind.scope import Namespace
from sqlstream.planner.dialect import nodes
from sqlstream.spi.inspection import InstalledFunctions

_FOUND = "function"
_RESOLVED = "functions of"


class FunctionCatalog:
    """Resolves names of functions in Flink's order: temporary system functions, built-in ones, then temporary and permanent
    functions of the database. A qualified name means the last two. A plain name that is none of these means a function that a
    package brings. Names are in any case."""

    def __init__(self, catalog: CatalogReader, installed: InstalledFunctions | None) -> None:
        self._catalog = catalog
        self._installed = installed

    def find(self, parts: tuple[str, ...], catalog: str, database: str) -> CatalogFunction | None:
        """The user's function that the name means; None for a built-in one, and for one that does not exist."""
        name = parts[-1].lower()
        if len(parts) == 1:
            found = self._catalog.function(system_path(name), True)
            if found is not None or is_builtin(name.upper()):
                return found
        found = self.at(function_path(parts, catalog, database, None))
        if found is None and len(parts) == 1 and self._installed is not None:
            return self._installed.find(name)
        return found

    def at(self, path: ObjectPath) -> CatalogFunction | None:
        return self._catalog.function(path, True) or self._catalog.function(path, False)

    def visible(self, catalog: str, database: str) -> list[CatalogFunction]:
        """The functions that can be called by their plain name, by this name."""
        found = {
            f.path.name: f
            for f in self._catalog.functions(catalog, database)
            if not is_builtin(f.path.name.upper())
        }
        found |= {f.path.name: f for f in self._catalog.functions("", "")}
        return [f for _, f in sorted(found.items())]


def function_path(parts: tuple[str, ...], catalog: str, database: str, span: Span | None) -> ObjectPath:
    """The full path of a function's name, in small letters."""
    return resolve_path((*parts[:-1], parts[-1].lower()), catalog, database, span)


def resolve_functions(query: exp.Expr, namespace: Namespace) -> None:
    """Note at each call of the query which user's function it is, for those who see no namespace. Queries in it are then known
    to be done."""
    if query.meta.get(_RESOLVED) == namespace.number:
        return
    check_not_given_up()
    for node in query.walk():
        if isinstance(node, nodes.FunctionCall):
            node.meta[_FOUND] = _find(node, namespace)
        elif isinstance(node, exp.Query | exp.Values):
            node.meta[_RESOLVED] = namespace.number


def user_function(node: nodes.FunctionCall | nodes.TableCall, namespace: Namespace) -> CatalogFunction | None:
    """The user's function that is called; None for a built-in one."""
    if _FOUND in node.meta:
        return noted_function(node)
    return _find(node, namespace)


def noted_function(node: exp.Expr) -> CatalogFunction | None:
    """As `user_function`, of a call in a query whose functions are resolved."""
    found: CatalogFunction | None = node.meta.get(_FOUND)
    return found


def is_user_aggregate(node: exp.Expr) -> bool:
    """Whether a call in a resolved query is one of a user's aggregate."""
    found = noted_function(node)
    return found is not None and found.ref.kind is FunctionKind.AGGREGATE


def _find(node: nodes.FunctionCall | nodes.TableCall, namespace: Namespace) -> CatalogFunction | None:
    qualifier: tuple[str, ...] = node.meta.get("qualifier", ())
    parts = (*qualifier, str(node.this))
    functions = FunctionCatalog(namespace.context.catalog, namespace.context.installed)
    with ErrorsAt(namespace.span(node)):
        found = functions.find(parts, namespace.catalog, namespace.database)
    if found is None and qualifier:
        path = function_path(parts, namespace.catalog, namespace.database, namespace.span(node))
        raise unknown_qualified(path, namespace.context, namespace.span(node))
    if found is not None:
        namespace.context.called[found.path] = found
    return found


def unknown_qualified(path: ObjectPath, context: BindContext, span: Span | None) -> UserError:
    """SS2005, to be raised, for a function that is in no such database."""
    known = [f.path.name for f in context.catalog.functions(path.catalog, path.database)]
    shown = f"{path.catalog}.{path.database}.{path.name}"
    hint = f"its functions are {', '.join(known)}"[:200] if known else "the database has no functions"
    if is_builtin(path.name.upper()):
        hint = f"a built-in function has a plain name: write {path.name.upper()}(…)"
    return UserError("SS2005", f'function "{shown}" does not exist', span=span, hint=hint)


def bind_user_call(function: CatalogFunction, args: tuple[Expression, ...], span: Span | None) -> Call:
    """A call of a scalar or table function. UserError SS2006 for wrong arguments."""
    ref = function.ref
    signature = scalar_signature(ref)
    check_argument_count(signature, len(args), span)
    result, wanted = resolve_types(signature, args, span)
    cast = tuple(cast_to(a, t, span) for a, t in zip(args, wanted, strict=True))
    return Call(ref.name, cast, result, span, ref)


def refuse_kind(function: CatalogFunction, span: Span | None) -> UserError:
    """SS2030, to be raised, for a table function that stands where a value is wanted."""
    name = function.path.name
    if function.ref.kind is FunctionKind.PROCESS_TABLE:
        return UserError(
            "SS2030",
            f"process table function {name} has no place here: it reads tables",
            span=span,
            hint=f"write FROM {function.ref.usage}",
        )
    return UserError(
        "SS2030",
        f"table function {name} has no place here: it returns rows",
        span=span,
        hint=f"write FROM t, LATERAL TABLE({name}(…)) AS r (column, …)",
    )
