"""The bodies of the gateway's requests and responses: what is on the wire, from which the OpenAPI document is made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class Request(BaseModel):
    """A request's body. Members that do not exist are refused; each that is left out, or null, has its default."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OpenSessionRequestBody(Request):
    sessionName: str | None = None  # noqa: N815 (a member's name on the wire)
    properties: dict[str, str] | None = None


class ExecuteStatementRequestBody(Request):
    """With an `operationHandle`, a UUID that the client has made, a statement can be sent again when its answer was lost:
    `isRepeated` says so. It is then executed once at most. Flink's gateway has neither."""

    statement: str
    executionTimeout: Int64 | None = None  # noqa: N815
    executionConfig: dict[str, str] | None = None  # noqa: N815
    operationHandle: str | None = None  # noqa: N815
    isRepeated: bool | None = None  # noqa: N815


class ConfigureSessionRequestBody(Request):
    statement: str
    executionTimeout: Int64 | None = None  # noqa: N815


class CompleteStatementRequestBody(Request):
    statement: str
    position: Int32


class DeployScriptRequestBody(Request):
    script: str | None = None
    scriptUri: str | None = None  # noqa: N815
    executionConfig: dict[str, str] | None = None  # noqa: N815


class Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GetInfoResponseBody(Response):
    productName: str  # noqa: N815
    version: str


class GetApiVersionResponseBody(Response):
    versions: list[str]


class OpenSessionResponseBody(Response):
    sessionHandle: str  # noqa: N815


class GetSessionConfigResponseBody(Response):
    properties: dict[str, str]


class CloseSessionResponseBody(Response):
    status: Literal["CLOSED"]


class EmptyResponseBody(Response):
    pass


class OperationStatusResponseBody(Response):
    status: Literal["INITIALIZED", "PENDING", "RUNNING", "FINISHED", "CANCELED", "CLOSED", "ERROR", "TIMEOUT"]


class ExecuteStatementResponseBody(Response):
    operationHandle: str  # noqa: N815


class CandidateDetail(Response):
    """`text` replaces the characters from `start` to the position; `kind` says what it names."""

    text: str
    kind: str
    detail: str
    start: int


class CompleteStatementResponseBody(Response):
    """`details` is there when the request's Accept header names application/vnd.sqlstream+json."""

    candidates: list[str]
    details: list[CandidateDetail] | None = None


class DeployScriptResponseBody(Response):
    clusterID: str  # noqa: N815


class RowFieldJson(Response):
    name: str
    fieldType: LogicalTypeJson  # noqa: N815
    description: str | None


class LogicalTypeJson(Response):
    """`type` is the name of a LogicalTypeRoot; which of the other members are there depends on it."""

    type: str
    nullable: bool
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fractionalPrecision: int | None = None  # noqa: N815
    resolution: str | None = None
    elementType: LogicalTypeJson | None = None  # noqa: N815
    keyType: LogicalTypeJson | None = None  # noqa: N815
    valueType: LogicalTypeJson | None = None  # noqa: N815
    fields: list[RowFieldJson] | None = None


class ColumnInfo(Response):
    name: str
    logicalType: LogicalTypeJson  # noqa: N815
    comment: str | None


class RowData(Response):
    kind: Literal["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]
    fields: list[Any]


class ResultInfo(Response):
    columns: list[ColumnInfo]
    rowFormat: Literal["JSON", "PLAIN_TEXT"]  # noqa: N815
    data: list[RowData]


class FetchResultsResponseBody(Response):
    """NOT_READY: `resultType` and `nextResultUri` alone. EOS: no `nextResultUri`. `jobID` only where there is a job."""

    resultType: Literal["NOT_READY", "PAYLOAD", "EOS"]  # noqa: N815
    isQueryResult: bool | None = None  # noqa: N815
    jobID: str | None = Field(None, pattern="^[0-9a-f]{32}$")  # noqa: N815
    resultKind: Literal["SUCCESS", "SUCCESS_WITH_CONTENT"] | None = None  # noqa: N815
    results: ResultInfo | None = None
    nextResultUri: str | None = None  # noqa: N815


class ErrorDetail(Response):
    """An error for programs. `line` and `column`, from 1, and `span`, two offsets in characters, point into the statement."""

    code: str
    message: str
    hint: str
    detail: str
    line: int | None = None
    column: int | None = None
    span: tuple[int, int] | None = None


class ErrorResponseBody(Response):
    """`error` is there when the request's Accept header names application/vnd.sqlstream+json."""

    errors: list[str]
    error: ErrorDetail | None = None


_SAYS = {
    400: "The request is not understood.",
    404: "There is no such path.",
    405: "The path has no such method.",
    413: "The body is too large.",
    500: "The statement is wrong, it failed, or there is no such session or operation.",
}

Extra = dict[str, Any]


def json_body(kind: type[BaseModel], is_required: bool = True) -> Extra:
    """The body that a route reads."""
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"required": is_required, "content": content}}


def json_response(kind: type[BaseModel]) -> dict[int | str, Extra]:
    """The body that a route answers with, and those of its errors."""
    found: dict[int | str, Extra] = {200: {"model": kind, "description": "The request was successful."}}
    return found | {
        status: {"model": ErrorResponseBody, "description": said} for status, said in _SAYS.items()
    }
