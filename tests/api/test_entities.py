"""Entities and topics over HTTP: as the command line has them, and nothing of a chat that may not be shown."""

import httpx
import pytest

from pipeline.ingest.policy import SessionPolicy
from pipeline.operations import topics
from pipeline.store.connections.database import Database
from schemas.memory.topics import ChatTopics, TopicFilter
from schemas.settings import Settings
from tests.api.conftest import problem_of
from tests.conftest import POLICY, TENANT
from tests.memories.test_entity_graph import tell
from tests.memories.test_learning import GROUP, Talk
from tests.recall.test_context import do_all


@pytest.fixture
def talked(client: httpx.Client, database: Database, settings: Settings) -> httpx.Client:
    """An API with a group, and what one of them said alone."""
    rules = SessionPolicy.of(settings)
    tell(Talk(database, rules, POLICY))
    do_all(database, rules, POLICY)
    return client


def test_entities_are_listed_and_shown(talked: httpx.Client) -> None:
    places = talked.get("/v1/entities", params={"kind": "place"}).json()["entities"]
    assert {each["name"] for each in places} == {"Köln"}
    (koeln,) = talked.get("/v1/entities/KÖLN").json()["entities"]
    assert (koeln["memories"], koeln["kind"], koeln["user_id"]) == (2, "place", None)
    assert koeln["links"][0]["memory_id"]
    (lena,) = talked.get("/v1/entities/test:lena").json()["entities"]
    assert lena["name"] == "Lena"
    assert {each["relation"] for each in lena["related"]} == {"home", "partner"}


def test_topics_are_those_of_the_command_line(talked: httpx.Client, database: Database) -> None:
    told = talked.get(f"/v1/chats/{GROUP.chat_id}/topics", params={"by": "week"}).json()
    assert ChatTopics(**told) == topics.of_chat(database, TENANT, GROUP.chat_id, TopicFilter(by="week"))
    problem_of(talked.get("/v1/chats/test:nowhere/topics"), 404)
