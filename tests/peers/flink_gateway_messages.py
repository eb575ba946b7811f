"""The classes that Flink's SQL Client shares with Flink's gateway, written anew from what is on the wire.

PyPI's Flink has the client (opt/flink-sql-client), but not the jar of the gateway with the messages that both speak: paths, and
bodies as JSON. Everything else is Flink's own: the client, its polling, its errors, its printing, and its HTTP.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from peers.install import PeerError

_GATEWAY = "org.apache.flink.table.gateway"
_REST = f"{_GATEWAY}.rest"
_SESSION = "/sessions/:session_handle"
_OPERATION = f"{_SESSION}/operations/:operation_handle"
_COMPILE_TIMEOUT_S = 110

_IMPORTS = """
import java.util.*;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.rest.HttpMethodWrapper;
import org.apache.flink.runtime.rest.messages.*;
import org.apache.flink.runtime.rest.versioning.RestAPIVersion;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.*;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.*;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import org.apache.flink.shaded.netty4.io.netty.handler.codec.http.HttpResponseStatus;
import org.apache.flink.table.api.*;
import org.apache.flink.table.catalog.*;
import org.apache.flink.table.data.*;
import org.apache.flink.table.gateway.api.operation.OperationHandle;
import org.apache.flink.table.gateway.api.results.ResultSet;
import org.apache.flink.table.gateway.api.session.SessionHandle;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.types.RowKind;
"""

_REQUESTS = {
    "session.OpenSession": "String sessionName, Map<String, String> properties",
    "session.ConfigureSession": "String statement",
    "statement.ExecuteStatement": "String statement",
    "statement.CompleteStatement": "String statement, int position",
    "application.DeployScript": "String script, String scriptUri, Map<String, String> executionConfig",
}
_RESPONSES = {
    "session.OpenSession": ("String", "sessionHandle"),
    "session.CloseSession": ("String", "status"),
    "session.GetSessionConfig": ("Map<String, String>", "properties"),
    "statement.ExecuteStatement": ("String", "operationHandle"),
    "statement.CompleteStatement": ("List<String>", "candidates"),
    "operation.OperationStatus": ("String", "status"),
    "application.DeployScript": ("String", "clusterID"),
    "util.GetApiVersion": ("List<String>", "versions"),
}
# Headers: method, path, request, response and parameters; without a dot each is a class of Flink's REST.
_HEADERS = {
    "util.GetApiVersion": ("GET", "/api_versions", "", "util.GetApiVersion", ""),
    "session.OpenSession": ("POST", "/sessions", "session.OpenSession", "session.OpenSession", ""),
    "session.CloseSession": ("DELETE", _SESSION, "", "session.CloseSession", "session.Session"),
    "session.GetSessionConfig": ("GET", _SESSION, "", "session.GetSessionConfig", "session.Session"),
    "session.TriggerSessionHeartbeat": ("POST", f"{_SESSION}/heartbeat", "", "", "session.Session"),
    "session.ConfigureSession": (
        *("POST", f"{_SESSION}/configure-session", "session.ConfigureSession", "", "session.Session"),
    ),
    "statement.ExecuteStatement": (
        *("POST", f"{_SESSION}/statements", "statement.ExecuteStatement"),
        *("statement.ExecuteStatement", "session.Session"),
    ),
    "statement.CompleteStatement": (
        *("GET", f"{_SESSION}/complete-statement", "statement.CompleteStatement"),
        *("statement.CompleteStatement", "session.Session"),
    ),
    "statement.FetchResults": (
        *("GET", f"{_OPERATION}/result/:token", "", "statement.FetchResults", "statement.FetchResults"),
    ),
    "operation.CancelOperation": (
        *("POST", f"{_OPERATION}/cancel", "", "operation.OperationStatus", "operation.Operation"),
    ),
    "operation.CloseOperation": (
        *("DELETE", f"{_OPERATION}/close", "", "operation.OperationStatus", "operation.Operation"),
    ),
    "application.DeployScript": (
        *("POST", f"{_SESSION}/scripts", "application.DeployScript"),
        *("application.DeployScript", "session.Session"),
    ),
}

_OTHERS = {
    f"{_REST}.util.RowFormat": "public enum RowFormat { JSON, PLAIN_TEXT }",
    f"{_REST}.util.SqlGatewayRestEndpointUtils": """
