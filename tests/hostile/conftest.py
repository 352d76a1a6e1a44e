"""A victim and a hostile tenant in one database, for all the walks of this folder."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.hostile import victims
from tests.hostile.victims import MALLORY, SECRET, VICTIM, Known

NAME = "hostile"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The database, and ways to see what came of an attack."""

    settings: Settings
    database: Database
    superuser_url: str
    known: Known
    before: dict[str, str]

    def unharmed(self, attack: str) -> None:
        """Nothing of the victim's has changed."""
        now = victims.state(self.superuser_url)
        changed = sorted(table for table in now if now[table] != self.before[table])
        # whoever comes next is not to blame
        self.before.update(now)
        assert not changed, f"{attack} changed rows of another tenant: {changed}"


@pytest.fixture(scope="package")
def stage(
    postgres: EmbeddedPostgres, redis: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Two tenants with something in every table; the victim's secrets planted."""
    with psycopg.connect(postgres.superuser_dsn(), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {NAME} TEMPLATE backscroll OWNER backscroll_owner")
    settings = Settings(
        _env_file=None,
        database_url=postgres.dsn("app", database=NAME),
        maintenance_database_url=postgres.dsn("maintenance", database=NAME),
        owner_database_url=postgres.dsn("owner", database=NAME),
        redis_url=redis.url,
        data_dir=tmp_path_factory.mktemp("hostile"),
        embedding_provider="deterministic",
        api_key="mallory-key",
        tenant=MALLORY,
        summarize_debounce_seconds=0,
    )
    database = Database.from_settings(settings, ready=2)
    policy = Policy(batch=1000, lease_seconds=60, max_attempts=3)
    victims.fill(database, {VICTIM: SECRET, MALLORY: "grue"}, SessionPolicy.of(settings), policy)
    url = postgres.superuser_dsn(NAME)
    victims.plant(url)
    victims.put_off(url)
    yield Stage(
        settings=settings,
        database=database,
        superuser_url=url,
        known=Known.of(url),
        before=victims.state(url),
    )
    database.close()
    with psycopg.connect(postgres.superuser_dsn(), autocommit=True) as server:
        server.execute(f"DROP DATABASE {NAME} WITH (FORCE)")
