"""docs/conformance/scripts.md says which tables of public Flink scripts can be used: each is declared and planned here.

`scripts/options.txt` has the options of Flink's connectors and formats, `scripts/clauses.sql` what scripts declare beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conformance_page import cell, code, features

from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import SqlStreamError
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.testing.check import options_text

SCRIPTS = Path(__file__).parent / "scripts"
PAGE = SCRIPTS.parent.parent.parent / "docs" / "conformance" / "scripts.md"
KAFKA_OPTIONS = (
    "'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',"
    " 'properties.group.id' = 'shop', 'scan.startup.mode' = 'earliest-offset'"
)
KAFKA = f"{KAFKA_OPTIONS}, 'format' = 'json'"

HEAD = """# Scripts of others

Which tables of public Flink scripts can be used as they stand: what the cookbook, Nexmark, tutorials and services declare,
and each option of the connectors and formats in Flink's documentation. The tests declare and plan every one of these tables
and write this page, so it says what is. Whether brokers and databases then answer is not asked. What is refused has the
code, the sentence and the hint of its error. [Conformance](../sql/conformance.md) has the statements, functions and queries.
"""


@dataclass(frozen=True)
class Table:
    """A table that has an option."""

    key: str
    value: str
    columns: str
    options: dict[str, str]
    clause: str

    @property
    def statements(self) -> str:
        """The declaration, and one that uses it."""
        declared = f"CREATE TABLE t ({self.columns}) {self.clause} WITH ({options_text(self.options)})"
        names = [c.split()[0] for c in self.columns.split(", ") if not c.startswith("PRIMARY")]
        if self.key.startswith("sink.") or self.options["connector"] in ("print", "blackhole"):
            source = "CREATE TABLE s WITH ('connector' = 'datagen') LIKE t (EXCLUDING ALL)"
            return f"{declared}; {source}; EXPLAIN INSERT INTO t SELECT * FROM s"
        return f"{declared}; EXPLAIN SELECT {', '.join(names)} FROM t"


def tables() -> Iterator[tuple[str, list[Table]]]:
    """Pages of Flink's documentation, and a table for each of their options."""
    title, found = "", list[Table]()
    columns, clause, base = "", "", dict[str, str]()
    for line in (SCRIPTS / "options.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            if found:
                yield title, found
            title, columns, options, *clauses = line.removeprefix("= ").split(" | ")
            clause = " ".join(clauses)
            base, found = dict(o.split("=", 1) for o in options.split(" + ")), []
        elif line and not line.startswith("#"):
            found.append(_table(line, columns, base, clause))
    yield title, found


def _table(line: str, columns: str, base: dict[str, str], clause: str) -> Table:
    key, _, rest = line.partition(" = ")
    rest, _, left_out = rest.partition(" - ")
    value, *others = rest.split(" + ")
    value, _, written = value.partition(" @ ")
    options = {k: v for k, v in base.items() if k != left_out}
    options |= dict(o.split("=", 1) for o in others)
    return Table(key, value, columns, {**options, written or key: value}, clause)


def refusal(script: str) -> str:
    """Why a script cannot be planned; empty for one that can."""
    with local_session() as session:
        try:
            for statement in parse_statements(script):
                session.execute(statement)
        except SqlStreamError as error:
            # A list of all connectors or formats says nothing of the option.
            is_list = error.hint.startswith("choose one of")
            hint = f"; {error.hint}" if error.hint and not is_list else ""
            return f"{error.code}: {error.message}{hint}"
    return ""


def answer(script: str) -> str:
    refused = refusal(script)
    return f"**refused** {cell(' '.join(refused.split()))}" if refused else "works"


def option_lines(rows: list[tuple[Table, str]]) -> list[str]:
    lines = ["| option | value | answer |", "| --- | --- | --- |"]
    return [*lines, *(f"| {code(t.key)} | {code(t.value)} | {said} |" for t, said in rows)]


def page() -> str:
    title, remark, found = features(SCRIPTS / "clauses.sql")
    clauses = [
        (name, example, answer(example.replace("{kafka}", KAFKA).replace("{kafka_options}", KAFKA_OPTIONS)))
        for name, example in found
    ]
    pages = [(name, [(t, answer(t.statements)) for t in made]) for name, made in tables()]
    counts = [(title, [said for _, _, said in clauses])]
    counts += [(name.removeprefix("formats/"), [said for _, said in rows]) for name, rows in pages]
    lines = [HEAD, "| section | tried | works |", "| --- | --- | --- |"]
    lines += [f"| {name} | {len(said)} | {said.count('works')} |" for name, said in counts]
    everything = [s for _, said in counts for s in said]
    lines += [f"| all | {len(everything)} | {everything.count('works')} |", ""]
    lines += [f"## {title}", "", f"{remark} `…` stands for the options of a topic.", ""]
    lines += ["| declared | example | answer |", "| --- | --- | --- |"]
    for name, example, said in clauses:
        shown = example.replace("{kafka}", "…").replace("{kafka_options}", "…").removesuffix(";")
        lines.append(f"| {cell(name)} | {code(shown)} | {said} |")
    for name, rows in pages:
        kind, _, of = name.rpartition("/")
        lines += ["", f"## {'Format' if kind else 'Connector'} {of}", "", *option_lines(rows)]
    return "\n".join(lines) + "\n"


def test_the_page_says_which_tables_can_be_used(
    golden: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    golden(PAGE, page())
