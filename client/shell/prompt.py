"""The prompt: multi-line editing, history, completion and colours, on prompt-toolkit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from sqlstream.client.shell.commands import COMMAND_NAMES
from sqlstream.client.shell.display import terminal_input, terminal_output
from sqlstream.client.shell.help_topics import TOPICS
from sqlstream.client.shell.input_text import is_command, is_complete
from sqlstream.secrets import without_secrets
from sqlstream.terminal_text import shown

if TYPE_CHECKING:
    from sqlglot import Token

    from sqlstream.client.connection import Connection


HIGHLIGHTED_CHARACTERS_MAX = 50_000
"""A longer text is shown without colours: it would be read anew with every key."""

_BEFORE_NAMES = ("TABLE", "VIEW", "INTO", "EXISTS", "AS", ".")
"""Words before a name that may have a list of columns behind it, and is no function."""

STYLES = {
    "sql.keyword": "ansiblue bold",
    "sql.function": "ansicyan",
    "sql.string": "ansigreen",
    "sql.number": "ansimagenta",
    "sql.name": "",
    "sql.comment": "ansibrightblack italic",
    "sql.wrong": "ansired",
    "sql.command": "ansiyellow",
}


class SqlLexer(Lexer):
    """Colours SQL while it is typed: prompt-toolkit's lexer interface over the tokenizer of the dialect.

    Text that is no SQL is marked as wrong, and an open quote as a text. State: the last text and its styled lines. Until `load`
    is called every text is plain, so that a prompt need not wait for the tokenizer.
    """

    def __init__(self) -> None:
        self._is_loaded = False
        self._text: str | None = None
        self._lines: list[StyleAndTextTuples] = []

    def load(self) -> None:
        """Load the tokenizer, which takes a moment; on any thread."""
        import sqlstream.client.completion.cursor  # noqa: F401

        self._is_loaded = True

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        text = document.text
        if text != self._text:
            self._lines = list(split_lines(list(self._fragments(text))))
            # A plain text is styled again once the tokenizer is there.
            self._text = text if self._is_loaded else None
        lines = self._lines
        return lambda number: lines[number] if number < len(lines) else []

    def _fragments(self, text: str) -> Iterator[tuple[str, str]]:
        if is_command(text) and text.lstrip().startswith("\\"):
            yield "class:sql.command", text
        elif not self._is_loaded or len(text) > HIGHLIGHTED_CHARACTERS_MAX:
            yield "", text
        else:
            yield from styled(text)


def styled(text: str) -> Iterator[tuple[str, str]]:
    """The text in pieces with their styles; the pieces together are the text."""
    from sqlstream.client.completion.cursor import tolerant_tokens

    tokens, opening = tolerant_tokens(text)
    position = 0
    for index, token in enumerate(tokens):
        yield from _gap(text[position : token.start])
        previous = tokens[index - 1].text.upper() if index else ""
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        is_called = following == "(" and previous not in _BEFORE_NAMES
        yield _style(token, is_called), text[token.start : token.end + 1]
        position = token.end + 1
    if opening is not None:
        yield from _gap(text[position:opening])
        yield "class:sql.comment" if text[opening] == "/" else "class:sql.string", text[opening:]
    else:
        yield from _gap(text[position:])


def _gap(text: str) -> Iterator[tuple[str, str]]:
    """White space, comments, and characters that no token has."""
    if not text:
        return
    if text.isspace():
        yield "", text
        return
    is_comment = text.lstrip().startswith(("--", "/*"))
    yield "class:sql.comment" if is_comment else "class:sql.wrong", text


def _style(token: Token, is_called: bool) -> str:
    from sqlglot import TokenType

    from sqlstream.planner.dialect.tokens import RESERVED, is_word, word

    match token.token_type:
        case TokenType.STRING | TokenType.HEX_STRING:
            return "class:sql.string"
        case TokenType.NUMBER:
            return "class:sql.number"
        case TokenType.IDENTIFIER:
            return "class:sql.name"
    if not is_word(token):
        return ""
    if word(token) in RESERVED or word(token) in OTHER_KEYWORDS:
        return "class:sql.keyword"
    return "class:sql.function" if is_called else ""


_OTHER_TEXT = (
    "ALTER ASC BEGIN BY CANARY CASCADE CATALOG CHECKPOINTS COLUMNS COMMENT CONNECTORS DATABASE DATABASES DESC DESCRIBE "
    "DRAIN ENFORCED EXECUTE EXPLAIN FORMATS FUNCTIONS IF JOB JOBS KEY METADATA PARTITIONED PRIMARY RESET SAVEPOINT SHOW "
    "STATEMENT STOP TABLES TEMPORARY USE VERIFY VIEW VIEWS VIRTUAL WATERMARK"
)
OTHER_KEYWORDS = frozenset(_OTHER_TEXT.split())
"""Words that are keywords where a statement has them, though they can be names elsewhere."""


FILE_BYTES_MAX = 2 * 1024 * 1024
"""A file beyond this size is cut to its newer half when a shell starts."""


def history_file() -> Path:
    """The file's path, below the user's XDG state directory; the directory is made, for this user alone.

    OSError when that cannot be done.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    directory = home / "sqlstream"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory / "shell_history"


