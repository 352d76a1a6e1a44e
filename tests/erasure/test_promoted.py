"""A memory that was given to more than its person stays theirs: to forgetting, and to an export."""

from uuid import UUID

import pytest

from pipeline.erasure import export, forget
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories import manual_changes
from pipeline.memories.statements import remember
from pipeline.store.connections.database import Database
from pipeline.store.people import identities
from schemas.memory.memories import MemoryIn
from schemas.memory.memory_changes import MemoryCorrection, MemoryPromotion
from schemas.people.forgetting import Subject
from tests.conftest import TENANT, message
from tests.erasure.test_forget import GROUP, everywhere, forgotten
from tests.test_pipeline import rows

ANN = Subject(kind="user", sender_id="test:ann")
DIABETES = MemoryIn(scope="user", user_id="test:ann", content="Ann has diabetes.")
TO_AGENT = MemoryPromotion(scope="agent", agent_id="helper")
TO_ALL = MemoryPromotion(scope="organization")


@pytest.fixture
def promoted(database: Database) -> UUID:
    """A memory of Ann's that an agent got, and then everybody."""
    accept.accept(database, TENANT, GROUP, [message(0)])
    written = remember(database, TENANT, DIABETES)
    remember(database, TENANT, MemoryIn(scope="organization", content="The boiler is old."))
    assert written.id is not None
    for wanted in (TO_AGENT, TO_ALL):
        assert manual_changes.promote(database, TENANT, written.id, wanted).outcome == "promoted"
    return written.id


def test_what_everybody_may_know_of_somebody_goes_with_them_and_does_not_come_back(
    promoted: UUID, database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    assert forget.plan(database, TENANT, ANN)["memories"] == 1
    assert forgotten(database, ANN, rules, policy).counts["memories"] == 1
    assert everywhere(database, "diabetes") == []
    assert rows(database, "SELECT content FROM memories") == [("The boiler is old.",)]
    for again in (DIABETES, MemoryIn(scope="organization", content=DIABETES.content)):
        assert remember(database, TENANT, again).outcome == "kept_out"


def test_an_export_has_what_everybody_may_know_of_somebody(promoted: UUID, database: Database) -> None:
    records = export.of_user(database, TENANT, "test:ann")
    assert [r["content"] for r in records if r["record"] == "memory"] == [DIABETES.content]
    assert all(r["record"] != "memory" for r in export.of_user(database, TENANT, "test:bob"))


def test_what_corrects_it_is_theirs_too(
    promoted: UUID, database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    manual_changes.correct(
        database, TENANT, promoted, MemoryCorrection(content="Ann has had diabetes since May.")
    )
    assert forgotten(database, ANN, rules, policy).counts["memories"] == 2
    assert everywhere(database, "diabetes") == []


def test_an_id_that_is_known_by_a_promoted_memory_alone_is_not_taken_for_a_misspelt_one(
    database: Database,
) -> None:
    written = remember(database, TENANT, MemoryIn(scope="user", user_id="test:bob", content="Bob is away."))
    assert written.id is not None
    manual_changes.promote(database, TENANT, written.id, TO_ALL)
    with database.tenant(TENANT) as connection:
        assert identities.is_named(connection, "test:bob")
        assert not identities.is_named(connection, "test:bop")
