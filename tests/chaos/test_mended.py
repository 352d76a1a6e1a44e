"""What chaos runs have uncovered stays mended."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.vectors import embed_texts
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from schemas.errors import DatabaseUnavailable, ProviderUnavailable
from schemas.settings import Settings
from schemas.vectors import Vector
from tests.conftest import TENANT
from workers import beat

LENGTH = 256


class Rubbish(DeterministicEmbedder):
    """A model that answers, but not what it was asked."""

    def __init__(self, answer: list[Vector]) -> None:
        super().__init__()
        self.answer = answer

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [[], [[1.0]], [[0.0] * LENGTH], [[float("nan")] * LENGTH], [[float("inf")] * LENGTH], [[1.0] * LENGTH]],
    ids=["none", "short", "zero", "nan", "infinite", "long"],
)
def test_a_vector_that_is_none_is_refused_and_not_stored(answer: list[Vector]) -> None:
    with pytest.raises(ProviderUnavailable, match="deterministic"):
        embed_texts.embed_all(Rubbish(answer), ["hello"])


@pytest.mark.parametrize(
    ("error", "at_least", "at_most"),
    [(DatabaseUnavailable("it is restarting"), 0, 2), (ProviderUnavailable("it is away"), 14, 15)],
)
def test_what_postgres_interrupted_is_tried_again_soon_and_what_a_provider_did_after_a_pause(
    database: Database, policy: Policy, error: Exception, at_least: float, at_most: float
) -> None:
    def interrupted(_tenant: str, _claims: Sequence[Claim]) -> set[str]:
        raise error

    with database.tenant(TENANT) as connection:
        connection.execute(text("INSERT INTO tenants (tenant_id) VALUES (:tenant)"), {"tenant": TENANT})
        jobs.enqueue(connection, TENANT, "embed", ["message:1"])
    runner.run(database, "embed", interrupted, policy)
    with database.tenant(TENANT) as connection:
        row = connection.execute(
            text("SELECT extract(epoch FROM due_at - now()) AS seconds, attempts FROM jobs")
        ).one()
    assert at_least <= row.seconds <= at_most
    assert row.attempts == 0


def test_sweeps_go_on_when_the_clock_is_set_back_and_none_is_thrown_away_by_a_clock_that_is_ahead() -> None:
    now = datetime.now(UTC)
    entries = beat.schedule(Settings(_env_file=None, sweep_seconds=5))
    assert not any("expires" in entry["options"] for entry in entries.values())
    every = entries["sweep"]["schedule"]
    assert every.is_due(now + timedelta(minutes=8)).is_due
    assert every.is_due(now - timedelta(seconds=5)).is_due
    assert not every.is_due(now - timedelta(seconds=1)).is_due
