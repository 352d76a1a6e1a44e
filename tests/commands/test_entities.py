"""Who and what memories name can be looked at, and what a chat was about over time."""

import pytest

from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.store.connections.database import Database
from tests.commands.conftest import CHAT, Run
from tests.memories.test_entity_graph import tell
from tests.memories.test_learning import Talk

pytestmark = pytest.mark.usefixtures("house")


def test_entities_are_listed_and_shown_with_what_they_are_related_to(
    run: Run, database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    tell(Talk(database, rules, policy))
    found = run("entities", "list", "--kind", "person", "--json").json["entities"]
    assert {each["kind"] for each in found} == {"person"}
    assert found == sorted(found, key=lambda each: -each["memories"])
    shown = run("entities", "show", "LENA").out
    for expected in ("Lena wohnt in Köln.", "person", "home", "partner of", "Ann"):
        assert expected in shown
    assert run("entities", "show", "test:lena", "--json").json["entities"][0]["name"] == "Lena"


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