public class SqlGatewayRestEndpointUtils {
  public static Long parseToken(String uri) {
    if (uri == null || uri.isEmpty()) return null;
    String path = uri.split("\\\\?")[0];
    return Long.valueOf(path.substring(path.lastIndexOf('/') + 1));
  }
}""",
    f"{_REST}.util.SqlGatewayRestAPIVersion": """
public enum SqlGatewayRestAPIVersion
    implements RestAPIVersion<SqlGatewayRestAPIVersion>, org.apache.flink.table.gateway.api.endpoint.EndpointVersion {
  V1, V2, V3, V4;
  public String getURLVersionPrefix() { return name().toLowerCase(); }
  public boolean isDefaultVersion() { return this == V4; }
  public boolean isStableVersion() { return true; }
  public static SqlGatewayRestAPIVersion getDefaultVersion() { return V4; }
  public static List<SqlGatewayRestAPIVersion> getStableVersions() { return List.of(values()); }
}""",
    f"{_GATEWAY}.service.context.DefaultContext": """
public class DefaultContext {
  private final Configuration config;
  private DefaultContext(Configuration config) { this.config = config; }
  public static DefaultContext load(Configuration config, List<java.net.URL> dependencies, boolean isDiscovered) {
    return new DefaultContext(config);
  }
  public Configuration getFlinkConfig() { return config; }
}""",
    f"{_REST}.message.Parameters": """
public abstract class Parameters extends MessageParameters {
  private final List<MessagePathParameter<?>> path = new ArrayList<>();
  private final List<MessageQueryParameter<?>> query = new ArrayList<>();
  protected void path(String key, Object value) {
    MessagePathParameter<String> parameter = new MessagePathParameter<String>(key) {
      protected String convertFromString(String text) { return text; }
      protected String convertToString(String text) { return text; }
      public String getDescription() { return ""; }
    };
    if (value != null) parameter.resolve(value.toString());
    path.add(parameter);
  }
  protected void query(String key, Object value) {
    Query parameter = new Query(key);
    if (value != null) parameter.resolve(List.of(value.toString()));
    query.add(parameter);
  }
  private static class Query extends MessageQueryParameter<String> {
    Query(String key) { super(key, MessageParameterRequisiteness.OPTIONAL); }
    public String convertStringToValue(String text) { return text; }
    public String convertValueToString(String text) { return text; }
    public String getDescription() { return ""; }
  }
  public Collection<MessagePathParameter<?>> getPathParameters() { return path; }
  public Collection<MessageQueryParameter<?>> getQueryParameters() { return query; }
}""",
    f"{_REST}.message.session.SessionMessageParameters": f"""
public class SessionMessageParameters extends {_REST}.message.Parameters {{
  public SessionMessageParameters() {{ this(null); }}
  public SessionMessageParameters(SessionHandle session) {{
    path("session_handle", session == null ? null : session.getIdentifier());
  }}
}}""",
    f"{_REST}.message.operation.OperationMessageParameters": f"""
public class OperationMessageParameters extends {_REST}.message.session.SessionMessageParameters {{
  public OperationMessageParameters() {{ this(null, null); }}
  public OperationMessageParameters(SessionHandle session, OperationHandle operation) {{
    super(session);
    path("operation_handle", operation == null ? null : operation.getIdentifier());
  }}
}}""",
    f"{_REST}.message.statement.FetchResultsMessageParameters": f"""
