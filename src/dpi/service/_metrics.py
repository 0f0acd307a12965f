"""Metrics for the operator, as Prometheus reads them: how much comes in, how long it takes, whether it works.

Numbers of batches, rows, bytes and seconds are made from events. So `/v1/metrics` is the curator's and the
administrator's, and no analyst's; and labels are public words alone (routes, streams, statuses), so that no series is
named after a user or a producer. What is counted here decides nothing.

OpenTelemetry: where its library is installed, requests and closings are spans of the tracer `dpi`; where it is not, or
nobody has set it up (`opentelemetry-instrument`, `OTEL_…`), they are nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dpi.sources import Understood

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
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        self.requests = counter("dpi_requests", "Requests.", ("method", "route", "status"))
        self.request_seconds = histogram("dpi_request_seconds", "How long requests took.", ("route",))
        self.batch_bytes = counter("dpi_batch_bytes", "Bytes of batches.", ("stream",))
        self.batches = counter("dpi_batches", "Batches, kept or refused.", ("stream", "kept"))
        self.rows = counter("dpi_rows", "Rows of batches that were kept.", ("stream", "usable"))
        self.unusable = gauge("dpi_unusable_senders", "Whose rows were mostly unusable.", ("stream",))
        self.stage_seconds = counter("dpi_stage_seconds", "Seconds of work in each stage.", ("stage",))
        self.closing_seconds = histogram("dpi_closing_seconds", "How long slots took to close.", ("stream",))
        self.late = counter("dpi_late_releases", "Releases seen after their first tick.", ("stream",))
        self.slot = gauge("dpi_last_slot", "The last slot that was released.", ("stream",))
        self.quiet = gauge("dpi_quiet_slots", "Whole slots without a batch.", ("stream",))
        self.silent = gauge("dpi_silent", "1 while these make a stream silent.", ("stream",))
        self.failures = counter("dpi_failures", "Errors of the store, by kind.", ("kind",))
        self.failing = gauge("dpi_failing", "1 while the next slot of a stream cannot be closed.", ("stream",))

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def note_rows(self, stream: str, understood: Understood) -> None:
        """Count the rows of a batch."""
        self.rows.labels(stream, "true").inc(understood.usable)
        self.rows.labels(stream, "false").inc(understood.rows - understood.usable)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.stage_seconds.labels(name).inc(time.perf_counter() - began)


@contextmanager
def span(name: str, **facts: str | int) -> Iterator[None]:
    """Open a span of OpenTelemetry, with public facts; nothing where its library is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        yield
        return
    with trace.get_tracer("dpi").start_as_current_span(
        name, attributes=facts, record_exception=False, set_status_on_exception=False
    ):
        yield
