"""The talk of `test_context`, in memory for each story that asks for it."""

import pytest

from pipeline.store.connections.database import Database
from tests.conftest import MIGRATED, Templates
from tests.harness.contexts import fill


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("filled", fill) if "filled" in request.fixturenames else MIGRATED


@pytest.fixture
def filled(database: Database) -> Database:
    """This test's database, in which everything that `house` says is in memory."""
    return database