public class FetchResultsMessageParameters extends {_REST}.message.operation.OperationMessageParameters {{
  public FetchResultsMessageParameters() {{ this(null, null, null, null); }}
  public FetchResultsMessageParameters(
      SessionHandle session, OperationHandle operation, Long token, {_REST}.util.RowFormat format) {{
    super(session, operation);
    path("token", token);
    query("rowFormat", format);
  }}
}}""",
    f"{_REST}.message.statement.FetchResultsResponseBody": f"""
@JsonDeserialize(using = FetchResultsResponseBody.Reader.class)
public interface FetchResultsResponseBody extends ResponseBody {{
  ResultSet.ResultType getResultType();
  boolean isQueryResult();
  JobID getJobID();
  ResultKind getResultKind();
  {_REST}.serde.ResultInfo getResults();
  String getNextResultUri();

  class Reader extends JsonDeserializer<FetchResultsResponseBody> {{
    public FetchResultsResponseBody deserialize(JsonParser parser, DeserializationContext context)
        throws java.io.IOException {{
      JsonNode body = parser.readValueAsTree();
      return new FetchResultsResponseBody() {{
        public ResultSet.ResultType getResultType() {{
          return ResultSet.ResultType.valueOf(body.required("resultType").asText());
        }}
        public boolean isQueryResult() {{ return body.required("isQueryResult").asBoolean(); }}
        public JobID getJobID() {{
          return body.has("jobID") ? JobID.fromHexString(body.get("jobID").asText()) : null;
        }}
        public ResultKind getResultKind() {{ return ResultKind.valueOf(body.required("resultKind").asText()); }}
        public {_REST}.serde.ResultInfo getResults() {{
          return new {_REST}.serde.ResultInfo(body.required("results"));
        }}
        public String getNextResultUri() {{
          return body.has("nextResultUri") ? body.get("nextResultUri").asText() : null;
        }}
      }};
    }}
  }}
}}""",
    f"{_REST}.serde.ResultInfo": """
