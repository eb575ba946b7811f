"""What the server sends to collectors by OTLP: metrics, and spans of statements, checkpoints and restarts."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlstream import __version__
from sqlstream.client.gateway.asker import AskedStatement, StatementListener
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.prometheus import Labels, collect, is_counter
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.messages.checkpoint_statistics import CheckpointRecord, CheckpointStatus
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, Metrics, RestartRecord
from sqlstream.options.reporters import OtlpReporter
from sqlstream.runtime.host.clock import now_ms
from sqlstream.secrets import without_secrets

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Tracer

logger = logging.getLogger(__name__)

POLL_S = 1.0
"""How often jobs are asked for new checkpoints and restarts."""

OPEN_STATEMENTS_MAX = 10_000
TEXT_CHARACTERS_MAX = 4_000
FLUSH_MS = 2_000
"""How long the end of the server waits at most until what is left has been sent."""

_NS_PER_MS = 1_000_000


class Telemetry:
    """The reporters of one server, from `start` to `stop`. Collectors that do not answer hold nothing up: what they do not take
    is lost, and the library's log says so. State: threads and what waits to be sent, which the library bounds."""

    def __init__(self, reporters: tuple[OtlpReporter, ...]) -> None:
        """UserError SS6122 when there are reporters and the package is not installed."""
        self._ends: list[Callable[[], None]] = []
        self._stopped = threading.Event()
        self._metrics = [_MetricExport(r) for r in reporters if r.kind == "metrics"]
        self._spans: Spans | None = None
        traced = [r for r in reporters if r.kind == "traces"]
        if traced:
            self._spans = Spans([_tracer(r, self._ends) for r in traced])

    def listening(self, listener: StatementListener) -> StatementListener:
        return TracedStatements(listener, self._spans) if self._spans is not None else listener

    def start(self, view: ClusterView) -> None:
        watcher = JobWatcher(view, self._spans) if self._spans is not None else None
        if watcher is not None:
            self._repeat("otel-traces", POLL_S, watcher.look)
        for export in self._metrics:
            self._ends.append(export.close)
            self._repeat("otel-metrics", export.interval_s, functools.partial(export.send, view))

    def _repeat(self, name: str, interval_s: float, call: Callable[[], None]) -> None:
        def run() -> None:
            while not self._stopped.wait(interval_s):
                try:
                    call()
                except SqlStreamError as error:
                    logger.warning("what is sent to collectors could not be read: %s", error.message)
                except Exception:  # the thread's boundary: the next reading may go well
                    logger.exception("what is sent to collectors could not be read")

        threading.Thread(target=run, name=name, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        for end in self._ends:
            end()


def _resource(reporter: OtlpReporter) -> Resource:
    try:
        from opentelemetry.sdk.resources import Resource
    except ImportError as error:
        raise UserError(
            "SS6122", f'the reporter "{reporter.name}" needs the packages of OpenTelemetry'
        ) from error
    version = reporter.service_version or __version__
    return Resource.create({"service.name": reporter.service_name, "service.version": version})


def _exporter_options(reporter: OtlpReporter) -> dict[str, Any]:
    from opentelemetry.exporter.otlp.proto.http import Compression

    return {
        "endpoint": reporter.endpoint,
        "timeout": reporter.timeout_ms / 1000,
        "compression": Compression.Gzip if reporter.is_compressed else Compression.NoCompression,
    }


def _tracer(reporter: OtlpReporter, ends: list[Callable[[], None]]) -> Tracer:
    resource = _resource(reporter)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    processor = BatchSpanProcessor(
        OTLPSpanExporter(**_exporter_options(reporter)), schedule_delay_millis=1000
    )
    provider.add_span_processor(processor)

    def end() -> None:
        # The exporter tries for long where nobody answers: the server does not wait for that.
        flush = threading.Thread(target=provider.shutdown, name="otel-flush", daemon=True)
        flush.start()
        flush.join(FLUSH_MS / 1000)

    ends.append(end)
    return provider.get_tracer("sqlstream", __version__)


class Spans:
    """Begins and ends spans of whole durations, at every tracer. No state."""

    def __init__(self, tracers: list[Tracer]) -> None:
        self._tracers = tracers

    def add(
        self, name: str, begin_ms: int, end_ms: int, attributes: Mapping[str, Any], failure: str = ""
    ) -> None:
        from opentelemetry.trace import Status, StatusCode

        for tracer in self._tracers:
            span = tracer.start_span(name, start_time=begin_ms * _NS_PER_MS, attributes=dict(attributes))
            if failure:
                span.set_status(Status(StatusCode.ERROR, failure))
            span.end(end_time=max(begin_ms, end_ms) * _NS_PER_MS)


class TracedStatements:
    """A span for each statement of the gateway, from its arrival until it is settled; a query is when its rows can be fetched.
    State: when those that are open began, at most OPEN_STATEMENTS_MAX."""

    def __init__(self, listener: StatementListener, spans: Spans) -> None:
        self._listener = listener
        self._spans = spans
        self._begun: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def announce(self, statement: AskedStatement) -> None:
        self._listener.announce(statement)
        with self._lock:
            self._begun[statement.operation] = now_ms()
            if len(self._begun) > OPEN_STATEMENTS_MAX:
                self._begun.popitem(last=False)

    def end(self, statement: AskedStatement, outcome: str, error: SqlStreamError | None) -> None:
        self._listener.end(statement, outcome, error)
        with self._lock:
            begin_ms = self._begun.pop(statement.operation, None)
        if begin_ms is None:
            return
        attributes = {
            "db.system.name": "sqlstream",
            "db.query.text": without_secrets(statement.text)[:TEXT_CHARACTERS_MAX],
            "enduser.id": statement.asker.user,
            "sqlstream.session": statement.session,
            "sqlstream.operation": statement.operation,
            "sqlstream.outcome": outcome,
        }
        failure = ""
        if error is not None:
            attributes["error.type"] = error.code
            failure = without_secrets(error.message)
        self._spans.add("Statement", begin_ms, now_ms(), attributes, failure)


class _Told(NamedTuple):
    """The checkpoints, and the times of failures, that had their spans."""

    checkpoints: frozenset[int] = frozenset()
    restarts: frozenset[int] = frozenset()
    is_over: bool = False


class JobWatcher:
    """A span for each checkpoint that has ended, with Flink's attributes, and for each restart, from the failure until the job
    runs again. It looks each POLL_S: of checkpoints that end more often than ten a POLL_S some are missed. State: what of each
    job that the cluster lists has had its span."""

    def __init__(self, view: ClusterView, spans: Spans) -> None:
        self._view = view
        self._spans = spans
        self._told: dict[str, _Told] = {}
        self._started_ms = now_ms()

    def look(self) -> None:
        jobs = self._view.cluster.jobs()
        self._told = {entry.job_id: self._told.get(entry.job_id, _Told()) for entry in jobs}
        for entry in jobs:
            before = self._told[entry.job_id]
            is_new = not entry.status.is_terminal or entry.end_ms >= self._started_ms
            if is_new and not before.is_over:
                # Else it was forgotten since the list was made.
                with contextlib.suppress(SqlStreamError):
                    self._told[entry.job_id] = self._tell(entry.job_id, before)

    def _tell(self, job_id: str, before: _Told) -> _Told:
        details, found = self._view.cluster.details(job_id), self._view.cluster.checkpoints(job_id)
        ended = [r for r in found.history if r.status is not CheckpointStatus.IN_PROGRESS]
        for record in reversed(ended):
            if record.id not in before.checkpoints and record.ended_ms >= self._started_ms:
                self._add_checkpoint(details, record)
        # A job that restarts has not come back from its last failure.
        is_back = details.status is JobStatus.RUNNING or details.status.is_terminal
        restarts = details.restarts if is_back else ()
        for restart in reversed(restarts):
            if restart.failed_ms not in before.restarts and restart.failed_ms >= self._started_ms:
                self._add_restart(details, restart)
        return _Told(
            frozenset(r.id for r in ended),
            frozenset(r.failed_ms for r in restarts) if is_back else before.restarts,
            details.status.is_terminal,
        )

    def _add_checkpoint(self, details: JobDetails, record: CheckpointRecord) -> None:
        attributes = {
            "jobId": details.job_id,
            "jobName": details.name,
            "checkpointId": record.id,
            "fullSize": record.state_bytes,
            "checkpointedSize": record.written_bytes,
            "checkpointStatus": record.status.value,
            "checkpointType": record.kind.value,
            "isUnaligned": record.has_in_flight,
        }
        failure = f"{record.error.code}: {record.error.message}" if record.error is not None else ""
        self._spans.add("Checkpoint", record.triggered_ms, record.ended_ms, attributes, failure)

    def _add_restart(self, details: JobDetails, restart: RestartRecord) -> None:
        running_ms = details.timestamps_ms.get(JobStatus.RUNNING.value, restart.failed_ms)
        attributes = {
            "jobId": details.job_id,
            "jobName": details.name,
            "task": restart.task,
            "error.type": restart.error.code,
            "fromCheckpoint": restart.checkpoint_id,
        }
        said = without_secrets(restart.error.message)
        self._spans.add("JobRestart", restart.failed_ms, running_ms, attributes, said)


class _MetricExport:
    """Sends all metrics that Prometheus reads. State: the exporter's connections."""

    def __init__(self, reporter: OtlpReporter) -> None:
        self._resource = _resource(reporter)
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        self._exporter = OTLPMetricExporter(**_exporter_options(reporter))
        self.interval_s = reporter.interval_ms / 1000

    def send(self, view: ClusterView) -> None:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        points = DataPoints(now_ms() * _NS_PER_MS)
        collect(view, points)
        scope = ScopeMetrics(InstrumentationScope("sqlstream", __version__), list(points.metrics()), "")
        self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))

    def close(self) -> None:
        self._exporter.shutdown(timeout_millis=FLUSH_MS)


