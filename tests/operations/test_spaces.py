"""A switch of the embedding model on live data: nothing is missing at any moment, and no query mixes two models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import Engine, text

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.jobs.dead_letters import JobFilter, listing
from pipeline.memories.statements import remember
from pipeline.operations import backfill, spaces
from pipeline.recall import refine, search
from pipeline.store import vector_spaces, vectors
from pipeline.store.connections.database import Database
from pipeline.store.jobs import backfill_rows
from schemas.backfills import Backfill, BackfillRequest
from schemas.errors import Busy, InvalidInput, ProviderRejected, ProviderUnavailable
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.search import SearchQuery
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, StoredSpace, Vector
from tests.commands.conftest import Workers
from tests.conftest import TENANT, also_partitioned, message
from tests.harness.owner import owner_of
from tests.harness.pipeline import rows

CHAT = ChatIn(chat_id="test:house", title="The house")
OLD, NEW = (DeterministicEmbedder(dimensions=size).space for size in (256, 384))
OTHER_TENANT = "somebody-else"


class Model(DeterministicEmbedder):
    """Remembers what it was given; is away, or refuses a word, when told to."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions=dimensions)
        self.texts: list[str] = []
        self.error: Exception | None = None
        self.refused = ""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if self.error is not None:
            raise self.error
        if self.refused and any(self.refused in each for each in texts):
            raise ProviderRejected("it is not allowed")
        self.texts += texts
        return super().embed_documents(texts)


@dataclass
class Deployment:
    """Workers that work when they are told to, and an operator."""

    database: Database
    settings: Settings
    owner: Engine
    models: dict[int, Model] = field(default_factory=lambda: {size: Model(size) for size in (256, 384)})
    tenants: Sequence[str] = (TENANT,)

    def __post_init__(self) -> None:
        self.embedders = SpaceEmbedders(lambda space: self.models[space.dimensions])
        self.workers = Workers(self.database, self.settings, self.embedders)
        self.work = self.workers.finish
        self.current = self.workers.current

    def say(self, first: int, count: int, tenant: str = TENANT) -> None:
        said = [
            message(n, f"message {n} about the {'boiler' if n % 2 else 'garden'} of house {n}", id=f"m{n}")
            for n in range(first, first + count)
        ]
        accept.accept(self.database, tenant, CHAT, said)

    def add(self) -> StoredSpace:
        return spaces.add(self.owner, self.database, self.tenants, NEW)

    def fill(self) -> Backfill:
        """Start the backfill that fills a space."""
        request = BackfillRequest(kind="embed", batch_size=5)
        return backfill.start(self.database, TENANT, request, self.current)

    def activate(self, *, force: bool = False) -> StoredSpace:
        return spaces.activate(self.owner, self.database, self.tenants, NEW.name, force=force)

    def missing(self, space: EmbeddingSpace) -> int:
        found = {each.stored.space.name: each for each in spaces.listing(self.database, self.tenants)}
        return found[space.name].missing

    def counted(self) -> dict[str, tuple[str, int, int, int]]:
        """The status of each space, and its vectors of messages, sessions and memories."""
        return {
            each.stored.space.name.rpartition("/")[2]: (
                each.stored.status,
                each.messages,
                each.sessions,
                each.memories,
            )
            for each in spaces.listing(self.database, self.tenants)
        }

    def search(self, asked: str) -> tuple[str, float, Sequence[str]]:
        """The message nearest to a text with its cosine, and what could not be done."""
        query = SearchQuery(chat_id=CHAT.chat_id, query=asked, mode="similar")
        found = search(self.database, TENANT, query, embedder=self.embedders, settings=self.settings)
        first = found.hits[0]
        return first.external_id, first.score, found.degraded


@pytest.fixture
def deployment(database: Database, settings: Settings) -> Iterator[Deployment]:
    """Twelve messages, a session and a memory, all of it in the old space."""
    with owner_of(settings) as owner:
        made = Deployment(database, settings, owner)
        made.say(100, 12)
        remember(database, TENANT, MemoryIn(content="Ann likes tea", scope="organization"))
        made.work()
        yield made


def test_a_space_is_filled_beside_the_active_one_which_is_kept_to_go_back_to(deployment: Deployment) -> None:
    # When a space is added, messages that come now are in both at once
    assert deployment.add().status == "building"
    deployment.say(130, 5)
    deployment.work()
    before = deployment.counted()
    assert (before["256"][1], before["384"][1]) == (17, 5)
    assert deployment.missing(NEW) == 12 + 1
    # which does not become active before it is complete
    with pytest.raises(Busy, match="13 messages, sessions and memories"):
        deployment.activate()
    # and the backfill embeds the rest in the new one only
    deployment.models[256].texts.clear()
    started = deployment.fill()
    deployment.work()
    assert deployment.counted() == {"256": ("active", 17, 1, 1), "384": ("building", 17, 1, 1)}
    assert deployment.models[256].texts == []
    with deployment.database.tenant(TENANT) as connection:
        ended = backfill_rows.get(connection, started.id)
    assert ended is not None
    assert (ended.state, ended.error) == ("completed", None)
    # When it is active, messages go on being written in both
    assert deployment.activate().status == "active"
    deployment.say(140, 5)
    deployment.work()
    assert {name: each[:2] for name, each in deployment.counted().items()} == {
        "256": ("standby", 22),
        "384": ("active", 22),
    }
    assert spaces.rollback(deployment.owner).space.name == OLD.name
    assert deployment.search("message 143 about the boiler of house 143")[0] == "m143"
    # and forward again
    assert spaces.rollback(deployment.owner).space.name == NEW.name


