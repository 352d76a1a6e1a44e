"""A question on the command line gets what a bot would get, and the reasons for it."""

from io import StringIO

import pytest
from rich.console import Console

from ops.console import questions
from schemas.context import Dropped, Hit
from tests.commands.conftest import CHAT, Run
from tests.conftest import EPOCH
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
    shown = run("context", QUESTION, "--explain-all", "--budget", 500).out
    for expected in (
        "Shown",
        "Sessions found",
        "Messages found",
        "text and why",
        "meaning 0.",
        "vectors #",
        "shown in exchanges",
        "Not shown",
        "milliseconds",
        "of 500",
    ):
        assert expected in shown
    explained = run("context", QUESTION, "--explain", "--json").json["explain"]
    assert explained["messages"][0]["components"]
    assert run("context", QUESTION, "--json").json["explain"] is None


def test_other_wordings_are_searched_too_and_the_explanation_says_by_which_a_line_was_found(run: Run) -> None:
    asked = ("War es der Fühler?", "--also", "a wording of nothing here", "--also", QUESTION)
    assert "pressure sensor" in run("context", *asked, "--no-history").out
    assert "by query 2" in run("context", *asked, "--no-history", "--explain-all").out
    assert "pressure sensor" in run("search", *asked).out
    without_model = run("context", QUESTION, "--hyde")
    assert without_model.code == 0
    assert "BACKSCROLL_HYDE_MODEL" in without_model.err


def test_an_explanation_is_short_unless_all_of_it_is_wanted(run: Run) -> None:
    plain = run("context", QUESTION).out
    short = run("context", QUESTION, "--explain", "--user", "telegram:11").out
    why = short[short.index("─ why ─") :]
    assert len(why.splitlines()) < 50
    assert "The best 10 of " in why
    assert "match 1: " in why
    assert "Not shown" in why
    assert "--explain-all" in why
    assert "asked by" in why
    whole = run("context", QUESTION, "--explain-all").out
    assert len(whole.splitlines()) - len(plain.splitlines()) > 2 * len(why.splitlines())


@pytest.mark.parametrize("width", [80, 120])
def test_reasons_can_be_read_on_a_terminal_of_any_width(width: int) -> None:
    hit = Hit(
        kind="message",
        id="12345",
        at=EPOCH,
        speaker="Harbour Bot",
        preview="Reminder: the boat trip to the dolphins is tomorrow, and life jackets are there",
        rank=100,
        score=1.25,
        components={"words": 0.5, "meaning_session": 0.4, "asks": -0.02, "speaker": 0.0},
        arms={"keywords": 3, "vectors": 41},
    )
    left_out = Dropped(kind="message", id="12345", reason="budget")
    console = Console(file=StringIO(), width=width)
    console.print(questions.reasons_table([hit], {("message", "12345"): left_out}, "UTC", title="Found"))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    # Then no word is cut, none is lost, and nothing is said of parts that are nothing
    said = " ".join(" ".join(lines).split())
    for word in (
        *hit.preview.split(),
        "words 0.50",
        "asks -0.02",
        "keywords #3",
        "vectors #41",
        "no tokens were left",
    ):
        assert word in said, word
    assert "speaker 0" not in said


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


def test_search_has_every_mode_and_filter_of_the_door(run: Run) -> None:
    exact = run("search", "PRESSURE sensor", "--mode", "exact", "--json").json
    assert exact["hits"]
    assert all("pressure sensor" in hit["text"].lower() for hit in exact["hits"])
    sender = exact["hits"][0]["speaker"]
    theme = run("search", "boiler", "--mode", "topic", "--since", "2020-01-01", "--limit", 50, "--json").json
    times = [hit["started_at"] for hit in theme["sessions"]]
    assert len(times) > 3
    assert times == sorted(times)
    told = run("search", "the boiler's pressure sensor", "--mode", "contextual").out
    assert "•" in told
    assert sender in told
    assert (
        run("search", "boiler", "--role", "assistant", "--sender", "telegram:11", "--json").json["hits"] == []
    )
    assert run("search", "boiler", "--metadata", "a=b", "--json").json["hits"] == []
    assert "Nothing in" in run("search", "zeppelin", "--mode", "exact").out
    for wrong in (["--mode", "wild"], ["--limit", 101], ["--metadata", "a"], ["--since", "then"]):
        assert run("search", "boiler", *wrong).code == 2, wrong


def test_more_goes_through_a_session_page_by_page(run: Run) -> None:
    hit = run("search", "pressure sensor", "--limit", 1, "--json").json["hits"][0]
    page = run("more", hit["session_id"], "--shown", hit["id"], "--limit", 4, "--json").json
    assert len(page["messages"]) == 4
    assert hit["id"] not in [line["id"] for line in page["messages"]]
    told = run("more", hit["session_id"], "--shown", hit["id"], "--limit", 4)
    assert f"backscroll more {hit['session_id']} --shown {hit['id']} --shown" in told.out
    assert "That is all of this session." in run("more", hit["session_id"], "--limit", 100).out
    assert run("more", 1_000_000).code == 3


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
