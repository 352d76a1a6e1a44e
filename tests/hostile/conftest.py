"""A victim and a hostile tenant in one database, for all the walks of this folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.conftest import POLICY, copied, settings_of
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
    with copied(postgres, NAME):
        yield from _staged(postgres, redis, tmp_path_factory.mktemp("hostile"))


def _staged(postgres: EmbeddedPostgres, redis: EmbeddedRedis, folder: Path) -> Iterator[Stage]:
    settings = settings_of(
        postgres, NAME, redis_url=redis.url, data_dir=folder, api_key="mallory-key", tenant=MALLORY
    )
    database = Database.from_settings(settings, ready=2)
    victims.fill(database, {VICTIM: SECRET, MALLORY: "grue"}, SessionPolicy.of(settings), POLICY)
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
