"""The grammar of CALL, ANALYZE TABLE, and LOAD, UNLOAD and USE of modules."""

from __future__ import annotations

from sqlglot import TokenType

from sqlstream.planner.dialect.create_table import column_names
from sqlstream.planner.dialect.extent import extent
from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.statements import (
    AnalyzeTable,
    Argument,
    CallProcedure,
    ChangeModules,
    Identifier,
    ModuleAction,
)
from sqlstream.planner.dialect.tokens import span


def call(parser: QueryParser) -> CallProcedure:
    """Read CALL name(argument, …)."""
    first = parser.expect("CALL")
    name = parser.qualified_name("the name of a procedure")
    parser.expect("(", hint="write CALL sys.name('argument'); SHOW PROCEDURES lists the names")
    arguments: list[Argument] = []
    while not parser.at(")") and (not arguments or parser.accept(",")):
        token = parser.token
        if token.token_type is TokenType.STRING:
            arguments.append(Argument(parser.advance().text, span(token)))
        elif token.token_type is TokenType.NUMBER:
            arguments.append(Argument(parser.unsigned_integer(), span(token)))
        else:
            raise parser.unexpected("a text in single quotes or a whole number", "a procedure takes literals")
    parser.expect(")")
    return CallProcedure(*extent(parser, first), name=name, arguments=tuple(arguments))


def analyze(parser: QueryParser) -> AnalyzeTable:
    """Read ANALYZE TABLE name COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]."""
    first = parser.expect("ANALYZE")
    parser.expect("TABLE", hint="write ANALYZE TABLE t COMPUTE STATISTICS, or EXPLAIN ANALYZE query")
    name = parser.qualified_name("a table name")
    if parser.at("PARTITION"):
        token = parser.advance()
        hint = "leave PARTITION out: the statistics are those of the whole table"
        raise parser.refusal("statistics of single partitions are not kept", token, hint)
    parser.expect("COMPUTE", "STATISTICS")
    columns: tuple[Identifier, ...] | None = ()
    if parser.accept("FOR", "ALL"):
        parser.expect("COLUMNS")
        columns = None
    elif parser.accept("FOR"):
        parser.expect("COLUMNS", hint="write FOR COLUMNS a, b or FOR ALL COLUMNS")
        if parser.at("("):
            columns = column_names(parser)
        else:
            listed: list[Identifier] = []
            while not listed or parser.accept(","):
                listed.append(parser.simple_name("a column name"))
            columns = tuple(listed)
    return AnalyzeTable(*extent(parser, first), name=name, columns=columns)


def load_module(parser: QueryParser) -> ChangeModules:
    """Read LOAD MODULE name; options of a module are refused with the module."""
    first = parser.expect("LOAD")
    parser.expect("MODULE")
    name = parser.simple_name("the name of a module")
    if parser.at("WITH"):
        while not parser.at_end():
            parser.advance()
    return ChangeModules(*extent(parser, first), action=ModuleAction.LOAD, names=(name,))


def unload_module(parser: QueryParser) -> ChangeModules:
    """Read UNLOAD MODULE name."""
    first = parser.expect("UNLOAD")
    parser.expect("MODULE")
    name = parser.simple_name("the name of a module")
    return ChangeModules(*extent(parser, first), action=ModuleAction.UNLOAD, names=(name,))


def use_modules(parser: QueryParser) -> ChangeModules:
    """Read USE MODULES name, …."""
    first = parser.expect("USE")
    parser.expect("MODULES")
    names: list[Identifier] = []
    while not names or parser.accept(","):
        names.append(parser.simple_name("the name of a module"))
    return ChangeModules(*extent(parser, first), action=ModuleAction.USE, names=tuple(names))
