"""What the doctor finds, and may mend."""

import json
from typing import Any

import psycopg
import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from schemas.settings import Settings
from tests.commands.conftest import Run
from tests.harness.owner import owner_url


def diagnose(run: Run, *options: str) -> dict[str, Any]:
    """What `doctor --json` says, but for queues without a worker, as none runs here, and this machine's Redis."""
    result = run("doctor", "--json", *options)
    assert result.code in {0, 5, 6}, result.err
    said: dict[str, Any] = json.loads(result.out)
    said["findings"] = [each for each in said["findings"] if each["check"] not in {"worker", "version"}]
    return said


def found(run: Run, *options: str) -> dict[str, str]:
    """Checks that found something, with how bad it is."""
    return {each["check"]: each["severity"] for each in diagnose(run, *options)["findings"]}


def as_superuser(postgres: EmbeddedPostgres, name: str, *statements: str) -> None:
    with psycopg.connect(postgres.superuser_dsn(database=name), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def may_mend(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the doctor be the owner of the tables."""
    monkeypatch.setenv("BACKSCROLL_OWNER_DATABASE_URL", owner_url(settings))