class ShellHistory(FileHistory):
    """The history of all shells of this user, the newest first, in prompt-toolkit's file format.

    Values of secrets are masked in the file; the shell itself remembers what was typed until it ends. A file that cannot be
    written costs the history, not the shell. The file has mode 0600.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._open_private(path)
        if path.stat().st_size > FILE_BYTES_MAX:
            _halve(path)

    @staticmethod
    def _open_private(path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        os.chmod(path, 0o600)

    def load_history_strings(self) -> Iterable[str]:
        try:
            return super().load_history_strings()
        except OSError:
            return ()

    def store_string(self, string: str) -> None:
        try:
            super().store_string(without_secrets(string))
        except OSError:
            return


def _halve(path: Path) -> None:
    """Keep the newer half of the entries; each begins with a blank line."""
    data = path.read_bytes()
    start = data.find(b"\n\n", len(data) // 2)
    kept = data[start + 1 :] if start >= 0 else b""
    temporary = path.with_suffix(f".{os.getpid()}")
    with open(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(kept)
    temporary.replace(path)


PROMPT = "sqlstream> "
CONTINUATION = "        -> "
_MENU_LINES = 8
_DETAIL_COLUMNS = 40
_STYLE = Style.from_dict({
    **STYLES,
    "prompt": "bold",
    "continuation": "ansibrightblack",
    "auto-suggestion": "ansibrightblack",
})  # fmt: skip


class Prompt:
    """Asks for one text after the other. `opened` gives the connection once it is there; `when_shown` is called when the first
    prompt is on the screen. State: the history, and prompt-toolkit's session."""

    def __init__(self, opened: Callable[[], Connection | None], when_shown: Callable[[], None]) -> None:
        self.lexer = SqlLexer()
        self.history_path, history = _history()
        has_colours = not os.environ.get("NO_COLOR")
        self._when_shown: Callable[[], None] | None = when_shown
        self._session: PromptSession[str] = PromptSession(
            message=[("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation=_continuation,
            lexer=self.lexer,
            completer=ShellCompleter(opened),
            complete_in_thread=True,
            complete_while_typing=True,
            auto_suggest=AutoSuggestFromHistory(),
            history=history,
            enable_open_in_editor=True,
            enable_suspend=True,
            enable_history_search=False,
            key_bindings=_bindings(),
            style=_STYLE if has_colours else None,
            include_default_pygments_style=False,
            color_depth=None if has_colours else ColorDepth.DEPTH_1_BIT,
            editing_mode=EditingMode.VI if "vi" in os.environ.get("EDITING_MODE", "") else EditingMode.EMACS,
            reserve_space_for_menu=_MENU_LINES,
            tempfile_suffix=".sql",
            input=terminal_input(),
            output=terminal_output(),
        )
        self._session.app.after_render += self._rendered

    def _rendered(self, _: object) -> None:
        if self._when_shown is not None:
            called, self._when_shown = self._when_shown, None
            called()

    def ask(self) -> str:
        """The next text. EOFError for Ctrl-D on an empty line, KeyboardInterrupt for Ctrl-C. What other threads print meanwhile
        stands above the prompt."""
        with patch_stdout():
            return self._session.prompt()

    def choose(self, question: str, letters: str) -> str:
        """One of the letters; the last one for Ctrl-C and Ctrl-D."""
        asking: PromptSession[str] = PromptSession(
            history=InMemoryHistory(), input=terminal_input(), output=terminal_output()
        )
        while True:
            try:
                answer = asking.prompt(question).strip().lower()[:1]
            except (EOFError, KeyboardInterrupt):
                return letters[-1]
            if answer and answer in letters:
                return answer


def _history() -> tuple[Path | None, History]:
    """The kept history; one that is forgotten where no file can be written."""
    try:
        path = history_file()
        return path, ShellHistory(path)
    except OSError:
        return None, InMemoryHistory()


def _continuation(width: int, line_number: int, wrap_count: int) -> AnyFormattedText:
    return [("class:continuation", " " * width if wrap_count else CONTINUATION[:width])]


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def enter(event: KeyPressEvent) -> None:
        """Take over the chosen completion, run what is complete, or begin another line."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    @bindings.add("escape", "enter")
    def escape_enter(event: KeyPressEvent) -> None:
        """Another line, whatever stands before."""
        event.current_buffer.newline(copy_margin=True)

    return bindings


class ShellCompleter(Completer):
    """Completes commands of the shell itself, and SQL by the connection once it is there. While the user types it offers what
    completes a word; Tab shows what may follow, too."""

    def __init__(self, opened: Callable[[], Connection | None]) -> None:
        self._opened = opened

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.lstrip().startswith("\\") and "\n" not in before.strip():
            yield from _commands(before.lstrip())
            return
        if not before.strip() and not complete_event.completion_requested:
            return
        if is_command(before):
            yield from _topics(before)
            return
        if not complete_event.completion_requested and not _is_in_word(before):
            return
        connection = self._opened()
        if connection is None:
            return
        for candidate in connection.complete(document.text, document.cursor_position):
            if candidate.text == document.text[candidate.start : document.cursor_position]:
                # It is complete already: a menu would stand in the way of Enter.
                continue
            detail = shown(candidate.detail)
            yield Completion(
                candidate.text,
                start_position=candidate.start - document.cursor_position,
                display=shown(candidate.text),
                display_meta=detail
                if len(detail) <= _DETAIL_COLUMNS
                else detail[: _DETAIL_COLUMNS - 1] + "…",
            )


def _is_in_word(before: str) -> bool:
    last = before[-1:]
    return last.isalnum() or last in "_.'`"


def _commands(before: str) -> Iterable[Completion]:
    if " " not in before:
        for name in COMMAND_NAMES:
            if name.startswith(before) and name != before:
                yield Completion(name, start_position=-len(before))


def _topics(before: str) -> Iterable[Completion]:
    head, _, topic = before.lstrip().partition(" ")
    if head.upper() == "HELP":
        for name in TOPICS:
            if name.startswith(topic.upper()) and name != topic.upper():
                yield Completion(name, start_position=-len(topic))
