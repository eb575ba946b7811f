"""What the parser returns: one frozen struct per statement, with queries as sqlglot expressions.

Every node that an error can point at has `node.meta["span"]`, a `sqlstream.errors.Span` into the whole script;
`span_of` in nodes.py finds the nearest one.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.specs.sink import OnConflict
from sqlstream.types import LogicalType


class Identifier(msgspec.Struct, frozen=True):
    """A possibly qualified name: `catalog`.`database`.`object`, as written, without its quotes."""

    parts: tuple[str, ...]
    span: Span

    def __str__(self) -> str:
        return ".".join(f"`{p}`" for p in self.parts)


class Option(msgspec.Struct, frozen=True):
    """One 'key' = 'value' pair of a WITH clause, SET or hint, with the positions of both."""

    key: str
    value: str
    key_span: Span
    value_span: Span


class ColumnKind(enum.Enum):
    PHYSICAL = "PHYSICAL"
    COMPUTED = "COMPUTED"
    METADATA = "METADATA"


class ColumnDef(msgspec.Struct, frozen=True):
    """A column of CREATE TABLE. COMPUTED has `expression`, METADATA `metadata_key` (default: the name). `stored_text` is that of
    an expression that another table has declared."""

    name: str
    kind: ColumnKind
    span: Span
    type: LogicalType | None = None
    expression: exp.Expression | None = None
    metadata_key: str = ""
    is_virtual: bool = False
    is_primary_key: bool = False
    comment: str = ""
    stored_text: str = ""


class WatermarkDef(msgspec.Struct, frozen=True):
    """WATERMARK FOR `column` AS expression."""

    column: Identifier
    expression: exp.Expression
    span: Span
    stored_text: str = ""


class Statement(msgspec.Struct, frozen=True):
    """Base of all: `text` is the statement without its semicolon, `span` its place in the script."""

    text: str
    span: Span


class LikeFiles(msgspec.Struct, frozen=True):
    """LIKE 'path': the columns are those of files."""

    path: str
    span: Span


class LikeOption(msgspec.Struct, frozen=True):
    """INCLUDING | EXCLUDING | OVERWRITING of a feature of the other table."""

    strategy: str
    feature: str
    span: Span


class LikeTable(msgspec.Struct, frozen=True):
    """LIKE table (option …): what is not written is as in another table."""

    name: Identifier
    options: tuple[LikeOption, ...]


class CreateTable(Statement, frozen=True):
    """CREATE [OR REPLACE] TABLE. `query` fills the table (AS), whose columns `query_columns` puts in order."""

    name: Identifier
    columns: tuple[ColumnDef, ...]
    watermark: WatermarkDef | None
    primary_key: tuple[Identifier, ...]
    partition_keys: tuple[Identifier, ...]
    options: tuple[Option, ...]
    is_temporary: bool = False
    if_not_exists: bool = False
    comment: str = ""
    like: LikeFiles | LikeTable | None = None
    is_replacing: bool = False
    query: exp.Expression | None = None
    query_columns: tuple[Identifier, ...] = ()
    key_name: str = ""
    """The name of the primary key's constraint; empty for that which it has by its columns."""


class CreateView(Statement, frozen=True):
    name: Identifier
    column_names: tuple[Identifier, ...]
    query: exp.Expression
    query_text: str
    is_temporary: bool = False
    if_not_exists: bool = False
    comment: str = ""


class DropObject(Statement, frozen=True):
    """DROP [TEMPORARY] TABLE | VIEW [IF EXISTS]."""

    name: Identifier
    is_view: bool
    is_temporary: bool = False
    if_exists: bool = False


class RenameObject(Statement, frozen=True):
    """ALTER TABLE | VIEW [IF EXISTS] name RENAME TO target."""

    name: Identifier
    is_view: bool
    target: Identifier
    if_exists: bool = False


class AlterTableOptions(Statement, frozen=True):
    """ALTER TABLE [IF EXISTS] name SET (…) | RESET ('key', …): one of `options` and `reset` is empty."""

    name: Identifier
    options: tuple[Option, ...] = ()
    reset: tuple[Identifier, ...] = ()
    if_exists: bool = False


