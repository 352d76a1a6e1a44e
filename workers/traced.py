"""Trace by OpenTelemetry's own instrumentation, and send spans without people's words."""

import os
from collections.abc import Sequence

from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

QUIET = "healthz,readyz,metrics"
KEPT = ("backscroll.", "celery.", "messaging.", "db.system", "db.statement", "db.query.text", "db.operation")
"""Prefixes of the attributes that are sent. URLs contain ids of people and search words."""
KEPT_OF_HTTP = {
    "http.method",
    "http.request.method",
    "http.route",
    "http.status_code",
    "http.response.status_code",
}


def start(service: str, app: FastAPI | None) -> TracerProvider:
    """Trace an HTTP application, or tasks, and the statements of both without their values."""
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: service}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(WithoutTexts(OTLPSpanExporter())))
    trace.set_tracer_provider(provider)
    PsycopgInstrumentor().instrument(tracer_provider=provider)
    if app is None:
        CeleryInstrumentor().instrument(tracer_provider=provider)  # type: ignore[no-untyped-call]
    else:
        FastAPIInstrumentor.instrument_app(
            app, tracer_provider=provider, excluded_urls=QUIET, exclude_spans=["receive", "send"]
        )
    return provider


class WithoutTexts(SpanExporter):
    """Sends spans without the texts of errors, which may quote what people wrote, and without addresses."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans."""
        return self._exporter.export([_without_texts(span) for span in spans])

    def shutdown(self) -> None:
        """End sending."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send buffered spans."""
        return self._exporter.force_flush(timeout_millis)


def _without_texts(span: ReadableSpan) -> ReadableSpan:
    attributes = span.attributes or {}
    return ReadableSpan(
        span.name,
        span.get_span_context(),
        span.parent,
        span.resource,
        {name: attributes[name] for name in attributes if name.startswith(KEPT) or name in KEPT_OF_HTTP},
        # exceptions
        events=(),
        links=span.links,
        kind=span.kind,
        status=trace.Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
