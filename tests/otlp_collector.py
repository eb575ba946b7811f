"""A collector of OpenTelemetry on loopback: it takes OTLP by HTTP and decodes the protobuf."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from http_harness import Asked, Reply, http_server
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """State: what has come, in its order. Metrics are by name, those that came last."""

    url: str = ""
    spans: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    resources: list[dict[str, Any]] = field(default_factory=list)
    encodings: set[str] = field(default_factory=set)

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]

    def take(self, asked: Asked) -> None:
        encoding = asked.headers.get("content-encoding", "")
        self.encodings.add(encoding)
        body = gzip.decompress(asked.body) if encoding == "gzip" else asked.body
        if asked.path.endswith("/v1/traces"):
            self._take_spans(ExportTraceServiceRequest.FromString(body))
        else:
            self._take_metrics(ExportMetricsServiceRequest.FromString(body))

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for of_resource in request.resource_spans:
            self.resources.append(_attributes(of_resource.resource.attributes))
            for span in (span for scope in of_resource.scope_spans for span in scope.spans):
                took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
                self.spans.append(
                    {
                        "name": span.name,
                        "ms": took_ms,
                        "failure": span.status.message,
                        **_attributes(span.attributes),
                    }
                )

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for of_resource in request.resource_metrics:
            self.resources.append(_attributes(of_resource.resource.attributes))
            for metric in (metric for scope in of_resource.scope_metrics for metric in scope.metrics):
                self.metrics[metric.name] = metric


def _attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found}


@contextlib.contextmanager
def otlp_collector() -> Iterator[Collector]:
    made = Collector()

    def reply(asked: Asked) -> Reply:
        made.take(asked)
        return Reply(headers={"content-type": "application/x-protobuf"})

    with http_server(reply) as server:
        made.url = server.url.rstrip("/")
        yield made
