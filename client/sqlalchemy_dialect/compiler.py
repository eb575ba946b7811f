"""SQLAlchemy's expressions and CREATE statements as Flink's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import exc, schema
from sqlalchemy.sql import compiler, elements, selectable

from sqlstream.client.dbapi.literals import sql_literal
from sqlstream.planner.dialect.tokens import RESERVED

TABLE_OPTIONS = "with"
"""`Table(…, sqlstream_with={"connector": …})`: the options of CREATE TABLE … WITH."""


class SqlStreamIdentifierPreparer(compiler.IdentifierPreparer):
    """Names in backticks, where they need any. Names are case-sensitive."""

    reserved_words = {word.lower() for word in RESERVED}

    def __init__(self, dialect: Any, **options: Any) -> None:
        super().__init__(dialect, **{"initial_quote": "`", "escape_quote": "`", **options})
        # There are no Python formats in the text, so a percent sign is not doubled.
        self._double_percents = False


class SqlStreamCompiler(compiler.SQLCompiler):
    """SELECT and INSERT."""

    def limit_clause(self, select: selectable.GenerativeSelect, **kw: Any) -> str:
        text = ""
        if select._limit_clause is not None:
            text += f"\n LIMIT {self.process(select._limit_clause, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def visit_mod_binary(self, binary: elements.BinaryExpression[Any], operator: Any, **kw: Any) -> str:
        return f"MOD({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def visit_is_distinct_from_binary(
        self, binary: elements.BinaryExpression[Any], operator: Any, **kw: Any
    ) -> str:
        return f"{self.process(binary.left, **kw)} IS DISTINCT FROM {self.process(binary.right, **kw)}"

    def visit_is_not_distinct_from_binary(
        self, binary: elements.BinaryExpression[Any], operator: Any, **kw: Any
    ) -> str:
        return f"{self.process(binary.left, **kw)} IS NOT DISTINCT FROM {self.process(binary.right, **kw)}"

    def visit_now_func(self, function: Any, **kw: Any) -> str:
        return "CURRENT_TIMESTAMP"

    def for_update_clause(self, select: selectable.GenerativeSelect, **kw: Any) -> str:
        raise exc.CompileError("there are no locks: leave out with_for_update()")

    def returning_clause(self, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError("INSERT returns no rows: leave out returning()")

    def visit_update(self, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError("tables are written with INSERT only: there is no UPDATE")

    def visit_delete(self, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError("tables are written with INSERT only: there is no DELETE")


class SqlStreamDdlCompiler(compiler.DDLCompiler):
    """CREATE TABLE with its options."""

    def post_create_table(self, table: schema.Table) -> str:
        options: Mapping[str, str] = table.dialect_options["sqlstream"][TABLE_OPTIONS] or {}
        if not options:
            raise exc.CompileError(
                f'table "{table.name}" names no connector: write Table(…, sqlstream_with={{"connector": "filesystem", …}})'
            )
        pairs = ",\n  ".join(f"{sql_literal(str(k))} = {sql_literal(str(v))}" for k, v in options.items())
        return f" WITH (\n  {pairs}\n)"

    def visit_primary_key_constraint(self, constraint: schema.PrimaryKeyConstraint, **kw: Any) -> str:
        text = super().visit_primary_key_constraint(constraint, **kw)
        return f"{text} NOT ENFORCED" if text else text

    def visit_foreign_key_constraint(self, constraint: schema.ForeignKeyConstraint, **kw: Any) -> str:
        raise exc.CompileError("there are no foreign keys")

    def visit_unique_constraint(self, constraint: schema.UniqueConstraint, **kw: Any) -> str:
        raise exc.CompileError("there are no UNIQUE constraints: declare a primary key")

    def visit_check_constraint(self, constraint: schema.CheckConstraint, **kw: Any) -> str:
        raise exc.CompileError("there are no CHECK constraints")

    def visit_create_index(self, create: Any, *ignored: Any, **kw: Any) -> str:
        raise exc.CompileError("there are no indexes")

    def get_column_specification(self, column: schema.Column[Any], **kw: Any) -> str:
        name = self.preparer.format_column(column)
        text = f"{name} {self.dialect.type_compiler_instance.process(column.type, type_expression=column)}"
        if column.server_default is not None:
            raise exc.CompileError(f'column "{column.name}" has a server_default, which tables do not have')
        if not column.nullable:
            text += " NOT NULL"
        if column.comment:
            text += f" COMMENT {sql_literal(column.comment)}"
        return text
