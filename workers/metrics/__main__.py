"""`/metrics` for Prometheus, and `/healthz`: `python -m workers.metrics`.

Postgres, Redis and the doctor are read in the background; a scrape gets the last readings without waiting. It needs no
key and reveals no secrets, only amounts, so it listens on the loopback address unless told otherwise.
"""

import argparse

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pipeline.store.connections.database import Database
from schemas.load_settings import load_settings
from workers import claim_file
from workers.logging import configure_logging
from workers.metrics.collector import DOCTOR_SECONDS, READ_SECONDS, FiguresCollector

MAX_CONNECTIONS = 20


def main() -> None:
    """Serve until a signal."""
    settings = load_settings()
    parser = argparse.ArgumentParser(prog="python -m workers.metrics", description="Metrics of Backscroll.")
    parser.add_argument("--host", default=settings.metrics_host)
    parser.add_argument("--port", type=int, default=settings.metrics_port)
    parser.add_argument("--read-seconds", type=float, default=READ_SECONDS)
    parser.add_argument("--doctor-seconds", type=float, default=DOCTOR_SECONDS)
    options = parser.parse_args()
    configure_logging(settings.log_level)
    database = Database.from_settings(settings, pool_size=2, overflow=2)
    collector = FiguresCollector(settings, database, options.read_seconds, options.doctor_seconds)
    collector.start()
    claim_file.start_stating("metrics", settings, database)
    uvicorn.run(
        make_app(collector),
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        limit_concurrency=MAX_CONNECTIONS,
    )


def make_app(collector: FiguresCollector) -> Starlette:
    """Make the application that serves a collector's metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": content_type})

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz)])


if __name__ == "__main__":
    main()