class DataPoints:
    """Collects what Prometheus reads as OpenTelemetry's data points, under Flink's names with dots, such as
    `flink.jobmanager.job.uptime`. State: the points so far."""

    def __init__(self, time_ns: int) -> None:
        self._time_ns = time_ns
        self._numbers: dict[str, list[Any]] = {}
        self._counters: set[str] = set()
        self._histograms: dict[str, list[Any]] = {}

    def add(self, scope: str, labels: Labels, metrics: Metrics) -> None:
        from opentelemetry.sdk.metrics.export import NumberDataPoint

        for metric, value in metrics.items():
            name = _name(scope, metric)
            if is_counter(metric):
                self._counters.add(name)
            point = NumberDataPoint(dict(labels), 0, self._time_ns, value)
            self._numbers.setdefault(name, []).append(point)

    def add_histogram(self, scope: str, labels: Labels, name: str, parts: Metrics) -> None:
        from opentelemetry.sdk.metrics.export import HistogramDataPoint

        bounds = sorted(int(part.removeprefix("le.")) for part in parts if part.startswith("le."))
        reached = [0, *(int(parts[f"le.{bound}"]) for bound in bounds), int(parts["count"])]
        counts = [after - before for before, after in itertools.pairwise(reached)]
        # The least and the most are not known.
        unknown: Any = None
        point = HistogramDataPoint(
            dict(labels),
            0,
            self._time_ns,
            int(parts["count"]),
            parts["sum"],
            counts,
            bounds,
            unknown,
            unknown,
        )
        self._histograms.setdefault(_name(scope, name), []).append(point)

    def add_summary(self, scope: str, labels: Labels, name: str, statistics: Mapping[str, float]) -> None:
        """Each statistic is a gauge of its own: the protocol has no summaries to be sent."""
        self.add(scope, labels, {f"{name}.{stat}": value for stat, value in statistics.items()})

    def metrics(self) -> Iterator[Any]:
        from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Metric, Sum

        cumulative = AggregationTemporality.CUMULATIVE
        for name, points in self._numbers.items():
            is_sum = name in self._counters
            yield Metric(name, "", "", Sum(points, cumulative, True) if is_sum else Gauge(points))
        for name, points in self._histograms.items():
            yield Metric(name, "", "ms", Histogram(points, cumulative))


def _name(scope: str, metric: str) -> str:
    return f"flink.{scope.replace('_', '.')}.{metric}"
