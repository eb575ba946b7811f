"""The texts of HELP, by topic."""

from __future__ import annotations

import dataclasses

from sqlstream.error_codes import error_code, explanation
from sqlstream.errors import did_you_mean


@dataclasses.dataclass(frozen=True)
class Topic:
    """`forms` are the grammar in short, `example` statements that run as they stand."""

    about: str
    forms: tuple[str, ...] = ()
    example: str = ""


COMMANDS: tuple[tuple[str, str], ...] = (
    ("HELP [topic]", "this text, or the grammar of a statement with an example"),
    ("SOURCE file", r"run the statements of a file; also \i and .read"),
    ("CLEAR", "clear the screen"),
    ("QUIT, EXIT", r"leave; also \q, .quit, .exit and Ctrl-D"),
    (r"\d [name]", "tables and views, or the columns of one; also .tables"),
    (r"\d+ [name]", "the same, with the statement that creates it; .schema name prints that alone"),
    (r"\dt \dv \df", "tables, views, functions; a pattern may follow, as in \\df %DATE%"),
    (r"\l", "databases; also .databases"),
    (r"\c [catalog.]database", "make another database the current one"),
    (r"\jobs", "the jobs of the cluster"),
    (
        r"\o [file]",
        "write the next query's rows to a .csv, .json or .parquet file; without a file to the screen; also .output",
    ),
    (r"\timing [on|off]", "print the time of each statement; also .timer"),
    (
        r"\x [on|off|auto]",
        r"print one line per column, as \G does for one statement; auto: where a table is too wide",
    ),
    (r"\mode [mode]", "show rows as auto, table, vertical, json or csv; also .mode"),
    (r"\null [text]", "what stands for NULL in tables, <NULL> if nothing is given; also .nullvalue"),
    (r"\pager [on|off]", "show long results in $PAGER or less"),
    (r"\conninfo", "where the statements run"),
    (r"\? and \h topic", "the same as HELP; also .help"),
)
"""Commands of the shell and what they do."""

KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "runs what ends with ; or \\G, else begins another line"),
    ("Tab", "completes keywords, names, functions, options and their values"),
    ("→ or Ctrl-E", "takes over the grey suggestion from the history"),
    ("Ctrl-R", "searches the history"),
    ("Ctrl-X Ctrl-E", "edits the statement in $EDITOR"),
    ("Ctrl-C", "cancels the query that runs, or drops the line"),
    ("Ctrl-D", "leaves"),
)

