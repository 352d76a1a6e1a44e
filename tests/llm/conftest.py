"""A chat with messages in a closed session, and the claim of a worker on its summary."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.llm.gateway import ModelCall
from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims
from pipeline.store.jobs.jobs import Claim
from schemas.messages import ChatIn
from tests.conftest import TENANT, message
from tests.harness.pipeline import place

CHAT = "test:boiler"
Claiming = Callable[[], Claim]


@pytest.fixture
def claiming(database: Database) -> Claiming:
    """`claiming()`: the claim of the worker that summarizes a session, whoever had it before is dead."""
    told = [message(n, f"the boiler shows error E4{n}", id=f"m{n}") for n in range(6)]
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT), told)
    place(database)

    def claim() -> Claim:
        with database.maintenance() as connection:
            connection.execute(
                text("UPDATE jobs SET due_at = now() - interval '1 s' WHERE kind = 'summarize'")
            )
            claimed = claims.claim(connection, "summarize", batch=1, lease_seconds=60, max_attempts=5)
        (mine,) = claimed.rows
        return mine

    return claim


@pytest.fixture
def call(claiming: Claiming) -> ModelCall:
    """A call for the summary of that session."""
    return ModelCall(tenant_id=TENANT, chat_id=CHAT, purpose="summary", claim=claiming())


def at(seconds: float) -> datetime:
    """A time so many seconds after a full minute."""
    return datetime.fromtimestamp(1_800_000_000 + seconds, UTC)
