"""Pages of the documentation whose examples run: what a page shows is what appears.

A page is played from its first block to its last one in an empty directory.

  a block below "`orders.csv`:"      the file of that name; a script (`.sql`) is not run by that
  ```sql                             statements: those of a page are one session
  ```text behind an sql block        its rows; for a block that fails, its error
  ```console                         lines `$ command`, each with what it prints; one that ends in `&` goes on beside the others
  <!-- sql: … -->                    statements that run and are not shown
  <!-- not run: reason -->           the next block is only read
  <!-- options of connector jdbc --> the table of its options, up to <!-- end of options -->

In what is shown `…` stands for any text, and a line of its own for any lines. `rewrite` puts in what appears where it differs.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from command_harness import SQLSTREAM, environment, run_to_end, sqlstream
from server_harness import RunningServer

from sqlstream.models import PROVIDERS
from sqlstream.options.page import options_table
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.formats import format_of

BLOCK = re.compile(
    r"<!-- (?P<how>sql|not run): ?(?P<hidden>.*?)-->\n|"
    r"(?:`(?P<file>[\w./-]+\.\w+)`[^`\n]*:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
OPTIONS_OF = re.compile(
    r"(<!-- options of (connector|format|provider) ([\w-]+) -->\n)(?:.*?)(?<=\n)(<!-- end of options -->)",
    re.DOTALL,
)
MARKER = re.compile(r"\+-+\+\n\| marker +\|\n\+-+\+\n\| block \d+ ends \|\n\+-+\+\n1 row in set\n")
GATEWAY = "http://localhost:8083"
REST = "http://localhost:8081"


@dataclass(frozen=True)
class Block:
    """`language` is `file`, `hidden` or that of the fence; `begin` to `end` is the place of `text` in the page."""

    language: str
    text: str
    begin: int
    end: int
    name: str = ""


def blocks_of(page: str) -> Iterator[Block]:
    """The blocks of a page that are played."""
    is_left_out = False
    for found in BLOCK.finditer(page):
        if found["how"] == "not run":
            is_left_out = True
        elif found["how"] == "sql":
            yield Block("hidden", found["hidden"], *found.span("hidden"))
        elif is_left_out:
            is_left_out = False
        elif found["file"]:
            yield Block("file", found["text"], *found.span("text"), name=found["file"])
        else:
            yield Block(found["language"], found["text"], *found.span("text"))


def fits(shown: str, appears: str) -> bool:
    """Whether this text is shown. Widths of columns may differ, as `…` is shorter than what it stands for."""
    wanted, found = (re.sub(r"(?<=\S) {2,}(?=\S)|-{2,}", " ", text.strip()) for text in (shown, appears))
    pattern = re.sub(r"(?m)^…$", "(?s:.*?)", re.escape(wanted).replace("\\\n", "\n")).replace("…", ".*?")
    return re.fullmatch(pattern, found) is not None


class Player:
    """Plays a page and collects what is shown beside what appears. Ends what it has started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._statements: list[tuple[Block, Block | None]] = []
        self._variables: dict[str, str] = {}
        self._server: RunningServer | None = None
        self._ends = ExitStack()
        self.shown: list[tuple[Block, str]] = []

    def play(self, page: str) -> None:
        with self._ends:
            blocks = list(blocks_of(page))
            for block, behind in zip(blocks, [*blocks[1:], None], strict=True):
                if block.language == "file":
                    path = self._directory / block.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(block.text, encoding="utf-8")
                elif block.language in ("sql", "hidden"):
                    is_shown = block.language == "sql" and behind is not None and behind.language == "text"
                    self._statements.append((block, behind if is_shown else None))
                elif block.language == "console":
                    self._run_statements()
                    self._run_commands(block)
            self._run_statements()

    # --- statements

    def _run_statements(self) -> None:
        """Run what has gathered: in one process, but for the blocks that fail, each of which has one of its own."""
        script, made = [], []
        shown: list[Block | None] = []
        for block, result in self._statements:
            if result is not None and result.text.startswith("error["):
                done = sqlstream("run", "--quiet", "-", stdin="\n".join([*made, block.text]), **self._where())
                # The lines of the script are those of the block.
                lines = "\n".join(made).count("\n") + bool(made)
                self.shown.append((result, _move_lines(_error_of(done.stderr), lines)))
                continue
            script += [block.text, f"SELECT 'block {len(shown)} ends' AS marker;"]
            made += re.findall(r"(?ms)^(?:CREATE|SET|USE)\b.*?;(?= *$)", block.text)
            shown.append(result)
        self._statements.clear()
        if script:
            done = sqlstream("run", "--quiet", "-", stdin="\n".join(script), **self._where())
            assert done.returncode == 0, done.stderr + done.stdout[-2000:]
            printed = MARKER.split(done.stdout)[:-1]
            self.shown += [(b, text) for b, text in zip(shown, printed, strict=True) if b is not None]

    # --- commands

    def _run_commands(self, block: Block) -> None:
        appears = ""
        for command in re.findall(r"(?m)^\$ ((?:.*\\\n)*.*)$", block.text):
            appears += f"$ {command}\n{self._as_shown(self._command(command))}"
        self.shown.append((block, appears))

    def _command(self, command: str) -> str:
        """What a command prints, on both streams."""
        if self._server is not None:
            command = command.replace(GATEWAY, self._server.gateway).replace(REST, self._server.rest)
        if assigned := re.fullmatch(r"(\w+)=\$\((.*)\)", command):
            self._variables[assigned[1]] = self._command(assigned[2]).strip()
            return ""
        if re.fullmatch(r"sqlstream server( .*)?&", command):
            return self._start_server()
        if command == "kill %1":
            assert self._server is not None
            assert self._server.signal(signal.SIGTERM) == 0
            return ""
        words = shlex.shlex(command, posix=False, punctuation_chars="|>")
        words.whitespace_split = True
        stages: list[list[str]] = [[]]
        fails = False
        for word in words:
            if word == "||":
                # What stands behind it is `true`.
                fails = True
                break
            if word == "|":
                stages.append([])
            else:
                stages[-1].append(word)
        printed = ""
        for stage in stages:
            printed = self._stage(stage, printed, fails and stage is stages[-1])
        return printed

    def _stage(self, words: list[str], given: str, fails: bool) -> str:
        """What one command of a pipe prints."""
        target = None
        if ">" in words:
            words, target = words[:-2], words[-1]
        if words[0] == "sqlstream":
            arguments = [*SQLSTREAM, *(self._plain(word) for word in words[1:])]
        else:
            arguments = ["bash", "-euo", "pipefail", "-c", " ".join(words)]
        done = run_to_end(arguments, stdin=given, **self._where())
        assert (done.returncode != 0) == fails, done.stderr
        if target is not None:
            (self._directory / target).write_text(done.stdout, encoding="utf-8")
        return str(done.stderr if target is not None else done.stderr + done.stdout)

    def _plain(self, word: str) -> str:
        """A word of a command without its quotes, with its variables."""
        (text,) = shlex.split(word)
        return re.sub(r"\$(\w+)", lambda name: self._variables[name[1]], text)

    def _start_server(self) -> str:
        self._server = RunningServer(self._directory / "server-data", cwd=self._directory)
        self._ends.enter_context(self._server)
        self._variables["SQLSTREAM_URL"] = self._server.gateway
        greeting = "\n".join(self._server.greeting) + "\n"
        # One port serves both here.
        return re.sub(r"(REST, console +)\S+", rf"\1{REST}", greeting)

    def _as_shown(self, text: str) -> str:
        """With the addresses and the directory of a user who follows the page."""
        if self._server is not None:
            text = text.replace(self._server.gateway, GATEWAY).replace(self._server.rest, REST)
        return text.replace(str(self._directory), "/home/you/trial")

    def _where(self) -> dict[str, object]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        around = environment(PATH=path, HOME=str(self._directory), **self._variables)
        return {"cwd": self._directory, "env": around}