TOPICS: dict[str, Topic] = {
    "SELECT": Topic(
        "Queries tables that end, or never end. In result mode TABLE the rows of an endless query are shown as a table that is "
        "kept up to date; SET 'sql-client.execution.result-mode' = 'changelog' shows each change.",
        (
            "SELECT [DISTINCT] expressions FROM tables [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT n];",
        ),
        "SELECT word, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS t (word) GROUP BY word;",
    ),
    "WINDOWS": Topic(
        "Groups rows by time: TUMBLE, HOP, CUMULATE and SESSION add window_start, window_end and window_time.",
        ("FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(time_column), INTERVAL '1' MINUTE))",),
        "CREATE TABLE clicks (n INT, ts AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '10');\n"
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' SECOND))\n"
        "GROUP BY window_start, window_end;",
    ),
    "CREATE TABLE": Topic(
        "Names files, generated rows or another place that a connector reaches. SHOW CONNECTORS lists the connectors, "
        "DESCRIBE CONNECTOR their options.",
        (
            "CREATE [TEMPORARY] TABLE [IF NOT EXISTS] name (column type, …, [WATERMARK FOR column AS expression],",
            "  [PRIMARY KEY (columns) NOT ENFORCED]) [PARTITIONED BY (columns)] WITH ('connector' = '…', …);",
            "CREATE TABLE name LIKE 'file.csv'; takes columns and options from files: SHOW CREATE TABLE name shows them.",
        ),
        "CREATE TABLE orders (id BIGINT, price DOUBLE) WITH ('connector' = 'datagen', 'number-of-rows' = '5');",
    ),
    "CREATE VIEW": Topic(
        "Gives a query a name.",
        ("CREATE [TEMPORARY] VIEW [IF NOT EXISTS] name [(columns)] AS query;",),
        "CREATE VIEW numbers AS SELECT n FROM (VALUES (1), (2)) AS t (n);",
    ),
    "INSERT": Topic(
        "Starts a job that writes the rows of a query into a table. It runs on while the shell goes on: SHOW JOBS lists it, "
        "and SET 'table.dml-sync' = 'true' waits for its end.",
        ("INSERT INTO table [(columns)] query;",),
        "CREATE TABLE nowhere (n INT) WITH ('connector' = 'blackhole');\nINSERT INTO nowhere VALUES (1), (2);",
    ),
    "UPDATE": Topic(
        "Changes rows of files, DuckDB files and databases: one job, whose changes are all visible at its end.",
        (
            "UPDATE table SET column = value, … [WHERE condition];",
            "DELETE FROM table [WHERE condition]; TRUNCATE TABLE table;",
            "INSERT OVERWRITE table [PARTITION (column = value)] query;",
        ),
        "CREATE TABLE pets (name STRING, legs INT) WITH ('connector' = 'filesystem', 'path' = 'pets', 'format' = 'csv');\n"
        "INSERT OVERWRITE pets VALUES ('Tom', 3), ('Ida', 4);\n"
        "UPDATE pets SET legs = 4 WHERE name = 'Tom';\nDELETE FROM pets WHERE legs = 4;",
    ),
    "STATEMENT SET": Topic(
        "Runs several INSERT statements as one job.",
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO …; INSERT INTO …; END;",),
        "CREATE TABLE nowhere (n INT) WITH ('connector' = 'blackhole');\n"
        "EXECUTE STATEMENT SET BEGIN INSERT INTO nowhere SELECT 1; INSERT INTO nowhere SELECT 2; END;",
    ),
    "SHOW": Topic(
        "Lists what there is.",
        (
            "SHOW TABLES | VIEWS | FUNCTIONS | CONNECTORS | FORMATS | CATALOGS | DATABASES | JOBS [LIKE 'pattern'];",
            "SHOW COLUMNS FROM table; SHOW CREATE TABLE table; SHOW CURRENT CATALOG; SHOW CURRENT DATABASE;",
            "SHOW CHECKPOINTS [FOR JOB 'id']; SHOW LEDGER [FOR JOB 'id'];",
        ),
        "SHOW FUNCTIONS LIKE 'date%';",
    ),
    "DESCRIBE": Topic(
        "Shows the columns of a table, the options of a connector or format, or a function with an example.",
        ("DESCRIBE table; DESCRIBE CONNECTOR name; DESCRIBE FORMAT name; DESCRIBE FUNCTION name;",),
        "DESCRIBE CONNECTOR filesystem;",
    ),
    "DROP": Topic(
        "Forgets a table or view; its data stays where it is.",
        ("DROP [TEMPORARY] TABLE | VIEW [IF EXISTS] name;",),
        "DROP TABLE IF EXISTS orders;",
    ),
    "SET": Topic(
        "Changes a setting of this session, or shows those that were changed.",
        ("SET 'key' = 'value'; SET;",),
        "SET 'sql-client.execution.result-mode' = 'tableau';",
    ),
    "RESET": Topic(
        "Gives a setting its default again, or all.", ("RESET 'key'; RESET;",), "RESET 'parallelism.default';"
    ),
    "EXPLAIN": Topic(
        "Shows the plans of a statement, or what its operators keep, instead of running it.",
        (
            "EXPLAIN [CHANGELOG_MODE, JSON_EXECUTION_PLAN, ESTIMATED_COST, PLAN_ADVICE] statement;",
            "EXPLAIN ANALYZE statement; runs it and tells what each operator did;",
            "EXPLAIN STATE statement; EXPLAIN STATE FOR JOB 'id'; what a job keeps, and how fast that grows;",
            "EXPLAIN UPGRADE FOR JOB 'id' AS statement; what of the job's state a changed statement would go on with;",
            "EXPLAIN WHY query; shows the rows that made its rows; EXPLAIN WHY NOT query; shows where a row was lost;",
            "COMPILE PLAN 'file' FOR INSERT …; EXECUTE PLAN 'file'; EXPLAIN PLAN FOR 'file';",
        ),
        "EXPLAIN SELECT 1;",
    ),
    "VERIFY": Topic(
        "Compares the rows of a query as a stream with its rows in batch, and writes nothing.",
        ("VERIFY query [USING DUCKDB | SPARK]; VERIFY JOB 'id' [USING DUCKDB | SPARK];",),
        "VERIFY SELECT 1;",
    ),
    "CANARY": Topic(
        "Runs a changed statement beside that of a job for a time, and compares what both write.",
        ("CANARY JOB 'id' [WITH ('duration' = '10 min', 'promote' = 'if-equal')] AS INSERT INTO …;",),
        "CANARY JOB '4f1c…' AS INSERT INTO totals SELECT k, COUNT(*) FROM t GROUP BY k;",
    ),
    "DIAGNOSE": Topic(
        "Says what holds a job back, with figures and what to do: busy operators, uneven keys, event time, checkpoints.",
        ("DIAGNOSE JOB 'id';",),
    ),
    "USE": Topic(
        "Makes another catalog or database the current one.",
        ("USE [catalog.]database; USE CATALOG catalog;",),
    ),
    "STOP JOB": Topic(
        "Cancels a job, or ends it with a savepoint from which it can go on; SHOW JOBS lists the ids. WITH DRAIN all windows "
        "fire first: such a job does not go on with the same input.",
        ("STOP JOB 'id' [WITH SAVEPOINT [WITH DRAIN]];",),
    ),
}


def help_text(topic: str = "") -> str:
    """The text for a topic or an error code, or the overview. A topic that does not exist gets the overview's list and a
    suggestion."""
    if not topic:
        return _overview()
    wanted = " ".join(topic.upper().split())
    if code := error_code(wanted):
        return explanation(code)
    found = TOPICS.get(wanted) or next((t for name, t in TOPICS.items() if name.startswith(wanted)), None)
    if found is None:
        suggestion = did_you_mean(wanted, list(TOPICS))
        return f'there is no help on "{topic}"{f"; {suggestion}" if suggestion else ""}\n{_topic_list()}'
    lines = [found.about, *(f"  {form}" for form in found.forms)]
    if found.example:
        lines += ["example:", *(f"  {line}" for line in found.example.split("\n"))]
    return "\n".join(lines)


def _overview() -> str:
    lines = ["Statements are SQL and end with a semicolon. Commands of the shell:"]
    for rows, title in ((COMMANDS, ""), (KEYS, "Keys:")):
        lines += [title] if title else []
        width = max(len(name) for name, _ in rows)
        lines += [f"  {name:{width}}  {about}" for name, about in rows]
    return "\n".join([*lines, _topic_list()])


def _topic_list() -> str:
    return (
        f"HELP topic explains a statement: {', '.join(TOPICS)}\n"
        "HELP SS2003 explains an error code, as sqlstream explain-error SS2003 does in a terminal.\n"
        "DESCRIBE FUNCTION name, DESCRIBE CONNECTOR name and DESCRIBE FORMAT name tell how they are used.\n"
        "SET shows the settings that were changed; sqlstream config lists all, in a terminal."
    )
