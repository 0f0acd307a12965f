"""Metrics for the operator, as Prometheus reads them: how much comes in, how long it takes, whether it works.

Numbers of batches, bytes and seconds are made from events. So `/v1/metrics` is the curator's and the administrator's,
and no analyst's; and labels are public words alone (routes, streams, statuses), so that no series is named after a user
or a producer. What is counted here decides nothing.

OpenTelemetry: where its library is installed, requests and closings are spans of the tracer `dpi`; where it is not, or
nobody has set it up (`opentelemetry-instrument`, `OTEL_…`), they are nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """The numbers of one service.

    >>> metrics = Metrics()
    >>> metrics.requests.labels("GET", "/v1/streams", "200").inc()
    >>> b'dpi_requests_total{method="GET",route="/v1/streams",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "dpi_requests", "Requests.", ("method", "route", "status"), registry=self.registry
        )  # fmt: skip
        self.request_seconds = Histogram(
            "dpi_request_seconds", "How long requests took.", ("route",), buckets=_SECONDS, registry=self.registry
        )
        self.batch_bytes = Counter("dpi_batch_bytes", "Bytes of batches.", ("stream",), registry=self.registry)
        self.batches = Counter("dpi_batches", "Batches, kept or refused.", ("stream", "kept"), registry=self.registry)
        self.stage_seconds = Counter(
            "dpi_stage_seconds", "Seconds of work in each stage.", ("stage",), registry=self.registry
        )
        self.closing_seconds = Histogram(
            "dpi_closing_seconds", "How long slots took to close.", ("stream",), buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.late = Counter(
            "dpi_late_releases", "Releases seen after their first tick.", ("stream",), registry=self.registry
        )
        self.slot = Gauge("dpi_last_slot", "The last slot that was released.", ("stream",), registry=self.registry)
        self.quiet = Gauge("dpi_quiet_slots", "Whole slots without a batch.", ("stream",), registry=self.registry)
        self.silent = Gauge("dpi_silent", "1 while these make a stream silent.", ("stream",), registry=self.registry)
        self.failures = Counter("dpi_failures", "Errors of the store, by kind.", ("kind",), registry=self.registry)
        self.failing = Gauge(
            "dpi_failing", "1 while the next slot of a stream cannot be closed.", ("stream",), registry=self.registry
        )
        self.leading = Gauge("dpi_leading", "1 while this replica leads.", registry=self.registry)

    def text(self) -> bytes:
        """All numbers as Prometheus reads them."""
        return generate_latest(self.registry)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Work of one stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.stage_seconds.labels(name).inc(time.perf_counter() - began)


def _tracer() -> Tracer | None:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("dpi")


@contextmanager
def span(name: str, **facts: str | int) -> Iterator[None]:
    """A span of OpenTelemetry, with public facts; nothing where its library is not installed."""
    tracer = _tracer()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(name, attributes=facts, record_exception=False, set_status_on_exception=False):
        yield
