r"""The commands of the shell itself: HELP, QUIT, CLEAR, SOURCE, those that begin with a backslash, as psql's do, and those that
begin with a dot, as DuckDB's and SQLite's do."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sqlstream.client.shell.display import MODES, terminal_output
from sqlstream.client.shell.help_topics import help_text
from sqlstream.errors import UserError, did_you_mean
from sqlstream.terminal_text import NULL_TEXT

if TYPE_CHECKING:
    from pathlib import Path

    from sqlstream.client.connection import Connection
    from sqlstream.client.shell.display import ShellDisplay


class Leave(Exception):
    """QUIT was typed."""


class CommandShell(Protocol):
    """What a command of the shell acts upon."""

    display: ShellDisplay
    history_path: Path | None

    @property
    def connection(self) -> Connection: ...

    def run_sql(self, sql: str) -> None: ...

    def try_sql(self, sql: str) -> None: ...

    def run_file(self, path: str) -> None: ...


def run_command(shell: CommandShell, text: str) -> None:
    """Run one command. UserError SS4051 for one that does not exist, or with wrong words."""
    head, words = _split(text)
    name = head.lower() if head.startswith(("\\", ".")) else head.upper()
    command = _COMMANDS.get(name)
    if command is None:
        names = [known for known in _COMMANDS if known.startswith(head[0])]
        hint = did_you_mean(head, names) or r"\? lists the commands"
        raise UserError("SS4051", f'there is no command "{head}"', hint=hint)
    try:
        command(shell, words)
    except _WrongWords as wrong:
        raise UserError("SS4051", f"{head} takes {wrong}", hint=f"write {head} {wrong.form}") from None


def _split(text: str) -> tuple[str, list[str]]:
    """The command, and its words without their quotes."""
    head, _, rest = text.strip().rstrip(";").partition(" ")
    try:
        lexer = shlex.shlex(rest, posix=True)
        lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
        return head, list(lexer)
    except ValueError:
        raise UserError("SS4051", f'a quote is open in "{text}"', hint="close it") from None


class _WrongWords(Exception):
    """A command has other words than it takes. `form` shows those that it takes."""

    def __init__(self, what: str, form: str) -> None:
        super().__init__(what)
        self.form = form


def _one(words: list[str], what: str, form: str) -> str:
    if len(words) != 1:
        raise _WrongWords(what, form)
    return words[0]


def _help(shell: CommandShell, words: list[str]) -> None:
    shell.display.print_text(help_text(" ".join(words)))


def _quit(shell: CommandShell, words: list[str]) -> None:
    raise Leave


def _clear(shell: CommandShell, words: list[str]) -> None:
    if shell.display.is_interactive:
        output = terminal_output()
        output.erase_screen()
        output.cursor_goto(0, 0)
        output.flush()


def _source(shell: CommandShell, words: list[str]) -> None:
    shell.run_file(_one(words, "the path of a file", "FILE"))


def _describe(shell: CommandShell, words: list[str]) -> None:
    if not words:
        shell.run_sql("SHOW TABLES")
    else:
        shell.run_sql(f"DESCRIBE {_one(words, 'the name of a table', 'NAME')}")


def _describe_whole(shell: CommandShell, words: list[str]) -> None:
    """The columns, and the statement that makes the table or view again: watermarks, keys, options, the query of a view."""
    if not words:
        shell.run_sql("SHOW TABLES")
        shell.run_sql("SHOW VIEWS")
        return
    name = _one(words, "the name of a table", "NAME")
    shell.run_sql(f"DESCRIBE {name}")
    _show_definition(shell, [name])


def _show_definition(shell: CommandShell, words: list[str]) -> None:
    name = _one(words, "the name of a table", "NAME")
    try:
        shell.try_sql(f"SHOW CREATE TABLE {name}")
    except UserError:
        # It is a view; of what is neither this tells the better reason.
        shell.run_sql(f"SHOW CREATE VIEW {name}")


def _listing(sql: str) -> Callable[[CommandShell, list[str]], None]:
    def listing(shell: CommandShell, words: list[str]) -> None:
        pattern = ""
        if words:
            text = _one(words, "one pattern", "PATTERN").replace("*", "%").replace("'", "''")
            pattern = f" ILIKE '{text}'"
        shell.run_sql(sql + pattern)

    return listing


def _use(shell: CommandShell, words: list[str]) -> None:
    shell.run_sql(f"USE {_one(words, 'a database', 'DATABASE')}")


def _jobs(shell: CommandShell, words: list[str]) -> None:
    from sqlstream.client.rendering.table_layout import cut

    jobs = shell.connection.jobs()
    now_ms = time.time() * 1000
    lines = [f"{'job':32}  {'status':10}  {'duration':>10}  name"]
    for job in jobs:
        seconds = ((job.end_ms if job.end_ms >= 0 else now_ms) - job.start_ms) / 1000
        lines.append(f"{job.job_id:32}  {job.status.value:10}  {seconds:8,.0f} s  {job.name}")
    columns = shell.display.columns or sys.maxsize
    shell.display.print_text("\n".join(cut(line, columns) for line in lines) if jobs else "there is no job")


def _output(shell: CommandShell, words: list[str]) -> None:
    from sqlstream.client.shell.output_file import checked_path

    if not words:
        shell.display.file = None
        shell.display.tell("rows go to the screen")
        return
    shell.display.file = checked_path(_one(words, "one file", "FILE"))
    shell.display.tell(f'the rows of the next query go to "{shell.display.file}"')


def _switch(attribute: str, about: str) -> Callable[[CommandShell, list[str]], None]:
    def switch(shell: CommandShell, words: list[str]) -> None:
        word = _one(words, "on or off", "[on|off]").lower() if words else ""
        if word not in ("", "on", "off"):
            raise UserError("SS4051", f'"{word}" is neither on nor off', hint="write on or off, or nothing")
        is_on = not getattr(shell.display, attribute) if not word else word == "on"
        setattr(shell.display, attribute, is_on)
        shell.display.tell(f"{about} is {'on' if is_on else 'off'}")

    return switch


def _expanded(shell: CommandShell, words: list[str]) -> None:
    if [word.lower() for word in words] == ["auto"]:
        shell.display.mode = "auto"
        shell.display.tell("one line per column for rows that are wider than the screen")
        return
    _switch("is_vertical", "one line per column")(shell, words)


def _mode(shell: CommandShell, words: list[str]) -> None:
    if not words:
        shell.display.print_text(shell.display.mode)
        return
    form = "|".join(MODES)
    word = _one(words, "an output mode", form).lower()
    if word not in MODES:
        raise UserError(
            "SS4051", f'there is no output mode "{word}"', hint=did_you_mean(word, MODES) or f"one of {form}"
        )
    shell.display.mode = word
    shell.display.tell(f"results are shown in mode {word}")


def _null(shell: CommandShell, words: list[str]) -> None:
    shell.display.null = _one(words, "what stands for NULL", "TEXT") if words else NULL_TEXT
    shell.display.tell(f'NULL is shown as "{shell.display.null}"')


def _connection_info(shell: CommandShell, words: list[str]) -> None:
    connection = shell.connection
    what = "a cluster of this shell" if connection.owns_cluster else "the server at " + connection.name
    shell.display.print_text(f"statements run on {what}; history: {shell.history_path or 'not kept'}")


_COMMANDS: dict[str, Callable[[CommandShell, list[str]], None]] = {
    "HELP": _help,
    "QUIT": _quit,
    "EXIT": _quit,
    "CLEAR": _clear,
    "SOURCE": _source,
    r"\?": _help,
    r"\h": _help,
    r"\q": _quit,
    r"\i": _source,
    r"\d": _describe,
    r"\d+": _describe_whole,
    r"\dt": _listing("SHOW TABLES"),
    r"\dv": _listing("SHOW VIEWS"),
    r"\df": _listing("SHOW FUNCTIONS"),
    r"\l": _listing("SHOW DATABASES"),
    r"\c": _use,
    r"\jobs": _jobs,
    r"\o": _output,
    r"\timing": _switch("is_timed", "timing"),
    r"\x": _expanded,
    r"\mode": _mode,
    r"\null": _null,
    r"\pager": _switch("is_paged", "the pager"),
    r"\conninfo": _connection_info,
}

_COMMANDS |= {
    ".databases": _COMMANDS[r"\l"],
    ".exit": _quit,
    ".help": _help,
    ".mode": _mode,
    ".nullvalue": _null,
    ".output": _output,
    ".quit": _quit,
    ".read": _source,
    ".schema": _show_definition,
    ".tables": _COMMANDS[r"\dt"],
    ".timer": _COMMANDS[r"\timing"],
}

COMMAND_NAMES = tuple(_COMMANDS)
