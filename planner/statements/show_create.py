"""The statements that create existing tables and views."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.catalog import CatalogTable, CatalogView, Column, ColumnKind
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.dialect.parser import parse_query
from sqlstream.planner.statements.describe import column_extras
from sqlstream.planner.statements.result import literal, options_clause, quoted
from sqlstream.secrets import query_without_secrets


def show_create_table(table: CatalogTable) -> str:
    """CREATE TABLE in Flink's layout; it creates the same table again, except for masked values of secrets."""
    lines = [f"  {_column(c)}" for c in table.columns]
    if table.watermark is not None:
        lines.append(f"  WATERMARK FOR {quoted(table.watermark.column)} AS {table.watermark.expression}")
    if table.primary_key:
        keys = ", ".join(quoted(k) for k in table.primary_key)
        name = constraint_name(table.key_name, table.primary_key)
        lines.append(f"  CONSTRAINT {quoted(name)} PRIMARY KEY ({keys}) NOT ENFORCED")
    temporary = "TEMPORARY " if table.is_temporary else ""
    name = literal(table.path.name) if table.is_anonymous else str(table.path)
    text = f"CREATE {temporary}TABLE {name} (\n" + ",\n".join(lines) + "\n)\n"
    if table.comment:
        text += f"COMMENT {literal(table.comment)}\n"
    if table.partition_keys:
        text += f"PARTITIONED BY ({', '.join(quoted(k) for k in table.partition_keys)})\n"
    return text + options_clause(table.options)


def constraint_name(given: str, columns: tuple[str, ...]) -> str:
    """The name of a primary key: that which it was given, else Flink's."""
    return given or "PK_" + "_".join(columns)


def show_create_view(view: CatalogView) -> str:
    """CREATE VIEW with the query as it was written, but for masked values of secrets; names in it are completed when they
    belong to another database."""
    query = view.query
    if view.query_catalog or view.query_database:
        catalog, database = view.query_catalog or view.path.catalog, view.query_database or view.path.database
        query = qualified(query, catalog, database)
    query = query_without_secrets(query)
    temporary = "TEMPORARY " if view.is_temporary else ""
    names = f" ({', '.join(quoted(n) for n in view.column_names)})" if view.column_names else ""
    comment = f"COMMENT {literal(view.comment)}\n" if view.comment else ""
    return f"CREATE {temporary}VIEW {view.path}{names}\n{comment}AS {query}\n"


def _column(column: Column) -> str:
    comment = f" COMMENT {literal(column.comment)}" if column.comment else ""
    declared = "" if column.kind is ColumnKind.COMPUTED else f" {column.type.without_time_attribute()}"
    extras = f" {extra}" if (extra := column_extras(column)) else ""
    return f"{quoted(column.name)}{declared}{extras}{comment}"


# A view's query with all names of tables written in full.


def qualified(query: str, catalog: str, database: str) -> str:
    """The text of a query with the names of tables and views completed by a catalog and database; WITH queries keep theirs.

    >>> qualified("WITH a AS (SELECT * FROM a) SELECT * FROM a, d.b", "c", "e")
    'WITH a AS (SELECT * FROM `c`.`e`.`a`) SELECT * FROM a, `c`.`d`.`b`'
    """
    tables = [node for node in parse_query(query).walk() if isinstance(node, exp.Table)]
    places = []
    for node in tables:
        parts = tuple(str(part.name) for part in node.parts)
        if len(parts) < 3 and not (len(parts) == 1 and _is_with_query(node, parts[0])):
            first, last = span_of(node.parts[0]), span_of(node.parts[-1])
            assert first is not None
            assert last is not None
            full = (catalog, database)[: 3 - len(parts)] + parts
            places.append((first.start, last.end, ".".join(quoted(part) for part in full)))
    for start, end, name in sorted(places, reverse=True):
        query = query[:start] + name + query[end:]
    return query


def _is_with_query(node: exp.Expr, name: str) -> bool:
    """Whether the name is that of a WITH query around `node`; one inside WITH reads only those before its own."""
    inner: exp.Expr = node
    outer = node.parent
    while outer is not None:
        clause = outer.args.get("with_")
        if clause is not None:
            known = [str(cte.args["alias"].this.name) for cte in clause.expressions]
            if inner is not clause:
                if name in known:
                    return True
            elif name in known[: clause.expressions.index(_cte_of(node, clause))]:
                return True
        inner, outer = outer, outer.parent
    return False


def _cte_of(node: exp.Expr, clause: exp.Expr) -> exp.Expr:
    """The WITH query of `clause` that `node` belongs to."""
    while node.parent is not clause:
        assert node.parent is not None
        node = node.parent
    return node
