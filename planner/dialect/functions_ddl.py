"""The grammar of CREATE, ALTER and DROP FUNCTION."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.planner.dialect.extent import extent
from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.statements import (
    AlterFunction,
    CreateFunction,
    DropFunction,
    FileName,
    FunctionBody,
)
from sqlstream.planner.dialect.tokens import span, word

_LANGUAGES = ("PYTHON", "JAVA", "SCALA")


def create_function(parser: QueryParser, first: Token, is_temporary: bool, is_system: bool) -> CreateFunction:
    """Read from behind FUNCTION on."""
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.qualified_name("a function name")
    body = _body(parser)
    return CreateFunction(
        *extent(parser, first),
        name=name,
        body=body,
        is_temporary=is_temporary,
        is_system=is_system,
        if_not_exists=if_not_exists,
    )


def alter_function(parser: QueryParser, first: Token, is_temporary: bool, is_system: bool) -> AlterFunction:
    """Read from behind FUNCTION on."""
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a function name")
    body = _body(parser)
    return AlterFunction(
        *extent(parser, first),
        name=name,
        body=body,
        is_temporary=is_temporary,
        is_system=is_system,
        if_exists=if_exists,
    )


def drop_function(parser: QueryParser, first: Token, is_temporary: bool, is_system: bool) -> DropFunction:
    """Read from behind FUNCTION on."""
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a function name")
    return DropFunction(
        *extent(parser, first), name=name, is_temporary=is_temporary, is_system=is_system, if_exists=if_exists
    )


def _body(parser: QueryParser) -> FunctionBody:
    """Read `AS 'module.name' [LANGUAGE PYTHON] [USING FILE 'path', …]`."""
    parser.expect("AS")
    token = parser.string("the Python object, as 'module.name'")
    language = parser.token
    if parser.accept("LANGUAGE"):
        language = parser.token
        written = parser.accept_any(*_LANGUAGES)
        if written is None:
            raise parser.unexpected("PYTHON", "the language of functions is PYTHON")
    else:
        written = "JAVA"
    if written != "PYTHON":
        hint = f"write LANGUAGE PYTHON behind '{token.text}', and name an object of a Python module"
        raise parser.refusal(
            f"functions are written in Python; {written} is not supported",
            language if language else token,
            hint,
        )
    return FunctionBody(token.text, span(token), _files(parser))


def _files(parser: QueryParser) -> tuple[FileName, ...]:
    files: list[FileName] = []
    if not parser.accept("USING"):
        return ()
    while not files or parser.accept(","):
        if parser.at_any("JAR"):
            hint = "write USING FILE 'functions.py', or a .zip with a package"
            raise parser.refusal("a Python function has no JAR", parser.advance(), hint)
        if not parser.at_any("FILE", "ARCHIVE"):
            raise parser.unexpected("FILE and a path")
        word(parser.advance())
        path = parser.string("the path of a .py or .zip file, or of a directory")
        files.append(FileName(path.text, span(path)))
    return tuple(files)
