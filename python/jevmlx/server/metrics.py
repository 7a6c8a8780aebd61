"""What Prometheus is told."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from ..results import Decision

# Seconds: from a cached answer of a small model to the default deadline.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """One server's figures, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("jevmlx_requests", "Requests answered", ["route", "status"], registry=self._registry)
        self.seconds = Histogram(
            "jevmlx_request_seconds", "Seconds to answer", ["route"], buckets=_SECONDS, registry=self._registry
        )
        self.in_work = Gauge("jevmlx_requests_in_work", "Requests in work or waiting", registry=self._registry)
        self.models = Gauge("jevmlx_models_loaded", "Models in memory", registry=self._registry)
        self.fields = Counter("jevmlx_fields", "Fields by what became of them", ["status"], registry=self._registry)
        self.tokens = Counter("jevmlx_tokens", "Tokens by what they were", ["kind"], registry=self._registry)

    def decided(self, decision: Decision) -> None:
        """Counts a decision."""
        for result in decision.fields.values():
            self.fields.labels(result.status).inc()
        took = decision.timings
        for kind, count in (("prompt", took.computed_tokens), ("cached", took.cached_tokens), ("row", took.row_tokens)):
            self.tokens.labels(kind).inc(count)

    def text(self) -> bytes:
        """All figures in Prometheus's format."""
        return generate_latest(self._registry)
