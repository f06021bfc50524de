"""Figures of the server for Prometheus.

Several processes write their figures to files of one folder, and each answers with those of all.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the library reads it when a process imports it

LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
FILL = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1)


class Metrics:
    """Counters and histograms of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        of_model, of_work = ("model",), ("model", "component")
        self.requests = Counter(
            "regard_requests", "Answered requests.", ("path", "status"), registry=registry
        )
        self.latency = Histogram(
            "regard_latency_seconds",
            "Time from a request to its answer.",
            ("path",),
            buckets=LATENCIES,
            registry=registry,
        )
        self.rejected = Counter(
            "regard_rejected", "Refused requests, by reason.", ("reason",), registry=registry
        )
        self.queued_tokens = Gauge(
            "regard_queued_tokens",
            "Accepted tokens without result.",
            of_model,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.queued_requests = Gauge(
            "regard_queued_requests",
            "Accepted requests without answer.",
            of_model,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.batch_rows = Histogram(
            "regard_batch_rows",
            "Rows of a batch, or of a decoding step.",
            of_work,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )
        self.batch_fill = Histogram(
            "regard_batch_fill",
            "Tokens of a batch, or rows of a decoding step, as a share of the maximum.",
            of_work,
            buckets=FILL,
            registry=registry,
        )
        self.tokens = Counter("regard_tokens", "Tokens of all results.", of_work, registry=registry)
        self.seconds = Counter(
            "regard_busy_seconds", "Time in which the model ran.", of_work, registry=registry
        )

    def of_queue(self, model: str) -> tuple[Gauge, Gauge]:
        """Gauges of the tokens and of the requests that a model has."""
        return self.queued_tokens.labels(model), self.queued_requests.labels(model)

    def of_batches(self, model: str, component: str) -> "BatchMetrics":
        """Figures of the batches of a component."""
        names = (model, component)
        return BatchMetrics(
            self.batch_rows.labels(*names),
            self.batch_fill.labels(*names),
            self.tokens.labels(*names),
            self.seconds.labels(*names),
        )

    def text(self) -> bytes:
        """All figures in the text format of Prometheus, those of other processes with its own."""
        if (folder := os.environ.get(SHARED)) is None:
            return generate_latest(self.registry)
        _forget_queues_of_dead(Path(folder))
        joined = CollectorRegistry()
        MultiProcessCollector(joined, folder)
        return generate_latest(joined)

    def forget(self, model: str) -> None:
        """Remove the gauges of a model that is no longer served."""
        for gauge in (self.queued_tokens, self.queued_requests):
            gauge.remove(model)


@contextmanager
def joined_metrics() -> Iterator[None]:
    """Join the figures of the processes that are started during the block."""
    with TemporaryDirectory(prefix="regard-metrics-") as folder:
        os.environ[SHARED] = folder
        try:
            yield
        finally:
            del os.environ[SHARED]


def _forget_queues_of_dead(folder: Path) -> None:
    """What a process had queued went with it; what it has answered stays."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, str(folder))


class BatchMetrics(NamedTuple):
    """Figures of the batches of one component."""

    rows: Histogram
    fill: Histogram
    tokens: Counter
    seconds: Counter
