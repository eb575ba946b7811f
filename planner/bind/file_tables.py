"""Files that a statement reads by their path: `FROM 'path'` and CREATE TABLE … LIKE 'path'."""

from __future__ import annotations

from sqlstream.catalog import CatalogTable, FileDefinition, InferredTable, ObjectPath
from sqlstream.effects import Effects
from sqlstream.errors import Span, UserError
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.table_options import check_table_options, written_options
from sqlstream.planner.dialect.statements import Option
from sqlstream.spi.inference import FileInference

CONNECTOR = "filesystem"


def define_files(
    path: str, written: tuple[Option, ...], context: BindContext, span: Span | None
) -> InferredTable:
    """The table of the files at a path, inferred once per statement. UserError with a position for options that do not fit, and
    where nothing can be inferred."""
    given = written_options(written)
    known = context.files.find(path, given)
    if known is None:
        known = _infer(path, written, context, span)
        context.files.add(FileDefinition(path, given, known))
    return known


def _infer(path: str, written: tuple[Option, ...], context: BindContext, span: Span | None) -> InferredTable:
    inference = context.files.inference
    if inference is None:
        raise UserError("SS3001", "files cannot be read by their path here", span=span)
    context.permit.require(Effects(files=frozenset({path})), span)
    try:
        given = _completed(path, written, inference, span)
        check_table_options(given, (), context, span)
        return inference.table({o.key: o.value for o in given})
    except UserError as error:
        raise error.at(span) from None


def _completed(
    path: str, written: tuple[Option, ...], inference: FileInference, span: Span | None
) -> tuple[Option, ...]:
    """All options of a table at the path, as if they had been written."""
    place = span or Span(0, 0)
    for option in written:
        if option.key == "path":
            hint = "write the path in place of the one in quotes"
            raise UserError(
                "SS4003", "the path is that of the files in quotes", span=option.key_span, hint=hint
            )
        if option.key == "connector" and option.value != CONNECTOR:
            raise UserError(
                "SS4003",
                f'a path in quotes is read by connector "{CONNECTOR}", not "{option.value}"',
                span=option.value_span,
                hint="leave the option out",
            )
    keys = {o.key for o in written}
    added = [Option("connector", CONNECTOR, place, place)] if "connector" not in keys else []
    added.append(Option("path", path, place, place))
    if "format" not in keys:
        added.append(Option("format", inference.format(path), place, place))
    return (*added, *written)


def anonymous_table(path: str, table: InferredTable) -> CatalogTable:
    """The table of a path in FROM, which is in no catalog."""
    return CatalogTable(
        ObjectPath("", "", path),
        table.columns,
        table.options,
        partition_keys=table.partition_keys,
        is_anonymous=True,
    )
