"""How a CSV file is written: delimiter, quotes and the rest of the options of format `csv`."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.formats.boolean_option import is_true
from sqlstream.errors import UserError
from sqlstream.spi.connector import OptionDescriptor, OptionType

_STRING, _BOOLEAN = OptionType.STRING, OptionType.BOOLEAN

OPTIONS = (
    OptionDescriptor("field-delimiter", _STRING, "The character between fields; \\t is a tab.", ","),
    OptionDescriptor("quote-character", _STRING, "The character around values that hold special ones.", '"'),
    OptionDescriptor("disable-quote-character", _BOOLEAN, "Whether quotes are plain characters.", "false"),
    OptionDescriptor("escape-character", _STRING, "The character that makes the one after it plain text."),
    OptionDescriptor(
        "null-literal",
        _STRING,
        "The text that stands for NULL, in quotes or not.",
    ),
    OptionDescriptor(
        "empty-string-as-null",
        _BOOLEAN,
        "Whether an empty STRING or BYTES is NULL; an empty value of any other type always is.",
        "false",
    ),
    OptionDescriptor("header", _BOOLEAN, "Whether the first line of each file names its columns.", "false"),
    OptionDescriptor("allow-comments", _BOOLEAN, "Whether lines that begin with # are skipped.", "false"),
    OptionDescriptor("trim-spaces", _BOOLEAN, "Whether blanks around unquoted values are dropped.", "false"),
    OptionDescriptor(
        "ignore-trailing-unmappable", _BOOLEAN, "Whether further fields of a row are dropped.", "false"
    ),
    OptionDescriptor(
        "allow-trailing-comma",
        _BOOLEAN,
        "Whether a row may end with a delimiter after its last value.",
        "true",
    ),
    OptionDescriptor(
        "ignore-parse-errors",
        _BOOLEAN,
        "Whether undecodable rows are counted and written to a separate file instead of failing the job.",
        "false",
    ),
)


@dataclass(frozen=True)
class CsvDialect:
    """The options, parsed. `quote` and `escape` are empty when there is none."""

    delimiter: str
    quote: str
    escape: str
    null_literal: str | None
    empty_is_null: bool
    has_header: bool
    allows_comments: bool
    trims_spaces: bool
    ignores_extra_fields: bool
    allows_trailing_delimiter: bool
    ignores_errors: bool

    def split_header(self, line: str) -> list[str]:
        """The names in a header. csv.Error when it is none."""
        import csv

        reader = csv.reader(
            [line],
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            escapechar=self.escape or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
        )
        return [name.strip() for name in next(reader, [])]

    @staticmethod
    def parse(options: dict[str, str]) -> CsvDialect:
        """UserError SS4002, SS4003 for characters that are none or exclude one another."""
        is_unquoted = is_true(options, "disable-quote-character")
        if is_unquoted and "quote-character" in options:
            raise UserError(
                "SS4003",
                'options "csv.quote-character" and "csv.disable-quote-character" exclude each other',
                hint="remove one of them",
            )
        quote = "" if is_unquoted else _character(options, "quote-character", '"')
        # A quote that escapes quotes is what a doubled one is anyway.
        escape = _character(options, "escape-character", "")
        dialect = CsvDialect(
            delimiter=_character(options, "field-delimiter", ","),
            quote=quote,
            escape="" if escape == quote else escape,
            null_literal=options.get("null-literal"),
            empty_is_null=is_true(options, "empty-string-as-null"),
            has_header=is_true(options, "header"),
            allows_comments=is_true(options, "allow-comments"),
            trims_spaces=is_true(options, "trim-spaces"),
            ignores_extra_fields=is_true(options, "ignore-trailing-unmappable"),
            allows_trailing_delimiter=is_true(options, "allow-trailing-comma", "true"),
            ignores_errors=is_true(options, "ignore-parse-errors"),
        )
        if dialect.delimiter in (dialect.quote, dialect.escape):
            raise UserError(
                "SS4002",
                f'option "csv.field-delimiter" cannot be "{dialect.delimiter}", which quotes or escapes',
                hint="choose another character",
            )
        return dialect


def _character(options: dict[str, str], key: str, default: str) -> str:
    text = options.get(key, default)
    if len(text) == 2 and text[0] == "\\":
        text = {"t": "\t", "\\": "\\", "0": "\0"}.get(text[1], text)
    is_fine = (len(text) == 1 and text.isascii() and text not in "\r\n") or text == default
    if not is_fine:
        raise UserError(
            "SS4002",
            f'option "csv.{key}" takes one ASCII character, not "{text}"',
            hint="write one character or \\t",
        )
    return text
