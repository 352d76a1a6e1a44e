"""Ask for a context, with the deterministic embedder unless another is named."""

from typing import Any

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.recall import build_context
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.payloads import ContextQuery, parse_payload
from schemas.settings import Settings
from tests.conftest import TENANT

EMBEDDER = DeterministicEmbedder()


def ask(
    database: Database,
    settings: Settings,
    question: str,
    *,
    embedder: Any = EMBEDDER,
    gateway: Any = None,
    **fields: Any,
) -> Context:
    query = parse_payload(ContextQuery, {"query": question} | fields)
    return build_context(database, TENANT, query, embedder=embedder, settings=settings, gateway=gateway)
