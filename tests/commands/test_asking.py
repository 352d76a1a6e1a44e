"""A question on the command line gets what a bot would get, and the reasons for it."""

import pytest

from tests.commands.conftest import CHAT, Run
from tests.platforms.reading import FIXTURES

QUESTION = "was it the pressure sensor of the boiler?"


@pytest.fixture
def database_name(house: str) -> str:
    """The sample chat, all of it in memory."""
    return house


def test_a_context_holds_what_was_said_and_the_question(run: Run) -> None:
    shown = run("context", QUESTION, "--chat", CHAT)
    assert shown.code == 0
    assert "pressure sensor" in shown.out
    assert shown.out.rstrip().endswith(QUESTION)
    assert shown.err == ""


def test_an_explained_context_gives_the_reason_of_every_line(run: Run) -> None:
    shown = run("context", QUESTION, "--explain", "--budget", 500).out
    for expected in (
        "Shown",
        "Sessions found",
        "Messages found",
        "made of",
        "Not shown",
        "milliseconds",
        "of 500",
    ):
        assert expected in shown
    explained = run("context", QUESTION, "--explain", "--json").json["explain"]
    assert explained["messages"][0]["components"]
    assert run("context", QUESTION, "--json").json["explain"] is None


def test_the_options_are_those_of_the_door(run: Run) -> None:
    given = ["--no-history", "--budget", 300, "--user", "telegram:11", "--profile", "group", "--json"]
    context = run("context", QUESTION, *given).json
    assert context["budget"] == 300
    assert "history" not in [block["kind"] for block in context["blocks"] if block["items"]]
    for wrong in (["--profile", "none"], ["--budget", 1]):
        assert run("context", QUESTION, *wrong).code == 2
    assert run("context", "").code == 2


def test_search_finds_by_words_best_first(run: Run) -> None:
    hits = run("search", "pressure sensor", "--limit", 3, "--json").json["hits"]
    assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
    assert any("sensor" in hit["preview"] for hit in hits)
    shown = run("search", "pressure sensor", "--chat", CHAT).out
    assert "sensor" in shown
    assert "score" in shown


def test_the_chat_must_be_named_where_there_are_several(run: Run) -> None:
    run("import", FIXTURES / "jsonl/garden.jsonl")
    for command in ("context", "search"):
        asked = run(command, "boiler")
        assert asked.code == 2
        assert "--chat" in asked.err
        assert CHAT in asked.err
        missed = run(command, "boiler", "--chat", "telegram:100420")
        assert missed.code == 3
        assert "did you mean telegram:-100420 (Harbour House)?" in missed.err
