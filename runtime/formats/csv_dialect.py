"""How a CSV file is written: delimiter, quotes and the rest of the options of format `csv`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.errors import UserError
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import option, parse_options

_STRING, _BOOLEAN = OptionType.STRING, OptionType.BOOLEAN


@dataclass(frozen=True, kw_only=True)
class CsvOptions:
    """The options of a table, as written."""

    field_delimiter: str = option(
        "field-delimiter", _STRING, "The character between fields; \\t is a tab.", ","
    )
    quote_character: str = option(
        "quote-character", _STRING, "The character around values that hold special ones.", '"'
    )
    disables_quotes: bool = option(
        "disable-quote-character", _BOOLEAN, "Whether quotes are plain characters.", "false"
    )
    escape_character: str | None = option(
        "escape-character", _STRING, "The character that makes the one after it plain text."
    )
    null_literal: str | None = option(
        "null-literal", _STRING, "The text that stands for NULL, in quotes or not."
    )
    empty_is_null: bool = option(
        "empty-string-as-null",
        _BOOLEAN,
        "Whether an empty STRING or BYTES is NULL; an empty value of any other type always is.",
        "false",
    )
    has_header: bool = option(
        "header", _BOOLEAN, "Whether the first line of each file names its columns.", "false"
    )
    allows_comments: bool = option(
        "allow-comments", _BOOLEAN, "Whether lines that begin with # are skipped.", "false"
    )
    trims_spaces: bool = option(
        "trim-spaces", _BOOLEAN, "Whether blanks around unquoted values are dropped.", "false"
    )
    ignores_extra_fields: bool = option(
        "ignore-trailing-unmappable", _BOOLEAN, "Whether further fields of a row are dropped.", "false"
    )
    allows_trailing_delimiter: bool = option(
        "allow-trailing-comma",
        _BOOLEAN,
        "Whether a row may end with a delimiter after its last value.",
        "true",
    )
    ignores_errors: bool = option(
        "ignore-parse-errors",
        _BOOLEAN,
        "Whether undecodable rows are counted and written to a separate file instead of failing the job.",
        "false",
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

    def header_end(self, data: bytes, start: int) -> int:
        """Where the record behind the one at `start` begins: a quoted name may hold line ends. A quote that nothing closes is
        a part of its line."""
        quote = self.quote.encode()
        first = end = _behind_line(data, start)
        while quote and data.count(quote, start, end) % 2:
            if end == len(data):
                return first
            end = _behind_line(data, end)
        return end

    def split_header(self, line: str) -> list[str]:
        """The names in a header. csv.Error when it is none."""
        import csv

        reader = csv.reader(
            line.splitlines(keepends=True),
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            escapechar=self.escape or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
        )
        return [name.strip() for name in next(reader, [])]

    @staticmethod
    def parse(options: dict[str, str]) -> CsvDialect:
        """UserError SS4002, SS4003 for characters that are none or exclude one another."""
        given = parse_options(CsvOptions, options)
        if given.disables_quotes and "quote-character" in options:
            raise UserError(
                "SS4003",
                'options "csv.quote-character" and "csv.disable-quote-character" exclude each other',
                option="quote-character",
                hint="remove one of them",
            )
        quote = "" if given.disables_quotes else _character("quote-character", given.quote_character)
        # A quote that escapes quotes is what a doubled one is anyway.
        escape = _character("escape-character", given.escape_character) if given.escape_character else ""
        dialect = CsvDialect(
            delimiter=_character("field-delimiter", given.field_delimiter),
            quote=quote,
            escape="" if escape == quote else escape,
            null_literal=given.null_literal,
            empty_is_null=given.empty_is_null,
            has_header=given.has_header,
            allows_comments=given.allows_comments,
            trims_spaces=given.trims_spaces,
            ignores_extra_fields=given.ignores_extra_fields,
            allows_trailing_delimiter=given.allows_trailing_delimiter,
            ignores_errors=given.ignores_errors,
        )
        if dialect.delimiter in (dialect.quote, dialect.escape):
            raise UserError(
                "SS4002",
                f'option "csv.field-delimiter" cannot be "{dialect.delimiter}", which quotes or escapes',
                option="field-delimiter",
                hint="choose another character",
            )
        return dialect


def _character(key: str, text: str) -> str:
    if len(text) == 2 and text[0] == "\\":
        text = {"t": "\t", "\\": "\\", "0": "\0"}.get(text[1], text)
    if not (len(text) == 1 and text.isascii() and text not in "\r\n"):
        raise UserError(
            "SS4002",
            f'option "csv.{key}" takes one ASCII character, not "{text}"',
            option=key,
            hint="write one character or \\t",
        )
    return text


def _behind_line(data: bytes, start: int) -> int:
    """Where the next line begins; lines end as records do."""
    ends = [end for end in (data.find(b"\n", start), data.find(b"\r", start)) if end >= 0]
    if not ends:
        return len(data)
    end = min(ends)
    return end + 2 if data[end : end + 2] == b"\r\n" else end + 1
