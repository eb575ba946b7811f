"""What the parser returns: one frozen dataclass per statement, with queries as sqlglot expressions.

Every node that an error can point at has `node.meta["span"]`, a `sqlstream.errors.Span` into the whole script;
`span_of` in nodes.py finds the nearest one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.specs.sink import OnConflict
from sqlstream.types import LogicalType


@dataclasses.dataclass(frozen=True)
class Identifier:
    """A possibly qualified name: `catalog`.`database`.`object`, as written, without its quotes."""

    parts: tuple[str, ...]
    span: Span

    def __str__(self) -> str:
        return ".".join(f"`{p}`" for p in self.parts)


@dataclasses.dataclass(frozen=True)
class Option:
    """One 'key' = 'value' pair of a WITH clause, SET or hint, with the positions of both."""

    key: str
    value: str
    key_span: Span
    value_span: Span


class ColumnKind(enum.Enum):
    PHYSICAL = "PHYSICAL"
    COMPUTED = "COMPUTED"
    METADATA = "METADATA"


@dataclasses.dataclass(frozen=True)
class ColumnDef:
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


@dataclasses.dataclass(frozen=True)
class WatermarkDef:
    """WATERMARK FOR `column` AS expression."""

    column: Identifier
    expression: exp.Expression
    span: Span
    stored_text: str = ""


@dataclasses.dataclass(frozen=True)
class Statement:
    """Base of all: `text` is the statement without its semicolon, `span` its place in the script."""

    text: str
    span: Span


@dataclasses.dataclass(frozen=True)
class LikeFiles:
    """LIKE 'path': the columns are those of files."""

    path: str
    span: Span


@dataclasses.dataclass(frozen=True)
class LikeOption:
    """INCLUDING | EXCLUDING | OVERWRITING of a feature of the other table."""

    strategy: str
    feature: str
    span: Span


@dataclasses.dataclass(frozen=True)
class LikeTable:
    """LIKE table (option …): what is not written is as in another table."""

    name: Identifier
    options: tuple[LikeOption, ...]


@dataclasses.dataclass(frozen=True)
class CreateTable(Statement):
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


@dataclasses.dataclass(frozen=True)
class CreateView(Statement):
    name: Identifier
    column_names: tuple[Identifier, ...]
    query: exp.Expression
    query_text: str
    is_temporary: bool = False
    if_not_exists: bool = False
    comment: str = ""


@dataclasses.dataclass(frozen=True)
class DropObject(Statement):
    """DROP [TEMPORARY] TABLE | VIEW [IF EXISTS]."""

    name: Identifier
    is_view: bool
    is_temporary: bool = False
    if_exists: bool = False


@dataclasses.dataclass(frozen=True)
class RenameObject(Statement):
    """ALTER TABLE | VIEW [IF EXISTS] name RENAME TO target."""

    name: Identifier
    is_view: bool
    target: Identifier
    if_exists: bool = False


@dataclasses.dataclass(frozen=True)
class AlterTableOptions(Statement):
    """ALTER TABLE [IF EXISTS] name SET (…) | RESET ('key', …): one of `options` and `reset` is empty."""

    name: Identifier
    options: tuple[Option, ...] = ()
    reset: tuple[Identifier, ...] = ()
    if_exists: bool = False


@dataclasses.dataclass(frozen=True)
class PutColumn:
    """ADD or MODIFY of a column. It stands behind the column `after`, or first (`is_first`), or else at the end (ADD) or where it
    stood (MODIFY)."""

    column: ColumnDef
    is_new: bool
    is_first: bool = False
    after: Identifier | None = None


@dataclasses.dataclass(frozen=True)
class PutWatermark:
    watermark: WatermarkDef
    is_new: bool


@dataclasses.dataclass(frozen=True)
class PutPrimaryKey:
    columns: tuple[Identifier, ...]
    is_new: bool
    name: str = ""


@dataclasses.dataclass(frozen=True)
class DropColumn:
    name: Identifier


@dataclasses.dataclass(frozen=True)
class RenameColumn:
    name: Identifier
    target: Identifier


@dataclasses.dataclass(frozen=True)
class DropPrimaryKey:
    """`name` is that of its constraint, where the statement has one."""

    span: Span
    name: str = ""


@dataclasses.dataclass(frozen=True)
class DropWatermark:
    span: Span


TableChange = (
    PutColumn | PutWatermark | PutPrimaryKey | DropColumn | RenameColumn | DropPrimaryKey | DropWatermark
)


@dataclasses.dataclass(frozen=True)
class AlterTable(Statement):
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


@dataclasses.dataclass(frozen=True)
class OptionPlaces:
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


@dataclasses.dataclass(frozen=True)
class AlterView(Statement):
    """ALTER VIEW name AS query."""

    name: Identifier
    query: exp.Expression
    query_text: str


@dataclasses.dataclass(frozen=True)
class FileName:
    path: str
    span: Span


@dataclasses.dataclass(frozen=True)
class FunctionBody:
    """AS 'class_name' LANGUAGE PYTHON [USING FILE …]; `span` is that of the class name."""

    class_name: str
    span: Span
    files: tuple[FileName, ...] = ()


@dataclasses.dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION [IF NOT EXISTS]."""

    name: Identifier
    body: FunctionBody
    is_temporary: bool = False
    is_system: bool = False
    if_not_exists: bool = False


