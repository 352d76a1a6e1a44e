"""Entities and topics over HTTP: as the command line has them, and nothing of a chat that may not be shown."""

import httpx
import pytest

from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.operations import topics
from pipeline.store.database import Database
from schemas.settings import Settings
from schemas.topics import ChatTopics, TopicFilter
from tests.api.conftest import problem_of
from tests.conftest import POLICY, TENANT
from tests.context.test_context import do_all
from tests.memories.test_entity_graph import ALONE, DIRECT, GROUP, IN_THE_GROUP, note


@pytest.fixture
def talked(client: httpx.Client, database: Database, settings: Settings) -> httpx.Client:
    """An API with a group, and what one of them said alone."""
    accept.accept(database, TENANT, GROUP, IN_THE_GROUP)
    accept.accept(database, TENANT, DIRECT, ALONE)
    do_all(database, SessionPolicy.of(settings), POLICY)
    note(database)
    return client


def test_entities_are_listed_and_shown(talked: httpx.Client) -> None:
    places = talked.get("/v1/entities", params={"kind": "place"}).json()["entities"]
    assert {each["name"] for each in places} == {"Porto", "Vienna"}
    (porto,) = talked.get("/v1/entities/PORTO").json()["entities"]
    assert (porto["mentions"], porto["kind"], porto["user_id"]) == (2, "place", None)
    assert porto["links"][0]["message_id"]
    (bob,) = talked.get("/v1/entities/test:bob").json()["entities"]
    assert bob["name"] == "Bob"


def test_only_what_may_be_shown_in_a_chat_is_told_there(talked: httpx.Client) -> None:
    group = {"chat_id": GROUP.chat_id, "user_id": "test:ann"}
    names = {each["name"] for each in talked.get("/v1/entities", params=group).json()["entities"]}
    assert "Porto" in names
    assert "Vienna" not in names
    problem_of(talked.get("/v1/entities/Vienna", params=group), 404)
    assert talked.get("/v1/entities/Vienna", params=group | {"chat_id": DIRECT.chat_id}).status_code == 200


def test_topics_are_those_of_the_command_line(talked: httpx.Client, database: Database) -> None:
    told = talked.get(f"/v1/chats/{GROUP.chat_id}/topics", params={"by": "week"}).json()
    assert ChatTopics(**told) == topics.of_chat(database, TENANT, GROUP.chat_id, TopicFilter(by="week"))
    assert told["periods"][0]["begins"] == "2026-03-02"
    problem_of(talked.get("/v1/chats/test:nowhere/topics"), 404)


@pytest.mark.parametrize(
    ("path", "given", "field"),
    [
        ("/v1/entities", {"kind": "ghost"}, "kind"),
        ("/v1/entities", {"limit": "0"}, "limit"),
        (f"/v1/chats/{GROUP.chat_id}/topics", {"by": "year"}, "by"),
        (f"/v1/chats/{GROUP.chat_id}/topics", {"periods": "521"}, "periods"),
    ],
)
def test_what_cannot_be_asked_is_named(
    standing_client: httpx.Client, path: str, given: dict[str, str], field: str
) -> None:
    assert problem_of(standing_client.get(path, params=given), 422)["field"] == field