def test_questions_follow_a_switch_and_one_that_began_before_it_ends_in_its_own_space(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "message 107 about the boiler of house 107"
    deployment.add()
    deployment.fill()
    deployment.work()
    found, score, degraded = deployment.search(asked)
    assert (found, degraded) == ("m107", [])
    # Given a question that was parsed before the switch, and is embedded and compared after it
    embed_queries, switched = refine.embed_queries, []

    def switch_first(*given: Any, **named: Any) -> Any:
        if not switched:
            switched.append(deployment.activate())
        return embed_queries(*given, **named)

    monkeypatch.setattr(refine, "embed_queries", switch_first)
    assert deployment.search(asked) == ("m107", score, [])
    assert switched
    # Then the next one is compared in the new space, where its cosine is another
    found, after, degraded = deployment.search(asked)
    assert (found, degraded) == ("m107", [])
    assert after != score


def test_a_model_that_is_away_keeps_only_its_own_space_waiting_and_nothing_is_embedded_twice(
    deployment: Deployment,
) -> None:
    deployment.add()
    new = deployment.models[384]
    new.error = ProviderUnavailable("no answer")
    deployment.say(130, 5)
    remember(deployment.database, TENANT, MemoryIn(content="Bob likes coffee", scope="organization"))
    deployment.work()
    # the active space has them all
    assert deployment.counted()["256"][1:] == (17, 1, 2)
    assert deployment.counted()["384"][1:] == (0, 0, 0)
    # and an operator sees what the others wait for, and until when
    waiting, _ = listing(deployment.database, TENANT, JobFilter(state="retrying", kind="embed"))
    assert len(waiting) == 7
    assert all(each.due_at and (each.error or "").endswith("/384: no answer") for each in waiting)
    # When the model is back, only it is asked
    asked = len(deployment.models[256].texts)
    new.error = None
    attempts = rows(deployment.database, "UPDATE jobs SET due_at = now() RETURNING attempts, dead_at")
    assert len(attempts) > 5
    assert all(tuple(row) == (0, None) for row in attempts)
    deployment.workers.handlers["embed"] = embed.embedder(deployment.database, deployment.embedders)
    deployment.work()
    assert deployment.counted()["384"][1:] == (5, 1, 1)
    assert len(deployment.models[256].texts) == asked
    # and the other way round: without the active model, what is new is in the new space
    deployment.models[256].error = ProviderUnavailable("no answer")
    deployment.say(140, 2)
    deployment.work()
    assert (deployment.counted()["256"][1], deployment.counted()["384"][1]) == (17, 7)


def test_a_text_that_the_new_model_refuses_is_a_dead_letter_and_a_space_is_of_all_tenants(
    deployment: Deployment,
) -> None:
    deployment.say(100, 3, OTHER_TENANT)
    deployment.work()
    deployment.tenants = (TENANT, OTHER_TENANT)
    deployment.add()
    deployment.models[384].refused = "house 103"
    deployment.fill()
    deployment.work()
    found = {each.stored.space.name: each for each in spaces.listing(deployment.database, [TENANT])}
    assert (found[OLD.name].messages, found[OLD.name].given_up) == (12, 0)
    # message 3 is one; so is the session's summary if it quotes it
    given_up = found[NEW.name].given_up
    assert given_up >= 1
    assert found[NEW.name].messages + found[NEW.name].sessions + found[NEW.name].memories == 14 - given_up
    # what was refused does not keep the space from being active, and what another tenant has not embedded does
    with pytest.raises(Busy, match="3 messages"):
        deployment.activate()
    # which can be left to keywords
    assert deployment.activate(force=True).status == "active"


@also_partitioned
def test_a_retired_space_is_not_written_its_vectors_are_deleted_and_it_can_be_made_anew(
    deployment: Deployment, database: Database
) -> None:
    with deployment.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        active = vectors.active_space(connection)
        assert active is not None
        for table in (tables := vector_spaces.indexed_tables(connection)):
            vector_spaces.build_index(connection, table, active)
    deployment.add()
    deployment.fill()
    deployment.work()
    switched = deployment.activate()
    # the indexes that the active space had were built before the switch
    with deployment.owner.connect() as connection:
        assert all(vector_spaces.is_indexed(connection, table, switched.space) for table in tables)
    retired = spaces.retire(deployment.owner, OLD.name)
    with deployment.owner.connect() as connection:
        assert {vector_spaces.is_indexed(connection, table, active) for table in tables} == {None}
    # a retirement that is interrupted before the vectors are deleted
    with database.tenant(TENANT) as connection:
        (told,) = connection.execute(text("SELECT id FROM messages WHERE external_id = 'm103'")).one()
    rules = deployment.current.rules
    edits.edit(database, TENANT, edits.NewText(CHAT.chat_id, "m103", "the boiler is new", None), rules)
    deployment.say(130, 5)
    deployment.work()
    assert deployment.counted()["256"][0] == "retired"
    with pytest.raises(InvalidInput, match="retired"):
        spaces.activate(deployment.owner, database, [TENANT], OLD.name)
    assert sum(spaces.delete_vectors(database, [TENANT], retired)) > 0
    assert deployment.counted()["256"] == ("retired", 0, 0, 0)
    # it is made anew, and has the text as it is now
    assert spaces.add(deployment.owner, database, [TENANT], OLD).status == "building"
    deployment.fill()
    deployment.work()
    assert deployment.counted()["256"][1] == 17
    with database.tenant(TENANT) as connection:
        hashes = connection.execute(
            text("SELECT count(DISTINCT content_hash) FROM message_vectors WHERE message_id = :id"),
            {"id": told},
        ).scalar()
    assert hashes == 1