class PutColumn(msgspec.Struct, frozen=True):
    """ADD or MODIFY of a column. It stands behind the column `after`, or first (`is_first`), or else at the end (ADD) or where it
    stood (MODIFY)."""

    column: ColumnDef
    is_new: bool
    is_first: bool = False
    after: Identifier | None = None


class PutWatermark(msgspec.Struct, frozen=True):
    watermark: WatermarkDef
    is_new: bool


class PutPrimaryKey(msgspec.Struct, frozen=True):
    columns: tuple[Identifier, ...]
    is_new: bool
    name: str = ""


class DropColumn(msgspec.Struct, frozen=True):
    name: Identifier


class RenameColumn(msgspec.Struct, frozen=True):
    name: Identifier
    target: Identifier


class DropPrimaryKey(msgspec.Struct, frozen=True):
    """`name` is that of its constraint, where the statement has one."""

    span: Span
    name: str = ""


class DropWatermark(msgspec.Struct, frozen=True):
    span: Span


TableChange = (
    PutColumn | PutWatermark | PutPrimaryKey | DropColumn | RenameColumn | DropPrimaryKey | DropWatermark
)


class AlterTable(Statement, frozen=True):
    """ALTER TABLE [IF EXISTS] name ADD | MODIFY | DROP | RENAME …: `changes` in their order."""

    name: Identifier
    changes: tuple[TableChange, ...]
    if_exists: bool = False


def column_spans(statement: Statement) -> dict[str, Span]:
    """Where the columns stand that CREATE TABLE or ALTER TABLE declares."""
    columns: list[ColumnDef] = []
    if isinstance(statement, CreateTable):
        columns += statement.columns
    elif isinstance(statement, AlterTable):
        columns += [change.column for change in statement.changes if isinstance(change, PutColumn)]
    return {column.name: column.span for column in columns}


class OptionPlaces(msgspec.Struct, frozen=True):
    """Where the keys and values of a list of options stand. `otherwise`: where an option is shown as missing, or an error that
    names none of them."""

    keys: Mapping[str, Span]
    values: Mapping[str, Span]
    otherwise: Span | None

    @staticmethod
    def of(options: Sequence[Option], otherwise: Span | None = None) -> OptionPlaces:
        """What is missing is shown at the connector, and without one where `otherwise` is, by default at all options."""
        values = {option.key: option.value_span for option in options}
        if otherwise is None and options:
            otherwise = Span(options[0].key_span.start, options[-1].value_span.end)
        keys = {option.key: option.key_span for option in options}
        return OptionPlaces(keys, values, values.get("connector") or otherwise)

    def of_error(self, error: UserError) -> Span | None:
        """The key of an option that has no use, and the value of one that is wrong or needs another."""
        spans = self.keys if error.code == "SS4003" else self.values
        return spans.get(error.option) or self.otherwise

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """User errors that are raised within stand at the options that they name."""
        try:
            yield
        except UserError as error:
            error.at(self.of_error(error))
            raise


def option_places(statement: Statement) -> OptionPlaces:
    """Those of a statement that defines or changes a table."""
    if isinstance(statement, AlterTableOptions) and statement.reset:
        return OptionPlaces.of((), statement.reset[0].span)
    options = statement.options if isinstance(statement, CreateTable | AlterTableOptions) else ()
    return OptionPlaces.of(options, None if options else statement.span)


class AlterView(Statement, frozen=True):
    """ALTER VIEW name AS query."""

    name: Identifier
    query: exp.Expression
    query_text: str


class FileName(msgspec.Struct, frozen=True):
    path: str
    span: Span


class FunctionBody(msgspec.Struct, frozen=True):
    """AS 'class_name' LANGUAGE PYTHON [USING FILE …]; `span` is that of the class name."""

    class_name: str
    span: Span
    files: tuple[FileName, ...] = ()