def _error_of(text: str) -> str:
    return text[max(text.find("error["), 0) :]


def _move_lines(error: str, lines: int) -> str:
    return re.sub(
        r"(?m)^( +)(\d+)( \| )", lambda found: f"{found[1]}{int(found[2]) - lines}{found[3]}", error
    )


def differences(page: Path, directory: Path) -> list[tuple[Block, str]]:
    """The blocks that show other than what appears, each with that."""
    player = Player(directory)
    player.play(page.read_text(encoding="utf-8"))
    return [(block, appears) for block, appears in player.shown if not fits(block.text, appears)]


def rewrite(page: Path, found: list[tuple[Block, str]]) -> None:
    """Put what appears into the page."""
    text = page.read_text(encoding="utf-8")
    for block, appears in sorted(found, key=lambda pair: -pair[0].begin):
        text = text[: block.begin] + _lasting(appears).strip() + "\n" + text[block.end :]
    page.write_text(text, encoding="utf-8")


def with_options(text: str) -> str:
    """The page with the tables of options that its marks name: `<!-- options of format csv -->`."""

    def table(found: re.Match[str]) -> str:
        kind, name = found[2], found[3]
        if kind == "connector":
            described = options_table(connector(name).descriptor.options)
        elif kind == "provider":
            described = options_table(PROVIDERS[name].options)
        else:
            described = options_table(format_of(name).descriptor.options, f"{name}.")
        return f"{found[1]}\n{described}\n{found[4]}"

    return OPTIONS_OF.sub(table, text)


def _lasting(text: str) -> str:
    """The text without what differs from run to run: seconds and identifiers."""
    return re.sub(r"\b[0-9a-f]{32}\b", "…", re.sub(r"(\bin |\()\d[\d.]* m?s\b", r"\1… s", text))
