"""One trace from a request to its vector, as a collector receives it from real processes, and nothing said in it."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.jobs import jobs
from tests.conftest import TENANT
from tests.processes.conftest import SECONDS, Deployment, deployed, door, talk
from tests.waiting import until
from workers.queues import wake_up


class Collector:
    """A collector of OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.bodies = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, body: bytes) -> None:
        self.bodies += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(named["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    @contextmanager
    def running(self) -> Iterator["Collector"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def joined(self, name: str) -> list[Span]:
        """The spans of the traces that a span of this name is in, or that are linked to them."""
        traces = {span.trace_id for span in self.spans if span.name == name}
        return [
            span
            for span in self.spans
            if span.trace_id in traces or any(link.trace_id in traces for link in span.links)
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().running() as collector:
        yield collector


@pytest.fixture
def traced(collector: Collector) -> dict[str, str]:
    """The settings of a process that sends what it does to the collector."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}


@pytest.fixture
def deployment(postgres: EmbeddedPostgres, tmp_path: Path, traced: dict[str, str]) -> Iterator[Deployment]:
    with deployed(postgres, tmp_path, "traces") as running:
        running.start_workers(names=("ingest", "embed", "summarize"), **traced)
        yield running


@pytest.fixture
def client(deployment: Deployment, traced: dict[str, str]) -> Iterator[httpx.Client]:
    with (
        door(deployment, **traced) as url,
        httpx.Client(base_url=url, headers={"Authorization": "Bearer test-key"}, timeout=60) as client,
    ):
        yield client


def test_a_request_and_all_that_is_made_of_it_are_one_trace(
    deployment: Deployment, client: httpx.Client, collector: Collector
) -> None:
    # When messages are handed over
    body = {"chat": "test:маяк", "messages": talk(5)}
    accepted = client.post("/v1/messages", json=body)
    assert accepted.status_code == 202
    deployment.wait_for("test:маяк", 5)
    # and there is a request with words in its address
    assert client.get("/v1/chats/test:lighthouse", params={"q": "lighthouse"}).status_code == 404
    # and something fails with an error of Postgres that quotes what it was given
    with deployment.database.tenant(TENANT) as connection:
        jobs.enqueue(connection, TENANT, "embed", ["memory:калейдоскоп"])
    wake_up(deployment.app, "embed")

    def failed() -> set[str]:
        return {s.name for s in collector.spans if s.status.code == Status.STATUS_CODE_ERROR}

    until(lambda: failed() >= {"jobs/embed", "SELECT"}, "the failure", SECONDS)

    # Then the vector's statement is in the trace of the request, through Postgres and all workers
    def made() -> set[str]:
        return {span.name for span in collector.joined("POST /v1/messages")}

    kinds = {"jobs/ingest", "jobs/embed", "jobs/summarize", "jobs/extract"}
    until(lambda: kinds <= made(), "all kinds of jobs", SECONDS)
    joined = {span.span_id: span for span in collector.joined("POST /v1/messages")}
    # and that is the request's id, which its sender is told
    request = bytes.fromhex(accepted.json()["request_id"].split("-")[1])
    assert kinds <= {span.name for span in joined.values() if span.trace_id == request}
    writing = [
        span
        for span in joined.values()
        for each in span.attributes
        if each.key.startswith("db.") and "INSERT INTO message_vectors" in each.value.string_value
    ]
    assert {joined[span.parent_span_id].name for span in writing} == {"jobs/embed"}
    assert collector.services == {"backscroll-api", "backscroll-worker"}
    asked = {"POST /v1/messages", "GET /v1/chats/{chat_id}"}
    until(lambda: {span.name for span in collector.spans} >= asked, "both requests", SECONDS)
    # and nobody reads there what was said, nor what was asked for
    for word in ("lighthouse", "калейдоскоп", "маяк"):
        assert word.encode() not in collector.bodies
