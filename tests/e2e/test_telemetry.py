"""What a server sends to a collector of OpenTelemetry: spans of statements, checkpoints and restarts, and its metrics."""

from __future__ import annotations

from pathlib import Path

from command_harness import TIMEOUT_S, sqlstream
from otlp_collector import otlp_collector
from server_harness import RunningServer
from spark_harness.processes import wait_until

TRACES, METRICS = "traces.reporter.otel", "metrics.reporter.otel"
FACTORIES = (
    f"{TRACES}.factory.class=org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory",
    f"{METRICS}.factory.class=org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory",
)


def words_of(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("-D", setting)]


def test_statements_checkpoints_restarts_and_metrics_reach_a_collector(tmp_path: Path) -> None:
    with otlp_collector() as collector:
        words = words_of(
            *FACTORIES,
            f"{TRACES}.exporter.endpoint={collector.url}",
            f"{TRACES}.exporter.compression=gzip",
            f"{TRACES}.service.name=orders",
            f"{METRICS}.exporter.endpoint={collector.url}/v1/metrics",
            f"{METRICS}.exporter.protocol=HTTP",
            f"{METRICS}.interval=200 ms",
        )
        with RunningServer(tmp_path / "data", *words, "--task-managers", "1") as server:
            session = server.open_session()
            for statement in (
                "SET 'parallelism.default' = '1'",
                "SET 'execution.checkpointing.interval' = '200 ms'",
                "SET 'metrics.latency.interval' = '50 ms'",
                "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')",
                "CREATE TEMPORARY TABLE nothing (n BIGINT) WITH ('connector' = 'blackhole')",
            ):
                server.execute(session, statement)
            job_id = server.insert(session, "INSERT INTO nothing SELECT n FROM ticks")
            assert server.submit(session, "SELECT nothing_there FROM ticks").status_code == 200
            wait_until(lambda: bool(collector.named("Checkpoint")), TIMEOUT_S)
            for child in server.task_managers():
                child.kill()
            wait_until(lambda: bool(collector.named("JobRestart")), TIMEOUT_S)
            wait_until(lambda: any(s["failure"] for s in collector.named("Statement")), TIMEOUT_S)
            name = "flink.jobmanager.job.checkpointDuration"
            wait_until(lambda: name in collector.metrics, TIMEOUT_S)
            server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
            server.wait_for(job_id, "CANCELED")
        checkpoint = collector.named("Checkpoint")[0]
        assert (checkpoint["jobId"], checkpoint["checkpointStatus"]) == (job_id, "COMPLETED")
        assert checkpoint["ms"] >= 0
        restart = collector.named("JobRestart")[0]
        assert (restart["jobId"], bool(restart["failure"])) == (job_id, True)
        statements = {s["db.query.text"]: s for s in collector.named("Statement")}
        assert statements["INSERT INTO nothing SELECT n FROM ticks"]["sqlstream.outcome"] == "FINISHED"
        assert statements["SELECT nothing_there FROM ticks"]["error.type"] == "SS2003"
        # Its rates are gauges, what it counts are sums.
        assert (
            collector.metrics["flink.taskmanager.job.task.busyTimeMsPerSecond"].WhichOneof("data") == "gauge"
        )
        assert collector.metrics["flink.taskmanager.job.task.numRecordsOut"].sum.is_monotonic
        (durations,) = collector.metrics[name].histogram.data_points
        assert sum(durations.bucket_counts) == durations.count
        assert len(durations.bucket_counts) == len(durations.explicit_bounds) + 1
        assert {r["service.name"] for r in collector.resources} == {"orders", "sqlstream"}
        assert collector.encodings == {"gzip", ""}


def test_a_collector_that_is_not_there_holds_nothing_up(tmp_path: Path) -> None:
    words = words_of(*FACTORIES, *(f"{r}.exporter.endpoint=http://127.0.0.1:9" for r in (TRACES, METRICS)))
    with RunningServer(tmp_path / "data", *words_of(f"{METRICS}.interval=100 ms"), *words) as server:
        assert server.execute(server.open_session(), "SELECT 1") == [[1]]
        assert server.signal() == 0


def test_reporters_that_are_not_built_are_refused_at_the_start(tmp_path: Path) -> None:
    for setting, code in (
        ("metrics.reporter.jmx.factory.class=org.apache.flink.metrics.jmx.JMXReporterFactory", "SS4002"),
        (f"{TRACES}.exporter.protocol=gRPC", "SS4002"),
        (f"{TRACES}.exporter.endpoint=localhost", "SS6121"),
        (f"{TRACES}.filter.includes=*", "SS6121"),
    ):
        words = words_of(FACTORIES[0], f"{TRACES}.exporter.endpoint=http://localhost:4318", setting)
        refused = sqlstream("server", "--data-dir", str(tmp_path / "data"), "--port", "0", *words)
        assert (refused.returncode, code in refused.stderr) == (2, True), (setting, refused.stderr)
