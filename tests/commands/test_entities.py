"""Who and what is spoken of can be looked at, and what a chat was about over time."""

import json

import pytest

from pipeline.store.database import Database
from tests.commands.conftest import CHAT, Run
from tests.memories.test_entity_graph import note


@pytest.fixture
def database_name(house: str) -> str:
    """The sample chat, all of it in memory."""
    return house


def test_entities_are_listed_with_their_counts_and_shown_with_what_they_are_mentioned_with(
    run: Run, database: Database
) -> None:
    assert "BACKSCROLL_ENTITY_GRAPH_ENABLED" in run("entities").out
    note(database)
    found = run("entities", "list", "--kind", "person", "--json").json["entities"]
    assert {each["kind"] for each in found} == {"person"}
    assert found == sorted(found, key=lambda each: -each["mentions"] - each["memories"])
    most = found[0]
    assert most["chats"] == [CHAT]
    shown = run("entities", "show", most["name"].upper())
    for expected in (most["name"], "person", "related to", "message"):
        assert expected in shown.out
    assert run("entities", "show", most["user_id"], "--json").json["entities"][0]["name"] == most["name"]


def test_a_name_that_nobody_mentions_and_a_kind_that_is_none_are_refused(run: Run) -> None:
    missed = run("entities", "show", "Nobody At All")
    assert (missed.code, "nobody mentions Nobody At All" in missed.err) == (3, True)
    assert run("entities", "list", "--kind", "ghost").code == 2
    assert run("entities", "list", "--chat", "telegram:nowhere").code == 3


def test_what_is_known_of_somebody_as_an_entity_is_exported(run: Run, database: Database) -> None:
    note(database)
    (person, *_) = run("entities", "list", "--kind", "person", "--json").json["entities"]
    records = [json.loads(line) for line in run("export", "user", person["user_id"]).out.splitlines()]
    (entity,) = [record for record in records if record["record"] == "entity"]
    assert person["name"] in entity["names"]
    assert len(entity["mentioned_in"]) == person["mentions"]


def test_the_topics_of_a_chat_are_counted_by_week_and_by_month(run: Run) -> None:
    by_month = run("topics", CHAT, "--json").json
    by_week = run("topics", CHAT, "--by", "week", "--periods", 100, "--json").json
    for counted in (by_month, by_week):
        begins = [period["begins"] for period in counted["periods"]]
        assert begins == sorted(set(begins), reverse=True)
        for period in counted["periods"]:
            sessions = [topic["sessions"] for topic in period["topics"]]
            assert sessions == sorted(sessions, reverse=True)
            assert min(sessions) >= 1
            assert period["begins"] <= min(topic["first_at"] for topic in period["topics"])[:10]
    assert len(by_week["periods"]) > len(by_month["periods"]) > 1
    # 2026-03-02 was a Monday
    assert "2026-03-02" in {period["begins"] for period in by_week["periods"]}
    shown = run("topics", CHAT, "--periods", 1, "--limit", 2).out
    assert by_month["periods"][0]["topics"][0]["topic"] in shown
    assert run("topics", "telegram:nowhere").code == 3
    assert run("topics", CHAT, "--by", "year").code == 2