class CreateFunction(Statement, frozen=True):
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION [IF NOT EXISTS]."""

    name: Identifier
    body: FunctionBody
    is_temporary: bool = False
    is_system: bool = False
    if_not_exists: bool = False


class AlterFunction(Statement, frozen=True):
    """ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS]."""

    name: Identifier
    body: FunctionBody
    is_temporary: bool = False
    is_system: bool = False
    if_exists: bool = False


class DropFunction(Statement, frozen=True):
    """DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS]."""

    name: Identifier
    is_temporary: bool = False
    is_system: bool = False
    if_exists: bool = False


class CreateModel(Statement, frozen=True):
    """CREATE [TEMPORARY] MODEL [IF NOT EXISTS] name INPUT (…) OUTPUT (…) [COMMENT '…'] WITH (…). `query` trains it (AS); then
    INPUT and OUTPUT may be missing."""

    name: Identifier
    inputs: tuple[ColumnDef, ...]
    outputs: tuple[ColumnDef, ...]
    options: tuple[Option, ...]
    is_temporary: bool = False
    if_not_exists: bool = False
    comment: str = ""
    query: exp.Expression | None = None


class AlterModel(Statement, frozen=True):
    """ALTER MODEL [IF EXISTS] name RENAME TO other | SET (…) | RESET ('key', …): one of the three."""

    name: Identifier
    target: Identifier | None = None
    options: tuple[Option, ...] = ()
    reset: tuple[Identifier, ...] = ()
    if_exists: bool = False


class DropModel(Statement, frozen=True):
    """DROP [TEMPORARY] MODEL [IF EXISTS] name."""

    name: Identifier
    is_temporary: bool = False
    if_exists: bool = False


class CreateDatabase(Statement, frozen=True):
    name: Identifier
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    comment: str = ""


class AlterDatabase(Statement, frozen=True):
    """ALTER DATABASE name SET (…)."""

    name: Identifier
    options: tuple[Option, ...]


class DropDatabase(Statement, frozen=True):
    name: Identifier
    if_exists: bool = False
    is_cascade: bool = False


class CreateCatalog(Statement, frozen=True):
    name: Identifier
    options: tuple[Option, ...]
    if_not_exists: bool = False
    comment: str = ""


class AlterCatalog(Statement, frozen=True):
    """ALTER CATALOG name SET (…) | RESET (…) | COMMENT '…': one of them; `comment` is None for the others."""

    name: Identifier
    options: tuple[Option, ...] = ()
    reset: tuple[Identifier, ...] = ()
    comment: str | None = None


class DropCatalog(Statement, frozen=True):
    name: Identifier
    if_exists: bool = False


class Use(Statement, frozen=True):
    """USE [catalog.]database, or USE CATALOG name."""

    name: Identifier
    is_catalog: bool


class SetOption(Statement, frozen=True):
    """SET 'key' = 'value', or SET alone to list (`option` None)."""

    option: Option | None


class ResetOption(Statement, frozen=True):
    """RESET 'key', or RESET alone for all (`key` None)."""

    key: str | None


class ShowKind(enum.Enum):
    TABLES = "TABLES"
    VIEWS = "VIEWS"
    COLUMNS = "COLUMNS"
    FUNCTIONS = "FUNCTIONS"
    USER_FUNCTIONS = "USER FUNCTIONS"
    CATALOGS = "CATALOGS"
    DATABASES = "DATABASES"
    CURRENT_CATALOG = "CURRENT CATALOG"
    CURRENT_DATABASE = "CURRENT DATABASE"
    CREATE_TABLE = "CREATE TABLE"
    CREATE_VIEW = "CREATE VIEW"
    CREATE_CATALOG = "CREATE CATALOG"
    CREATE_FUNCTION = "CREATE FUNCTION"
    CREATE_MODEL = "CREATE MODEL"
    CONNECTORS = "CONNECTORS"
    FORMATS = "FORMATS"
    JOBS = "JOBS"
    MODULES = "MODULES"
    FULL_MODULES = "FULL MODULES"
    PROCEDURES = "PROCEDURES"
    PARTITIONS = "PARTITIONS"
    MODELS = "MODELS"


class Show(Statement, frozen=True):
    """SHOW … [[NOT] LIKE | ILIKE pattern].

    `name` is the object of COLUMNS and CREATE …, the database of TABLES and VIEWS, the catalog of DATABASES. `like` filters,
    `is_ilike` folds case, `is_negated` inverts. `partition` are the columns and values that partitions have.
    """

    kind: ShowKind
    name: Identifier | None = None
    like: str | None = None
    is_ilike: bool = False
    is_negated: bool = False
    partition: tuple[tuple[Identifier, str], ...] = ()


class ModuleAction(enum.Enum):
    LOAD = "LOAD MODULE"
    UNLOAD = "UNLOAD MODULE"
    USE = "USE MODULES"


class ChangeModules(Statement, frozen=True):
    """LOAD MODULE name, UNLOAD MODULE name, USE MODULES name, …."""

    action: ModuleAction
    names: tuple[Identifier, ...]


class Argument(msgspec.Struct, frozen=True):
    """A literal in a CALL: a text or a whole number."""

    value: str | int
    span: Span


class CallProcedure(Statement, frozen=True):
    """CALL name(argument, …)."""

    name: Identifier
    arguments: tuple[Argument, ...]


class AnalyzeTable(Statement, frozen=True):
    """ANALYZE TABLE name COMPUTE STATISTICS [FOR COLUMNS … | FOR ALL COLUMNS]: `columns` is None for all of them."""

    name: Identifier
    columns: tuple[Identifier, ...] | None = ()


class Describe(Statement, frozen=True):
    """DESCRIBE [EXTENDED] of a table or view; or of a query, whose name is empty: that of a path in quotes is `SELECT *`."""

    name: Identifier
    is_extended: bool = False
    query: exp.Expression | None = None


class DescribeNamespace(Statement, frozen=True):
    """DESCRIBE CATALOG | DATABASE [EXTENDED] name."""

    name: Identifier
    is_catalog: bool
    is_extended: bool = False


class DescribedKind(enum.Enum):
    CONNECTOR = "CONNECTOR"
    FORMAT = "FORMAT"
    FUNCTION = "FUNCTION"
    MODEL = "MODEL"


class DescribeExtension(Statement, frozen=True):
    """DESCRIBE CONNECTOR | FORMAT | FUNCTION [EXTENDED] | MODEL [EXTENDED] name."""

    kind: DescribedKind
    name: Identifier
    is_extended: bool = False


class DescribeJob(Statement, frozen=True):
    """DESCRIBE JOB 'id'."""

    job_id: str
    id_span: Span


class DiagnoseJob(Statement, frozen=True):
    """DIAGNOSE JOB 'id': what holds it back; or EXPLAIN STATE FOR JOB 'id': what it keeps, and how fast that grows."""

    job_id: str
    id_span: Span
    is_of_state: bool = False


class StopJob(Statement, frozen=True):
    """STOP JOB 'id' [WITH SAVEPOINT [WITH DRAIN]]: cancel it, or end it with a savepoint."""

    job_id: str
    id_span: Span
    has_savepoint: bool = False
    is_drained: bool = False


class ShowCheckpoints(Statement, frozen=True):
    """SHOW CHECKPOINTS [FOR JOB 'id']: those of one job, or of all (`job_id` empty)."""

    job_id: str = ""
    id_span: Span | None = None


class ShowLedger(Statement, frozen=True):
    """SHOW LEDGER [FOR JOB 'id']: what became of the rows of one job, or of all (`job_id` empty)."""

    job_id: str = ""
    id_span: Span | None = None


class Query(Statement, frozen=True):
    """A SELECT, VALUES, WITH … or set operation as a statement, whose rows go to the client."""

    query: exp.Expression


class Backfill(msgspec.Struct, frozen=True):
    """`[table] FROM history [HAND OVER AT condition]` of WITH BACKFILL: the rows of `table` (None: of the only one that the query
    reads) for which `condition` is not true are those of `source`."""

    table: Identifier | None
    source: exp.Expression
    condition: exp.Expression | None
    span: Span


class Insert(Statement, frozen=True):
    target: Identifier
    columns: tuple[Identifier, ...]
    query: exp.Expression
    partition: tuple[tuple[Identifier, exp.Expression], ...] = ()
    hints: tuple[Option, ...] = ()
    on_conflict: OnConflict | None = None
    on_conflict_span: Span | None = None
    is_overwriting: bool = False
    is_by_name: bool = False
    backfills: tuple[Backfill, ...] = ()


class Assignment(msgspec.Struct, frozen=True):
    """`column` = value of an UPDATE."""

    column: Identifier
    value: exp.Expression


class Update(Statement, frozen=True):
    """UPDATE target [[AS] alias] SET column = value, … [WHERE condition]."""

    target: Identifier
    assignments: tuple[Assignment, ...]
    condition: exp.Expression | None = None
    alias: Identifier | None = None
    hints: tuple[Option, ...] = ()


class Delete(Statement, frozen=True):
    """DELETE FROM target [[AS] alias] [WHERE condition]."""

    target: Identifier
    condition: exp.Expression | None = None
    alias: Identifier | None = None
    hints: tuple[Option, ...] = ()


class Truncate(Statement, frozen=True):
    """TRUNCATE TABLE target."""

    target: Identifier


class StatementSet(Statement, frozen=True):
    """EXECUTE STATEMENT SET BEGIN … END: all inserts run as one job."""

    inserts: tuple[Insert, ...]


class BeginStatementSet(Statement, frozen=True):
    """BEGIN STATEMENT SET by itself: the INSERTs that follow in the session, until END, run as one job."""


class EndStatementSet(Statement, frozen=True):
    """END of the statement set that the session has begun."""


WritingStatement = Query | Insert | StatementSet | Update | Delete | Truncate
"""What runs as a job."""


class CompilePlan(Statement, frozen=True):
    """COMPILE [AND EXECUTE] PLAN 'path' [IF NOT EXISTS] FOR statement."""

    path: str
    path_span: Span
    target: Insert | StatementSet
    if_not_exists: bool = False
    is_executed: bool = False


class ExecutePlan(Statement, frozen=True):
    """EXECUTE PLAN 'path', or EXPLAIN PLAN FOR 'path'."""

    path: str
    path_span: Span
    is_explained: bool = False


class Explain(Statement, frozen=True):
    """EXPLAIN [details | PLAN FOR | STATE | ANALYZE] statement.

    `details` ⊆ {CHANGELOG_MODE, JSON_EXECUTION_PLAN, ESTIMATED_COST, PLAN_ADVICE}. `is_of_state`: of what the operators keep, and
    not of the plans.
    """

    target: WritingStatement | CreateTable | CreateModel
    details: tuple[str, ...] = ()
    is_of_state: bool = False
    is_run: bool = False


class ExplainWhy(Statement, frozen=True):
    """EXPLAIN WHY [NOT] query: which rows of the tables made its rows, or where rows that it does not have were lost."""

    target: Query
    is_negated: bool = False


class ExplainUpgrade(Statement, frozen=True):
    """EXPLAIN UPGRADE FOR { JOB 'id' | SAVEPOINT 'path' } AS statement: what of the state the statement would go on with. `place`
    is the id or the path."""

    target: WritingStatement
    place: str
    place_span: Span
    is_savepoint: bool = False


class Canary(Statement, frozen=True):
    """CANARY JOB 'id' [WITH (…)] AS insert: runs it beside the statement of the job for a time, and compares what both write."""

    target: Insert
    job_id: str
    id_span: Span
    options: tuple[Option, ...] = ()


class Verify(Statement, frozen=True):
    """VERIFY query [USING duckdb | spark]: whether the query has the same rows as a stream and in batch.

    `engine` is empty where the settings choose."""

    target: Query | Insert | StatementSet
    engine: str = ""


class VerifyJob(Statement, frozen=True):
    """VERIFY JOB 'id' [USING duckdb | spark]: the same for the statement of a job."""

    job_id: str
    id_span: Span
    engine: str = ""