@dataclasses.dataclass(frozen=True)
class AlterFunction(Statement):
    """ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS]."""

    name: Identifier
    body: FunctionBody
    is_temporary: bool = False
    is_system: bool = False
    if_exists: bool = False


@dataclasses.dataclass(frozen=True)
class DropFunction(Statement):
    """DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS]."""

    name: Identifier
    is_temporary: bool = False
    is_system: bool = False
    if_exists: bool = False


@dataclasses.dataclass(frozen=True)
class CreateDatabase(Statement):
    name: Identifier
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    comment: str = ""


@dataclasses.dataclass(frozen=True)
class AlterDatabase(Statement):
    """ALTER DATABASE name SET (…)."""

    name: Identifier
    options: tuple[Option, ...]


@dataclasses.dataclass(frozen=True)
class DropDatabase(Statement):
    name: Identifier
    if_exists: bool = False
    is_cascade: bool = False


@dataclasses.dataclass(frozen=True)
class CreateCatalog(Statement):
    name: Identifier
    options: tuple[Option, ...]
    if_not_exists: bool = False
    comment: str = ""


@dataclasses.dataclass(frozen=True)
class AlterCatalog(Statement):
    """ALTER CATALOG name SET (…) | RESET (…) | COMMENT '…': one of them; `comment` is None for the others."""

    name: Identifier
    options: tuple[Option, ...] = ()
    reset: tuple[Identifier, ...] = ()
    comment: str | None = None


@dataclasses.dataclass(frozen=True)
class DropCatalog(Statement):
    name: Identifier
    if_exists: bool = False


@dataclasses.dataclass(frozen=True)
class Use(Statement):
    """USE [catalog.]database, or USE CATALOG name."""

    name: Identifier
    is_catalog: bool


@dataclasses.dataclass(frozen=True)
class SetOption(Statement):
    """SET 'key' = 'value', or SET alone to list (`option` None)."""

    option: Option | None


@dataclasses.dataclass(frozen=True)
class ResetOption(Statement):
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
    CONNECTORS = "CONNECTORS"
    FORMATS = "FORMATS"
    JOBS = "JOBS"
    MODULES = "MODULES"
    FULL_MODULES = "FULL MODULES"
    PROCEDURES = "PROCEDURES"
    PARTITIONS = "PARTITIONS"


@dataclasses.dataclass(frozen=True)
class Show(Statement):
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


@dataclasses.dataclass(frozen=True)
class ChangeModules(Statement):
    """LOAD MODULE name, UNLOAD MODULE name, USE MODULES name, …."""

    action: ModuleAction
    names: tuple[Identifier, ...]


@dataclasses.dataclass(frozen=True)
class Argument:
    """A literal in a CALL: a text or a whole number."""

    value: str | int
    span: Span


@dataclasses.dataclass(frozen=True)
class CallProcedure(Statement):
    """CALL name(argument, …)."""

    name: Identifier
    arguments: tuple[Argument, ...]


@dataclasses.dataclass(frozen=True)
class AnalyzeTable(Statement):
    """ANALYZE TABLE name COMPUTE STATISTICS [FOR COLUMNS … | FOR ALL COLUMNS]: `columns` is None for all of them."""

    name: Identifier
    columns: tuple[Identifier, ...] | None = ()


