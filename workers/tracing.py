"""Send traces by OpenTelemetry, if OTEL_EXPORTER_OTLP_ENDPOINT names a receiver; otherwise nothing of it is loaded.

A request without its own id is identified by its `traceparent`. Jobs carry that through Postgres, so that a batch
belongs to the trace of its request, or is linked to those of several.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog

from pipeline.store.jobs.jobs import Claim

if TYPE_CHECKING:
    from fastapi import FastAPI

log = structlog.get_logger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
TRACEPARENT = "traceparent"
MAX_NAMED = 20
"""Most requests that the span of a batch names."""

# the provider of this process, if it sends traces
_provider: Any = None


def start(name: str, app: "FastAPI | None" = None) -> None:
    """Send traces as the service `backscroll-NAME`, of an HTTP application or of tasks.

    Each process calls this after its fork, which the sending thread would not survive.
    """
    global _provider
    if not any(os.environ.get(variable) for variable in ENDPOINTS):
        return
    try:
        from workers import traced
    except ImportError as error:
        log.warning("traces_off", error=str(error), remedy="install the extra `otel`")
        return
    _provider = traced.start(f"backscroll-{name}", app)


def stop() -> None:
    """Send buffered spans before the end of a process that runs no exit handlers."""
    if _provider is not None:
        _provider.shutdown()


def name_request(request_id: str | None) -> str | None:
    """Return the id of the current request, by default its `traceparent`, and set it on its span."""
    if _provider is None:
        return request_id
    from opentelemetry import trace

    carrier: dict[str, Any] = {}
    carry(carrier)
    name = request_id or carrier.get(TRACEPARENT)
    trace.get_current_span().set_attribute("backscroll.request_id", name or "")
    return name


def carry(headers: dict[str, Any]) -> None:
    """Put the current span into a task's headers, so that the task continues the trace."""
    if _provider is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)


@contextmanager
def batch(kind: str, claims: Sequence[Claim]) -> Iterator[None]:
    """Trace a batch of jobs, in the trace that requested it, or linked to each of several."""
    if _provider is None or not claims:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = sorted({claim.trace_id for claim in claims if claim.trace_id})
    contexts = [TraceContextTextMapPropagator().extract({TRACEPARENT: name}) for name in names]
    links = [trace.Link(trace.get_current_span(context).get_span_context()) for context in contexts]
    alone = contexts[0] if len(contexts) == 1 and links[0].context.is_valid else None
    if alone is not None:
        links = [trace.Link(trace.get_current_span().get_span_context())]
    attributes: dict[str, Any] = {"backscroll.jobs": len(claims), "backscroll.request_ids": names[:MAX_NAMED]}
    tracer = trace.get_tracer(__name__)
    with tracer.start_as_current_span(f"jobs/{kind}", alone, links=links, attributes=attributes) as span:
        yield
        if failed := sum(bool(claim.failures) for claim in claims):
            span.set_attribute("backscroll.failed", failed)
            span.set_status(trace.StatusCode.ERROR)