public class ResultInfo {
  private final JsonNode results;
  public ResultInfo(JsonNode results) {
    if (!results.required("rowFormat").asText().equals("PLAIN_TEXT")) throw new IllegalStateException("not asked for");
    this.results = results;
  }
  public ResolvedSchema getResultSchema() {
    List<Column> columns = new ArrayList<>();
    for (JsonNode column : results.required("columns")) {
      DataType type = TypeConversions.fromLogicalToDataType(type(column.required("logicalType")));
      columns.add(Column.physical(column.required("name").asText(), type));
    }
    return ResolvedSchema.of(columns);
  }
  private static LogicalType type(JsonNode node) {
    String name = node.required("type").asText();
    String suffix = node.required("nullable").asBoolean() ? "" : " NOT NULL";
    String text = switch (name) {
      case "CHAR", "VARCHAR", "BINARY", "VARBINARY" -> name + "(" + node.required("length").asInt() + ")";
      case "DECIMAL" -> "DECIMAL(" + node.required("precision").asInt() + ", " + node.required("scale").asInt() + ")";
      case "TIMESTAMP_WITHOUT_TIME_ZONE" -> "TIMESTAMP(" + node.required("precision").asInt() + ")";
      case "TIMESTAMP_WITH_LOCAL_TIME_ZONE" -> "TIMESTAMP_LTZ(" + node.required("precision").asInt() + ")";
      case "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE" -> name;
      default -> throw new IllegalStateException("no such type: " + node);
    };
    return LogicalTypeParser.parse(text + suffix, ResultInfo.class.getClassLoader());
  }
  public List<RowData> getData() {
    List<RowData> rows = new ArrayList<>();
    for (JsonNode row : results.required("data")) {
      List<Object> fields = new ArrayList<>();
      for (JsonNode field : row.required("fields")) fields.add(StringData.fromString(field.asText()));
      rows.add(GenericRowData.ofKind(RowKind.valueOf(row.required("kind").asText()), fields.toArray()));
    }
    return rows;
  }
}""".replace("DataType type", "org.apache.flink.table.types.DataType type"),
}


def _request(name: str, arguments: str) -> str:
    names = [
        argument.rpartition(" ")[2] for argument in arguments.replace(", String>", ",String>").split(", ")
    ]
    simple = f"{name.rpartition('.')[2]}RequestBody"
    fields = "".join(
        f"  @JsonProperty public {a};\n" for a in arguments.replace(", String>", ",String>").split(", ")
    )
    sets = " ".join(f"this.{n} = {n};" for n in names)
    return f"public class {simple} implements RequestBody {{\n{fields}  public {simple}({arguments}) {{ {sets} }}\n}}"


def _response(name: str, kind: str, member: str) -> str:
    simple = f"{name.rpartition('.')[2]}ResponseBody"
    getter = f"get{member[0].upper()}{member[1:]}"
    return f"""public class {simple} implements ResponseBody {{
  private final {kind} value;
  @JsonCreator public {simple}(@JsonProperty("{member}") {kind} value) {{ this.value = Objects.requireNonNull(value); }}
  @JsonProperty("{member}") public {kind} {getter}() {{ return value; }}
}}"""


def _header(name: str, method: str, path: str, request: str, response: str, parameters: str) -> str:
    simple = f"{name.rpartition('.')[2]}Headers"
    asked = f"{_REST}.message.{request}RequestBody" if request else "EmptyRequestBody"
    answered = f"{_REST}.message.{response}ResponseBody" if response else "EmptyResponseBody"
    placed = f"{_REST}.message.{parameters}MessageParameters" if parameters else "EmptyMessageParameters"
    made = f"new {placed}()" if parameters else "EmptyMessageParameters.getInstance()"
    return f"""public class {simple} implements MessageHeaders<{asked}, {answered}, {placed}> {{
  private static final {simple} INSTANCE = new {simple}();
  public static {simple} getInstance() {{ return INSTANCE; }}
  public static {simple} getDefaultInstance() {{ return INSTANCE; }}
  public HttpMethodWrapper getHttpMethod() {{ return HttpMethodWrapper.{method}; }}
  public String getTargetRestEndpointURL() {{ return "{path}"; }}
  public Collection<{_REST}.util.SqlGatewayRestAPIVersion> getSupportedAPIVersions() {{
    return List.of({_REST}.util.SqlGatewayRestAPIVersion.values());
  }}
  public Class<{asked}> getRequestClass() {{ return {asked}.class; }}
  public Class<{answered}> getResponseClass() {{ return {answered}.class; }}
  public HttpResponseStatus getResponseStatusCode() {{ return HttpResponseStatus.OK; }}
  public {placed} getUnresolvedMessageParameters() {{ return {made}; }}
  public String getDescription() {{ return ""; }}
}}"""


def sources() -> dict[str, str]:
    """The text of each class, by its full name."""
    found = dict(_OTHERS)
    found |= {f"{_REST}.message.{n}RequestBody": _request(n, a) for n, a in _REQUESTS.items()}
    found |= {f"{_REST}.message.{n}ResponseBody": _response(n, *r) for n, r in _RESPONSES.items()}
    found |= {f"{_REST}.header.{n}Headers": _header(n, *h) for n, h in _HEADERS.items()}
    return found


def compile_messages(directory: Path, class_path: str) -> Path:
    """Compile the classes into `classes` below the directory. PeerError when that fails."""
    files = []
    for name, text in sources().items():
        package, _, simple = name.rpartition(".")
        path = directory / "source" / package.replace(".", "/") / f"{simple}.java"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"package {package};\n{_IMPORTS}\n{text}\n", encoding="utf-8")
        files.append(str(path))
    classes = directory / "classes"
    command = ["javac", "-nowarn", "-cp", class_path, "-d", str(classes), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise PeerError(f"javac failed: {done.stderr[-3000:]}")
    return classes