@dataclasses.dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE [EXTENDED] of a table or view; or of a query, whose name is empty: that of a path in quotes is `SELECT *`."""

    name: Identifier
    is_extended: bool = False
    query: exp.Expression | None = None


@dataclasses.dataclass(frozen=True)
class DescribeNamespace(Statement):
    """DESCRIBE CATALOG | DATABASE [EXTENDED] name."""

    name: Identifier
    is_catalog: bool
    is_extended: bool = False


class DescribedKind(enum.Enum):
    CONNECTOR = "CONNECTOR"
    FORMAT = "FORMAT"
    FUNCTION = "FUNCTION"


@dataclasses.dataclass(frozen=True)
class DescribeExtension(Statement):
    """DESCRIBE CONNECTOR | FORMAT | FUNCTION [EXTENDED] name."""

    kind: DescribedKind
    name: Identifier
    is_extended: bool = False


@dataclasses.dataclass(frozen=True)
class DescribeJob(Statement):
    """DESCRIBE JOB 'id'."""

    job_id: str
    id_span: Span


@dataclasses.dataclass(frozen=True)
class StopJob(Statement):
    """STOP JOB 'id' [WITH SAVEPOINT [WITH DRAIN]]: cancel it, or end it with a savepoint."""

    job_id: str
    id_span: Span
    has_savepoint: bool = False
    is_drained: bool = False


@dataclasses.dataclass(frozen=True)
class ShowCheckpoints(Statement):
    """SHOW CHECKPOINTS [FOR JOB 'id']: those of one job, or of all (`job_id` empty)."""

    job_id: str = ""
    id_span: Span | None = None


@dataclasses.dataclass(frozen=True)
class Query(Statement):
    """A SELECT, VALUES, WITH … or set operation as a statement, whose rows go to the client."""

    query: exp.Expression


@dataclasses.dataclass(frozen=True)
class Insert(Statement):
    target: Identifier
    columns: tuple[Identifier, ...]
    query: exp.Expression
    partition: tuple[tuple[Identifier, exp.Expression], ...] = ()
    hints: tuple[Option, ...] = ()
    on_conflict: OnConflict | None = None
    on_conflict_span: Span | None = None
    is_overwriting: bool = False
    is_by_name: bool = False


@dataclasses.dataclass(frozen=True)
class Assignment:
    """`column` = value of an UPDATE."""

    column: Identifier
    value: exp.Expression


@dataclasses.dataclass(frozen=True)
class Update(Statement):
    """UPDATE target [[AS] alias] SET column = value, … [WHERE condition]."""

    target: Identifier
    assignments: tuple[Assignment, ...]
    condition: exp.Expression | None = None
    alias: Identifier | None = None
    hints: tuple[Option, ...] = ()


@dataclasses.dataclass(frozen=True)
class Delete(Statement):
    """DELETE FROM target [[AS] alias] [WHERE condition]."""

    target: Identifier
    condition: exp.Expression | None = None
    alias: Identifier | None = None
    hints: tuple[Option, ...] = ()


@dataclasses.dataclass(frozen=True)
class Truncate(Statement):
    """TRUNCATE TABLE target."""

    target: Identifier


@dataclasses.dataclass(frozen=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET BEGIN … END: all inserts run as one job."""

    inserts: tuple[Insert, ...]


@dataclasses.dataclass(frozen=True)
class BeginStatementSet(Statement):
    """BEGIN STATEMENT SET by itself: the INSERTs that follow in the session, until END, run as one job."""


@dataclasses.dataclass(frozen=True)
class EndStatementSet(Statement):
    """END of the statement set that the session has begun."""


WritingStatement = Query | Insert | StatementSet | Update | Delete | Truncate
"""What runs as a job."""


@dataclasses.dataclass(frozen=True)
class CompilePlan(Statement):
    """COMPILE [AND EXECUTE] PLAN 'path' [IF NOT EXISTS] FOR statement."""

    path: str
    path_span: Span
    target: Insert | StatementSet
    if_not_exists: bool = False
    is_executed: bool = False


@dataclasses.dataclass(frozen=True)
class ExecutePlan(Statement):
    """EXECUTE PLAN 'path', or EXPLAIN PLAN FOR 'path'."""

    path: str
    path_span: Span
    is_explained: bool = False


@dataclasses.dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [details | PLAN FOR | STATE | ANALYZE] statement.

    `details` ⊆ {CHANGELOG_MODE, JSON_EXECUTION_PLAN, ESTIMATED_COST, PLAN_ADVICE}. `is_of_state`: of what the operators keep, and
    not of the plans.
    """

    target: WritingStatement | CreateTable
    details: tuple[str, ...] = ()
    is_of_state: bool = False
    is_run: bool = False


@dataclasses.dataclass(frozen=True)
class Verify(Statement):
    """VERIFY query [USING duckdb | spark]: whether the query has the same rows as a stream and in batch.

    `engine` is empty where the settings choose."""

    target: Query | Insert | StatementSet
    engine: str = ""


@dataclasses.dataclass(frozen=True)
class VerifyJob(Statement):
    """VERIFY JOB 'id' [USING duckdb | spark]: the same for the statement of a job."""

    job_id: str
    id_span: Span
    engine: str = ""
